r"""Reports as length-prefixed binary: for devices, message queues and anything that streams.

Format version 2. Every integer is unsigned and little-endian. A file is a header and records:

    offset  bytes  header
         0      8  magic: 89 48 55 53 48 42 0D 0A ("\x89HUSHB\r\n": a transfer as text ruins it)
         8      2  format version: 2
        10      2  form: 0 submitted, 1 submitted and sealed, 2 shuffled, 3 shuffled and sealed;
                  of noisy counters: 5 submitted and sealed, 7 shuffled and sealed;
                  sealed to a second shuffler besides: 17 submitted, 19 shuffled
        12     16  fingerprint of the plan

    bytes  record                           forms
        2  length of the rest: 26, 82, 10, 66 for forms 0 .. 3, 26 + 56 F for 5, 68 for 7,
           138 for 17, 122 for 19
        2  metric                           0 1 2 3 5 7 17 19
       16  report id                        0 1     5   17
        2  level                                      7
        8  message                          0   2
        8  key id                             1   3 5 7 17 19
       56  sealed message                     1   3   7
     56 F  sealed messages, one a slot              5
      112  key id and sealed message, sealed            17 19

The magic and the version keep their place in every later version; nothing else has to. A reader
takes any bytes whatever: what is not a report of the expected plan is counted by reason.
"""

import io
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from mechanisms.wire import screening
from mechanisms.wire.report import SEALED, VERSION, Form, Reports
from mechanisms.wire.screening import Expected, Screened, merged

MAGIC = b"\x89HUSHB\r\n"

_KINDS = (0, 1, 2, 3, 5, 7, 17, 19)
_HEADER = struct.Struct("<8sHH16s")
HEADER = _HEADER.size  # bytes
_BLOCK = 1 << 22  # bytes read at a time: far more than the longest record of 2 + 65,535
# Records of foreign lengths are skipped one by one. A file with more of them than this is not a
# damaged file but one made to keep readers busy, and the rest of it is not read.
_MOST_RUNS = 1 << 12


def header(form: Form, fingerprint: bytes) -> bytes:
    """The 28 bytes that begin a file."""
    return _HEADER.pack(MAGIC, VERSION, form.kind, fingerprint)


def encode(reports: Reports) -> bytes:
    """A whole file.

    >>> encode(Reports.shuffled(bytes(16), metric=0, messages=[7]))[28:].hex()
    '0a0000000700000000000000'
    """
    return header(reports.form, reports.fingerprint) + reports.records.tobytes()


def decode(data: bytes, expected: Expected) -> Screened:
    """What a whole file holds; see `read`.

    >>> expected = Expected(bytes(16), (), Form(shuffled=True))
    >>> decode(b"anything", expected).dropped
    {'not a report file': 1}
    """
    return merged(expected, read(io.BytesIO(data), expected))


def read(stream: BinaryIO, expected: Expected, block: int = _BLOCK) -> Iterator[Screened]:
    """Reports of a stream, block by block, in memory that does not grow with its length.

    Args:
        stream: from the first byte of a file.
        expected: what the reader's plan makes of them.
        block: bytes read at a time.

    Yields:
        Blocks, with what was dropped from each by reason. Never an exception for what the bytes
        are; the stream's own errors pass.
    """
    head = _bytes(stream, _HEADER.size)
    if not head.startswith(MAGIC):
        yield expected.refused(screening.NOT_REPORTS, 1)
    elif len(head) < _HEADER.size:
        yield expected.refused(screening.TRUNCATED, 1)
    else:
        _, version, kind, fingerprint = _HEADER.unpack(head)
        if version != VERSION:
            yield expected.refused(screening.OTHER_VERSION, 1)
        elif kind not in _KINDS:
            yield expected.refused(screening.OTHER_FORM, 1)
        else:
            yield from _records(stream, Form.of(kind), fingerprint, expected, block)


def _records(
    stream: BinaryIO, form: Form, fingerprint: bytes, expected: Expected, block: int
) -> Iterator[Screened]:
    """What follows the header."""
    rest, foreign = b"", 0
    while chunk := _bytes(stream, block):
        data = rest + chunk
        at, others = 0, 0
        for run in _runs(data):
            at = run.end
            fitted = _fitted(form, run.length)
            if fitted is not None:
                records = np.frombuffer(data, fitted.dtype, run.size, run.start)
                yield expected.screen(Reports(fingerprint, fitted, records))
                continue
            others += run.size
            foreign += 1
            if foreign > _MOST_RUNS:
                break
        if others:
            yield expected.refused(screening.OTHER_WIDTH, others)
        if foreign > _MOST_RUNS:
            yield expected.refused(screening.NO_FRAMES, 1)
            return
        rest = data[at:]
    if rest:
        yield expected.refused(screening.TRUNCATED, 1)


def _fitted(form: Form, length: int) -> Form | None:
    """The form of records of a length; None if it has none so long."""
    if not form.slots:
        return form if length == form.dtype.itemsize - 2 else None
    return form.fitted(length - form.dtype.itemsize + 2 + SEALED)


class _Run(NamedTuple):
    """Consecutive records of one length."""

    start: int
    length: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size * (self.length + 2)


def _runs(data: bytes) -> Iterator[_Run]:
    """The whole records at the start of some bytes, by runs of equal length."""
    at = 0
    while at + 2 <= len(data):
        length = data[at] + 256 * data[at + 1]
        # As many as fit whole; what is cut short waits for the next block.
        most = (len(data) - at) // (length + 2)
        if not most:
            return
        run = _Run(at, length, _alike(data, at, length, most))
        yield run
        at = run.end


def _alike(data: bytes, start: int, length: int, most: int) -> int:
    """How many records, of at most `most`, have this length; looks not much further than that."""
    prefixes: np.ndarray[tuple[int], np.dtype[np.uint16]] = np.ndarray(
        (most,), "<u2", data, start, (length + 2,)
    )
    known, step = 1, 16
    while known < most:
        other = np.flatnonzero(prefixes[known : known + step] != length)
        if other.size:
            return known + int(other[0])
        known, step = known + step, 4 * step
    return most


def _bytes(stream: BinaryIO, size: int) -> bytes:
    """So many bytes, or what is left: raw streams may give less than they are asked for."""
    pieces = []
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
