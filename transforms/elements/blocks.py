"""Blocks of rows gathered, split by bucket, and packed into the pieces a GroupByKey carries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
from apache_beam.transforms.trigger import AfterWatermark, DefaultTrigger
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from transforms.elements.block_coders import ArrayCoder, encoded, weighed
from transforms.encoders.block import Block, as_bytes, concatenated, packed

# What opens a generator on a worker: SecureRandom itself, or a seeded one in tests.
Generator = Callable[[], RandomSource]

weighed(np.ndarray, ArrayCoder)  # messages

# Rows of a bucket that one worker orders in its cache; that many only while there are few buckets,
# for thousands of them cut blocks to shreds; and rows that a bucket should hold at most.
_CACHED_ROWS, _FEW_BUCKETS = 1 << 16, 256
_BUCKET_ROWS = 1 << 18
# Rows that are ordered by bucket at a time, for they and their places stay in a core's cache: two
# thirds of the time that a million takes; and how many of a bucket are worth a slice of their own.
_ORDERED, _SLICE = 1 << 15, 1 << 8
_MOST_BUCKETS, _MANY_BUCKETS = 1 << 16, 1 << 14


def bucket_count(rows: float) -> int:
    """How many groups the shuffler and the contribution bound split their input into."""
    cached = min(int(rows) // _CACHED_ROWS, _FEW_BUCKETS)
    wanted = min(max(64, cached, int(rows) // _BUCKET_ROWS), _MOST_BUCKETS)
    # A power of two is drawn bit by bit: among 381 buckets numbers took twelve times as long.
    return 1 << (wanted.bit_length() - 1)


@dataclass
class GroupOnce(beam.PTransform):
    """GroupByKey, for windows that are grouped once and whole.

    Early and late firings would release a window in parts: smaller batches than the guarantee
    counts on, and one more value of each user in every part.
    """

    def expand(self, pieces: beam.PCollection) -> beam.PCollection:
        windowing = pieces.windowing
        once = windowing.triggerfn in (DefaultTrigger(), AfterWatermark())
        if not (once and windowing.allowed_lateness == 0):
            raise ValueError(
                "a window must be grouped once and whole, with no early or late firings and no "
                f"allowed lateness, not {windowing.triggerfn} with {windowing.allowed_lateness}"
            )
        return pieces | beam.GroupByKey()


def bucket_of(digests: NDArray[np.uint64], buckets: int) -> NDArray[np.uint64]:
    """(n,) buckets below `buckets` of (n,) words whose high bits are uniform: equal ranges."""
    # A product in place of a remainder: it takes the high bits, which are the well mixed ones.
    return ((digests >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)


def partition(
    rows: NDArray[Any], buckets: NDArray[Any], size: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Rows grouped by bucket.

    Args:
        rows: (n,) of any fixed-width dtype.
        buckets: (n,) integers in 0 .. size - 1.
        size: how many buckets there are, at most 65,536.

    Yields:
        (bucket, its rows) for each bucket that has any.
    """
    # Stable sorts of narrow integers are radix sorts in numpy, linear in n.
    narrow = buckets.astype(np.min_scalar_type(size - 1))
    step, ordered, ends = max(_ORDERED, _SLICE * size), [], []
    plain = as_bytes(rows)  # once: of thousands of slices each view took longer than its rows
    for start in range(0, len(rows), step):
        some = narrow[start : start + step]
        order = np.argsort(some, kind="stable")
        ordered.append(plain[start : start + step].take(order, axis=0))
        ends.append([0, *np.cumsum(np.bincount(some, minlength=size)).tolist()])
    for bucket in range(size):
        limits = [(end[bucket], end[bucket + 1]) for end in ends]
        if any(first < last for first, last in limits):
            parts = [part[first:last] for part, (first, last) in zip(ordered, limits, strict=True)]
            together = parts[0] if len(parts) == 1 else np.concatenate(parts)
            yield bucket, together.view(rows.dtype)


def repeated(
    codes: NDArray[Any], times: NDArray[Any], most: int = 1 << 20
) -> Iterator[NDArray[Any]]:
    """Each of some codes as often as is said, in blocks.

    Args:
        codes: (k,)
        times: (k,) how often each.
        most: in a block.
    """
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]) if ends.size else 0, most):
        # Of each code what falls into this block.
        falls = np.clip(ends - start, 0, most)
        yield np.repeat(codes, np.diff(falls, prepend=0))


class DrawingDoFn(beam.DoFn):
    """A step that draws: each worker opens a generator of its own."""

    _open_rng: Generator

    def setup(self) -> None:
        self._rng = self._open_rng()


class PartitionDoFn(beam.DoFn):
    """Gathers the blocks of each window and sends their rows on by bucket.

    Pieces carry their window's end as their time, and nothing of when their rows came. Subclasses
    say what a row is, which bucket it goes to, and if need be how rows are packed.

    Attributes:
        most_rows: that a worker gathers before it sends them on: few, large pieces ...
        most_bytes: ... that do not fill its memory where rows are long. Both are so many times as
            large as there are buckets beyond 16,384, else rows would travel one by one.
    """

    most_rows: ClassVar[int] = 1 << 20
    most_bytes: ClassVar[int] = 1 << 25

    def __init__(self, buckets: int) -> None:
        if not 1 <= buckets <= _MOST_BUCKETS:
            raise ValueError(f"buckets must lie in 1 .. {_MOST_BUCKETS}, not {buckets}")
        self._buckets, self._times = buckets, max(1, buckets // _MANY_BUCKETS)

    @abstractmethod
    def rows(self, block: Any) -> NDArray[Any]:
        """(n,) the rows of a block, of one fixed-width dtype."""

    @abstractmethod
    def assign(self, rows: NDArray[Any]) -> NDArray[Any]:
        """(n,) the bucket of each row."""

    def packed(self, rows: NDArray[Any]) -> bytes:
        """Rows as they travel; who receives them knows their dtype."""
        return rows.tobytes()

    def parted(self, rows: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """(bucket, its rows) for each bucket that has any."""
        return partition(rows, self.assign(rows), self._buckets)

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[NDArray[Any]]] = {}
        self._rows = self._bytes = 0

    def process(self, block: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        rows = self.rows(block)
        self._waiting.setdefault(window, []).append(rows)
        self._rows += len(rows)
        self._bytes += rows.nbytes
        many, size = self._rows // self._times, self._bytes // self._times
        if many >= self.most_rows or size >= self.most_bytes:
            yield from self.gathered()

    def gathered(self) -> Iterator[WindowedValue]:
        """What leaves when so many rows have come; nothing waits then."""
        yield from self.finish_bundle()
        self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, bucket, part in self.parts():
            yield leaving(window, bucket, self.packed(part))

    def parts(self) -> Iterator[tuple[Any, int, NDArray[Any]]]:
        """(window, bucket, rows) of what waits."""
        for window, waiting in self._waiting.items():
            for bucket, part in self.parted(concatenated(waiting)):
                yield window, bucket, part


def leaving(window: Any, bucket: int, piece: bytes) -> WindowedValue:
    """A piece under the window's end: a row's own time would go past the shuffle with it."""
    return WindowedValue((bucket, piece), window.max_timestamp(), [window])


class PartitionBlocksDoFn(PartitionDoFn):
    """Gathers blocks of encoded rows and sends them on in pieces that say their own layout."""

    def rows(self, block: Block) -> NDArray[np.void]:
        return packed(block)

    def packed(self, rows: NDArray[Any]) -> bytes:
        return encoded(rows)
