"""The shuffler: what comes out depends on the multiset of messages and on nothing else.

Every message has its own random key. Its high bits, the bucket, are drawn where the message
enters and group the messages; its low bits order each bucket, and are drawn there, which is the
same law and saves carrying them. Sender, file, time, bundle and neighbours are gone.

HP-SDP's MRS algorithm, as printed, enumerates n! permutations; this is what replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from transforms.blocks import Generator, PartitionDoFn
from transforms.progress import WITHHELD, tally


@dataclass
class Shuffle(beam.PTransform):
    """Blocks of messages in; blocks of the same messages, in uniform random order, out.

    Attributes:
        min_reports: a batch (of a window) with fewer messages is withheld whole.
        codes: messages are below this; they travel in the narrowest words that hold them.
        buckets: how many groups; each is ordered in one worker's memory. At most 65,536.
        open_rng: opens the generator on each worker.
    """

    min_reports: int
    codes: int = 1 << 64
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        dtype = np.min_scalar_type(self.codes - 1).str
        size = (
            messages
            | "Size of block" >> beam.Map(len).with_output_types(int)
            | "Size of batch" >> beam.CombineGlobally(sum).without_defaults()
        )
        return (
            messages
            | "Draw buckets" >> beam.ParDo(DrawBucketsDoFn(self.buckets, dtype, self.open_rng))
            | "Group by bucket" >> beam.GroupByKey()
            | "Order by random keys"
            >> beam.ParDo(
                OrderDoFn(self.min_reports, dtype, self.open_rng),
                size=AsSingleton(size, default_value=0),
            )
        )


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(tuple[int, bytes])
class DrawBucketsDoFn(PartitionDoFn):
    """Sends each message to a random bucket; messages of many blocks leave together."""

    def __init__(self, buckets: int, dtype: str, open_rng: Generator) -> None:
        super().__init__(buckets)
        self._dtype, self._open_rng = dtype, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def rows(self, block: NDArray[np.uint64]) -> NDArray[Any]:
        return block.astype(self._dtype, copy=False)

    def assign(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        return self._rng.integers(self._buckets, rows.size)


@typehints.with_input_types(tuple[int, Iterable[bytes]], int)
@typehints.with_output_types(np.ndarray)
class OrderDoFn(beam.DoFn):
    """Puts a bucket into uniform random order, or withholds it with the whole batch."""

    def __init__(self, min_reports: int, dtype: str, open_rng: Generator) -> None:
        self._min_reports, self._dtype, self._open_rng = min_reports, dtype, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(
        self, bucket: tuple[int, Iterable[bytes]], size: int
    ) -> Iterator[NDArray[np.uint64]]:
        messages = np.frombuffer(b"".join(bucket[1]), self._dtype)
        if size < self._min_reports:
            tally(WITHHELD, messages.size)
            return
        yield messages[self._rng.permutation(messages.size)].astype(np.uint64)
