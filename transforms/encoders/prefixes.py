"""From strings that nobody declared to cells: the prefix that a user's group looks at, hashed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.heavy_hitters.counted import CountedSearch
from mechanisms.heavy_hitters.prefix_code import Codes
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.randomness import RandomSource
from transforms.columns import bytes_of, is_integer, is_text
from transforms.encoders.block import CellBlock, PooledBlock
from transforms.encoders.encoder import OneColumn, Rows
from transforms.encoders.strings import in_block, vocabulary

OUTSIDE_ALPHABET = "outside the alphabet"


def accepts(column: pa.DataType) -> bool:
    """Whether a column holds strings, or integers, which are taken as their decimal digits."""
    return is_integer(column) or is_text(column)


@dataclass(frozen=True)
class PrefixEncoder(OneColumn):
    """Each string to the bucket of the prefix that a group, drawn for it, looks at.

    The group is drawn without a look at the value; from here on a string is a bucket. That a
    string was cut is not counted: the cut string is used, and how many there are would be one more
    number about the population that no noise protects.

    Attributes:
        column: the name of the column.
        protocol: what users run; of a search by counters, all lengths are looked at.
        instead: (positions,) the code in the place of what is no string of the alphabet, or None to
            leave that out, and counted.
        pools: whether equal strings of a batch are there once, which a search by counters counts.
    """

    protocol: Protocol | CountedSearch
    instead: Codes | None = field(default=None, compare=False)
    pools: bool = False

    @property
    def kind(self) -> type[Any]:  # type: ignore[override]
        return PooledBlock if self.pools else CellBlock

    def encode(
        self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource
    ) -> CellBlock | PooledBlock:
        texts, places = vocabulary(batch.column(self.column), rows)
        codes, inside = codes_of(self.protocol, texts)
        strange = rows.kept.copy()
        strange[strange] = ~inside[places]
        rows.reject(OUTSIDE_ALPHABET, strange)
        places = places[inside[places]]
        if self.instead is not None:
            places = rows.filled(places, len(codes))
            codes = np.concatenate([codes, self.instead[None]])
        if isinstance(self.protocol, CountedSearch):  # which draws nothing
            return in_block(self.protocol.cells(codes, rng), places, self.pools)
        return CellBlock(self.protocol.cells(codes[places], rng), None)


def codes_of(
    protocol: Protocol | CountedSearch, texts: pa.Array
) -> tuple[Codes, NDArray[np.bool_]]:
    """The codes of a column of large strings without nulls, and which of them mean something."""
    return protocol.code.encode_bytes(*bytes_of(texts))
