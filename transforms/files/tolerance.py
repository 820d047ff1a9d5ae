"""Steps over columns of which one value that fails must not take the others with it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc


def tolerant(step: Callable[[pa.Array], pa.Array], column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A step over a column that is null where the step fails; Arrow would fail for all of it.

    Args:
        step: takes each value alone to one of `kind`.
        column: n values.
        kind: of what comes out.
    """
    try:
        return step(column)
    except pa.ArrowException:  # its text quotes the value
        if len(column) <= 1:
            return pa.nulls(len(column), kind)
    middle = len(column) // 2
    halves = (column.slice(0, middle), column.slice(middle))
    return pa.concat_arrays([tolerant(step, half, kind) for half in halves])


def of_form(texts: pa.Array, form: str) -> pa.Array:
    """Texts; null where one does not match a regular expression."""
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)
