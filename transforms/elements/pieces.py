"""What a GroupByKey carries: bytes, or where they lie in memory that this machine's workers share.

Between worker processes of one machine Beam's runner copies each byte some ten times, through gRPC,
protocol buffers and its own tables, at 19 ns a byte in a process of its own: with two workers that
took longer than the rows. So workers that were forked put pieces where all of them can read, and
the runner groups references.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from apache_beam import coders


class Piece(bytes):
    """A type hint: bytes that only a reader in this job wants, and never the key of a group."""


coders.registry.register_coder(Piece, coders.BytesCoder)

_HERE, _THERE = b"\0", b"\1"
_PLACE = struct.Struct("<HQQ")  # whose memory, from which byte on, how many
_SMALL = 1 << 10  # bytes; a reference to fewer saves nothing


class _Memories:
    """Memory of each worker, in no file, which all read that were forked from one process."""

    def __init__(self, workers: int) -> None:
        self.files = [os.memfd_create("hushbeam") for _ in range(workers)]
        self.own: int | None = None  # that of this process, if it is a worker
        self._end, self._lock = 0, Lock()

    def put(self, own: int, piece: bytes) -> bytes:
        """Keep a piece; its place."""
        with self._lock:
            start, self._end = self._end, self._end + len(piece)
        left = memoryview(piece)
        while left:  # a write may end early
            left = left[os.pwrite(self.files[own], left, start + len(piece) - len(left)) :]
        return _PLACE.pack(own, start, len(piece))

    def piece(self, place: bytes) -> bytes:
        """What lies at a place."""
        whose, start, size = _PLACE.unpack(place)
        parts: list[bytes] = []
        while size and (part := os.pread(self.files[whose], size, start)):
            parts.append(part)
            start, size = start + len(part), size - len(part)
        if size:
            raise ValueError("a piece is not where it was put")
        return b"".join(parts)


_memories: _Memories | None = None


class SharedCoder(coders.Coder):
    """Pieces as references, if this process is a worker that shares memory with others."""

    def encode(self, piece: bytes) -> bytes:
        """A large piece of a worker as where it lies, any other as it is."""
        if _memories is None or _memories.own is None or len(piece) < _SMALL:
            return _HERE + piece
        return _THERE + _memories.put(_memories.own, piece)

    def decode(self, encoded: bytes) -> bytes:
        """What `encode` was given, by any worker of this job.

        Raises:
            ValueError: it is not there.
        """
        if encoded.startswith(_HERE):
            return encoded[1:]
        if _memories is None:
            raise ValueError("a piece lies in memory of others")
        return _memories.piece(encoded[1:])

    def is_deterministic(self) -> bool:
        """Two pieces that are equal lie in two places."""
        return False

    def estimate_size(self, piece: bytes) -> int:
        """Its bytes, wherever they lie."""
        return len(piece)


@contextmanager
def shared(workers: int) -> Iterator[None]:
    """Share pieces among workers that are forked meanwhile, in jobs that begin meanwhile.

    Args:
        workers: how many.
    """
    global _memories
    _memories = _Memories(workers)
    coders.registry.register_coder(Piece, SharedCoder)
    try:
        yield
    finally:
        coders.registry.register_coder(Piece, coders.BytesCoder)
        for file in _memories.files:
            os.close(file)
        _memories = None


def be_worker(number: int) -> None:
    """Have a process that was forked put pieces into the memory of that number.

    Raises:
        RuntimeError: none is shared.
    """
    if _memories is None:
        raise RuntimeError("there is no memory to share")
    _memories.own = number
