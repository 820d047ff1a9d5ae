"""Blocks of rows gathered, split by bucket, and packed into the pieces a GroupByKey carries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource

# What opens a generator on a worker: SecureRandom itself, or a seeded one in tests.
Generator = Callable[[], RandomSource]

_BUFFER = 1 << 20  # rows a worker holds before it sends them on: few, large pieces


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
    """Gathers the blocks of a window and sends their rows on by bucket.

    Subclasses say what a row is and which bucket it goes to.
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

    def process(
        self, block: Any, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[int, bytes]]:
        waiting = self._waiting.setdefault(window, [])
        waiting.append(self.rows(block))
        if sum(map(len, waiting)) >= _BUFFER:
            yield from self._split(self._waiting.pop(window))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            for piece in self._split(waiting):
                yield WindowedValue(piece, window.max_timestamp(), [window])

    def _split(self, waiting: list[NDArray[Any]]) -> Iterator[tuple[int, bytes]]:
        rows = np.concatenate(waiting)
        return partition(rows, self.assign(rows), self._buckets)
