"""The shuffler: what comes out depends on the multiset of messages and on nothing else.

Every message has its own random key. Its high bits, the bucket, are drawn where the message
enters and group the messages; its low bits order each bucket, and are drawn there, which is the
same law and saves carrying them. Sender, file, time, bundle and neighbours are gone.

A job that counts what it shuffles may count before: how many messages of each code go to each
bucket is drawn from the law that a bucket drawn for each of them has, and numbers travel.

HP-SDP's MRS algorithm, as printed, enumerates n! permutations; this is what replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsDict
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from mechanisms.sampling.even_split import even_split
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce, PartitionDoFn, repeated
from transforms.elements.conservation import (
    PERTURBED,
    SENT,
    Batches,
    Flow,
    leaving,
    reported,
    summed,
)
from transforms.elements.pieces import Piece
from transforms.elements.progress import WITHHELD, tally


@dataclass
class Shuffle(beam.PTransform):
    """Blocks of messages in; blocks of the same messages, in uniform random order, out.

    Attributes:
        min_reports: a batch (of a window) from fewer users is withheld whole.
        codes: messages are below this, and travel in the narrowest words that hold it. What is
            not below it does not count for `min_reports`, and stays impossible.
        batches: how many equal ranges of codes are batches of their own, each withheld if it is
            too small: a message that says its public group in the clear hides in that group alone.
        buckets: how many groups; each is ordered in one worker's memory. At most 65,536.
        open_rng: opens the generator on each worker.
        users: numbers that add up to how many users reported, where a user may send several
            messages and all are one batch; without them every message counts for one.
        flow: (name, count) of what was sent, added up, where the job has counted it already.
        counted: whether this job counts what comes out, and keeps no message. Where codes are few,
            messages are then counted before they leave a worker, and a bucket is sorted by its
            messages, or counted: an order that depends on them alone, at a tenth of the price. Such
            a bucket may be large, so there are no more than give pieces a fair size.
    """

    min_reports: int
    codes: int = 1 << 64
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    users: beam.PCollection | None = None
    batches: int = 1
    counted: bool = False
    flow: beam.PCollection | None = None

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        batched = Batches(self.codes, self.batches)
        buckets = self.buckets
        if self.counted:
            buckets = min(buckets, _most_buckets(self.codes, buckets))
        # A threshold on messages would let a few users who send many each pass for a crowd.
        measure = SENT if self.users is None else PERTURBED
        order = OrderDoFn(self.min_reports, batched, self.open_rng, self.counted, measure)
        # Where nobody is too few, nobody need be counted.
        sizes = {"flow": AsDict(self._sizes(messages, batched))} if self.min_reports else {}
        return (
            messages
            | "Draw buckets"
            >> beam.ParDo(DrawBucketsDoFn(buckets, self.codes, self.open_rng, self.counted))
            | "Group by bucket" >> GroupOnce()
            | "Order by random keys" >> beam.ParDo(order, **sizes)
        )

    def _sizes(self, messages: beam.PCollection, batched: Batches) -> beam.PCollection:
        """(name, count) of what the threshold is held against."""
        if self.flow is not None:
            return self.flow
        return summed(leaving(messages, batched) if self.users is None else reported(self.users))


def _largest(codes: int) -> int:
    """The largest word that travels; it stands for all that no client sends, if there are such."""
    return min(codes, (1 << 64) - 1)


def _most_buckets(codes: int, wanted: int = 0) -> int:
    """So many that a worker's messages leave in pieces of 64 KiB: smaller ones cost more to carry.

    Where messages are so many that each bucket would be of hundreds of megabytes, pieces are less.

    Messages of two bytes and fewer are counted as their pieces come, so a bucket is no larger than
    its codes; longer ones are sorted where they are.
    """
    width = np.min_scalar_type(_largest(codes)).itemsize
    fair = DrawBucketsDoFn.most_rows * width >> 16
    return 64 if width <= _COUNTED else max(fair, wanted // _LARGER)


# How a piece begins: with messages, or with how many there are of each code.
_MESSAGES, _NUMBERS = b"\0", b"\1"
_NUMBER = np.dtype(np.int32)  # of one code in one piece; signed, as messages are not
_SMALLER = 8  # messages for each number of a table, from which on numbers are far fewer bytes
_COUNTED = 2  # bytes of a message; of a longer one there may be more codes than messages
_LARGER = 16  # times as large as others: buckets whose messages are counted
_PART = 1 << 16  # messages that are counted at a time: numpy first makes words of 8 bytes of them


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(tuple[int, Piece])
class DrawBucketsDoFn(PartitionDoFn, DrawingDoFn):
    """Sends each message to a random bucket; messages of many blocks leave together."""

    most_rows: ClassVar[int] = 1 << 22  # messages are shorter than other rows

    def __init__(
        self, buckets: int, codes: int, open_rng: Generator, counted: bool = False
    ) -> None:
        super().__init__(buckets)
        self._counted = counted
        self._largest, self._open_rng = _largest(codes), open_rng
        self._dtype = np.min_scalar_type(self._largest)

    def rows(self, block: NDArray[Any]) -> NDArray[Any]:
        # Cut to fewer bits, a message that no client sends could become one that clients do.
        if np.iinfo(block.dtype).max > self._largest:
            block = np.minimum(block, self._largest)
        return block.astype(self._dtype, copy=False)

    def assign(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        # Drawn, not hashed: a hash of a message would put equal messages next to each other.
        return self._rng.integers(self._buckets, rows.size)

    def parted(self, rows: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        width = 8 * rows.dtype.itemsize
        several = (self._largest + 1) * self._buckets * _SMALLER
        if self._counted and width <= 8 * _COUNTED and several <= rows.size:
            numbers = even_split(_numbers(rows, self._largest), self._buckets, self._rng)
            yield from enumerate(numbers.astype(_NUMBER))
            return
        if width + (self._buckets - 1).bit_length() > 32:
            yield from super().parted(rows)
            return
        # Behind its bucket a narrow message needs no sorting of places. What leaves a worker is in
        # the order of the messages themselves, which tells nothing of whose they are.
        keyed = self.assign(rows).astype(np.uint32)
        keyed <<= np.uint32(width)
        keyed |= rows
        keyed.sort()
        starts = np.arange(1, self._buckets, dtype=np.uint32) << np.uint32(width)
        ends = [0, *np.searchsorted(keyed, starts).tolist(), keyed.size]
        ordered = keyed.astype(rows.dtype)
        for bucket, (start, end) in enumerate(pairwise(ends)):
            if end > start:
                yield bucket, ordered[start:end]

    def packed(self, rows: NDArray[Any]) -> bytes:
        return (_MESSAGES if rows.dtype == self._dtype else _NUMBERS) + rows.tobytes()


def _numbers(messages: NDArray[Any], largest: int) -> NDArray[np.int64]:
    """How many there are of each code, 0 .. largest."""
    counts = np.zeros(largest + 1, np.int64)
    for start in range(0, messages.size, _PART):
        counts += np.bincount(messages[start : start + _PART], minlength=counts.size)
    return counts


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(np.ndarray)
class OrderDoFn(DrawingDoFn):
    """Puts a bucket into uniform random order, without what is of too small a batch."""

    def __init__(
        self,
        min_reports: int,
        batches: Batches,
        open_rng: Generator,
        counted: bool = False,
        measure: str = SENT,
    ) -> None:
        self._min_reports, self._batches, self._open_rng = min_reports, batches, open_rng
        self._measure = measure
        self._counted, self._largest = counted, _largest(batches.codes)
        self._dtype = np.min_scalar_type(self._largest)

    def process(
        self, bucket: tuple[int, Iterable[bytes]], flow: Flow | None = None
    ) -> Iterator[NDArray[np.uint64]]:
        # Who has counted nobody must withhold: an empty side input is no proof of a crowd.
        nobody = np.zeros(self._batches.number, np.int64)
        large = np.atleast_1d((flow or {}).get(self._measure, nobody)) >= self._min_reports
        for messages in self._blocks(bucket[1]):
            if not large.all():
                kept = messages[large[self._batches.of(messages)]]
                tally(WITHHELD, messages.size - kept.size)
                messages = kept
            if messages.size:
                # Buckets are uniform and independent of what messages hold, so an order that is
                # uniform within each bucket is uniform altogether.
                ordered = messages if self._counted else self._rng.shuffled(messages)
                yield ordered.astype(np.uint64)

    def _blocks(self, pieces: Iterable[bytes]) -> Iterator[NDArray[Any]]:
        """The messages of a bucket; sorted where this job counts them."""
        if self._counted and self._dtype.itemsize <= _COUNTED:
            codes = np.arange(self._largest + 1, dtype=self._dtype)
            yield from repeated(codes, sum(map(self._counts, pieces), np.zeros(codes.size, int)))
            return
        messages = np.concatenate([*map(self._read, pieces)])
        if self._counted:
            messages.sort()
        yield messages

    def _read(self, piece: bytes) -> NDArray[Any]:
        return np.frombuffer(piece, self._dtype, offset=1)

    def _counts(self, piece: bytes) -> NDArray[Any]:
        """How many there are of each code in a piece."""
        if piece.startswith(_MESSAGES):
            return _numbers(self._read(piece), self._largest)
        return np.frombuffer(piece, _NUMBER, offset=1)
