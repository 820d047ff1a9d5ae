"""From rows to the steps that they hold, and from all rows of a user to how far it came."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats, Messages
from mechanisms.counters.levels import Layout, Level
from mechanisms.counters.steps import moments
from mechanisms.randomness import RandomSource
from transforms.columns import as_floats
from transforms.encoders.block import AmountBlock
from transforms.encoders.encoder import BATCH, Rows
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import WORDS, Levelled
from transforms.expressions.view import View

_MICROS = 1e6  # in a second


@dataclass(frozen=True)
class StepEncoder:
    """Each row to its time, in microseconds, and to its segment and the steps that it holds.

    Attributes:
        time: a column of moments or dates; a row without one is NaN.
        steps: what must hold of each.
        segments: what takes rows to segments.

    >>> from mechanisms.randomness import SeededRandom
    >>> steps = tuple(View.read((), [text]) for text in ("n > 0", "n > 5"))
    >>> batch = pa.record_batch({"at": pa.array([1, None], pa.timestamp("s")), "n": [3, 9]})
    >>> encoder = StepEncoder("at", steps, GroupEncoder())
    >>> block = encoder.encode(batch, Rows(2), SeededRandom(0))
    >>> block.cells.tolist(), block.amounts.tolist()
    ([1, 3], [1000000.0, nan])
    """

    kind: ClassVar = AmountBlock
    batch_size: ClassVar = BATCH

    time: str
    steps: tuple[View, ...]
    segments: GroupEncoder

    @property
    def columns(self) -> frozenset[str]:
        own = frozenset().union(*(step.needed(()) for step in self.steps))
        return own | self.segments.columns | {self.time}

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.time: pa.timestamp("us"), **self.segments.line_types}

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> AmountBlock:
        cells = self.segments.encode(batch, Rows(batch.num_rows), rng).cells.astype(np.int64)
        for step in reversed(self.steps):  # so that the first one has the lowest bit
            cells = cells << 1 | step.holds(batch)
        # Whole, so that what is within a time, or of one moment, does not hang on a rounding.
        times = np.rint(as_floats(batch.column(self.time)) * _MICROS)
        return AmountBlock(rows.of(cells).astype(np.uint32), rows.of(times), None)


@dataclass(frozen=True)
class StepReporting(Levelled):
    """A user's rows to its furthest step, by the segment of its first row that holds the first one.

    With bounds of times it raises a counter beside for each later step that it reached, by how long
    after the step before that was: up to a bound, or longer than all.

    Attributes:
        steps: how many there are.
        segments: the same, that of all other values among them.
        within: as of `moments`, in microseconds.
        bounds: of times from step to step, rising, in microseconds; none where they do not count.

    >>> from mechanisms.randomness import SeededRandom
    >>> told = StepReporting(2, 4)
    >>> rows = np.array([0, 0, 1]), np.array([0b1101, 0b0110, 0b10]), np.array([1.0, 2.0, 0.0])
    >>> [words] = told.words(*rows, 2, SeededRandom(0))
    >>> words.tolist()  # step 2 in segment 3, of the row that begins; and no step
    [[7], [8]]
    """

    steps: int
    segments: int = 1
    within: float = math.inf
    bounds: tuple[float, ...] = ()
    beside: ClassVar[tuple[str, ...]] = ()

    @property
    def levels(self) -> tuple[Level, ...]:
        return (Level(1, self.segments * self.steps), *self.sides)

    @property
    def sides(self) -> tuple[Level, ...]:
        """The counters of times, if there are any."""
        later, bins = self.steps - 1, len(self.bounds) + 1
        return (Level(later, self.segments * later * bins),) if self.bounds else ()

    def words(
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Floats,
        n: int,
        rng: RandomSource,
    ) -> Iterator[Messages]:
        """As of `Reporting`; groups are cells of `StepEncoder`, and numbers its times."""
        segments, masks = np.divmod(groups, 1 << self.steps)
        some = np.isfinite(numbers) & (masks > 0)
        owners = (np.arange(n) if users is None else users)[some]
        segments, masks, times = segments[some], masks[some], numbers[some]
        reached = moments(owners, times, masks, n, self.steps, self.within)
        begins = np.flatnonzero(masks & 1)
        # Where rows of one moment are of several segments, the first that was declared.
        begins = begins[np.lexsort((segments[begins], times[begins], owners[begins]))]
        who, place = np.unique(owners[begins], return_index=True)
        own = np.zeros((n, 1), np.int64)
        own[who, 0] = segments[begins[place]]
        far = np.isfinite(reached).sum(axis=1, keepdims=True)
        sets = [np.where(far, own * self.steps + far - 1, -1)]
        if self.bounds:
            took = np.diff(reached, axis=1)
            places = own * (self.steps - 1) + np.arange(self.steps - 1)
            bins = np.searchsorted(self.bounds, took)
            sets.append(np.where(np.isfinite(took), places * (len(self.bounds) + 1) + bins, -1))
        layout: Any = Layout(self.levels)
        for start in range(0, n, WORDS):
            yield layout.reports([level[start : start + WORDS] for level in sets])
