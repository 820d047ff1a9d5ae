"""Intervals of rows that a reader picks by looking at all of them: wide enough for that.

Whoever reads the largest of many noisy numbers reads those with the kindest noise. An interval that
covers its own number 95 times in 100 then misses nearly always; intervals that cover all numbers
together cover those that were picked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LOWER, UPPER = "lower_simultaneous", "upper_simultaneous"

NOTHING = (
    "Nothing stands out of the noise: not one of the intervals leaves out 0, so which value is "
    "larger than another cannot be told from this table."
)


_WIDEST_FIRST = ((LOWER, UPPER), ("lower", "upper"))


def ends(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """Of the interval that covers with all others of its table, where there are others.

    >>> ends({"lower": 2, "upper": 3, "lower_simultaneous": 1, "upper_simultaneous": 4})
    (1, 4)
    >>> ends({"estimate": 2})
    (None, None)
    """
    known = ((row[low], row[high]) for low, high in _WIDEST_FIRST if low in row)
    return next(known, (None, None))


def remark(table: pa.Table) -> str:
    """What has to be said where no share of a table is clearly above 0, or nothing."""
    return "" if pc.any(pc.greater(table[LOWER], 0)).as_py() else NOTHING
