"""Contribution bounding: one value per user, chosen uniformly from all of the user's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, SecureRandom
from transforms.blocks import Generator, GroupOnce, PartitionDoFn
from transforms.encode import CellBlock

_ROW = np.dtype([("user", np.uint64), ("cell", np.uint32)])
_COMPACT_AT = 1 << 18  # rows read between two compactions of a bucket's state


@dataclass
class OneValuePerUser(beam.PTransform):
    """CellBlocks with users in, CellBlocks with at most one row per user, and no users, out.

    All rows of a user meet in one bucket, whatever blocks, files and workers they came from.
    There each row draws a random priority and the least one of each user stays: a uniform
    choice. A bucket's memory is its number of users, however many rows they have.

    Attributes:
        buckets: how many groups users are hashed into.
        open_rng: opens the generator on each worker.
    """

    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return (
            blocks
            | "Partition by user" >> beam.ParDo(PartitionUsersDoFn(self.buckets))
            | "Group by user bucket" >> GroupOnce()
            | "Choose one row per user" >> beam.ParDo(ChooseDoFn(self.open_rng))
        )


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(tuple[int, bytes])
class PartitionUsersDoFn(PartitionDoFn):
    """Sends each row to its user's bucket."""

    def rows(self, block: CellBlock) -> NDArray[np.void]:
        rows = np.empty(block.cells.size, _ROW)
        rows["user"], rows["cell"] = block.users, block.cells
        return rows

    def assign(self, rows: NDArray[np.void]) -> NDArray[np.uint64]:
        # The digest is uniform, so its high 32 bits scaled down are a uniform bucket.
        high = rows["user"] >> np.uint64(32)
        return (high * np.uint64(self._buckets)) >> np.uint64(32)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(CellBlock)
class ChooseDoFn(beam.DoFn):
    """One row of each user in a bucket."""

    def __init__(self, open_rng: Generator) -> None:
        self._open_rng = open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[CellBlock]:
        yield CellBlock(choose_one_per_user(bucket[1], self._rng), None)


def choose_one_per_user(pieces: Iterable[bytes], rng: RandomSource) -> NDArray[np.uint32]:
    """The cell of one uniformly chosen row of each user.

    Args:
        pieces: packed (user, cell) rows, in any split and order.
        rng: draws the priorities.

    Returns:
        (users,) uint32 cells, in no meaningful order.
    """
    users, cells = np.empty(0, np.uint64), np.empty(0, np.uint32)
    priorities = np.empty(0, np.uint64)
    waiting: list[NDArray[np.void]] = []
    pending = 0

    def compact() -> None:
        nonlocal users, cells, priorities, waiting, pending
        rows = np.concatenate([np.empty(0, _ROW), *waiting])
        users = np.concatenate([users, rows["user"]])
        cells = np.concatenate([cells, rows["cell"]])
        priorities = np.concatenate([priorities, rng.words(rows.size)])
        kept = _least_per_group(users, priorities)
        users, cells, priorities = users[kept], cells[kept], priorities[kept]
        waiting, pending = [], 0

    for piece in pieces:
        rows = np.frombuffer(piece, _ROW)
        waiting.append(rows)
        pending += rows.size
        if pending >= max(_COMPACT_AT, users.size):
            compact()
    compact()
    return cells


def _least_per_group(groups: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Indices of the row with the least key of each group."""
    if not groups.size:
        return np.empty(0, np.intp)
    order = np.argsort(groups)
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if starts.size == groups.size:
        return order
    ranked = keys[order]
    least = np.minimum.reduceat(ranked, starts)
    lengths = np.diff(np.r_[starts, groups.size])
    attained = np.flatnonzero(ranked == np.repeat(least, lengths))
    # Two equal 64-bit keys in one group are possible, if barely: take the first of each group.
    _, first = np.unique(ordered[attained], return_index=True)
    return order[attained[first]]
