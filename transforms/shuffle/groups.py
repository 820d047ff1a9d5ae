"""What units add to groups -> totals of each group -> those above a threshold, with noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.heavy_hitters.group_selection import GroupSelection
from transforms.elements.blocks import DrawingDoFn, Generator, partition
from transforms.elements.pieces import Piece
from transforms.encoders.block import SlotBlock
from transforms.encoders.strings import Words
from transforms.encoders.undeclared import NUMBER, as_numbers, summed
from transforms.encoders.users import UserDigest
from transforms.shuffle.crowds import JoinCrowds, PartitionStringsDoFn, PublishCrowds


class PublishedTotals(NamedTuple):
    """Groups that are published, as words, by falling noisy weights; else as `Crowded`."""

    groups: Words
    weights: NDArray[np.int64]
    totals: NDArray[np.int64]
    messages: int


@dataclass
class PublishGroups(PublishCrowds):
    """Blocks of `GroupSums.table` in, with so many numbers; one `PublishedTotals` out."""

    crowds: GroupSelection  # type: ignore[assignment]
    numbers: int = 2

    def steps(self, digest: UserDigest) -> tuple[Any, Any, Any]:
        publish = PublishGroupsDoFn(self.crowds, self.width, self.numbers, self.open_rng)
        parts = PartitionGroupsDoFn(self.buckets, digest, self.numbers)
        return parts, publish, JoinGroups(self.width, self.numbers - 2)


@typehints.with_input_types(SlotBlock)
@typehints.with_output_types(tuple[int, Piece])
class PartitionGroupsDoFn(PartitionStringsDoFn):
    """Adds up the equal groups of what it gathers, and sends each on to its bucket."""

    def __init__(self, buckets: int, digest: UserDigest, numbers: int) -> None:
        super().__init__(buckets, digest)
        self._numbers = numbers

    def rows(self, block: SlotBlock) -> Words:  # type: ignore[override]
        return block.words.view(np.uint32)

    def parted(self, rows: Words) -> Iterator[tuple[int, Words]]:
        table = summed(rows, self._numbers)
        groups: Words = np.ascontiguousarray(table[:, : -NUMBER * self._numbers])
        yield from partition(table, self.assign(groups), self._buckets)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(tuple[int, Any])
class PublishGroupsDoFn(DrawingDoFn):
    """Draws the noise of each group of a bucket, and keeps those that pass."""

    def __init__(
        self, design: GroupSelection, width: int, numbers: int, open_rng: Generator
    ) -> None:
        self._design, self._width, self._open_rng = design, width, open_rng
        self._numbers = numbers

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, PublishedTotals]]:
        number, pieces = bucket
        rows = np.frombuffer(b"".join(pieces), np.uint32)
        table = summed(rows.reshape(-1, self._width + NUMBER * self._numbers), self._numbers)
        exact = as_numbers(table, self._numbers)
        kept, weights, totals = self._design.publish(exact[:, 1], exact[:, 2:], self._rng)
        groups, came = table[kept, : self._width], int(exact[:, 0].sum())
        yield number, PublishedTotals(groups, weights, totals, came)


@typehints.with_input_types(PublishedTotals)
@typehints.with_output_types(PublishedTotals)
class JoinGroups(JoinCrowds):
    """The groups of all buckets, by weights and then by themselves: in no order of the job's."""

    def __init__(self, width: int, totals: int) -> None:
        super().__init__(width)
        self._totals = totals

    def extract_output(self, state: list[Any]) -> PublishedTotals:  # type: ignore[override]
        empty = np.zeros((0, self._width), np.uint32), np.zeros(0, np.int64)
        none = PublishedTotals(*empty, np.zeros((0, self._totals), np.int64), 0)
        *parts, messages = zip(none, *state, strict=True)
        groups, weights, totals = map(np.concatenate, parts)
        order = np.lexsort((*groups.T[::-1], -weights))
        return PublishedTotals(groups[order], weights[order], totals[order], sum(messages))
