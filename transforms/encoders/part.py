"""Which units answer a metric, where units are divided among several: each answers one.

An encoder behind what a plan derives of rows, and what it says must hold of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from transforms.encoders.block import Block
from transforms.encoders.encoder import Encoder, Rows
from transforms.expressions.view import View

NOT_APPLICABLE = "not applicable"
DRAWN = "hushbeam: drawn"  # the column of a table that holds each row's draw
ELSEWHERE = "asked for another metric"

_WORDS = 1 << 64


@dataclass(frozen=True)
class Viewed:
    """Rows as the plan sees them, encoded.

    A row for which something does not hold that must is one without a value in the columns that are
    hidden; or it is left out, and counted; or it is marked, and counters take it for nothing.

    Attributes:
        encoder: of what the plan sees.
        view: what that is.
        hidden: the columns that such rows are without.
        leaves_out: whether they are left out.
    """

    encoder: Encoder
    view: View
    hidden: frozenset[str] = frozenset()
    leaves_out: bool = False

    @property
    def kind(self) -> type[Any]:
        return self.encoder.kind

    @property
    def batch_size(self) -> int:
        return self.encoder.batch_size

    @property
    def columns(self) -> frozenset[str]:
        return self.view.needed(self.encoder.columns)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return self.encoder.line_types

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> Block:
        seen = self.view.seen(batch, self.encoder.columns)
        if not self.view.where:
            return self.encoder.encode(seen, rows, rng)
        holds = self.view.holds(seen)
        if self.leaves_out:
            rows.reject(NOT_APPLICABLE, ~holds)
            return self.encoder.encode(seen, rows, rng)
        for column in self.hidden:
            seen = _without(seen, column, ~holds)
        block: Any = self.encoder.encode(seen, rows, rng)
        own = block.applies  # of rows that are of no group
        return block._replace(applies=rows.of(holds) if own is None else own & rows.of(holds))


def _without(batch: pa.RecordBatch, column: str, rows: NDArray[np.bool_]) -> pa.RecordBatch:
    """A batch in which some rows have no value in a column."""
    place = batch.schema.get_field_index(column)
    # Of a column of whatever type: not every kernel takes dictionaries, or lists.
    kept = pa.array(np.arange(batch.num_rows), mask=rows)
    field = batch.schema.field(place).with_nullable(True)
    return batch.set_column(place, field, batch.column(place).take(kept))


@dataclass(frozen=True)
class Part:
    """The units whose public draw, a 64-bit word, lies in a range.

    Attributes:
        first: the least word.
        last: the largest one.
        key: of the draws, public: a user's is a digest under it.

    >>> Part.of([0.5, 0.5], 0)[1].share
    0.5
    """

    first: int
    last: int
    key: int

    @classmethod
    def of(cls, shares: Sequence[float], key: int) -> "tuple[Part, ...]":
        """All units, divided in these proportions; each falls into one part.

        Args:
            shares: of each, positive.
            key: of the draws.
        """
        # By their decimals, exactly: all parties must cut at the same words.
        exact = [Fraction(repr(share)) for share in shares]
        whole = sum(exact, Fraction())
        ends = accumulate(exact, initial=Fraction())
        cuts = [math.floor(_WORDS * end / whole) for end in ends]
        return tuple(cls(low, high - 1, key) for low, high in pairwise(cuts))

    @property
    def share(self) -> float:
        """Of the units."""
        return (self.last - self.first + 1) / _WORDS

    def rows(self, table: pa.Table) -> pa.Table:
        """The rows of the units that answer.

        Args:
            table: with the column `DRAWN`, which is left out of what is returned.
        """
        draws = table.column(DRAWN).to_numpy()
        inside = (np.uint64(self.first) <= draws) & (draws <= np.uint64(self.last))
        return table.drop_columns([DRAWN]).filter(pa.array(inside))
