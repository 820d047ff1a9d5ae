"""What the job draws errs no more than a trusted collector's noise, for every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.central import MOST, Kind, asked, kinds
from mechanisms.randomness import SeededRandom
from pipelines.metrics import registry
from transforms.collector.collect_counts import Counted

_RUNS = 400


@pytest.fixture(scope="module")
def compared() -> list[Kind]:
    """All kinds: worked out here, for each process that only looks for tests would pay for it."""
    return [*kinds()]


def test_errors_are_a_trusted_collectors(compared: list[Kind]) -> None:
    assert {one.figure: one.ratio for one in compared if not 0.7 <= one.ratio <= MOST} == {}


def test_every_kind_is_held(compared: list[Kind]) -> None:
    said = " ".join(kind.figure for kind in compared)
    assert all(name.replace("-users", " users") in said for name in registry.names())
    assert "regression" in said


def test_one_count_is_the_price_of_a_vector(compared: list[Kind]) -> None:
    """Of a count for each number it would be 1.41 times as much, and 1.04 times with one."""
    ratios = {kind.figure: kind.error for kind in compared}
    assert ratios["vector-mean of 12, counts"] == pytest.approx(
        1.41 * ratios["vector-mean of 12"], rel=0.03
    )


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("rows") / "rows.parquet")
    pq.write_table(pa.table({f"f{i}": [0.5] for i in range(12)}), path)
    return path


ASKED: dict[str, dict[str, Any]] = {
    "count": {},
    "sum": {"column": "distance", "bounds": "0,5000"},
    "mean": {"column": "distance", "bounds": "0,5000"},
    "variance": {"column": "distance", "bounds": "0,5000"},
    "ratio": {"column": "distance", "bounds": "0,5000"},
    "distribution": {"column": "distance", "bounds": "0,5000", "bins": 64},
    "vector-mean": {"number": ("f*=-1,1",)},
    "cross-tab": {"columns": ("carrier",), "domains": ("carrier=examples/carriers.txt",)},
    "experiment": {"arm": "origin", "arms": "EWR,JFK,LGA", "rate": ("distance",)},
    "active-users": {
        "user_column": "tail_number", "time": "time_hour", "day": "2013-06-01", "only_day": True,
    },
    "funnel": {
        "user_column": "tail_number", "time": "time_hour", "steps": {"left": "distance > 0"},
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ASKED)
def test_totals_err_as_is_said(kind: str, row: str) -> None:
    """A false alarm in 10^9: a variance of n draws, of no heavier tails, errs by 2.3 / sqrt(n)."""
    more = {"input": (row,)} if kind == "vector-mean" else {}
    release = asked(kind, **ASKED[kind], **more)
    design, rng = release.design, SeededRandom(11)
    drawn: list[np.ndarray] = []
    said: Any = None
    for _ in range(_RUNS):
        counts = design.noisy(np.zeros(design.codes, np.int64), rng)
        evidence = release.evidence(Counted(counts, 0, 0))
        if kind == "distribution":
            totals, said = evidence.bins["rows"], evidence.bins["rows_standard_error"]
        else:
            totals, said = evidence.totals, evidence.errors
        drawn.append(np.asarray(totals, float))
    off = np.array(drawn)
    accuracy = release.accuracy
    # What is said counts roundings, of which zeros have none.
    said = (
        np.hypot(said, 0) if not accuracy.total.rounding else np.full(off.shape[1], accuracy.noise)
    )
    assert (np.abs(off.mean(axis=0)) < 7 * said / np.sqrt(_RUNS)).all()
    assert off.std(axis=0) == pytest.approx(said, rel=7 * 1.2 / np.sqrt(_RUNS))
