"""Figures of what was counted, where most users had more: that is said, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.metrics.counting.options import CountOptions
from pipelines.metrics.resolving import resolve
from pipelines.metrics.unusable.share import SURE
from pipelines.request.options import undashed
from tests.fakes.parties import TRUNCATED
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.releases import Release
from transforms.collector.collect_counts import Counted

USERS, ROWS = 4000, 12_000  # three a user
COMMON = "--user-column u --epsilon 1 --input log.parquet --output out"
VALUES = "--column c --domain c.txt"
KINDS = {
    "count": f"count {VALUES}",
    "count by the job": f"count {VALUES} --drawn-by job",
    "histogram": f"histogram {VALUES} --drawn-by shuffler",
    "sum": "sum --column x --bounds 0,1",
    "sums": "sum --column x --bounds 0,30 --group-by c --groups c.txt",
    "mean": "mean --column x --bounds 0,1 --drawn-by job",
}
WIDER = {
    "count": "--rows-per-user 3",
    "count by the job": "--rows-per-user 3",
    "histogram": "--rows-per-user 3",
    "sum": "--bounds 0,30",
    "sums": "--rows-per-user 3",
    "mean": "--bounds 0,30",
}


@pytest.fixture(autouse=True)
def log(workspace: Path) -> Iterator[None]:
    """Each user has all three values, and numbers that add up to 15."""
    (workspace / "c.txt").write_text("a\nb\nc\n")
    order = SeededRandom(7).permutation(ROWS)
    table = pa.table(
        {
            "u": np.arange(ROWS)[order] // 3,
            "c": np.array(["a", "b", "c"])[order % 3],
            "x": np.array([4.0, 5.0, 6.0])[order % 3],
        }
    )
    pq.write_table(table, workspace / "log.parquet")
    with fixed_randomness():  # else noise alone would say it now and then
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_said_of_most_and_not_of_none(kind: str, run: Any) -> None:
    outcome = run(f"{KINDS[kind]} {COMMON}".split())
    assert outcome.code == 0, outcome.said
    said = Release(Path("out")).statement
    (caution,) = (line for line in said["cautions"] if TRUNCATED in line)
    assert caution in outcome.err.replace("\n", " ")
    assert f"larger {undashed(WIDER[kind].split()[0])}" in caution
    assert (
        abs(said["cut"]["limited"]["estimate"] - USERS)
        < 7 * said["cut"]["limited"]["standard_error"]
    )
    assert caution in Release(Path("out")).page.replace("&#x27;", "'")


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_all_that_there_is_have_no_caution(kind: str, run: Any) -> None:
    words = f"{KINDS[kind]} {COMMON} {WIDER[kind]}"
    outcome = run(words.split() if "bounds" not in WIDER[kind] else _wide(words).split())
    assert outcome.code == 0, outcome.said
    assert TRUNCATED not in outcome.said.replace("\n", " ")


def _wide(words: str) -> str:
    return words.replace("--bounds 0,1 ", "")


def test_noise_alone_says_it_of_nobody_one_time_in_two_thousand(workspace: Path) -> None:
    """By the exact law of what is added to the number of those who had more."""
    pq.write_table(pa.table({"u": [0], "c": ["a"]}).slice(0, 0), "nobody.parquet")
    words: Any = {"input": ("nobody.parquet",), "output": "out", "user_column": "u", "epsilon": 1}
    options = CountOptions(**words, column="c", domain="c.txt", drawn_by="job")
    release: Any = resolve(options)
    law = release.design.level_law(len(release.design.levels) - 1)

    def said(noise: int) -> bool:
        counts = np.zeros(release.mechanism.codes, np.int64)
        counts[release.design.layout.starts[-2]] = noise
        estimate = Counted(counts, 0, 0)
        return bool(release.unusable_cautions(estimate, SURE))

    least = next(noise for noise in range(5000) if said(noise))
    assert 1e-4 < 1 - law.below(least - 1) <= 5e-4
