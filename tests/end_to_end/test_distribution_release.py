"""`hushbeam distribution`: what it publishes, how near it comes, and what it keeps to itself."""

from __future__ import annotations

import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import build
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.privacy.amplification import shuffled_delta
from pipelines.cli import cli
from pipelines.releases.schema import own
from tests.fakes import canaries
from tests.oracles.releases import Release, require_contract

pytestmark = pytest.mark.verify

USABLE, NULLS, NANS, INFINITE, UNKNOWN = 4000, 30, 20, 10, 40
ROWS = USABLE + NULLS + NANS + INFINITE + UNKNOWN
REJECTS = {"null value": NULLS, "value is not a number": NANS, "infinite value": INFINITE}
LOW, HIGH = -20.0, 80.0
BEYOND = 55_500_000_123.0  # a canary: clipped to the upper bound
WITHIN = 12.345678901234  # another, of so many digits that no estimate begins with them by chance
BINS = [
    "low", "high", "estimate", "unbiased", "standard_error", "lower", "upper", "cumulative",
    "cumulative_lower", "cumulative_upper", "cumulative_lower_sure", "cumulative_upper_sure",
]  # fmt: skip
# No interval of a test may miss by chance: these releases are not seeded.
CERTAIN = "0.999999999999"


def numbers() -> np.ndarray:
    """A quarter at one value, a bell, a tail that is clipped."""
    ranks = (np.arange(USABLE) + 0.5) / USABLE
    bell = 30 + 8 * np.log(ranks / (1 - ranks))
    values = np.where(np.arange(USABLE) % 4 == 0, WITHIN, bell)
    values[7::100] = BEYOND
    return values


def clipped() -> np.ndarray:
    return np.clip(numbers(), LOW, HIGH)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One usable row a user; columns of several types, and constant ones."""
    values: list[float | None] = numbers().tolist()
    values += [None] * NULLS + [math.nan] * NANS + [math.inf, -math.inf] * (INFINITE // 2)
    values += [5.0] * UNKNOWN
    users = [f"CANARY-USER-{k:05}" for k in range(ROWS - UNKNOWN)] + [None] * UNKNOWN
    table = pa.table(
        {
            "real": pa.array(values, pa.float64()),
            "user": users,
            "whole": pa.array((np.arange(ROWS) % 7).astype(np.int16)),
            "same": pa.array([3.25] * ROWS, pa.float32()),
            "none": pa.array([None] * ROWS, pa.float64()),
            "text": ["CANARY-TEXT"] * ROWS,
            "flag": [True] * ROWS,
        }
    )
    return canaries.write(tmp_path_factory.mktemp("real"), table, 3, 700)


def request(log: str, **changes: object) -> list[str]:
    """The words of a request that is right but for the changes; None takes an option away."""
    asked: dict[str, Any] = {
        "input": log,
        "column": "real",
        "epsilon": 2,
        "bounds": f"{LOW:g},{HIGH:g}",
        "bins": 32,
        "confidence": CERTAIN,
        "output": "out",
    }
    return canaries.words("distribution", asked | changes, joined=True)


ASKED: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "users": {
        "user_column": "user", "min_reports": USABLE, "delta": 1e-5, "epsilon": 1,
        "mechanism": "grr",
    },
    "local": {"model": "local", "epsilon": 1},
    "response": {"model": "local", "epsilon": 5, "quantiles": "0.5,0.123", "bins": None},
    "smooth": {"model": "local", "epsilon": 3, "mechanism": "pm", "smooth": True},
    "geometry": {"mechanism": "projective", "epsilon_local": 3},
    "integers": {"column": "whole", "bounds": "0,6", "bins": 7, "model": "local", "epsilon": 8},
    "constant": {"column": "same", "bounds": "0,10", "model": "local", "epsilon": 4},
}  # fmt: skip


class Shape(Release):
    """One release, read back."""

    @cached_property
    def bins(self) -> dict[str, np.ndarray]:
        table = own(self.tables["distribution.parquet"])
        return {name: table[name].to_numpy() for name in table.column_names}

    @cached_property
    def quantiles(self) -> list[dict[str, float]]:
        return self.tables["quantiles.parquet"].to_pylist()

    @cached_property
    def values(self) -> np.ndarray:
        """What the users reported, clipped."""
        column = self.asked.get("column", "real")
        if column == "whole":
            return np.arange(ROWS) % 7
        if column == "same":
            return np.full(ROWS, 3.25)
        known = clipped()
        return known if "user_column" in self.asked else np.append(known, [5.0] * UNKNOWN)


@pytest.fixture(scope="module")
def releases(real: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shape]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        assert cli.main(request(real, output=folder, **changes)) == 0
        made[name] = Shape(folder, changes)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Shape]) -> Shape:
    return releases[request.param]


def test_it_keeps_the_contract(release: Shape, real: str) -> None:
    files = ("distribution.parquet", "quantiles.parquet")
    require_contract(release, "distribution", files, str(Path(real).parent), f"{WITHIN}")
    assert release.page.count('class="picture"') == 2
    assert release.page.count("<tr>") > len(release.bins["low"]) + len(release.quantiles)


# ---- the tables --------------------------------------------------------------------------------


def test_bins_lie_side_by_side_between_the_bounds(release: Shape) -> None:
    bins = release.bins
    assert list(bins) == BINS
    low, high = map(float, str(release.asked.get("bounds", f"{LOW},{HIGH}")).split(","))
    assert (bins["low"][0], bins["high"][-1]) == (low, high)
    assert np.array_equal(bins["low"][1:], bins["high"][:-1])
    assert np.all(bins["low"] < bins["high"])
    expected = release.asked.get("bins", 32)
    assert len(bins["low"]) == (32 if expected is None else expected)  # 32^2 <= 3,600 < 64^2


def test_shares_are_a_distribution_and_lie_in_their_intervals(release: Shape) -> None:
    bins = release.bins
    assert np.all(bins["estimate"] >= 0)
    assert bins["estimate"].sum() == pytest.approx(1)
    assert bins["unbiased"].sum() == pytest.approx(1)
    assert bins["cumulative"] == pytest.approx(np.cumsum(bins["estimate"]))
    for middle, low, high in (
        ("estimate", "lower", "upper"),
        ("cumulative", "cumulative_lower", "cumulative_upper"),
        ("cumulative", "cumulative_lower_sure", "cumulative_upper_sure"),
    ):
        assert np.all(0 <= bins[low])
        assert np.all(bins[low] <= bins[middle])
        assert np.all(bins[middle] <= bins[high])
        assert np.all(bins[high] <= 1)


def test_the_truth_lies_in_every_interval(release: Shape) -> None:
    """F at each edge, the quantiles, the mean: of the numbers as they were, clipped."""
    bins, values = release.bins, release.values
    truth = np.array([np.mean(values <= edge) for edge in bins["high"]])
    assert np.all(bins["cumulative_lower_sure"] <= truth + 1e-9)
    assert np.all(truth <= bins["cumulative_upper_sure"] + 1e-9)
    ordered = np.sort(values)
    for row in release.quantiles:
        exact = ordered[math.ceil(row["p"] * len(values) - 1e-9) - 1]
        assert row["lower"] - 1e-9 <= exact <= row["upper"] + 1e-9
        assert row["lower"] <= row["estimate"] <= row["upper"]
    mean = release.statement["mean"]
    assert mean["lower"] <= values.mean() <= mean["upper"]
    assert abs(mean["unbiased"] - values.mean()) < 7 * mean["standard_error"]
    points = np.linspace(bins["low"][0], bins["high"][-1], len(bins["low"]))
    held = np.maximum(0, 1 - np.abs(values[:, None] - points) / (points[1] - points[0])).mean(0)
    assert np.all((bins["lower"] <= held + 1e-9) & (held <= bins["upper"] + 1e-9))


def test_estimates_come_near(releases: dict[str, Shape]) -> None:
    """Far nearer than the intervals, which serve every distribution."""
    for name, most in (("shuffle", 0.012), ("users", 0.015), ("local", 0.08), ("integers", 0.003)):
        found = releases[name]
        truth = np.array([np.mean(found.values <= edge) for edge in found.bins["high"]])
        assert np.abs(found.bins["cumulative"] - truth).mean() < most, name


def test_the_usual_quantiles_or_those_asked_for(releases: dict[str, Shape]) -> None:
    usual = [row["p"] for row in releases["local"].quantiles]
    assert usual == [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
    assert [row["p"] for row in releases["response"].quantiles] == [0.123, 0.5]


def test_a_constant_is_found(releases: dict[str, Shape]) -> None:
    found = releases["constant"]
    median = next(row["estimate"] for row in found.quantiles if row["p"] == 0.5)
    assert median == pytest.approx(3.25, abs=10 / 31)
    assert found.statement["mean"]["estimate"] == pytest.approx(3.25, abs=0.45)


# ---- the statement and the page ----------------------------------------------------------------


def test_guarantees_are_those_of_the_mechanism(releases: dict[str, Shape]) -> None:
    for name, found in releases.items():
        asked, told = found.statement["request"], found.statement["guarantees"]
        assert told["release"]["epsilon"] <= asked["epsilon"] * (1 + 1e-12), name
        if asked["model"] == "local":
            continue
        chosen = found.statement["mechanism"]
        size = "domain_size" if chosen["name"] in ("grr", "projective") else "cells"
        bins = found.statement["estimation"]["bins"] + 1  # one more for no number
        if chosen["name"] == "projective":
            assert told["local"]["epsilon"] <= found.asked["epsilon_local"]
            continue
        mechanism = build(
            chosen["name"],
            epsilon=chosen["constants"]["epsilon"],
            **{size: bins if size == "domain_size" else bins - 2},
        )
        mechanism = mechanism if size == "domain_size" else WithUnusable(mechanism)
        bound = shuffled_delta(mechanism, asked["min_reports"], told["release"]["epsilon"])[1]
        assert bound <= asked["delta"] * (1 + 1e-9)


def test_rows_and_rejects_are_counted(releases: dict[str, Shape]) -> None:
    told = releases["local"].statement
    assert told["n"] == told["rows_read"] == ROWS
    assert told["rejects"] == {}
    users = releases["users"].statement  # nobody is told how many rows they have
    assert users["rejects"] == {}
    assert "rows_read" not in users
    assert releases["users"].statement["n"] == ROWS - UNKNOWN
    assert "clipped" not in json.dumps({k: v for k, v in told.items() if k != "error"})


def test_the_share_of_those_without_a_number_is_told_with_its_interval(
    releases: dict[str, Shape],
) -> None:
    for name, found in releases.items():
        told, whole = found.statement["unusable"], found.statement["n"]
        true = 0.0 if name in ("integers", "constant") else (ROWS - USABLE - UNKNOWN) / whole
        assert told["lower"] <= true <= told["upper"], name
        assert told["lower"] <= told["share"] <= told["upper"]


def test_smoothing_says_that_it_is_biased(releases: dict[str, Shape]) -> None:
    assert "biased" in releases["smooth"].statement["estimation"]["method"]
    assert "EMS" in releases["smooth"].page
    assert "EMS" not in releases["local"].page


# ---- what ends a request -----------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "reversed": ({"bounds": "5,1"}, "--bounds"),
    "equal": ({"bounds": "5,5"}, "--bounds"),
    "nan": ({"bounds": "nan,5"}, "--bounds"),
    "three": ({"bounds": "1,2,3"}, "--bounds"),
    "text": ({"column": "text"}, "--column"),
    "flag": ({"column": "flag"}, "--column"),
    "missing": ({"column": "absent"}, "--column"),
    "one bin": ({"bins": 1}, "--bins must be a number of at least 2"),
    "many bins": ({"bins": 5000}, "--bins must be a number of at most 1,024"),
    "half a bin": ({"bins": 2.5}, "--bins must be a whole number"),
    "quantile 0": ({"quantiles": "0,0.5"}, "--quantiles"),
    "quantile text": ({"quantiles": "median"}, "--quantiles"),
    "nan quantile": ({"quantiles": "nan"}, "--quantiles"),
    "two points": ({"mechanism": "duchi"}, "nm, grr serve any number"),
    "unknown": ({"mechanism": "best"}, "there are: auto"),
    "epsilon": ({"epsilon": None}, "epsilon is missing"),
    "negative": ({"epsilon": -1}, "--epsilon"),
    "user": ({"user_column": "user"}, "--min-reports is missing"),
    "central": ({"model": "central"}, "--model"),
    "confidence": ({"confidence": 1}, "--confidence"),
    "cells": ({"cells": 10}, "--cells"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_refused_in_one_line(name: str, refused, real: str) -> None:
    changes, told = WRONG[name]
    refused(request(real, **changes), told)


def test_nothing_is_released_of_no_number_at_all(run, real: str, workspace) -> None:
    # At this epsilon no noisy share is surely above 95 %, which alone would be published.
    vague = request(real, column="none", model="local", output="hidden", epsilon=0.25)
    assert run(vague).code == 0
    (mean,) = [json.loads((workspace / "hidden/statement.json").read_text())["mean"]]
    assert (mean["lower"], mean["upper"]) == (LOW, HIGH)
    outcome = run(request(real, column="none", model="local", unusable="count"))
    assert outcome.code == 1
    assert outcome.err.startswith("hushbeam: withheld: 0 reports came")
    assert not (workspace / "out").exists()


def test_one_user_with_many_rows_is_one_report(run, workspace: Path) -> None:
    table = pa.table({"x": np.arange(500.0), "user": ["CANARY-USER-00001"] * 500})
    log = canaries.write(workspace / "one", table)
    asked = {"column": "x", "bounds": "0,500", "model": "local", "user_column": "user"}
    refused = run(request(log, **asked))  # how many rows a user has chooses no bins
    assert refused.code == 2
    assert "--min-reports is missing" in refused.err
    outcome = run(request(log, **asked, min_reports=1))
    assert outcome.code == 0
    told = json.loads((workspace / "out/statement.json").read_text())
    assert told["n"] == 1
    found = pq.ParquetFile(workspace / "out/quantiles.parquet").read().to_pylist()
    assert all((row["lower"], row["upper"]) == (0, 500) for row in found)
    assert not canaries.found(outcome.said)


def test_a_run_shows_quantiles_and_the_mean(run, real: str, workspace) -> None:
    outcome = run(request(real, quantiles="0.5,0.999", mechanism="grr"))
    assert outcome.code == 0
    assert all(text in outcome.out for text in ("median", "99.9 % quantile", "mean: "))
