"""Contribution bounding: one row of each user, or a few different ones, chosen uniformly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.counters.contributions import pairs
from mechanisms.randomness import RandomSource, SecureRandom
from transforms.block_coders import decoded
from transforms.blocks import Generator, GroupOnce, PartitionBlocksDoFn, bucket_of
from transforms.conservation import BOUNDED, CHOSEN
from transforms.encode import CellBlock, Encode
from transforms.encoders.block import Block, Rows, taken, unpacked
from transforms.encoders.encoder import Encoder
from transforms.encoders.part import Part
from transforms.encoders.strings import distinct
from transforms.encoders.users import UserDigest

_USERS, _APPLIES, _CELLS = "users", "applies", "cells"
_LAST = np.uint64(1 << 63)  # added to a priority, it comes after all without it
_BYTES = 1 << 22  # of rows read between two compactions of a bucket's state


@dataclass
class EncodeContributions(beam.PTransform):
    """Tables in; `Contributions` out, blocks of one row of each privacy unit, and no users.

    Attributes:
        encoder: of the values.
        users: the privacy unit; None where that is a row.
        buckets: how many groups users are hashed into.
        open_rng: opens generators on workers; a seeded one is for tests.
        named: whether users' digests stay with their rows, for whoever names reports by them.
        part: which units answer, if not all.
        distinct: as of `BoundContributions`.
    """

    encoder: Encoder
    users: UserDigest | None = None
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    named: bool = False
    part: Part | None = None
    distinct: int | None = None

    def expand(self, tables: beam.PCollection) -> Contributions:
        encoded = tables | "Encode" >> Encode(self.encoder, self.users, self.open_rng, self.part)
        if self.users is None:
            return Contributions(encoded.blocks, encoded.tallies)
        bound = BoundContributions(
            self.encoder.kind, self.buckets, self.open_rng, self.named, self.distinct
        )
        blocks, flow = encoded.blocks | "Bound contributions" >> bound
        return Contributions(blocks, encoded.tallies, (flow,))


class Contributions(NamedTuple):
    """What `EncodeContributions` yields.

    Attributes:
        blocks: a row of each unit.
        tallies: as `Encoded`.
        flow: (name, count) of what passed between its steps.
    """

    blocks: beam.PCollection
    tallies: beam.PCollection
    flow: tuple[beam.PCollection, ...] = ()


class Bounded(NamedTuple):
    """What `BoundContributions` yields.

    Attributes:
        blocks: a row of each user.
        flow: (name, count) of the rows that came, and of those that were chosen.
    """

    blocks: beam.PCollection
    flow: beam.PCollection


@dataclass
class BoundContributions(beam.PTransform):
    """Blocks with users in; `Bounded`, blocks with at most one row per user, out.

    All rows of a user meet in one bucket, whatever blocks, files and workers they came from.
    There each row draws a random priority and the least one of each user stays: a uniform choice.
    Where something must hold of rows, it is among those of which it does, if the user has any: a
    function of that user's rows alone, as ever. A bucket's memory is a row of each user, however
    many rows they have; with `distinct`, all its rows, however many of a user may stay.

    Attributes:
        kind: of block.
        buckets: how many groups users are hashed into.
        open_rng: opens the generator on each worker.
        named: whether users go on; they end here otherwise.
        distinct: k, where up to so many different cells of each user stay and not one row: drawn
            uniformly if it has more, however often each of them stands in its rows.
    """

    kind: type[Any] = CellBlock
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    named: bool = False
    distinct: int | None = None

    def expand(self, blocks: beam.PCollection) -> Bounded:
        step = ChooseDoFn(self.kind, self.open_rng, self.named, self.distinct)
        choose = beam.ParDo(step).with_output_types(self.kind)
        outputs = (
            blocks
            | "Partition by user" >> beam.ParDo(PartitionUsersDoFn(self.buckets))
            | "Group by user bucket" >> GroupOnce()
            | "Choose one row per user" >> choose.with_outputs(ChooseDoFn.FLOW, main="blocks")
        )
        return Bounded(outputs.blocks, outputs[ChooseDoFn.FLOW])


@typehints.with_input_types(Rows)
@typehints.with_output_types(tuple[int, bytes])
class PartitionUsersDoFn(PartitionBlocksDoFn):
    """Sends each row to its user's bucket."""

    def rows(self, block: Block) -> NDArray[np.void]:
        if block.users is None:
            raise ValueError("rows without users cannot be bounded by user")
        return super().rows(block)

    def assign(self, rows: NDArray[np.void]) -> NDArray[np.uint64]:
        return bucket_of(rows[_USERS], self._buckets)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
class ChooseDoFn(beam.DoFn):
    """One row of each user in a bucket, or several different ones; how many came, and went, apart.

    These numbers are in the output tagged `FLOW`.
    """

    FLOW = "flow"

    def __init__(
        self,
        kind: type[Any],
        open_rng: Generator,
        named: bool = False,
        distinct: int | None = None,
    ) -> None:
        self._kind, self._open_rng, self._named = kind, open_rng, named
        self._distinct = distinct

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        came = 0

        def pieces() -> Iterator[NDArray[np.void]]:
            nonlocal came
            for piece in map(decoded, bucket[1]):
                came += piece.size
                yield piece

        if self._distinct is None:
            chosen = choose_one_per_user(pieces(), self._rng)
        else:
            chosen = choose_distinct(np.concatenate([*pieces()]), self._distinct, self._rng)
        block = unpacked(self._kind, chosen)
        yield block if self._named else block._replace(users=None)
        for name, amount in ((BOUNDED, came), (CHOSEN, chosen.size)):
            yield beam.pvalue.TaggedOutput(self.FLOW, (name, amount))


class _Chosen(NamedTuple):
    """The row of each user that has stayed so far, and the priority it drew."""

    rows: NDArray[np.void]
    priorities: NDArray[np.uint64]


def choose_one_per_user(
    pieces: Iterable[NDArray[np.void]], rng: RandomSource, compact_at: int = _BYTES
) -> NDArray[np.void]:
    """One uniformly chosen row of each user.

    Args:
        pieces: rows of one layout, in any split and order; at least one piece.
        rng: draws the priorities.
        compact_at: bytes read between two compactions, at the least.

    Returns:
        (users,) rows, in no meaningful order.
    """
    chosen: _Chosen | None = None
    waiting: list[NDArray[np.void]] = []
    size = 0
    for rows in pieces:
        waiting.append(rows)
        size += rows.nbytes
        # No fewer than have stayed: else a bucket of many users is sorted again for every few rows.
        if size >= max(compact_at, 0 if chosen is None else chosen.rows.nbytes):
            chosen, waiting, size = _compacted(chosen, waiting, rng), [], 0
    return _compacted(chosen, waiting, rng).rows


def choose_distinct(rows: NDArray[np.void], most: int, rng: RandomSource) -> NDArray[np.void]:
    """Up to so many rows of each user, no two of one user with the same cells.

    Args:
        rows: of one layout, all of each user; those for which something does not hold that must
            are left out.
        most: of a user.
        rng: draws which of them stay of users who have more, each of their cells as likely.
    """
    if _APPLIES in (rows.dtype.names or ()):
        rows = rows[rows[_APPLIES]]
    cells = rows[_CELLS]
    first, groups = distinct(cells if cells.ndim > 1 else cells[:, None])
    names, users = np.unique(rows[_USERS], return_inverse=True)
    chosen = pairs(users, groups, names.size, most, rng)
    kept = rows[first[chosen.groups]]
    kept[_USERS] = names[
        chosen.users
    ]  # equal cells are the same, whoever's row they were read from
    return kept


def _compacted(
    chosen: _Chosen | None, waiting: list[NDArray[np.void]], rng: RandomSource
) -> _Chosen:
    """What stays once some more rows have come."""
    drawn = [_priorities(rows, rng) for rows in waiting]
    if chosen is not None:
        # Who has stayed keeps its priority: drawn anew, late rows would win.
        waiting, drawn = [chosen.rows, *waiting], [chosen.priorities, *drawn]
    rows, priorities = np.concatenate(waiting), np.concatenate(drawn)
    kept = _least_per_group(rows[_USERS], priorities)
    return _Chosen(taken(rows, kept), priorities[kept])


def _priorities(rows: NDArray[np.void], rng: RandomSource) -> NDArray[np.uint64]:
    """(n,) uniform words; those of rows for which something does not hold that must come last."""
    drawn = rng.words(rows.size)
    if _APPLIES not in (rows.dtype.names or ()):
        return drawn
    return (drawn >> np.uint64(1)) + np.where(rows[_APPLIES], np.uint64(0), _LAST)


def _least_per_group(groups: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Indices of the row with the least key of each group."""
    if not groups.size:
        return np.empty(0, np.intp)
    order, ordered = _in_order(groups)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if starts.size == groups.size:
        return order
    ranked = keys[order]
    least = np.minimum.reduceat(ranked, starts)
    lengths = np.diff(np.r_[starts, groups.size])
    attained = np.flatnonzero(ranked == np.repeat(least, lengths))
    # Two equal 64-bit keys in one group are possible, if barely: take the first of each group.
    whose = ordered[attained]
    return order[attained[np.r_[True, whose[1:] != whose[:-1]]]]


def _in_order(groups: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Where each of some words stands that are put in order, and the words so.

    They are sorted as words whose low bits say their place, which takes a third of the time of
    sorting places by them; the few that differ in these low bits alone are put in order afterwards.
    """
    width = np.uint64(max(1, (groups.size - 1).bit_length()))
    keyed = (groups >> width) << width
    keyed |= np.arange(groups.size, dtype=np.uint64)
    keyed.sort()
    order = (keyed & ((np.uint64(1) << width) - np.uint64(1))).astype(np.intp)
    ordered = groups.take(order)
    if (ordered[1:] < ordered[:-1]).any():
        keyed >>= width
        new = np.r_[True, keyed[1:] != keyed[:-1]]
        run = np.cumsum(new) - 1
        wrong = np.zeros(run[-1] + 1, np.bool_)
        wrong[run[1:][ordered[1:] < ordered[:-1]]] = True
        mixed = np.flatnonzero(wrong[run])
        within = np.argsort(ordered[mixed], kind="stable")
        order[mixed], ordered[mixed] = order[mixed][within], ordered[mixed][within]
    return order, ordered
