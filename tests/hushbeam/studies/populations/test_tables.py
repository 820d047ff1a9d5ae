"""Tables become rows by columns and bounds that are declared, and a made census by its n alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.populations.tables import TABLES, read_examples
from mechanisms.learning.objectives import SquaredError


def table(name: str, n: int, folder: Path) -> str:
    """A file with the columns of a known table, numbers beyond their bounds among them."""
    declared, chance = TABLES[name], np.random.default_rng(1)
    columns = {
        column: chance.uniform(low - 10, high + 10, n)
        for column, low, high in (declared.target, *declared.numbers)
    }
    for place, column in enumerate(declared.categories):
        columns[column] = chance.integers(0, 2 + place, n)
    path = str(folder / f"{name}.parquet")
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("name", TABLES)
def test_declared_columns_become_rows(tmp_path, name) -> None:
    path = table(name, 300, tmp_path)
    (examples,) = read_examples([path])
    declared, content = TABLES[name], pq.read_table(path)
    assert (examples.n, examples.name) == (300, name)
    assert examples.d == len(declared.numbers) + 1 + sum(
        1 + place for place in range(len(declared.categories))
    )
    assert np.abs(examples.rows).max() <= 1
    assert np.abs(examples.targets).max() <= 1
    column, low, high = declared.target
    scaled = np.clip(2 * (content[column].to_numpy() - low) / (high - low) - 1, -1, 1)
    np.testing.assert_allclose(examples.targets, scaled, atol=1e-6)
    last = declared.categories[-1]
    for value in range(1, 1 + len(declared.categories)):
        place = examples.features.names.index(f"{last}={value}")
        np.testing.assert_array_equal(examples.rows[:, place], content[last].to_numpy() == value)


def test_a_made_census_can_be_told_from_its_attributes() -> None:
    small, large = read_examples(["census:100"], [500, 50_000])
    assert (small.n, large.n, small.base) == (500, 50_000, large.base)
    objective = SquaredError(large.d)
    best = objective.fit_exactly(large.rows, large.targets)
    left = float(objective.errors(best, large.rows, large.targets).mean())
    assert 0.15**2 * 0.9 < left < 0.6 * float(np.var(large.targets))
    assert np.mean(np.abs(large.targets) == 1) < 0.05
