"""Rows of undeclared strings -> how many units hold each -> those that pass a noisy threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.randomness import SecureRandom
from transforms.elements.blocks import (
    DrawingDoFn,
    Generator,
    GroupOnce,
    PartitionDoFn,
    bucket_of,
    partition,
)
from transforms.elements.combine_all import CombineAll
from transforms.elements.drawing import Drawing
from transforms.elements.pieces import Piece
from transforms.encoders.block import CellBlock, PooledBlock
from transforms.encoders.strings import Words, as_binary, distinct
from transforms.encoders.users import UserDigest

_COUNT = 2  # words of a number of rows


class Crowded(NamedTuple):
    """Strings that are published, and how many rows there were.

    Attributes:
        strings: (m, w) as `StringEncoder` makes them, by falling values.
        values: (m,) noisy numbers of units.
        messages: how many rows came, published or not: for whoever runs the job.
    """

    strings: Words
    values: NDArray[np.int64]
    messages: int


@dataclass
class PublishCrowds(beam.PTransform):
    """Blocks of strings in, one `Crowded` out: also of an empty batch.

    Equal strings meet in one bucket, whatever workers they came from; there the noise is drawn and
    all that stays below the threshold ends. What is drawn goes straight into a group: a bundle that
    is retried replaces its draw, and all who read the strings read the same ones.

    Attributes:
        crowds: what is published.
        width: words of a string.
        buckets: how many groups strings are hashed into.
        open_rng: opens the generator on each worker; a seeded one is for tests.
        drawing: which windows are published, if each of them is paid for.
    """

    crowds: Crowds
    width: int
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    drawing: Drawing | None = None

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # Under a key that nobody knew who made the strings: else these could all aim at one bucket.
        digest = UserDigest("", int(SecureRandom().words(1)[0]))
        partition, publish, join = self.steps(digest)
        kind = type(join.extract_output([]))
        drawn = (
            blocks
            | "Partition by string" >> beam.ParDo(partition)
            | "Group by string bucket" >> GroupOnce()
            | "Publish crowds" >> beam.ParDo(publish)
            | "Once drawn" >> GroupOnce()
            | "Drawn" >> beam.FlatMap(_drawn).with_output_types(kind)
        )
        if self.drawing is None:
            return drawn | "All strings" >> CombineAll(join)
        drawn = self.drawing.with_empty(drawn, join.extract_output([]), kind)
        return self.drawing.paid(drawn | "All strings" >> CombineAll(join))

    def steps(self, digest: UserDigest) -> tuple[Any, Any, Any]:
        """What sends strings to their buckets, what publishes there, and what joins all buckets."""
        publish = PublishCrowdsDoFn(self.crowds, self.width, self.open_rng)
        return PartitionStringsDoFn(self.buckets, digest), publish, JoinCrowds(self.width)


@typehints.with_input_types(CellBlock | PooledBlock)
@typehints.with_output_types(tuple[int, Piece])
class PartitionStringsDoFn(PartitionDoFn):
    """Counts the equal strings of what it gathers, and sends each on to its bucket."""

    def __init__(self, buckets: int, digest: UserDigest) -> None:
        super().__init__(buckets)
        self._digest = digest

    def rows(self, block: CellBlock | PooledBlock) -> Words:
        if isinstance(block, PooledBlock):
            return _counted(*block.counted)
        return _counted(block.cells, np.ones(block.size, np.int64))

    def assign(self, rows: Words) -> NDArray[np.uint64]:
        return bucket_of(self._digest(as_binary(rows)), self._buckets)

    def parted(self, rows: Words) -> Iterator[tuple[int, Words]]:
        strings, sizes = _added_up(rows)
        yield from partition(_counted(strings, sizes), self.assign(strings), self._buckets)


def _counted(strings: Words, times: NDArray[np.int64]) -> Words:
    """Strings with how often each came."""
    return np.concatenate([strings, times.view(np.uint32).reshape(-1, _COUNT)], axis=1)


def _added_up(counted: Words) -> tuple[Words, NDArray[np.int64]]:
    """The different strings of what `_counted` makes, and how often each came in all."""
    strings = np.ascontiguousarray(counted[:, :-_COUNT])
    times = np.ascontiguousarray(counted[:, -_COUNT:]).view(np.int64)[:, 0]
    first, places = distinct(strings)
    sizes = np.zeros(first.size, np.int64)
    np.add.at(sizes, places, times)
    return strings[first], sizes


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(tuple[int, Any])
class PublishCrowdsDoFn(DrawingDoFn):
    """Draws the noise of each crowd of a bucket, and keeps those that pass."""

    def __init__(self, crowds: Crowds, width: int, open_rng: Generator) -> None:
        self._crowds, self._width, self._open_rng = crowds, width, open_rng

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, Crowded]]:
        number, pieces = bucket
        table = np.frombuffer(b"".join(pieces), np.uint32).reshape(-1, self._width + _COUNT)
        strings, sizes = _added_up(table)
        kept, values = self._crowds.publish(sizes, self._rng)
        yield number, Crowded(strings[kept], values[kept], int(sizes.sum()))


def _drawn(bucket: tuple[int, Iterable[Crowded]]) -> list[Crowded]:
    [crowded] = bucket[1]
    return [crowded]


@typehints.with_input_types(Crowded)
@typehints.with_output_types(Crowded)
class JoinCrowds(beam.CombineFn):
    """The strings of all buckets, by values and then by themselves: in no order of the job's."""

    def __init__(self, width: int) -> None:
        self._width = width

    def create_accumulator(self) -> list[Crowded]:
        return []

    def add_input(self, state: list[Crowded], crowded: Crowded) -> list[Crowded]:
        return [*state, crowded]

    def merge_accumulators(self, states: Iterable[list[Crowded]]) -> list[Crowded]:
        return [crowded for state in states for crowded in state]

    def extract_output(self, state: list[Crowded]) -> Crowded:
        none = Crowded(np.zeros((0, self._width), np.uint32), np.zeros(0, np.int64), 0)
        strings, values, messages = zip(none, *state, strict=True)
        rows, numbers = np.concatenate(strings), np.concatenate(values)
        order = np.lexsort((*rows.T[::-1], -numbers))
        # One string may have come in several seals, of liars: its largest crowd counts.
        order = order[distinct(rows[order])[0]]
        return Crowded(rows[order], numbers[order], sum(messages))
