"""The whole road, from Parquet files to published shares, against the truth.

The generators are seeded, so a test that passes goes on passing. Its bound is chosen as if they
were not: with a correct pipeline all z-scores of a release stay inside it but with probability
1e-9, so that no seed had to be picked.
"""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import of_task
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SeededRandom
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.release import ReleaseMetric
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.histogram import Histogram
from tests.fakes import canaries

pytestmark = pytest.mark.verify

ROWS = 60_000
WORDS = ("red", "green", "blue", "grey", "teal", "none")
SHARES = np.array([0.4, 0.3, 0.15, 0.1, 0.05, 0.0])
FALSE_ALARM = 1e-9
CERTAIN = 30.0  # an epsilon at which a report lies once in 10^12, so that counts are exact

_numbered = itertools.count()


def rows() -> np.ndarray:
    """(ROWS,) indices of words, in the exact proportions of SHARES, one value after the other."""
    return np.repeat(np.arange(len(WORDS)), np.rint(SHARES * ROWS).astype(int))


def publish(tmp_path: Path, log: str, seed: int = 7, **asked: Any) -> tuple[Histogram, Any, Any]:
    """The job, its table and its statement."""
    folder = tmp_path / f"out-{next(_numbered)}"
    domain = tmp_path / "domain.txt"
    domain.write_text("\n".join(WORDS))
    defaults = {"column": "v", "domain": str(domain), "output": str(folder)}
    options = HistogramOptions(**(defaults | {"input": (log,)} | asked))
    job = resolve(options, open_rng=functools.partial(SeededRandom, seed))
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | ReleaseMetric(job)
    table = pq.ParquetFile(folder / "histogram.parquet").read()
    return job, table, json.loads((folder / "statement.json").read_text())


def largest_z(job: Histogram, table: pa.Table, truth: np.ndarray, n: int) -> float:
    """The largest deviation from the truth, in the standard errors of the truth."""
    error = np.sqrt(job.design.mechanism.variance(truth, n))
    return float(np.abs((table["unbiased"].to_numpy() - truth) / error).max())


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One row an event, sorted by value: as unlike a shuffled log as can be."""
    values = pa.array(WORDS).take(pa.array(rows()))
    return canaries.write(tmp_path_factory.mktemp("events"), pa.table({"v": values}), 3, 7000)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Several rows a user, spread over files; who holds "red" has three times as many."""
    held = rows()[::6]
    copies = np.where(held == 0, 12, 4)
    log = pa.table(
        {
            "v": pa.array(WORDS).take(pa.array(np.repeat(held, copies))),
            "u": pa.array([f"user {k}" for k in np.repeat(np.arange(held.size), copies)]),
        }
    )
    mixed = SeededRandom(1).permutation(len(log))
    return canaries.write(tmp_path_factory.mktemp("users"), log.take(pa.array(mixed)), 4, 5000)


@pytest.mark.parametrize(
    "asked",
    [{"model": "local", "epsilon": 1.0}, {"epsilon": 1.0, "min_reports": 9000}],
    ids=["local", "shuffle"],
)
def test_shares_of_users_do_not_depend_on_how_many_rows_they_have(
    asked: dict[str, Any], users: str, tmp_path: Path
) -> None:
    job, table, statement = publish(tmp_path, users, user_column="u", **asked)
    n = ROWS // 6
    assert statement["n"] == n
    bound = normal_quantile(1 - FALSE_ALARM, comparisons=len(WORDS))
    assert largest_z(job, table, SHARES, n) < bound
    by_rows = SHARES * np.where(np.arange(len(WORDS)) == 0, 12, 4)
    assert largest_z(job, table, by_rows / by_rows.sum(), n) > bound


def test_one_heavy_user_moves_one_report(tmp_path: Path) -> None:
    """900 of 1,000 rows are one user's, and count as much as any other user's one row."""
    users = [f"user {k}" for k in range(100)] + ["heavy"] * 900
    values = [WORDS[k % 4] for k in range(100)] + ["teal"] * 900
    log = canaries.write(tmp_path / "log", pa.table({"v": values, "u": users}), 5, 50)
    _, table, statement = publish(
        tmp_path, log, model="local", epsilon=CERTAIN, user_column="u", postprocess="none"
    )
    assert statement["n"] == 101
    assert "rows_read" not in statement  # it would tell of one user
    counts = dict(zip(WORDS, table["unbiased"].to_numpy() * 101, strict=True))
    expected = {"red": 25, "green": 25, "blue": 25, "grey": 25, "teal": 1, "none": 0}
    assert counts == pytest.approx(expected, abs=1e-6)


def test_rows_that_cannot_be_used_are_a_user_s_like_others(tmp_path: Path) -> None:
    """Left out, a user reports one that can be used; hidden, one in three.

    Of 200 users the share of the first value has a standard deviation of 0.026, by chance alone.
    """
    users = [k for k in range(200) for _ in range(3)]
    values = [v for k in range(200) for v in (None, "puce", WORDS[k % 2])]
    log = canaries.write(tmp_path / "log", pa.table({"v": values, "u": users}))
    asked = {"model": "local", "epsilon": CERTAIN, "user_column": "u"}
    _, table, statement = publish(tmp_path, log, **asked, unusable="count")
    assert statement["n"] == 200
    assert statement["rejects"] == {"null value": 200, "outside the domain": 200}
    assert table["unbiased"].to_numpy() == pytest.approx([0.5, 0.5, 0, 0, 0, 0], abs=1e-9)
    _, table, statement = publish(tmp_path, log, **asked)
    assert (statement["n"], statement["rejects"]) == (200, {})
    shares = [1 / 6, 1 / 6, 0, 0, 0, 0]
    assert table["unbiased"].to_numpy() == pytest.approx(shares, abs=6.2 * 0.027)
    assert statement["unusable"]["unbiased"] == pytest.approx(2 / 3, abs=6.2 * 0.034)


def text(held: np.ndarray) -> pa.Array:
    return pa.array(WORDS).take(pa.array(held))


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        pytest.param(text, None, id="string"),
        pytest.param(lambda held: text(held).cast(pa.large_string()), None, id="large-string"),
        pytest.param(lambda held: text(held).dictionary_encode(), None, id="dictionary"),
        pytest.param(lambda held: pa.array(held, pa.int8()), "0..5", id="range-of-int8"),
        pytest.param(lambda held: pa.array(held, pa.uint64()), "0..5", id="range-of-uint64"),
        pytest.param(lambda held: pa.array(held, pa.int64()), "0\n1\n2\n3\n4\n5", id="integers"),
        pytest.param(lambda held: pa.array(held < 2), "true\nfalse", id="bool"),
    ],
)
def test_columns_of_every_kind_are_counted(column: Any, domain: str | None, tmp_path: Path) -> None:
    held = rows()[::20]
    log = canaries.write(tmp_path / "log", pa.table({"v": column(held)}))
    asked: dict[str, Any] = {"model": "local", "epsilon": CERTAIN}
    if domain is not None:
        (tmp_path / "values.txt").write_text(domain)
        asked["domain"] = domain if ".." in domain else str(tmp_path / "values.txt")
    _, table, statement = publish(tmp_path, log, **asked)
    assert (statement["n"], statement["rejects"]) == (held.size, {})
    expected = [0.7, 0.3] if domain == "true\nfalse" else SHARES
    assert table["unbiased"].to_numpy() == pytest.approx(expected, abs=1e-9)


def test_the_order_of_rows_and_their_split_into_files_do_not_matter(tmp_path: Path) -> None:
    held = rows()[::10]
    mixed = held[SeededRandom(3).permutation(held.size)]
    logs = [
        canaries.write(tmp_path / "sorted", pa.table({"v": text(held)}), 1, 100_000),
        canaries.write(tmp_path / "mixed", pa.table({"v": text(mixed)}), 7, 50),
    ]
    first, *others = sorted((tmp_path / "mixed").glob("*.parquet"))
    inputs = [(logs[0],), (logs[1],), (str(first), str(others[0].parent / "part-[1-9].parquet"))]
    shares = [
        publish(tmp_path, "", model="local", epsilon=CERTAIN, input=paths)[1]["unbiased"].to_numpy()
        for paths in inputs
    ]
    assert shares[0] == pytest.approx(SHARES, abs=1e-9)
    assert shares[1] == pytest.approx(shares[0], abs=1e-12)
    assert shares[2] == pytest.approx(shares[0], abs=1e-12)


@pytest.mark.parametrize(
    "name", [name for name, one in of_task("frequency").items() if one.of_reports]
)
def test_every_system_is_within_its_error_and_its_promise(tmp_path, events, name):
    """Each by name, on the whole road; eight or more are compositions of the same few rooms."""
    serves = set(of_task("frequency")[name].models)
    asked = {"mechanism": name, "epsilon": 2.0, "postprocess": "none"}
    job, table, statement = publish(tmp_path, events, **asked)
    assert largest_z(job, table, SHARES, ROWS) < normal_quantile(1 - FALSE_ALARM, len(WORDS)) + 0.5
    assert statement["guarantees"]["release"]["model"] in serves
    assert statement["guarantees"]["release"]["epsilon"] <= 2.0
    assert statement["n"] == ROWS
    lower, upper = table["lower_simultaneous"].to_numpy(), table["upper_simultaneous"].to_numpy()
    assert (lower <= upper).all()
    assert statement["mechanism"]["source"] == of_task("frequency")[name].source
