"""Synthetic records: what is measured of them is what it says, and each system earns its place."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.engine.cells import Cell
from hushbeam.studies.populations.records import read_records
from hushbeam.studies.studies.synthetic import fit
from hushbeam.studies.systems.synthetic import lines, mean_distance, wrong
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

(PEOPLE,) = read_records(["people:8000"])


def released(name: str, epsilon: float) -> dict[str, float]:
    (line,) = lines([name])
    return dict(fit(None, Cell(PEOPLE.name, line, epsilon, 1e-6), PEOPLE).release(SeededRandom(1)))


@pytest.mark.parametrize("ways", [2, 3])
def test_distances_by_counting_one_by_one(ways: int) -> None:
    rng = np.random.default_rng(ways)
    one, other = rng.integers(0, 2, (50, 4)), rng.integers(0, 2, (70, 4))
    slow = []
    for columns in combinations(range(4), ways):
        cells = [[tuple(row) for row in rows[:, columns].tolist()] for rows in (one, other)]
        every = {*cells[0], *cells[1]}
        slow.append(sum(abs(cells[0].count(c) / 50 - cells[1].count(c) / 70) for c in every) / 2)
    assert mean_distance(one, other, (2,) * 4, ways) == pytest.approx(np.mean(slow))


def test_the_truth_is_no_distance_away_and_a_tree_learns_it() -> None:
    truth = released("truth", 1.0)
    assert (truth["two_way"], truth["three_way"]) == (0, 0)
    # The last column is told half of the time, and a fair coin otherwise.
    assert 0.22 < truth["wrong"] < 0.30
    train, test = PEOPLE.split
    assert len(test) * 4 == len(train)
    assert wrong(np.zeros_like(train), test, PEOPLE.sizes) == pytest.approx(0.5, abs=0.05)


def test_systems_err_in_the_order_of_what_they_are_told() -> None:
    near = {name: released(name, 8.0) for name in ("columns", "tables", "tables-3")}
    exact = released("exact-tables", 8.0)
    assert near["columns"]["two_way"] > 10 * near["tables"]["two_way"]
    assert exact["two_way"] < near["tables"]["two_way"]
    # What three columns show together only tables of three can have.
    assert near["tables-3"]["three_way"] < 0.7 * exact["three_way"]
    assert exact["wrong"] > 0.38
    assert near["tables-3"]["wrong"] < 0.30
    assert released("tables", 0.2)["two_way"] > 5 * near["tables"]["two_way"]


def test_files_have_the_values_that_occur(tmp_path) -> None:
    rows = {"a": ["x", "y", None, "x"] * 50, "b": [1, 2, 3, 4] * 50, "c": [True, False] * 100}
    pq.write_table(pa.table(rows), tmp_path / "few.parquet")
    (few,) = read_records([f"{tmp_path}/few.parquet:a:b:c"])
    assert (few.n, few.sizes, few.names) == (200, (3, 4, 2), ("a", "b", "c"))
    counts = np.bincount(few.records[:, 1])
    assert counts.tolist() == [50] * 4
    assert not (np.diff(few.records[:8, 1]) == 1).all()  # neighbours are from everywhere
    for text in ("few.parquet", f"{tmp_path}/few.parquet:a", "people:5", "people:x"):
        with pytest.raises(RequestError, match="--data"):
            read_records([text])
