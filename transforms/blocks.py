"""Blocks of rows gathered, split by bucket, and packed into the pieces a GroupByKey carries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.trigger import AfterWatermark, DefaultTrigger
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from transforms.block_coders import weighed

# What opens a generator on a worker: SecureRandom itself, or a seeded one in tests.
Generator = Callable[[], RandomSource]

weighed(np.ndarray)  # messages

_BUFFER = 1 << 20  # rows a worker holds before it sends them on: few, large pieces


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


def partition(rows: NDArray[Any], buckets: NDArray[Any], size: int) -> Iterator[tuple[int, bytes]]:
    """Rows grouped by bucket, each group packed into bytes.

    Args:
        rows: (n,) of any fixed-width dtype.
        buckets: (n,) integers in 0 .. size - 1.
        size: how many buckets there are, at most 65,536.

    Yields:
        (bucket, packed rows) for each bucket that has any.
    """
    # Stable sorts of narrow integers are radix sorts in numpy, linear in n.
    narrow = buckets.astype(np.min_scalar_type(size - 1))
    ordered = rows[np.argsort(narrow, kind="stable")]
    ends = np.cumsum(np.bincount(narrow, minlength=size))
    start = 0
    for bucket, end in enumerate(ends.tolist()):
        if end > start:
            yield bucket, ordered[start:end].tobytes()
        start = end


class PartitionDoFn(beam.DoFn):
    """Gathers the blocks of each window and sends their rows on by bucket.

    Pieces carry their window's end as their time, and nothing of when their rows came. Subclasses
    say what a row is and which bucket it goes to.
    """

    def __init__(self, buckets: int) -> None:
        if not 1 <= buckets <= 1 << 16:
            raise ValueError(f"buckets must lie in 1 .. 65536, not {buckets}")
        self._buckets = buckets

    @abstractmethod
    def rows(self, block: Any) -> NDArray[Any]:
        """(n,) the rows of a block, of one fixed-width dtype."""

    @abstractmethod
    def assign(self, rows: NDArray[Any]) -> NDArray[Any]:
        """(n,) the bucket of each row."""

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[NDArray[Any]]] = {}
        self._pending = 0

    def process(self, block: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        rows = self.rows(block)
        self._waiting.setdefault(window, []).append(rows)
        self._pending += len(rows)
        if self._pending >= _BUFFER:
            yield from self.finish_bundle()
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            rows = np.concatenate(waiting)
            for piece in partition(rows, self.assign(rows), self._buckets):
                yield WindowedValue(piece, window.max_timestamp(), [window])
