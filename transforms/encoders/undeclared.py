"""From rows to groups that nobody declared: texts as words, and what units add to each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.counters.amounts import WholeAmounts
from mechanisms.counters.contributions import Contributions, pairs
from mechanisms.heavy_hitters.crowds import MOST
from mechanisms.heavy_hitters.group_selection import GroupSelection
from mechanisms.randomness import RandomSource
from mechanisms.wire.strings import NULL
from transforms.columns import as_texts, is_integer, is_text, null, value_type
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import Clip, in_units
from transforms.encoders.strings import Words, distinct, texts_of, width_of, words_of

NUMBER = 2  # words of a number of 64 bits


class Undeclared(NamedTuple):
    """What stands in place of a domain where nobody declared one: as many as a unit may have."""

    size: int = MOST


UNDECLARED = Undeclared()


def is_group(column: pa.DataType) -> bool:
    """Whether values of a column can be told apart as groups: text, integers, dates, truths."""
    kind = value_type(column)
    others = pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)
    return bool(others or is_integer(kind) or is_text(kind))


@dataclass(frozen=True)
class UndeclaredGroups(GroupEncoder):
    """Each row to the words of its group, of one column or several side by side.

    A value that is missing is one like any other.

    Attributes:
        by: the columns.
        most: bytes of a value that are looked at, as of `StringEncoder`.

    >>> from mechanisms.randomness import SeededRandom
    >>> from transforms.encoders.encoder import Rows
    >>> encoder = UndeclaredGroups(by=("city",), most=8)
    >>> batch = pa.record_batch({"city": ["Oslo", None]})
    >>> words = encoder.encode(batch, Rows(2), SeededRandom(0)).cells
    >>> encoder.labels(words)
    [['Oslo', None]]
    """

    by: tuple[str, ...] = ()
    most: int = 64

    @property
    def columns(self) -> frozenset[str]:
        return super().columns | {*self.by}

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return super().line_types | dict.fromkeys(self.by, pa.string())

    @property
    def width(self) -> int:
        """Words of a group."""
        return len(self.by) * width_of(self.most)

    def _groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        parts = []
        for column in self.by:
            texts = as_texts(batch.column(column))
            words = words_of(texts.fill_null(""), self.most)
            if (none := null(texts)) is not None:
                words[none, 0] = NULL
            parts.append(words)
        return np.concatenate(parts, axis=1)

    def labels(self, words: Words) -> list[list[str | None]]:
        """For each column the values of some groups; None where they are missing, cut ones as a…"""
        values = []
        for part in np.split(words, len(self.by), axis=1):
            there = part[:, 0] != NULL
            texts, whole = texts_of(np.where(there[:, None], part, 0).astype(np.uint32))
            shown = [t if one else f"{t}…" for t, one in zip(texts, whole, strict=True)]
            values.append([text if one else None for text, one in zip(shown, there, strict=True)])
        return values


@dataclass(frozen=True)
class GroupSums:
    """What units add to the groups that they have.

    Attributes:
        design: how many of them count, and what they weigh.
        amounts: of totals, if there are any.
        clip, averaged, rows: as of `Reporting`.
    """

    design: GroupSelection
    amounts: WholeAmounts | None = None
    clip: Clip | None = None
    averaged: bool = False
    rows: int | None = None
    beside = sides = ()

    @property
    def numbers(self) -> int:
        """How many there are of a group: rows of tables, the weight, and its totals."""
        return 2 + len(self.amounts.levels if self.amounts else ())

    def table(
        self,
        users: NDArray[np.int64],
        cells: Words,
        numbers: Floats | None,
        n: int,
        rng: RandomSource,
    ) -> Words:
        """The groups of some units: their words, and their numbers as words.

        Args:
            users: (rows,) 0 .. n - 1.
            cells: (rows, w)
            numbers: (rows,) NaN where one cannot be used; None where rows are counted.
            n: how many units there are.
            rng: draws the groups that count, and roundings.
        """
        if numbers is not None:
            usable = ~np.isnan(numbers)
            users, cells, numbers = users[usable], cells[usable], numbers[usable]
        first, kinds = distinct(cells)
        users, kinds, sums = self._bounded(users, kinds, numbers, n, rng)
        added = [np.zeros(users.size, np.int64), self._weights(users, kinds, n)]
        if self.amounts is not None:
            units = np.minimum(sums, self.amounts.most)
            if self.clip is not None:
                units = in_units(self.clip, kinds[:, None], sums[:, None], rng)[0][:, 0]
            added += self.amounts.added(units.astype(np.int64))
        rows = np.concatenate([cells[first][kinds], as_words(added)], axis=1)
        table = summed(rows, self.numbers)
        table[:, -NUMBER * self.numbers] = 1  # so that a lost one is missed
        return table

    def _bounded(
        self, users: NDArray[np.int64], kinds: NDArray[np.int64], numbers: Floats | None, n: int,
        rng: RandomSource,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:  # fmt: skip
        """What counts: of whom, of which group, how much."""
        if self.rows is None:
            own = pairs(users, kinds, n, self.design.most_groups, rng, numbers)
            averages = own.amounts / np.maximum(own.rows, 1)
            return own.users, own.groups, averages if self.averaged else own.amounts
        drawn = Contributions.drawn(users, kinds, n, self.rows, rng, numbers)
        where = np.nonzero(drawn.groups >= 0)
        return where[0], drawn.groups[where], drawn.amounts[where]

    def _weights(
        self, users: NDArray[np.int64], kinds: NDArray[np.int64], n: int
    ) -> NDArray[np.int64]:
        """The weight of each unit in each of its groups, once, by how many these are."""
        weights = np.zeros(users.size, np.int64)
        first = np.unique(users * (kinds.max(initial=0) + 1) + kinds, return_index=True)[1]
        have = np.bincount(users[first], minlength=n)
        weights[first] = self.design.weights(have[users[first]])
        return weights


def as_words(numbers: Sequence[NDArray[np.int64]]) -> Words:
    """(n, 2 k) words of k columns of n numbers."""
    columns = np.stack([np.asarray(one, np.int64) for one in numbers], axis=1)
    return columns.view(np.uint32)


def as_numbers(words: Words, numbers: int) -> NDArray[np.int64]:
    """(n, k) the numbers at the end of some rows."""
    return np.ascontiguousarray(words[:, -NUMBER * numbers :]).view(np.int64)


def summed(words: Words, numbers: int) -> Words:
    """Rows of one group as one: so many numbers at their end added up."""
    groups = words[:, : -NUMBER * numbers]
    first, places = distinct(groups)
    sums = np.zeros((first.size, numbers), np.int64)
    np.add.at(sums, places, as_numbers(words, numbers))
    return np.concatenate([groups[first], as_words([*sums.T])], axis=1)
