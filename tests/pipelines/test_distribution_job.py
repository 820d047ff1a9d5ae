"""What a request for a distribution becomes before a row is read, and how it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hushbeam
from mechanisms.distribution.quantiles import USUAL
from pipelines.errors import RequestError
from pipelines.logs.numbers import are_whole
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.reports.bins import covers, scaled
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.distribution import (
    read_quantiles,
    whole_quantiles,
)
from tests.fakes import canaries
from transforms.encoders.bounds import Bounds

ROWS = 5000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    table = pa.table({"x": np.arange(ROWS) / ROWS, "user": np.arange(ROWS) // 2})
    return canaries.write(tmp_path_factory.mktemp("log"), table, 2, 1000)


def options(log: str, **changes: Any) -> DistributionOptions:
    asked = {"model": "local", "epsilon": 1.0, "bounds": "0,1"} | changes
    output = str(Path(log).parent / "out")
    return DistributionOptions(input=(log,), column="x", output=output, **asked)


def resolved(request: DistributionOptions) -> Any:
    return resolve(request)


@pytest.mark.parametrize(
    ("changes", "bins"),
    [({}, 64), ({"min_reports": 300}, 16), ({"min_reports": 2}, 8), ({"bins": 100}, 100)],
)
def test_bins_are_chosen_for_the_reports_that_are_sure_to_come(
    log: str, changes: dict[str, Any], bins: int
) -> None:
    job = resolved(options(log, **changes))
    assert job.fitted.bins == job.fitted.design.mechanism.inputs - 1 == bins
    assert job.min_reports == changes.get("min_reports", 1)


def test_the_choice_does_not_look_at_a_row(log: str, tmp_path: Path) -> None:
    other = pa.table({"x": np.full(ROWS, 0.5), "user": np.arange(ROWS)})
    elsewhere = canaries.write(tmp_path / "log", other, 2, 1000)
    one, two = (
        resolved(options(log)),
        resolved(options(elsewhere)),
    )
    assert one.fitted == two.fitted


def test_in_the_local_model_a_delta_is_spent_by_those_that_can(log: str) -> None:
    spent = resolved(options(log, delta=1e-3, mechanism="nm")).guarantees[0]
    kept = resolved(options(log, delta=1e-3, mechanism="grr")).guarantees[0]
    assert (spent.delta, kept.delta) == (1e-3, 0.0)


def test_users_need_a_number(log: str) -> None:
    with pytest.raises(RequestError, match="--min-reports is missing"):
        resolved(options(log, model="shuffle", user_column="user"))
    job = resolved(options(log, user_column="user", min_reports=2000))
    assert job.guarantees[0].unit == "user"
    assert job.fitted.bins == 32


@pytest.mark.parametrize(
    ("text", "probabilities"),
    [(None, USUAL), ("0.5", (0.5,)), ("0.9,0.1", (0.1, 0.9)), ("1e-3,0.5,0.5", (0.001, 0.5))],
)
def test_quantiles_are_read(text: str | None, probabilities: tuple[float, ...]) -> None:
    assert read_quantiles(text) == probabilities


@pytest.mark.parametrize("text", ["", "0", "1", "50", "-0.5", "nan", "0.5,", "a", "0.5;0.6"])
def test_other_quantiles_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--quantiles must be probabilities"):
        read_quantiles(text)


def test_too_many_quantiles_are_refused() -> None:
    text = ",".join(str(k / 2000) for k in range(1, 1500))
    with pytest.raises(RequestError, match="1,499 are more than 1,000"):
        read_quantiles(text)


@pytest.mark.parametrize("ends", [(0.0, 0.3), (-1e308, 1e307), (0.1, 0.1 + 1e-12), (-3.0, 7.0)])
def test_the_ends_of_the_scale_are_the_bounds_exactly(ends: tuple[float, float]) -> None:
    bounds = Bounds(*ends)
    found = scaled(np.array([-1.0, 0.0, 1.0]), bounds)
    assert (found[0], found[2]) == ends
    assert ends[0] < found[1] < ends[1]


def test_what_is_covered_depends_on_the_unit() -> None:
    assert "Of each user one number was drawn" in covers("user")
    assert "was drawn" not in covers("row")


def test_quantiles_of_whole_numbers_are_whole() -> None:
    """Within their limits, which lose no whole number; the estimate is the nearest one."""
    scale = np.array([[0.27, 0.14, 0.49], [-1.0, -1.0, -0.97], [0.55, 0.52, 0.58]])
    bounds = Bounds(-10.0, 10.0)
    numbers = whole_quantiles(scaled(scale, bounds), bounds)
    assert numbers.dtype == np.int64
    # Between 5.2 and 5.8 there is no whole number: the nearest one is said.
    assert numbers.tolist() == [[3, 2, 4], [-10, -10, -10], [6, 6, 6]]
    assert scaled(scale, bounds)[:, 0].tolist() == pytest.approx([2.7, -10, 5.5])


@pytest.mark.parametrize(
    ("column", "bounds", "whole"),
    [("x", "0,1", False), ("user", "0,9", True), ("user", "0,9.5", False)],
)
def test_numbers_are_whole_where_their_type_and_their_bounds_are(
    log: str, column: str, bounds: str, whole: bool
) -> None:
    asked = options(log, bounds=bounds).model_copy(update={"column": column})
    job = resolved(asked)
    assert are_whole(job.telemetry, column, job.bounds) is job.statistic.whole is whole


BY_CITY = {"group_by": "city", "groups": ["Bern", "Oslo", "Rom"]}


@pytest.mark.filterwarnings("ignore")  # the cautions, which are looked at where they are published
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bounds": "0,30"}, ["quantiles 0.5, 0.9 lie at the upper bound 30"]),
        ({"bounds": "0,80"}, ["quantile 0.9 lies at the upper bound 80"]),
        ({"bounds": "0,30", "quantiles": None, "quantile": 0.5},
         ["quantile 0.5 lies at the upper bound 30"]),
        ({"bounds": "60,100"}, ["quantile 0.5 lies at the lower bound 60"]),
        ({"bounds": "60,80"},
         ["quantile 0.9 lies at the upper bound 80 and quantile 0.5 lies at the lower bound 60"]),
        ({"bounds": "-9,-5"}, ["quantiles 0.5, 0.9 lie at the upper bound -5"]),
        # Of Rom there is nothing, and its limits are the bounds.
        ({"bounds": "0,80", **BY_CITY}, ["quantile 0.9 of 2 groups lies at the upper bound 80"]),
        ({"bounds": "0,30", "drawn_by": "each-report", "epsilon": 9.0},
         ["quantiles 0.5, 0.9 lie at the upper bound 30"]),
        ({"bounds": "0,100"}, []),
        ({"bounds": "0,100", "bins": 8}, []),  # the last of which is as long as an eighth
        ({"bounds": "0,100", "column": "few"}, []),  # nine of ten are 0, as much else may be
        ({"bounds": "0,4", "column": "stars"}, []),  # a scale, with known ends
        ({"bounds": "10,40", "column": "age"}, ["quantiles 0.5, 0.9 lie at the upper bound 40"]),
        ({"bounds": "0,91", "column": "age"}, []),  # 90 is a number of its own
        ({"bounds": "0,150", "column": "late"}, ["quantile 0.9 lies at the upper bound 150"]),
    ],
)  # fmt: skip
def test_quantiles_where_numbers_were_clipped_are_cautioned_of(
    options: dict[str, Any], said: list[str]
) -> None:
    """Of 20,000 evenly spread numbers: noise of epsilon 8 moves no quantile by a bin."""
    x = np.random.default_rng(4).permutation(np.arange(20_000)) / 200
    whole = np.arange(20_000)
    log = pa.table({
        "x": x, "few": np.where(whole % 20, 0, x), "stars": np.where(whole % 4, 4, whole % 3),
        "late": np.where(whole % 5, 0, 180), "age": whole % 100,
        "city": np.where(whole % 2, "Oslo", "Bern"),
    })  # fmt: skip
    asked = {"column": "x", "epsilon": 8.0, "quantiles": "0.5,0.9"} | options
    made = hushbeam.distribution(log, **asked)
    lines = made.statement.get("cautions", [])
    assert len(lines) == len(said)
    for line, begins in zip(lines, said, strict=True):
        assert line.startswith(f"{begins}, to which numbers beyond are clipped")
    rows = made.tables["quantiles"].to_pylist()
    ends = [row[name] for row in rows for name in ("lower", "upper")]
    assert (None in ends) == (bool(said) or "bins" in options)  # the last bin has 90 and more
    # No interval is false of the numbers as they were; groups have others, and one has none.
    for row in rows if asked["column"] == "x" and "group_by" not in asked else ():
        truth, near = np.quantile(x, row["p"]), 4.0 if "drawn_by" in asked else 0.1
        assert row["lower"] is None or row["lower"] <= truth + near
        assert row["upper"] is None or row["upper"] >= truth - near


@pytest.mark.filterwarnings("ignore")
def test_a_limit_that_noise_takes_to_a_bound_is_open() -> None:
    """45.1 is clipped to 45, and noise of 277 ranks, 1.4 apart, leaves its place unsure.

    Limits are six standard errors away, and fail as seldom.
    """
    log = pa.table({"x": np.arange(20_000) / 200})
    quantiles = hushbeam.distribution(
        log, column="x", epsilon=0.03, bounds=[0, 45], quantiles=[0.451], confidence=1 - 2e-9
    ).tables["quantiles"]
    assert quantiles["upper"].to_pylist() == [None]
    assert quantiles["lower"][0].as_py() < 44.9
    # Nothing is known of a group that nobody is in.
    empty = hushbeam.distribution(
        log, column="x", epsilon=8.0, bounds=[-3, 9], quantiles=[0.5], group_by="g",
        groups=["a"], derive={"g": "'b'"}, undeclared="other",
    ).tables["quantiles"]  # fmt: skip
    assert (empty["lower"][0].as_py(), empty["upper"][0].as_py()) == (None, None)
