"""From strings that nobody declared to cells: the prefix that a user's group looks at, hashed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.heavy_hitters.prefix_code import Codes
from mechanisms.heavy_hitters.protocol import Protocol
from transforms.blocks import Generator
from transforms.encode import NULL_USER, NULL_VALUE, CellBlock, _plain
from transforms.progress import ROWS, tally
from transforms.users import UserDigest

OUTSIDE_ALPHABET = "outside the alphabet"

_BLOCK = 1 << 16  # rows encoded at a time
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def accepts(column: pa.DataType) -> bool:
    """Whether a column holds strings, or integers, which are taken as their decimal digits."""
    if pa.types.is_dictionary(column):
        return accepts(column.value_type)
    return bool(pa.types.is_integer(column)) or any(test(column) for test in _TEXT)


@typehints.with_input_types(pa.Table)
@typehints.with_output_types(CellBlock)
class EncodePrefixesDoFn(beam.DoFn):
    """Tables to blocks of cells; rows that cannot be used are counted under their reason.

    Here each row's group is drawn, without a look at its value, and the prefix that the group
    looks at is hashed; from here on a string is a bucket. Neither a value nor a user ever reaches
    the tallies. That a string was cut is not counted: the cut string is used, and how many there
    are would be one more number about the population that no noise protects.
    """

    TALLIES = "tallies"

    def __init__(
        self, column: str, protocol: Protocol, users: UserDigest | None, open_rng: Generator
    ) -> None:
        self._column, self._protocol, self._users = column, protocol, users
        self._open_rng = open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, table: pa.Table) -> Iterator[CellBlock | beam.pvalue.TaggedOutput]:
        counted: Counter[str] = Counter()
        for batch in table.to_batches(max_chunksize=_BLOCK):
            block = self._encode(batch, counted)
            if block.cells.size:
                yield block
        for name, amount in counted.items():
            if amount:
                tally(name, amount)
                yield beam.pvalue.TaggedOutput(self.TALLIES, (name, amount))

    def _encode(self, batch: pa.RecordBatch, counted: Counter[str]) -> CellBlock:
        """One batch; every row that is left out has one reason, the first of these."""
        column = batch.column(self._column)
        digests, usable = None, np.ones(len(column), np.bool_)
        counted[ROWS] += len(column)
        if self._users is not None:
            ids = _plain(batch.column(self._users.column))
            digests, usable = self._users(ids), _present(ids)
            counted[NULL_USER] += int(np.count_nonzero(~usable))
        texts = _texts(column)
        present = _present(texts)
        counted[NULL_VALUE] += int(np.count_nonzero(usable & ~present))
        usable &= present
        codes, inside = encoded(self._protocol, texts.filter(pa.array(usable)))
        counted[OUTSIDE_ALPHABET] += int(np.count_nonzero(~inside))
        usable[usable] = inside
        cells = self._protocol.cells(codes[inside], self._rng)
        return CellBlock(cells, None if digests is None else digests[usable])


def encoded(protocol: Protocol, texts: pa.Array) -> tuple[Codes, NDArray[np.bool_]]:
    """The codes of a column of large strings without nulls, and which of them mean something."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return protocol.code.encode_bytes(held, ends)


def _texts(column: pa.Array) -> pa.Array:
    """The column as large strings, integers as their decimal digits."""
    column = _plain(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_string())


def _present(column: pa.Array) -> NDArray[np.bool_]:
    """(n,) which entries are not null."""
    return column.is_valid().to_numpy(zero_copy_only=False)
