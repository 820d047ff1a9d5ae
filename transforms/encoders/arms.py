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
from transforms.encoders.block import AmountBlock
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import Domain
from transforms.encoders.encoder import BATCH, Rows
from transforms.encoders.reports import UNUSABLE, Levelled

_WORDS = 1 << 20  # made at a time
_DRAWS = 1 << 64


@dataclass(frozen=True)
class HashedArms:
    """Arms that are drawn by a hash of who a unit is, the same on every device and in every job.

    The first 8 bytes of SHA-256 of the salt, a zero byte and the id as text (an integer as its
    decimals), in UTF-8, are a number below 2^64, first byte first. Arms divide these numbers in
    their order, by their shares.

    Attributes:
        salt: public, and of this experiment alone: equal salts draw equal arms.
        shares: of all units, of each arm.

    >>> HashedArms("button-2026", (0.5, 0.5)).encode(pa.array(["ada", "bob", None])).tolist()
    [1, 0, -1]
    """

    salt: str
    shares: tuple[float, ...]
    kind: ClassVar[pa.DataType] = pa.string()

    def encode(self, ids: pa.Array) -> NDArray[np.int64]:
        """(n,) the arm of each unit; -1 of one without an id."""
        keys, first = as_texts(ids).dictionary_encode(), self.salt.encode() + b"\0"
        ends = [round(_DRAWS * end) for end in accumulate(self.shares)][:-1]
        hashes = (hashlib.sha256(first + key.encode()) for key in keys.dictionary.to_pylist())
        draws = [int.from_bytes(one.digest()[:8], "big") for one in hashes]
        arms = np.array([sum(draw >= end for end in ends) for draw in draws] + [-1], np.int64)
        return np.asarray(arms[keys.indices.fill_null(len(draws)).to_numpy()])


class Outcome(NamedTuple):
    """What is compared between arms.

    Attributes:
        column: its name.
        how: of all rows of a unit: a "rate" is whether any of them has it; a "mean" or a "total" is
            of those that have a number.
        bounds: of the unit's number; None of a rate.
    """

    column: str
    how: Literal["rate", "mean", "total"]
    bounds: Bounds | None = None


@dataclass(frozen=True)
class ArmEncoder:
    """Each row to its arm and its numbers; rows of no declared arm count for nothing.

    Attributes:
        column: that says the arm, or who the unit is.
        arms: the declared values of the one, or the draw from the other.
        numbers: columns; booleans are 0 and 1, and what cannot be used is NaN.
    """

    column: str
    arms: Domain | HashedArms
    numbers: tuple[str, ...]
    batch_size: ClassVar = BATCH
    kind: ClassVar = AmountBlock

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.column, *self.numbers))

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.column: self.arms.kind} | dict.fromkeys(self.numbers, pa.float64())

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> AmountBlock:
        arms = self.arms.encode(plain(batch.column(self.column)))
        numbers = np.array([as_floats(batch.column(name)) for name in self.numbers]).T
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        arms, numbers = rows.of(arms), rows.of(numbers)
        return AmountBlock(np.maximum(arms, 0).astype(np.uint32), numbers, None, arms >= 0)


@dataclass(frozen=True)
class ArmReporting(Levelled):
    """All rows of a unit to its report.

    Attributes:
        counters: of the experiment.
        outcomes: rates first.
        edges: ascending, of the bins of a number known before, which then comes before all
            outcomes; none where there is no such number. Units without one have a bin of their own.

    >>> from mechanisms.randomness import SeededRandom
    >>> told = ArmReporting(ArmCounters(arms=2, rates=1), (Outcome("bought", "rate"),))
    >>> rows = np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([[0.0], [1.0], [np.nan]])
    >>> [words] = told.words(*rows, 2, SeededRandom(0))
    >>> words["code"].tolist()  # the second arm, with the outcome; the first one, without it
    [[1, 4], [0, 6]]
    """

    counters: ArmCounters
    outcomes: tuple[Outcome, ...]
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
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Any,
        n: int,
        rng: RandomSource,
    ) -> Iterator[Messages]:
        """As of `Reporting`; groups are arms, and each row has several numbers."""
        arms, values = self._of_units(np.arange(n) if users is None else users, groups, numbers, n)
        first = bool(self.edges)
        bins = np.searchsorted(self.edges, values[:, 0], side="right") if first else 0
        if first:  # NaN is sorted behind all numbers
            bins = bins + np.isnan(values[:, 0])
        cells = np.where(arms < 0, -1, arms * self.counters.bins + bins)
        rates, own = np.split(values[:, first:], [self.counters.rates], axis=1)
        missing = np.where(np.isnan(own).any(axis=1) & (arms >= 0), 0, -1)[:, None]
        scaled = [
            outcome.bounds.scale(np.nan_to_num(own[:, place]))
            for place, outcome in enumerate(self.outcomes[self.counters.rates :])
            if outcome.bounds is not None
        ]
        table = np.array(scaled, np.float64).reshape(len(scaled), n).T
        layout = Layout(self.levels)
        step = max(1, _WORDS // layout.types.size)
        for start in range(0, n, step):
            part = slice(start, start + step)
            known = cells[part], rates[part] > 0, table[part], rng
            sets, added = self.counters.encode(*known)
            yield self.reported(layout, [*sets, *[missing[part]] * bool(self.beside)], added)

    def _of_units(
        self, users: NDArray[np.int64], groups: NDArray[np.int64], numbers: Floats, n: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """((n,) arms, -1 of units in several, (n, numbers) what the rows of each come to)."""
        if not n:
            return np.empty(0, np.int64), np.empty((0, numbers.shape[1]))
        order = np.argsort(users, kind="stable")
        starts = np.searchsorted(users[order], np.arange(n))
        rows, arms = numbers[order], groups[order]
        lowest, highest = (of.reduceat(arms, starts) for of in (np.minimum, np.maximum))
        usable = ~np.isnan(rows)
        have = np.add.reduceat(usable, starts, axis=0, dtype=np.int64)
        sums = np.add.reduceat(np.where(usable, rows, 0.0), starts, axis=0)
        values = np.where(have > 0, sums / np.maximum(have, 1), np.nan)
        for place, outcome in enumerate(self.outcomes, bool(self.edges)):
            if outcome.how == "total":
                values[:, place] = np.where(have[:, place] > 0, sums[:, place], np.nan)
            elif outcome.how == "rate":
                found = np.nan_to_num(rows[:, place]) != 0
                values[:, place] = np.logical_or.reduceat(found, starts)
        return np.where(lowest == highest, lowest, -1), values
