"""Avro's container: a head that says what rows are, and blocks of rows that may be packed.

The blocks are unpacked here, for the reader of rows unpacks two of the codecs that Avro names only
where more is installed, and has no bound for what comes out.
"""

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pyarrow as pa

from transforms.files.format import Mangled

LARGEST_BLOCK = 1 << 26
"""Bytes of a block, unpacked too; writers end one after 16 KiB to a few MiB."""

_MAGIC, _SYNC = b"Obj\x01", 16
_LONGEST = 10  # bytes of a whole number
_HEAD = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC}},
    ],
}


class AvroBlock(NamedTuple):
    """A block as it is written.

    Attributes:
        rows: how many it says it has.
        packed: their bytes.
    """

    rows: int
    packed: bytes


class Container:
    """A file whose head was read.

    Attributes:
        written: the schema of its rows, as the file has it.
    """

    def __init__(self, stream: Any) -> None:
        from fastavro import schemaless_reader

        self._stream = _Careful(stream)
        head: Any = schemaless_reader(cast(Any, self._stream), _HEAD, None)
        if head["magic"] != _MAGIC:
            raise ValueError("no Avro")
        self._sync, meta = head["sync"], head["meta"]
        self.written: Any = json.loads(meta["avro.schema"])
        codec = meta.get("avro.codec", b"null").decode("ascii")
        if codec not in _CODECS:
            known = ", ".join(_CODECS)
            raise Mangled(f"its blocks are packed by another codec than {known}")
        self._unpack = _CODECS[codec]

    def blocks(self) -> Iterator[AvroBlock]:
        """All blocks, one after another."""
        while (rows := self._number()) is not None:
            size = self._number()
            if size is None or not (rows >= 0 and 0 <= size <= LARGEST_BLOCK):
                raise _too_large() if (size or 0) > LARGEST_BLOCK else ValueError("no block")
            packed = self._stream.read(size)
            if len(packed) < size or self._stream.read(_SYNC) != self._sync:
                raise EOFError
            yield AvroBlock(rows, packed)

    def head(self, schema: Any) -> bytes:
        """A file without rows.

        Args:
            schema: that it says of them.
        """
        from fastavro import schemaless_writer

        head = io.BytesIO()
        meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
        schemaless_writer(head, _HEAD, {"magic": _MAGIC, "meta": meta, "sync": self._sync})
        return head.getvalue()

    def unpacked(self, schema: Any) -> io.RawIOBase:
        """The rest of the file as one whose blocks are not packed, under such a head."""
        return _Pieces(self._pieces(self.head(schema)))

    def _pieces(self, head: bytes) -> Iterator[bytes]:
        yield head
        for rows, packed in self.blocks():
            content = self._unpack(packed)
            # A row takes a byte at the least: else a short file could say that it has any number.
            if not rows <= len(content) <= LARGEST_BLOCK:
                raise _too_large() if len(content) > LARGEST_BLOCK else EOFError
            yield _written(rows) + _written(len(content)) + content + self._sync

    def _number(self) -> int | None:
        """A whole number as Avro writes it; None where the file ends."""
        code = shift = 0
        while byte := self._stream.read(1):
            code |= (byte[0] & 0x7F) << shift
            shift += 7
            if not byte[0] & 0x80:
                return (code >> 1) ^ -(code & 1)
            if shift >= 7 * _LONGEST:
                raise ValueError("no number")
        if shift:
            raise EOFError
        return None


class _Careful:
    """A stream of which nobody asks for more than a block may hold: lengths are the file's word."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        if not 0 <= size <= LARGEST_BLOCK:
            raise EOFError
        content: bytes = self._stream.read(size)
        return content


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._left, self._at = pieces, b"", 0

    def read(self, size: int = -1) -> bytes:
        while self._at == len(self._left):
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left, self._at = piece, 0
        part = self._left[self._at : self._at + size]  # each number and each block is in one piece
        self._at += len(part)
        return part


def _written(number: int) -> bytes:
    """A whole number that is not below 0, as Avro writes it."""
    code, content = number << 1, bytearray()
    while code > 0x7F:
        content.append(code & 0x7F | 0x80)
        code >>= 7
    return bytes([*content, code])


def _too_large() -> Mangled:
    return Mangled(f"a block of its rows is larger than {LARGEST_BLOCK >> 20} MiB")


def _whole(packer: Any, content: bytes) -> bytes:
    """What a packer of Python's makes of a block, and one byte more than may come of it."""
    if not packer.eof:
        raise _too_large() if len(content) > LARGEST_BLOCK else EOFError
    return content


def _deflate(packed: bytes) -> bytes:
    packer = zlib.decompressobj(-zlib.MAX_WBITS)
    return _whole(packer, packer.decompress(packed, LARGEST_BLOCK + 1))


def _bzip2(packed: bytes) -> bytes:
    packer = bz2.BZ2Decompressor()
    return _whole(packer, packer.decompress(packed, LARGEST_BLOCK + 1))


def _xz(packed: bytes) -> bytes:
    packer = lzma.LZMADecompressor()
    return _whole(packer, packer.decompress(packed, LARGEST_BLOCK + 1))


def _zstandard(packed: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        return bytes(stream.read(LARGEST_BLOCK + 1))


def _snappy(packed: bytes) -> bytes:
    """Snappy's own form says its length first; behind it Avro has a checksum of what comes out."""
    code = shift = 0
    for byte in packed[:5]:
        code |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if code > LARGEST_BLOCK:
        raise _too_large()
    content: bytes = pa.Codec("snappy").decompress(packed[:-4], code, asbytes=True)
    if zlib.crc32(content) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("another checksum")
    return content


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
