"""Contribution bounding for blocks of whole rows, or of a few words a row."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, SecureRandom
from transforms.blocks import Generator, GroupOnce, PartitionDoFn
from transforms.contributions import _least_per_group
from transforms.encode_rows import RowBlock
from transforms.pick_coordinates import PickedBlock

_USER = "user"
_BYTES = 1 << 25  # a worker holds before it sends them on, or before it drops what was not chosen


@dataclass
class OneRowPerUser(beam.PTransform):
    """Blocks with users in; blocks with at most one row per user, and no users, out.

    As `OneValuePerUser`: each row of a user draws a priority, and the least one stays.

    Attributes:
        buckets: how many groups users are hashed into.
        open_rng: opens the generator on each worker.
        kind: of block: `RowBlock` or `PickedBlock`.
    """

    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    kind: type[RowBlock] | type[PickedBlock] = RowBlock

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        choose = ChooseRowsDoFn(self.kind, self.open_rng)
        return (
            blocks
            | "Partition by user" >> beam.ParDo(PartitionRowsDoFn(self.buckets))
            | "Group by user bucket" >> GroupOnce()
            | "Choose one row per user" >> beam.ParDo(choose).with_output_types(self.kind)
        )


@typehints.with_input_types(RowBlock | PickedBlock)
@typehints.with_output_types(tuple[int, bytes])
class PartitionRowsDoFn(PartitionDoFn):
    """Sends each row to its user's bucket, in pieces that tell their own layout."""

    def rows(self, block: RowBlock | PickedBlock) -> NDArray[np.void]:
        return packed(block)

    def assign(self, rows: NDArray[np.void]) -> NDArray[np.uint64]:
        # The digest is uniform, so its high 32 bits scaled down are a uniform bucket.
        high = rows[_USER] >> np.uint64(32)
        return (high * np.uint64(self._buckets)) >> np.uint64(32)

    def process(self, block: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        yield from super().process(block, window)
        # Rows may be long: what waits is limited by what it takes, too.
        waiting = sum(rows.nbytes for each in self._waiting.values() for rows in each)
        if waiting >= _BYTES:
            yield from self.finish_bundle()
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        kinds = {window: waiting[0].dtype for window, waiting in self._waiting.items()}
        for piece in super().finish_bundle():
            bucket, rows = piece.value
            kind = kinds[piece.windows[0]]
            yield piece.with_value((bucket, _to_bytes(np.frombuffer(rows, kind))))


@typehints.with_input_types(tuple[int, Iterable[bytes]])
class ChooseRowsDoFn(beam.DoFn):
    """One row of each user in a bucket."""

    def __init__(self, kind: type[RowBlock] | type[PickedBlock], open_rng: Generator) -> None:
        self._kind, self._open_rng = kind, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[RowBlock | PickedBlock]:
        rows = choose_one_row_per_user(bucket[1], self._rng)
        yield self._kind._make([*(rows[name] for name in self._kind._fields[:-1]), None])


def choose_one_row_per_user(pieces: Iterable[bytes], rng: RandomSource) -> NDArray[np.void]:
    """One uniformly chosen row of each user.

    Memory is that of one row of each user and a few pieces, however many rows there are.

    Args:
        pieces: packed rows of one layout, in any split and order; at least one piece.
        rng: draws the priorities.

    Returns:
        (users,) rows, in no meaningful order.
    """
    chosen: _Chosen | None = None
    waiting: list[NDArray[np.void]] = []
    for piece in pieces:
        waiting.append(_from_bytes(piece))
        held = 0 if chosen is None else chosen.rows.nbytes
        if sum(rows.nbytes for rows in waiting) >= max(_BYTES, held):
            chosen, waiting = _compacted(chosen, waiting, rng), []
    return _compacted(chosen, waiting, rng).rows


class _Chosen(NamedTuple):
    """The row of each user that has stayed so far, and the priority it drew."""

    rows: NDArray[np.void]
    priorities: NDArray[np.uint64]


def _compacted(
    chosen: _Chosen | None, waiting: list[NDArray[np.void]], rng: RandomSource
) -> _Chosen:
    """What stays once some more rows have come."""
    drawn = [rng.words(rows.size) for rows in waiting]
    if chosen is not None:
        waiting, drawn = [chosen.rows, *waiting], [chosen.priorities, *drawn]
    rows, priorities = np.concatenate(waiting), np.concatenate(drawn)
    kept = _least_per_group(rows[_USER], priorities)
    return _Chosen(rows[kept], priorities[kept])


def packed(block: RowBlock | PickedBlock) -> NDArray[np.void]:
    """(n,) the rows of a block, user and all, as one array."""
    if block.users is None:
        raise ValueError("rows without users cannot be bounded by user")
    parts = {name: getattr(block, name) for name in block._fields[:-1]}
    kind = [(_USER, np.uint64)] + [(n, part.dtype, part.shape[1:]) for n, part in parts.items()]
    rows = np.empty(len(block.users), np.dtype(kind))
    rows[_USER] = block.users
    for name, part in parts.items():
        rows[name] = part
    return rows


def _to_bytes(rows: NDArray[np.void]) -> bytes:
    """Rows in numpy's own file format, which says what they consist of."""
    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    return buffer.getvalue()


def _from_bytes(piece: bytes) -> NDArray[np.void]:
    rows: NDArray[np.void] = np.load(io.BytesIO(piece), allow_pickle=False)
    return rows
