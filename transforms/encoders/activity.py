"""From rows to how many days ago they were, and from all rows of a user to who is active."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.counters.activity import Activity, bitmaps
from mechanisms.counters.levels import Layout, Level
from mechanisms.randomness import RandomSource
from transforms.columns import as_floats
from transforms.encoders.block import CellBlock
from transforms.encoders.encoder import OneColumn, Rows
from transforms.encoders.reports import Levelled

_DAY = 86_400  # seconds
_WORDS = 1 << 18  # bitmaps encoded at a time


@dataclass(frozen=True)
class DayEncoder(OneColumn):
    """Each row to its age in days; those of no time, too old, or of a later day share one more.

    Attributes:
        column: of moments or dates; days are UTC's.
        last: the day of age 0, in days since 1970.
        days: how many ages there are.

    >>> from datetime import date
    >>> from mechanisms.randomness import SeededRandom
    >>> batch = pa.record_batch({"on": [date(1970, 1, 9), date(1970, 1, 10), date(1970, 1, 11)]})
    >>> DayEncoder("on", last=9, days=7).encode(batch, Rows(3), SeededRandom(0)).cells.tolist()
    [1, 0, 7]
    """

    value_type = pa.date32()

    last: int
    days: int

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        ages = self.last - np.floor(as_floats(batch.column(self.column)) / _DAY)
        # So that NaN, of a row without a time, is among the others.
        known = (ages >= 0) & (ages < self.days)
        cells = np.where(known, ages, self.days).astype(np.uint32)
        return CellBlock(rows.of(cells), None)


@dataclass(frozen=True)
class ActivityReporting(Levelled):
    """A user's days to its report; nothing is drawn.

    Attributes:
        activity: what is told of them.

    >>> from mechanisms.randomness import SeededRandom
    >>> told = ActivityReporting(Activity(before=3, kept=2))
    >>> rows = np.array([0, 0, 1]), np.array([0, 1, 9])
    >>> [words] = told.words(*rows, None, 2, SeededRandom(0))
    >>> words.tolist()  # returning, of yesterday's cohort; active in 28 days, and no more
    [[1, 5], [4, 8]]
    """

    activity: Activity
    beside: ClassVar[tuple[str, ...]] = ()

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.activity.levels

    def words(
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Any,
        n: int,
        rng: RandomSource,
    ) -> Iterator[Messages]:
        """As of `Reporting`; groups are ages."""
        owners = np.arange(n) if users is None else users
        days = bitmaps(owners, np.where(groups < self.activity.days, groups, -1), n)
        layout = Layout(self.levels)
        for start in range(0, n, _WORDS):
            yield layout.reports(self.activity.encode(days[start : start + _WORDS]))
