"""Users divided at random into groups of which each takes part in one thing only.

What a user tells in one group is all that the user ever tells, so promises made of one report hold
for the whole run: nobody's is spent twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from transforms.elements.blocks import Generator, GroupOnce, PartitionBlocksDoFn, joined
from transforms.elements.pieces import Piece
from transforms.encoders.block import Block, RowBlock, unpacked

_SIZES = "sizes"
_BLOCK = 1 << 24  # bytes of rows that leave together


class Groups(NamedTuple):
    """What `SplitGroups` yields.

    Attributes:
        rows: blocks of each group's, and of those held back, who come last.
        sizes: (`rows_of` a group, how many), to be added up.
    """

    rows: list[beam.PCollection]
    sizes: beam.PCollection


@dataclass
class SplitGroups(beam.PTransform):
    """Blocks of rows in; `Groups` out: the rows of each group, and of those held back.

    Every user draws its own group. The draw is made once: a GroupByKey lies between it and the
    groups, so that no runner computes one group again, by other coins, after another was used.

    Attributes:
        groups: how many, of equal size on average.
        held_back: the share of users in no group, who come last; 0 for nobody.
        shards: into how many pieces a group falls, each of which one worker can treat.
        open_rng: opens the generator on each worker.
    """

    groups: int
    held_back: float = 0.0
    shards: int = 1
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> Groups:
        draw = DrawGroupsDoFn(self.groups, self.held_back, self.shards, self.open_rng)
        tags = [group_tag(group) for group in range(self.groups + 1)]
        routed = (
            blocks
            | "Draw groups" >> beam.ParDo(draw)
            | "Gather groups" >> GroupOnce()
            | "Part ways" >> beam.ParDo(PartDoFn(self.shards)).with_outputs(*tags, _SIZES)
        )
        return Groups([routed[tag] for tag in tags], routed[_SIZES])


def group_tag(group: int) -> str:
    """The name of the output with a group's rows."""
    return f"group {group}"


def rows_of(group: int) -> str:
    """Under which name a group's rows are counted."""
    return f"rows of group {group}"


@typehints.with_input_types(RowBlock)
@typehints.with_output_types(tuple[int, Piece])
class DrawGroupsDoFn(PartitionBlocksDoFn):
    """Sends each row to a group, and there to a shard, by draws that look at nothing."""

    def __init__(self, groups: int, held_back: float, shards: int, open_rng: Generator) -> None:
        super().__init__((groups + 1) * shards)
        if not groups >= 1:
            raise ValueError(f"groups must be at least 1, not {groups}")
        if not 0 <= held_back < 1:
            raise ValueError(f"held_back must lie in [0, 1), not {held_back}")
        self._groups, self._shards = groups, shards
        self._threshold, self._open_rng = int(held_back * 2**64), open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def rows(self, block: Block) -> NDArray[np.void]:
        if block.users is not None:
            # Rows draw their groups: a user with two rows could be in two groups, and pay twice.
            raise ValueError("users must have been bounded to one row each")
        return super().rows(block)

    def assign(self, rows: NDArray[np.void]) -> NDArray[np.uint64]:
        buckets = self._rng.integers(self._groups * self._shards, rows.size)
        if self._threshold:
            # Who is held back is drawn apart from the groups, so those who stay are uniform over
            # them.
            back = self._rng.bernoulli(self._threshold, rows.size)
            spread = self._rng.integers(self._shards, int(np.count_nonzero(back)))
            buckets[back] = np.uint64(self._groups * self._shards) + spread
        return buckets


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(RowBlock)
class PartDoFn(beam.DoFn):
    """Unpacks the rows of each group into that group's own output; one more says how many."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[beam.pvalue.TaggedOutput]:
        number, size = group[0] // self._shards, 0
        for rows in joined(group[1], _BLOCK):
            size += rows.size
            yield beam.pvalue.TaggedOutput(group_tag(number), unpacked(RowBlock, rows))
        yield beam.pvalue.TaggedOutput(_SIZES, (rows_of(number), size))
