"""What a format of files is, and how a file of it is opened.

Text of any encoding as UTF-8, which is what readers of text take.
"""

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from transforms.files.reading import Reading
from transforms.files.systems import FileSystems

_PIECE = 1 << 20  # bytes decoded at a time

# Decoders that hold a whole file, or that read escapes for what they stand for.
_NO_TEXT = {"idna", "punycode", "unicode_escape", "raw-unicode-escape", "undefined", "utf-7"}
Opener = Callable[[], AbstractContextManager[Any]]
"""Opens a file at its beginning, unpacked; formats of text read it once from there to its end."""

PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Ending -> Arrow's name of what unpacks it."""

# Of what is packed: gzip makes no more than 1,032 bytes of one, and no log that people keep is as
# long as this and repeats itself so often. A megabyte of zstd could otherwise keep a core for days.
_MOST, _TIMES = 1 << 32, 1200

MANGLED = "empty, cut off, or another format"
CUT_OFF = "cut off, damaged, or of a kind that its reader does not read"


def encoding_of(name: str) -> str:
    """An encoding by the name that Python knows it under; empty for UTF-8, with a mark or without.

    Raises:
        ValueError: there is none.

    >>> encoding_of("Latin-1"), encoding_of("UTF8"), encoding_of("windows-1252")
    ('iso8859-1', '', 'cp1252')
    """
    if not name:
        return ""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError, UnicodeError):
        raise ValueError("no such encoding") from None
    known = codec.name.replace("_", "-")
    if not codec._is_text_encoding or known in {one.replace("_", "-") for one in _NO_TEXT}:
        raise ValueError("no encoding of texts")
    return "" if known in ("utf-8", "utf-8-sig") else codec.name


def _unknown(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are none of the encoding stay bytes that are no UTF-8: their field is null."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("hushbeam-unknown", _unknown)


NO_MARK = "it has no byte order mark: name utf-16-le, or -be"


class Unmarked(Exception):
    """A text that does not say the order of its bytes, in words of our own."""


class Recoded(io.RawIOBase):
    """A stream as UTF-8; a byte 0xFF, which that never has, stands for what cannot be decoded."""

    def __init__(self, stream: Any, encoding: str, errors: str = "hushbeam-unknown") -> None:
        super().__init__()
        self._stream, self._left, self._ended = stream, b"", False
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (self._left or self._ended):
            piece = self._stream.read(_PIECE)
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
            except UnicodeError:  # of UTF-16 and UTF-32, whose first bytes say the order of all
                raise Unmarked(NO_MARK) from None
            self._left = self._encoded(text, piece)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def _encoded(self, text: str, piece: bytes) -> bytes:
        return text.encode("utf-8", "surrogateescape")


class FileFacts(NamedTuple):
    """What is known of a file without its rows.

    Attributes:
        rows: how many there are.
        schema: its columns.
        whole: whether all of it was looked at; else rows are about so many, and JSON may have more
            columns.
    """

    rows: int
    schema: pa.Schema
    whole: bool = True


class TextStart(NamedTuple):
    """What the beginning of a long text tells.

    Attributes:
        rows: in it.
        size: bytes of it, unpacked.
        schema: the columns that are seen there; of JSON there may be more.
    """

    rows: int
    size: int
    schema: pa.Schema


LONG = 1 << 20
"""Bytes of a text beyond which its rows are counted only where somebody needs their number."""


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

    return partial(_opened, path, codec, encoding)


@contextmanager
def _opened(path: str, codec: str | None, encoding: str) -> Iterator[Any]:
    # Beam would undo a compression by the name, and words of its own codecs quote bytes.
    with FileSystems.read(path) as stream:
        plain = stream if codec is None else _Unpacked(stream, codec)
        yield io.BufferedReader(Recoded(plain, encoding)) if encoding else plain


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
