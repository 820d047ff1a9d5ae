"""Text of any encoding as UTF-8, which is what readers of text take."""

from __future__ import annotations

import codecs
import io
from typing import Any

_PIECE = 1 << 20  # bytes decoded at a time

# Decoders that hold a whole file, or that read escapes for what they stand for.
_NO_TEXT = {"idna", "punycode", "unicode_escape", "raw-unicode-escape", "undefined", "utf-7"}


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


class Unmarked(Exception):
    """A text that does not say the order of its bytes, in words of our own."""


class Recoded(io.RawIOBase):
    """A stream as UTF-8; a byte 0xFF, which that never has, stands for what cannot be decoded."""

    def __init__(self, stream: Any, encoding: str) -> None:
        super().__init__()
        self._stream, self._left, self._ended = stream, b"", False
        self._decoder = codecs.getincrementaldecoder(encoding)("hushbeam-unknown")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (self._left or self._ended):
            piece = self._stream.read(_PIECE)
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
            except UnicodeError:  # of UTF-16 and UTF-32, whose first bytes say the order of all
                raise Unmarked("it has no byte order mark: name utf-16-le, or -be") from None
            self._left = text.encode("utf-8", "surrogateescape")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size
