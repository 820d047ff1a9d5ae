"""How blocks go from stage to stage: as plain arrays, weighed without a copy.

Beam pickles what has no coder of its own, and a pickle runs what it names: who could put bytes on
the way between two workers would run code on them. What is read here is data whatever it holds, of
a kind that the reader expects, and takes no more memory than its bytes.

Beam also weighs samples of what every step yields, all of the first ten, to say how many bytes went
through; what has no coder of its own is encoded for it, and then thrown away.
"""

from __future__ import annotations

import ast
import math
import struct
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from apache_beam import coders
from numpy.lib import format as npy
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=type)


# How many bytes say the layout, as `numpy.lib.format` writes it, and how many sides an array has;
# then these bytes, each side, and the rows. Pieces of one step have one layout, which is parsed
# once: in the form of a .npy file, whose header says the size too, that took longer than the rows.
_FORM = struct.Struct("<HB")
_LONGEST = 10_000  # bytes of a layout: so much numpy reads of a header, too
_SIDE = struct.calcsize("<Q")


def encoded(rows: NDArray[Any]) -> bytes:
    """An array of any fixed-width layout as bytes that say it.

    Raises:
        ValueError: it holds Python objects, or its layout is too long to write.

    >>> decoded(encoded(np.arange(3)))
    array([0, 1, 2])
    """
    layout, sides = _layout(rows.dtype), rows.shape
    head = _FORM.pack(len(layout), len(sides)) + layout + struct.pack(f"<{len(sides)}Q", *sides)
    return b"".join([head, np.ascontiguousarray(rows).data.cast("B") if rows.size else b""])


def decoded(piece: bytes) -> NDArray[Any]:
    """What `encoded` was given.

    Raises:
        ValueError: the bytes are of nothing that it writes.
    """
    rows, end = _read(piece, 0)
    if end != len(piece):
        raise ValueError("a block has more bytes than it says")
    return rows


@lru_cache(maxsize=256)
def _layout(dtype: np.dtype[Any]) -> bytes:
    """Of an array's entries, as bytes."""
    if dtype.hasobject:
        raise ValueError("an array of Python objects is no block")
    layout = repr(npy.dtype_to_descr(dtype)).encode()
    if len(layout) > _LONGEST:
        raise ValueError("an array of so many fields is no block")
    return layout


@lru_cache(maxsize=256)
def _dtype(layout: bytes) -> np.dtype[Any]:
    """What `_layout` was given."""
    if len(layout) > _LONGEST:
        raise ValueError("a block is of no layout that is written")
    try:
        dtype = npy.descr_to_dtype(ast.literal_eval(layout.decode()))
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError) as error:
        raise ValueError("a block has no layout") from error
    if dtype.hasobject or not dtype.itemsize > 0:
        raise ValueError("a block is of no layout that is written")
    return dtype


def _read(piece: bytes, start: int) -> tuple[NDArray[Any], int]:
    """The array at a place, and where it ends: none is made for what is only claimed."""
    try:
        length, several = _FORM.unpack_from(piece, start)
        sides = (start := start + _FORM.size) + length
        shape = struct.unpack_from(f"<{several}Q", piece, sides)
    except struct.error as error:
        raise ValueError("a block ends before its layout") from error
    dtype, first = _dtype(piece[start:sides]), sides + several * _SIDE
    end = first + math.prod(shape) * dtype.itemsize
    if not end <= len(piece):
        raise ValueError("a block has fewer bytes than it says")
    # A copy, for it may be written to, and at a place where numbers may stand; one of the array
    # would go field by field.
    return np.ndarray(shape, dtype, bytearray(memoryview(piece)[first:end])), end


class BlockCoder(coders.Coder):
    """Blocks of one kind, tuples of arrays, to bytes and back; None stands for an array left out.

    Args:
        kind: what is made of the arrays.

    >>> coder, block = ArrayCoder(np.ndarray), np.arange(1000)
    >>> coder.decode(coder.encode(block)).size, coder.estimate_size(block)
    (1000, 8000)
    """

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    @classmethod
    def from_type_hint(cls, kind: Any, _: object) -> BlockCoder:
        """The coder for a kind that was registered."""
        return cls(kind)

    def encode(self, block: Any) -> bytes:
        """One block, with all that it holds."""
        return b"".join(b"\0" if part is None else b"\1" + encoded(part) for part in block)

    def decode(self, piece: bytes) -> Any:
        """What `encode` was given.

        Raises:
            ValueError: the bytes are of no such block.
        """
        place, parts = 0, []
        while place < len(piece):
            present, place = piece[place] == 1, place + 1
            rows, place = _read(piece, place) if present else (None, place)
            parts.append(rows)
        try:
            return self._kind(*parts)
        except TypeError:
            raise ValueError(f"a block of {len(parts)} parts is no {self._kind.__name__}") from None

    def estimate_size(self, block: Any) -> int:
        """The bytes of its arrays."""
        return sum(int(part.nbytes) for part in block if part is not None)

    def is_deterministic(self) -> bool:
        """Blocks are no keys."""
        return False


class ArrayCoder(BlockCoder):
    """One array to bytes and back."""

    def encode(self, block: NDArray[Any]) -> bytes:
        return encoded(block)

    def decode(self, piece: bytes) -> NDArray[Any]:
        return decoded(piece)

    def estimate_size(self, block: NDArray[Any]) -> int:
        return block.nbytes


class TableCoder(BlockCoder):
    """Arrow tables to bytes and back, in Arrow's stream form, never compressed."""

    def encode(self, block: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema) as stream:
            stream.write_table(block)
        return bytes(sink.getvalue())

    def decode(self, piece: bytes) -> pa.Table:
        for message in pa.ipc.MessageReader.open_stream(piece):
            _require_plain(message)
        # Offsets that point outside of a column would be followed when it is read.
        table = pa.ipc.open_stream(piece).read_all()
        table.validate(full=True)
        return table

    def estimate_size(self, block: pa.Table) -> int:
        return int(block.nbytes)


# Where Arrow's format (Message.fbs, a FlatBuffers schema) has the fields that are looked at.
_HEADER, _DATA, _IS_DELTA, _COMPRESSION = 2, 1, 2, 3


def _require_plain(message: pa.ipc.Message) -> None:
    """Refuse what takes more memory than its bytes: batches packed, or put together of many.

    PyArrow says of a message neither, and unpacks it to whatever it claims when it is read. Its
    reader has verified that all offsets in the metadata stay inside.
    """
    if message.type == "schema":
        return
    data = message.metadata.to_pybytes()
    batch = _field(data, _followed(data, 0), _HEADER)
    if batch is not None and message.type == "dictionary":
        header = _followed(data, batch)
        if _field(data, header, _IS_DELTA) is not None:
            raise ValueError("a table's dictionary is sent in parts")
        batch = _field(data, header, _DATA)
    if batch is None or _field(data, _followed(data, batch), _COMPRESSION) is not None:
        raise ValueError("a table is compressed, or of no layout that is written")


def _followed(data: bytes, place: int) -> int:
    """Where the offset at a place leads."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a FlatBuffers table has a field; None if it leaves it out."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, fields)[0]:
        return None
    return table + offset if (offset := struct.unpack_from("<H", data, fields + entry)[0]) else None


def weighed(kind: Kind, coder: type[BlockCoder] = BlockCoder) -> Kind:
    """Register the coder for a kind of block; also a decorator of it."""
    coders.registry.register_coder(kind, coder)
    return kind
