"""Reports added up where they are made: a job that counts sends on no report, only what they raise.

Each number is rounded by itself, from the same draws as for a report, and only then added to the
others of its block. So every total is that of the reports, to the last unit, and its law with it;
what leaves the step says less of a row than a report does.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats, Messages
from mechanisms.counters.levels import Layout
from mechanisms.randomness import RandomSource
from transforms.elements.numbers import is_numbered, numbered
from transforms.encoders.block import RowBlock, applicable, pieces
from transforms.encoders.reports import RowReporting, raising, reports_of

_NUMBERS = 1 << 18  # of rows that are rounded together: they stay in a core's cache


def of_units(
    reporting: Any,
    layout: Layout,
    users: NDArray[np.int64] | None,
    groups: NDArray[np.int64],
    numbers: Floats | None,
    n: int,
    applies: NDArray[np.bool_] | None,
    rng: RandomSource,
) -> Iterator[NDArray[Any]]:
    """The messages of n units, or how much is added to each counter where that is shorter.

    Args:
        layout: of the counters.
        reporting, users, groups, numbers, n, applies, rng: as of `reports_of`.

    Yields:
        Messages as of `sent`.
    """
    if not _shorter(reporting, layout, n):
        for words in reports_of(reporting, users, groups, numbers, n, applies, rng):
            yield sent(words, layout)
        return
    if applies is not None:
        places, users, groups, numbers = raising(users, groups, numbers, n, applies)
        n = places.size
    yield _came(reporting.totals(users, groups, numbers, n, rng))


def of_rows(
    reporting: RowReporting, layout: Layout, block: RowBlock, rng: RandomSource
) -> Iterator[NDArray[Any]]:
    """The same of a block of rows that are units."""
    if not _shorter(reporting, layout, block.size):
        for words in reporting.reports(block, rng):
            yield sent(words, layout)
        return
    totals = np.zeros(layout.starts[-1], np.int64)
    for part in pieces(applicable(block), max(1, _NUMBERS // max(1, block.width))):
        totals += reporting.totals(part, rng)
    yield _came(totals)


def _shorter(reporting: Any, layout: Layout, n: int) -> bool:
    """Whether a table of so many counters costs less than the words of n reports.

    Of numbers that are added up no more leave than came; words of one counter are shorter.
    """
    return bool(layout.codes <= n * layout.types.size * (4 if reporting.whole else 0.25))


def _came(totals: Counts) -> NDArray[np.void]:
    """The counters that something was added to, and how much."""
    codes = np.flatnonzero(totals)
    return numbered(codes, totals[codes])


def sent(words: Messages, layout: Layout) -> NDArray[Any]:
    """The messages of reports, empty slots left out (see `AddDummies`); of numbers, their sums."""
    flat: Any = words.ravel("K")
    if is_numbered(flat):
        if not (flat["times"] == 1).all():
            kept = flat[flat["code"] < np.uint64(layout.starts[-1])]
            codes, places = np.unique(kept["code"], return_inverse=True)
            totals = np.zeros(codes.size, np.int64)
            np.add.at(totals, places, kept["times"])
            return numbered(codes, totals)
        flat = flat["code"]  # a quarter of the bytes, and no sorting, of counters that are many
    kept = flat.take(np.flatnonzero(flat < int(layout.starts[-1])))
    return kept.astype(np.min_scalar_type(layout.codes), copy=False)
