"""What every encoder is: a pure function from a batch of rows to a block, and to rejects."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from mechanisms.randomness import RandomSource
from transforms.columns import null, plain
from transforms.encoders.block import Block, CellBlock
from transforms.encoders.users import UserDigest

NULL_USER = "null user"
NULL_VALUE = "null value"
OUTSIDE_DOMAIN = "outside the domain"

BATCH = 1 << 16  # rows encoded at a time: their columns stay in a core's cache


class Rows:
    """Which rows of a batch are used; each of the others is counted under its first reason.

    Attributes:
        kept: (n,) which rows are used, as far as is known.
        rejects: reason -> how many rows were rejected for it.
    """

    def __init__(self, size: int) -> None:
        self.kept = np.ones(size, np.bool_)
        self.rejects: Counter[str] = Counter()
        self.settle()

    def settle(self) -> None:
        """Leave out for good, and counted, what has been rejected so far."""
        self._left, self._counted = self.kept.copy(), self.rejects.copy()

    def reject(self, reason: str, rows: NDArray[np.bool_] | None) -> None:
        """Drop rows that are not dropped yet; None stands for no row."""
        # A row is counted under its first reason alone, so rejects add up to the rows that are left
        # out.
        amount = 0 if rows is None else int(np.count_nonzero(rows & self.kept))
        if rows is not None and amount:
            self.rejects[reason] += amount
            self.kept &= ~rows

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The entries of an array that belong to rows that are used."""
        return array if self.kept.all() else array[self.kept]

    def filled(self, used: NDArray[Any], instead: ArrayLike | None) -> NDArray[Any]:
        """The entries of rows that are used, and one entry for each row rejected since `settle`.

        These rows are used from here on, and counted nowhere: that would tell of single rows what
        the entry hides.

        Args:
            used: an entry for each row that is used, in their order.
            instead: the entry of the others; None leaves them out, and counted.
        """
        if instead is None:
            return used
        if np.array_equal(self.kept, self._left):  # as nearly always
            return used
        shape = (int(np.count_nonzero(self._left)), *used.shape[1:])
        entries = np.full(shape, instead, used.dtype)
        entries[self.kept[self._left]] = used
        self.kept, self.rejects = self._left.copy(), self._counted.copy()
        return entries


class Encoder(Protocol):
    """What takes rows to what a mechanism takes. Encoders are frozen dataclasses.

    Attributes:
        kind: what blocks it makes.
        batch_size: how many rows it should be given at a time, at most.
    """

    @property
    def kind(self) -> type[Any]: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def columns(self) -> frozenset[str]:
        """What is read of the log; nothing else leaves the files."""

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        """Column -> type, of values that come one a line."""

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> Block:
        """The usable rows of a batch, in their order and without users.

        Args:
            batch: n rows with the columns.
            rows: which of them are used; what cannot be is rejected there, under its reason.
            rng: draws what is random of the encoding.
        """


@dataclass(frozen=True)
class OneColumn:
    """What takes each row to a cell, by one of its columns.

    Attributes:
        column: the name of the column.
    """

    column: str
    kind: ClassVar = CellBlock
    batch_size: ClassVar = BATCH
    value_type: ClassVar[pa.DataType] = pa.string()

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.column: self.value_type}


class Encoded(NamedTuple):
    """A batch, encoded.

    Attributes:
        block: its usable rows, of the encoder's kind.
        rejects: reason -> how many rows cannot be used; each has one reason, the first.
    """

    block: Any
    rejects: Counter[str]


def encoded(
    encoder: Encoder, batch: pa.RecordBatch, users: UserDigest | None, rng: RandomSource
) -> Encoded:
    """Encode a batch, users and all.

    Args:
        encoder: of the values.
        batch: n rows with its columns, and that of the users.
        users: the privacy unit; None where that is a row.
        rng: draws what is random of the encoding.
    """
    rows, digests = Rows(batch.num_rows), None
    if users is not None:
        ids = plain(batch.column(users.column))
        rows.reject(NULL_USER, null(ids))
        rows.settle()
        digests = users(ids)
    block = encoder.encode(batch, rows, rng)
    if digests is not None:
        block = block._replace(users=rows.of(digests))
    return Encoded(block, rows.rejects)
