"""From rows of several columns to blocks of numbers in [-1, 1] and of categories."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from numpy.typing import NDArray

from transforms.attributes import (
    Attribute,
    Number,
    NumberList,
    Spans,
    categorical,
    numeric,
    width,
)
from transforms.block_coders import weighed
from transforms.encode import NULL_USER, NULL_VALUE, OUTSIDE_DOMAIN, _plain
from transforms.encode_numbers import INFINITE, NOT_A_NUMBER, _null, _Rows
from transforms.progress import tally
from transforms.users import UserDigest

WRONG_LENGTH = "list of another length"

_BLOCK = 1 << 16  # rows encoded at a time
_NUMBERS = 1 << 22  # of them, where all are copied


@weighed
class RowBlock(NamedTuple):
    """Usable rows, encoded.

    Attributes:
        numbers: (n, w) float32 in [-1, 1]: all numbers side by side, in declared order.
        categories: (n, c) int32 indices into the domains.
        users: (n,) uint64 digests of the privacy unit, or None where each row is its own unit.
    """

    numbers: NDArray[np.float32]
    categories: NDArray[np.int32]
    users: NDArray[np.uint64] | None


class ReadRowsDoFn(beam.DoFn):
    """Looks at every attribute of every row; what is kept of them is up to the subclass.

    A row is used as a whole or not at all: one that lacks a number is counted under its first
    reason, also where that number would not have been reported. The output tagged `TALLIES` holds
    (name, count) pairs; neither a value nor a user ever reaches them.
    """

    TALLIES = "tallies"

    def __init__(
        self, attributes: tuple[Attribute, ...], users: UserDigest | None, block: int = _BLOCK
    ) -> None:
        self._numeric, self._categorical = numeric(attributes), categorical(attributes)
        self._width, self._users, self._block = width(attributes), users, block

    def process(self, table: pa.Table) -> Iterator[Any]:
        counted: Counter[str] = Counter()
        for batch in table.to_batches(max_chunksize=self._block):
            rows = _Rows(batch.num_rows, counted)
            users = self._digests(batch, rows)
            taken = self.take(batch, rows)
            if rows.kept.all():
                yield self.block(taken, users)
            elif rows.kept.any():
                kept = tuple(each[rows.kept] for each in taken)
                yield self.block(kept, None if users is None else users[rows.kept])
        for name, amount in counted.items():
            tally(name, amount)
            yield beam.pvalue.TaggedOutput(self.TALLIES, (name, amount))

    @abstractmethod
    def take(self, batch: pa.RecordBatch, rows: _Rows) -> tuple[NDArray[Any], ...]:
        """What is needed of a batch, as arrays; of rejected rows they may hold anything."""

    @abstractmethod
    def block(self, taken: tuple[NDArray[Any], ...], users: NDArray[np.uint64] | None) -> Any:
        """One or more usable rows of what was taken, as the element that goes on."""

    def numbers(self, batch: pa.RecordBatch, rows: _Rows) -> Iterator[tuple[int, Any, Spans]]:
        """Each numeric attribute: where its numbers begin in a row, itself, and what it holds.

        Rows with holes are rejected on the way. One attribute at a time is in memory.
        """
        at = 0
        for attribute in self._numeric:
            spans = attribute.spans(batch.column(attribute.column))
            _reject(spans, attribute, rows)
            yield at, attribute, spans
            at += attribute.width

    def categories(self, batch: pa.RecordBatch, rows: _Rows) -> Iterator[NDArray[np.int64]]:
        """(n,) the indices of each category, or below 0 in rejected rows."""
        for attribute in self._categorical:
            indices = attribute.domain.encode(_plain(batch.column(attribute.column)))
            rows.reject(NULL_VALUE, indices == -1)
            rows.reject(OUTSIDE_DOMAIN, indices == -2)
            yield indices

    def _digests(self, batch: pa.RecordBatch, rows: _Rows) -> NDArray[np.uint64] | None:
        """(n,) users, if they are protected."""
        if self._users is None:
            return None
        ids = _plain(batch.column(self._users.column))
        if ids.null_count:
            rows.reject(NULL_USER, _null(ids))
        return self._users(ids)


@typehints.with_input_types(pa.Table)
@typehints.with_output_types(RowBlock)
class EncodeRowsDoFn(ReadRowsDoFn):
    """Tables to `RowBlock`s, with all that is in them.

    Args:
        attributes: what a row consists of.
        users: the privacy unit, or None.
    """

    def __init__(self, attributes: tuple[Attribute, ...], users: UserDigest | None) -> None:
        fitting = max(1, min(_BLOCK, _NUMBERS // max(1, width(attributes))))
        super().__init__(attributes, users, fitting)

    def take(self, batch: pa.RecordBatch, rows: _Rows) -> tuple[NDArray[Any], ...]:
        n = batch.num_rows
        numbers = np.empty((n, self._width), np.float32)
        for at, attribute, spans in self.numbers(batch, rows):
            scaled = attribute.bounds.scale(_dense(spans, attribute.width))
            numbers[:, at : at + attribute.width] = scaled
        categories = np.empty((n, len(self._categorical)), np.int32)
        for place, indices in enumerate(self.categories(batch, rows)):
            categories[:, place] = indices
        return numbers, categories

    def block(self, taken: tuple[NDArray[Any], ...], users: NDArray[np.uint64] | None) -> RowBlock:
        return RowBlock(taken[0], taken[1], users)


def _reject(spans: Spans, attribute: Number | NumberList, rows: _Rows) -> None:
    """Count the rows that cannot be used for what they hold in one attribute."""
    if spans.missing is not None:
        rows.reject(NULL_VALUE, spans.missing)
    if not (spans.lengths == attribute.width).all():
        rows.reject(WRONG_LENGTH, spans.lengths != attribute.width)
    if spans.holes is not None:
        rows.reject(NULL_VALUE, _holding(spans, spans.holes))
    if not _all_finite(spans.values):
        rows.reject(NOT_A_NUMBER, _holding(spans, np.isnan(spans.values)))
        rows.reject(INFINITE, _holding(spans, np.isinf(spans.values)))


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


def looked_up(spans: Spans, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """The numbers at some places, any number for places that do not exist: rows that were rejected.

    Args:
        spans: rows of numbers.
        places: indices into `spans.values`, of any shape.
    """
    if not spans.values.size:
        return np.zeros(places.shape)
    return spans.values[np.minimum(places, spans.values.size - 1)].astype(np.float64)
