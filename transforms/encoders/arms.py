"""An experiment's rows: to their arms and outcomes, and from all rows of a unit to its report."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats, Messages
from mechanisms.counters.arms import ArmCounters
from mechanisms.counters.levels import Layout, Level
from mechanisms.randomness import RandomSource
from transforms.columns import as_floats, as_texts, plain
from transforms.encoders.bins import binned
from transforms.encoders.block import AmountBlock
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import Domain
from transforms.encoders.encoder import BATCH, Rows
from transforms.encoders.reports import UNUSABLE, Levelled

_WORDS = 1 << 20  # made at a time
_DRAWS = 1 << 64
_EARLY = (1 << 32) - 1  # in the place of an arm: a row from before the start


@dataclass(frozen=True)
class HashedArms:
    """Arms that are drawn by a hash of who a unit is, the same on every device and in every job.

    The first 8 bytes of SHA-256 of the salt, a zero byte and the id as text (an integer as its
    decimals), in UTF-8, are a number below 2^64, first byte first. Arms divide these numbers in
    their order, by their shares.

    >>> HashedArms("button-2026", (0.5, 0.5)).encode(pa.array(["ada", "bob", None])).tolist()
    [1, 0, -1]
    """

    salt: str
    shares: tuple[float, ...]
    kind: ClassVar[pa.DataType] = pa.string()

    def encode(self, ids: pa.Array) -> NDArray[np.int64]:
        """(n,) the arm of each unit; -1 of one without an id."""
        keys, first = as_texts(ids).dictionary_encode(), self.salt.encode() + b"\0"
        hashes = [hashlib.sha256(first + key.encode()) for key in keys.dictionary.to_pylist()]
        draws = [int.from_bytes(one.digest()[:8], "big") for one in hashes]
        ends = [round(_DRAWS * end) for end in accumulate(self.shares)][:-1]
        arms = np.array([sum(draw >= end for end in ends) for draw in draws] + [-1], np.int64)
        return np.asarray(arms[keys.indices.fill_null(len(draws)).to_numpy()])


class ArmOutcome(NamedTuple):
    """A column that is compared: how all rows of a unit come to one number, and its bounds.

    A "rate" is whether any of them has it; a "mean" and a "total" are of those with a number. A
    "quantile" is of averages, too, and of the units that have one.
    """

    column: str
    how: Literal["rate", "mean", "total", "quantile"]
    bounds: Bounds | None = None  # none of a rate
    levels: tuple[float, ...] = ()  # probabilities, of quantiles

    @property
    def figures(self) -> tuple[str, ...]:
        """What its rows of the table are called."""
        return tuple(f"{self.column} at {p:g}" for p in self.levels) or (self.column,)


@dataclass(frozen=True)
class ArmEncoder:
    """Each row to its arm and its numbers; rows of no declared arm count for nothing.

    Attributes:
        column: that says the arm, or who the unit is.
        arms: the declared values of the one, or the draw from the other.
        numbers: columns; booleans are 0 and 1, and what cannot be used is NaN.
        before: a column that is not 0 in rows from before the start. Of these the first of
            `numbers` alone counts, and of others all the rest.
    """

    column: str
    arms: Domain | HashedArms
    numbers: tuple[str, ...]
    before: str | None = None
    batch_size: ClassVar = BATCH
    kind: ClassVar = AmountBlock

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.column, *self.numbers, *self._early))

    @property
    def _early(self) -> tuple[str, ...]:
        return () if self.before is None else (self.before,)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.column: self.arms.kind} | dict.fromkeys(
            (*self.numbers, *self._early), pa.float64()
        )

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> AmountBlock:
        arms = rows.of(self.arms.encode(plain(batch.column(self.column))))
        numbers = rows.of(np.array([as_floats(batch.column(name)) for name in self.numbers]).T)
        usable = np.where(np.isfinite(numbers), numbers, np.nan)
        for column in self._early:
            early = np.nan_to_num(rows.of(as_floats(batch.column(column)))) != 0
            usable[early, 1:], usable[~early, 0] = np.nan, np.nan
            arms = np.where(early, _EARLY, arms)
        return AmountBlock(np.maximum(arms, 0).astype(np.uint32), usable, None, arms >= 0)


@dataclass(frozen=True)
class ArmReporting(Levelled):
    """All rows of a unit to its report.

    Attributes:
        counters: of the experiment.
        outcomes: rates, means and totals, and quantiles at last.
        edges: ascending, of the bins of a number known before, which then comes before all
            outcomes; none where there is no such number. Units without one have a bin of their own.

    >>> from mechanisms.randomness import SeededRandom
    >>> told = ArmReporting(ArmCounters(arms=2, rates=1), (ArmOutcome("bought", "rate"),))
    >>> rows = np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([[0.0], [1.0], [np.nan]])
    >>> [words] = told.words(*rows, 2, SeededRandom(0))
    >>> words["code"].tolist()  # the second arm, with the outcome; the first one, without it
    [[1, 4], [0, 6]]
    """

    counters: ArmCounters
    outcomes: tuple[ArmOutcome, ...]
    edges: tuple[float, ...] = ()
    whole = True

    @property
    def levels(self) -> tuple[Level, ...]:
        return (*self.counters.levels, *self.sides)

    @property
    def sides(self) -> tuple[Level, ...]:
        """The level beside the experiment's: of units without a number, which counts as 0."""
        return (Level(1, 1),) * bool(self.counters.numbers)

    @property
    def beside(self) -> tuple[str, ...]:
        """What that level is called."""
        return (UNUSABLE,) * bool(self.counters.numbers)

    def words(
        self, users: NDArray[np.int64] | None, groups: NDArray[np.int64], numbers: Any, n: int,
        rng: RandomSource,
    ) -> Iterator[Messages]:  # fmt: skip
        """As of `Reporting`; groups are arms, and each row has several numbers."""
        arms, values = self._of_units(np.arange(n) if users is None else users, groups, numbers, n)
        first, counters = bool(self.edges), self.counters
        bins: Any = 0
        if first:  # of NaN, one more than of the largest number
            before = values[:, 0]
            bins = np.searchsorted(self.edges, before, side="right") + np.isnan(before)
        cells = np.where(arms < 0, arms, arms * counters.bins + bins)
        ends = np.cumsum([counters.rates, counters.numbers])
        rates, own, of_trees = np.split(values[:, first:], ends, axis=1)
        missing = np.where(np.isnan(own).any(axis=1) & (arms >= 0), 0, -1)[:, None]
        bounds = [one.bounds for one in self.outcomes if one.bounds is not None]
        scaled = [one.scale(x) for one, x in zip(bounds, np.nan_to_num(own).T, strict=False)]
        table = np.array(scaled, np.float64).reshape(counters.numbers, n).T
        of_bins = zip(of_trees.T, bounds[counters.numbers :], strict=True)
        placed = [binned(x, one, counters.tree.cells) for x, one in of_bins]
        leaves = np.array(placed, np.int64).reshape(counters.columns, n).T
        leaves = np.where(np.isnan(of_trees), -1, leaves)
        layout = Layout(self.levels)
        step = max(1, _WORDS // layout.types.size)
        for start in range(0, n, step):
            part = slice(start, start + step)
            values_of = rates[part] > 0, table[part], leaves[part]
            sets, added = counters.encode(cells[part], *values_of, rng)
            yield self.reported(layout, [*sets, *[missing[part]] * len(self.sides)], added)

    def _of_units(
        self, users: NDArray[np.int64], groups: NDArray[np.int64], numbers: Floats, n: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """((n,) arms, -1 in several and -2 in none, (n, numbers) what the rows of each come to)."""
        if not n:
            return np.empty(0, np.int64), np.empty((0, numbers.shape[1]))
        order = np.argsort(users, kind="stable")
        starts = np.searchsorted(users[order], np.arange(n))
        rows, arms = numbers[order], groups[order]
        lowest = np.minimum.reduceat(arms, starts)
        highest = np.maximum.reduceat(np.where(arms == _EARLY, -1, arms), starts)
        some = np.where(lowest == _EARLY, -2, np.where(lowest == highest, lowest, -1))
        usable = ~np.isnan(rows)
        have = np.add.reduceat(usable, starts, axis=0, dtype=np.int64)
        values = np.add.reduceat(np.where(usable, rows, 0.0), starts, axis=0)
        for place, how in enumerate(["mean"] * bool(self.edges) + [x.how for x in self.outcomes]):
            if how in ("mean", "quantile"):
                values[:, place] /= np.maximum(have[:, place], 1)
            elif how == "rate":
                own = np.nan_to_num(rows[:, place]) != 0
                values[:, place] = np.logical_or.reduceat(own, starts)
        return some, np.where(have > 0, values, np.nan)
