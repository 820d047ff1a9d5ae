"""The rows that a reader looks for are the first of all rows in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipelines.views.headline import order

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("figure", ["share", "mean"])
@pytest.mark.parametrize("most", [0, 1, 3, 40, 500])
def test_the_first_rows_are_those_of_a_sort_of_all(figure: str, most: int) -> None:
    """Also of many ties, as shares that are moved to 0 are, and of figures that are not known."""
    estimate = RNG.integers(0, 4, 300).astype(float)
    other = RNG.integers(0, 9, 300).astype(float)
    estimate[::7], other[::11] = np.nan, np.nan
    other_name = "standard_error" if figure == "mean" else "unbiased"
    table = pa.table({"estimate": estimate, other_name: other})
    keys = (-estimate, other) if figure == "mean" else (-other, -estimate)
    every = np.lexsort(keys)
    assert order(table, figure, most) == every[:most].tolist()
    among = RNG.random(300) < 0.5
    assert order(table, figure, most, among) == every[among[every]][:most].tolist()
