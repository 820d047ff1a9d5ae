"""From rows of several columns to blocks of numbers in [-1, 1] and of categories."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from mechanisms.vector.rows import shortened
from transforms.columns import as_floats, plain
from transforms.encoders.attributes import (
    Attribute,
    Number,
    NumberList,
    Spans,
    categorical,
    numeric,
    width,
)
from transforms.encoders.block import RowBlock
from transforms.encoders.bounds import scaled
from transforms.encoders.encoder import BATCH, NULL_VALUE, OUTSIDE_DOMAIN, Rows
from transforms.encoders.numbers import INFINITE, NOT_A_NUMBER

WRONG_LENGTH = "list of another length"

_TOGETHER = 16  # columns: their numbers stay in a core's cache, and fill a line of it in a row
_NUMBERS = 1 << 21  # of rows encoded at a time, where all are copied: few megabytes


class Absence(NamedTuple):
    """What stands in the place of a value that cannot be used.

    Attributes:
        hides: whether that is a cell of its own.
        fill: the number in its place, or None; without either, the row is left out and counted.
    """

    hides: bool = False
    fill: float | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether nothing does."""
        return not self.hides and self.fill is None

    def filled(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers, those that cannot be used (NaN) replaced if that was asked for."""
        return numbers if self.fill is None else np.where(np.isnan(numbers), self.fill, numbers)


LEFT_OUT, HIDDEN = Absence(), Absence(hides=True)


@dataclass(frozen=True)
class RowEncoder:
    """Each row to all its numbers, scaled, and all its categories; nothing is drawn.

    A row is used as a whole or not at all, unless something stands in the place of what it lacks.

    Attributes:
        attributes: what a row consists of.
        radius: rows that measure more, once they are scaled to [-1, 1], are shortened to it; None
            leaves all as they are. How many there are is noted and not published: like the number
            of clipped values it would tell of single rows.
        absence: what that is.
    """

    attributes: tuple[Attribute, ...]
    radius: float | None = None
    absence: Absence = LEFT_OUT
    kind: ClassVar = RowBlock

    @property
    def batch_size(self) -> int:
        numbers = width(self.attributes)
        # Categories alone are looked up, and little else: a call costs more.
        return max(1, min(BATCH, _NUMBERS // numbers)) if numbers else 4 * BATCH

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.attributes)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return types_of(self.attributes)

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> RowBlock:
        numbers = np.empty((batch.num_rows, width(self.attributes)), np.float32)
        if not self._fill(numbers, batch):
            self._fill_parts(numbers, batch, rows)
        categories = self._categories(batch, rows)
        return RowBlock(self._within(rows.of(numbers)), rows.of(categories), None)

    def _fill(self, numbers: NDArray[np.float32], batch: pa.RecordBatch) -> bool:
        """Scale columns of one number a row, several at a time; False where some cannot be used.

        Of 400 columns each alone took four times as long, most of it between two calls.
        """
        parts = numeric(self.attributes)
        if not all(isinstance(part, Number) for part in parts):
            return False
        for start in range(0, len(parts), _TOGETHER):
            some = parts[start : start + _TOGETHER]
            values = np.stack([as_floats(batch.column(part.column)) for part in some])
            if not _all_finite(values):  # nulls are NaN
                return False
            bounds = {part.bounds for part in some}  # mostly the same, which takes half the time
            low, high = bounds.pop() if len(bounds) == 1 else _columns(some)
            numbers[:, start : start + len(some)] = scaled(values, low, high).T
        return True

    def _fill_parts(self, numbers: NDArray[np.float32], batch: pa.RecordBatch, rows: Rows) -> None:
        """The same of any columns, one at a time; rows that cannot be used are rejected."""
        for start, attribute, spans in read_numbers(self.attributes, batch, rows, self.absence):
            dense = _dense(spans, attribute.width)
            if not (self.absence.leaves_out or _all_usable(spans, attribute)):
                dense = self.absence.filled(np.where(_unusable(spans, attribute), np.nan, dense))
            numbers[:, start : start + attribute.width] = attribute.bounds.scale(dense)

    def _categories(self, batch: pa.RecordBatch, rows: Rows) -> NDArray[np.int32]:
        """(n, c) the indices of each category, or below 0 in rejected rows."""
        columns = categorical(self.attributes)
        categories = np.empty((batch.num_rows, len(columns)), np.int32)
        for index, attribute in enumerate(columns):
            indices = attribute.domain.encode(plain(batch.column(attribute.column)))
            if self.absence.hides:
                indices = np.where(indices < 0, attribute.size, indices)  # or the column's own
            rows.reject(NULL_VALUE, indices == -1)
            rows.reject(OUTSIDE_DOMAIN, indices == -2)
            categories[:, index] = indices
        return categories

    def _within(self, numbers: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Rows, the long ones shortened."""
        if self.radius is None:
            return numbers
        # Doubles from here on: rounded to floats, a row may be longer than the radius again.
        exact = numbers.astype(np.float64)
        return shortened(exact, self.radius)


def _columns(parts: Sequence[Number | NumberList]) -> NDArray[np.float64]:
    """(2, parts, 1) their lower bounds, and their upper ones."""
    return np.array([part.bounds for part in parts]).T[:, :, None]


def columns_of(attributes: tuple[Attribute, ...]) -> frozenset[str]:
    """The columns of which rows consist."""
    return frozenset(attribute.column for attribute in attributes)


def types_of(attributes: tuple[Attribute, ...]) -> dict[str, pa.DataType]:
    """Their types, of values that come one a line."""
    return {part.column: part.kind for part in attributes}


def read_numbers(
    attributes: tuple[Attribute, ...], batch: pa.RecordBatch, rows: Rows, absence: Absence
) -> Iterator[tuple[int, Number | NumberList, Spans]]:
    """Each numeric attribute: where its numbers begin in a row, itself, and what it holds.

    Rows with holes are rejected on the way, whether or not the hole would have been reported, where
    nothing stands in the place of what they lack. One attribute at a time is in memory.
    """
    start = 0
    for attribute in numeric(attributes):
        spans = attribute.spans(batch.column(attribute.column))
        if absence.leaves_out:
            _reject(spans, attribute, rows)
        yield start, attribute, spans
        start += attribute.width


def _reject(spans: Spans, attribute: Number | NumberList, rows: Rows) -> None:
    """Count the rows that cannot be used for what they hold in one attribute."""
    rows.reject(NULL_VALUE, spans.missing)
    if not (spans.lengths == attribute.width).all():
        rows.reject(WRONG_LENGTH, spans.lengths != attribute.width)
    if spans.holes is not None:
        rows.reject(NULL_VALUE, _holding(spans, spans.holes))
    if not _all_finite(spans.values):
        rows.reject(NOT_A_NUMBER, _holding(spans, np.isnan(spans.values)))
        rows.reject(INFINITE, _holding(spans, np.isinf(spans.values)))


def _all_usable(spans: Spans, attribute: Number | NumberList) -> bool:
    """Whether surely every number of every row can be used, as of most columns."""
    whole = spans.missing is None and spans.holes is None and _all_finite(spans.values)
    return whole and bool((spans.lengths == attribute.width).all())


def _unusable(spans: Spans, attribute: Number | NumberList) -> NDArray[np.bool_]:
    """(n, width) which numbers of rows cannot be used; of a list of another length none can."""
    places = spans.starts[:, None] + np.arange(attribute.width)
    return unusable_at(spans, attribute, np.arange(len(spans.starts))[:, None], places)


def unusable_at(
    spans: Spans,
    attribute: Number | NumberList,
    rows: NDArray[np.int64],
    indices: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which numbers cannot be used.

    Args:
        spans: rows of numbers.
        attribute: what they are.
        rows: whose numbers, of a shape that goes with `indices`.
        indices: into `spans.values`, of any shape.
    """
    bad = spans.lengths != attribute.width
    if spans.missing is not None:
        bad = bad | spans.missing
    unusable = np.broadcast_to(bad[rows], indices.shape).copy()
    if spans.values.size:
        # Of rows of another length any number is looked at, and none is used.
        inside = np.minimum(indices, spans.values.size - 1)
        if spans.holes is not None:
            unusable |= spans.holes[inside]
        if not _all_finite(spans.values):
            unusable |= ~np.isfinite(spans.values[inside])
    return unusable


def _all_finite(values: NDArray[Any]) -> bool:
    """Whether all numbers surely are finite: their sum is, and most columns need no more."""
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.sum(values, dtype=np.float64)))


def _holding(spans: Spans, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n,) which rows hold a marked number."""
    before = np.concatenate([[0], np.cumsum(marked)])
    return np.asarray(before[spans.starts + spans.lengths] > before[spans.starts])


def _dense(spans: Spans, size: int) -> NDArray[np.float64]:
    """(n, size) the numbers of all rows; of rows of another length, any."""
    n = len(spans.starts)
    if spans.values.size == n * size and (spans.lengths == size).all():
        return spans.values.reshape(n, size).astype(np.float64)
    return looked_up(spans, spans.starts[:, None] + np.arange(size))


def looked_up(spans: Spans, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """The numbers at some indices, any number beyond the last one: of rows that were rejected.

    Args:
        spans: rows of numbers.
        indices: into `spans.values`, of any shape.
    """
    if not spans.values.size:
        return np.zeros(indices.shape)
    return spans.values[np.minimum(indices, spans.values.size - 1)].astype(np.float64)
