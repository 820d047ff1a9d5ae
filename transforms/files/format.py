"""What a format of files is, and how a file of it is opened."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from transforms.files.reading import Reading
from transforms.files.recoding import Recoded
from transforms.files.systems import UNCOMPRESSED, FileSystems

Opener = Callable[[], AbstractContextManager[Any]]
"""Opens a file at its beginning, unpacked; formats of text read it once from there to its end."""

PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Ending -> Arrow's name of what unpacks it."""

# Of what is packed: gzip makes no more than 1,032 bytes of one, and no log that people keep is as
# long as this and repeats itself so often. A megabyte of zstd could otherwise keep a core for days.
_MOST, _TIMES = 1 << 32, 1200

MANGLED = "empty, cut off, or another format"
CUT_OFF = "cut off, damaged, or of a kind that its reader does not read"


class FileFacts(NamedTuple):
    """What is known of a file without its rows.

    Attributes:
        rows: how many there are.
        schema: its columns.
    """

    rows: int
    schema: pa.Schema


class Format(Protocol):
    """A format of files. What it raises is caught by `source`, and its words reach nobody.

    Attributes:
        name: for people.
        endings: of files' names.
        text: whether it is read from the beginning to the end: such files may be packed, say
            nothing of types, and do not show whether they are whole.
    """

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    text: ClassVar[bool]

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        """Rows and columns; of text, all of it is read."""

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        """Some rows at a time.

        Args:
            open_file: opens the file.
            columns: at least one, which the file has.
            reading: of text.
        """


class Mangled(Exception):
    """A file that is not of its format, in words of our own."""


def opener(path: str, codec: str | None, encoding: str = "") -> Opener:
    """What opens a file.

    Args:
        path: local, or on a file system that Beam knows.
        codec: Arrow's name of what unpacks it, or None.
        encoding: of a text, which is read as UTF-8; empty if it is UTF-8 or no text.
    """

    @contextmanager
    def open_file() -> Iterator[Any]:
        # Beam would undo a compression by the name, and words of its own codecs quote bytes.
        with FileSystems.open(path, compression_type=UNCOMPRESSED) as stream:
            plain = stream if codec is None else _Unpacked(stream, codec)
            yield io.BufferedReader(Recoded(plain, encoding)) if encoding else plain

    return open_file


class _Unpacked:
    """What a file is unpacked to, from its beginning."""

    def __init__(self, stream: Any, codec: str) -> None:
        self._packed, self._read = stream, 0
        self._stream = pa.input_stream(stream, compression=codec)

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        content: bytes = self._stream.read(size)
        self._read += len(content)
        if self._read > _MOST + _TIMES * self._packed.tell():
            raise Mangled(f"it unpacks to more than {_TIMES:,} times its size")
        return content
