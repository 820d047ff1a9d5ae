"""Contribution bounding: one row of each user, or a few different ones, chosen uniformly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.randomness import SecureRandom
from transforms.elements.block_coders import decoded
from transforms.elements.blocks import (
    DrawingDoFn,
    Generator,
    GroupOnce,
    PartitionBlocksDoFn,
    bucket_of,
    leaving,
)
from transforms.elements.chains import Chain
from transforms.elements.conservation import BOUNDED, CHOSEN
from transforms.elements.pieces import Piece
from transforms.encoders.block import Block, Rows, as_bytes, concatenated, packed, unpacked
from transforms.encoders.encoder import Encoder
from transforms.encoders.part import Part
from transforms.encoders.users import UserDigest
from transforms.rows.encode import CellBlock, Encode, EncodeDoFn
from transforms.units.one_per_user import (
    PRIORITIES,
    USERS,
    Chooser,
    choose_distinct,
    choose_one_per_user,
    priorities,
)

_KEPT = 1 << 27  # bytes of rows that a bundle holds back
_FEWEST = 1 << 15  # bytes of a bucket's rows that are worth a compaction
# A local engine holds what it has grouped five times while it hands that on; so much is grouped in
# parts, one after the other: 10^7 rows of 3.2 M users took 535 MB in one and 465 in four. Each is a
# stage of its own, which costs a job of few rows more than it saves.
_FEW_BUCKETS, _PARTS = 64, 4
_COUNT = 8  # bytes of a piece that say from how many rows its own were chosen


@dataclass
class EncodeContributions(beam.PTransform):
    """Tables in; `EncodedContributions` out, blocks of one row of each privacy unit, and no users.

    Attributes:
        encoder: of the values.
        users: the privacy unit; None where that is a row.
        buckets: how many groups users are hashed into.
        open_rng: opens generators on workers; a seeded one is for tests.
        named: whether users' digests stay with their rows, for whoever names reports by them.
        part: which units answer, if not all.
        distinct: as of `BoundContributions`.
        reported: whether the engine's counters may say how many rows there are: see `Encode`. Where
            users are the unit they never do.
    """

    encoder: Encoder
    users: UserDigest | None = None
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    named: bool = False
    part: Part | None = None
    distinct: int | None = None
    reported: bool = True

    def expand(self, tables: beam.PCollection) -> EncodedContributions:
        reported = self.reported and self.users is None
        encode = Encode(self.encoder, self.users, self.open_rng, self.part, reported)
        encoded = tables | "Encode" >> encode
        if self.users is None:
            return EncodedContributions(encoded.blocks, encoded.tallies)
        blocks, flow = encoded.blocks | "Bound contributions" >> self.bound()
        return EncodedContributions(blocks, encoded.tallies, (flow,))

    def bound(self) -> beam.PTransform:
        """What bounds the rows of each user."""
        return BoundContributions(
            self.encoder.kind, self.buckets, self.open_rng, self.named, self.distinct
        )

    def chains(self, last: Chain) -> tuple[Chain, ...]:
        """The same, each up to a group, and `last` behind it; none if all is grouped in parts."""
        encode = EncodeDoFn(
            Encode(self.encoder, self.users, self.open_rng, self.part, reported=False)
        )
        if self.users is None:
            return (last.after(encode),)
        if self.distinct is not None or self.buckets > _FEW_BUCKETS:
            return ()
        thin = ThinUsersDoFn(self.buckets, self.open_rng)
        choose = ChooseDoFn(self.encoder.kind, self.open_rng, self.named)
        return Chain(last.name, (encode,), thin), last.after(choose)


class EncodedContributions(NamedTuple):
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
    Each row draws a random priority and the least one of each user stays: a uniform choice, made
    among the rows of a bundle before they travel, and among what is left of all bundles there.
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
        thin, whole = ThinUsersDoFn(self.buckets, self.open_rng), PartitionUsersDoFn(self.buckets)
        step = beam.ParDo(thin if self.distinct is None else whole)
        pieces = blocks | "Partition by user" >> step
        if self.buckets <= _FEW_BUCKETS:
            return self._chosen(pieces)
        # Beam takes what passes a filter for anything at all, which engines would pickle, and
        # workers would not share.
        parts = [
            pieces | f"Part {i}" >> beam.Filter(_in_part, i).with_output_types(tuple[int, Piece])
            for i in range(_PARTS)
        ]
        bounded = [self._chosen(part, f" of part {i}") for i, part in enumerate(parts)]
        chosen, flow = zip(*bounded, strict=True)
        return Bounded(chosen | "All parts" >> beam.Flatten(), flow | "Flow" >> beam.Flatten())

    def _chosen(self, pieces: beam.PCollection, which: str = "") -> Bounded:
        """A row of each user of these pieces."""
        step = ChooseDoFn(self.kind, self.open_rng, self.named, self.distinct)
        choose = beam.ParDo(step).with_output_types(self.kind)
        outputs = (
            pieces
            | f"Group by user bucket{which}" >> GroupOnce()
            | f"Choose one row per user{which}"
            >> choose.with_outputs(ChooseDoFn.FLOW, main="blocks")
        )
        return Bounded(outputs.blocks, outputs[ChooseDoFn.FLOW])


def _in_part(piece: tuple[int, bytes], part: int) -> bool:
    return piece[0] % _PARTS == part


@typehints.with_input_types(Rows)
@typehints.with_output_types(tuple[int, Piece])
class PartitionUsersDoFn(PartitionBlocksDoFn):
    """Sends each row to its user's bucket."""

    def rows(self, block: Block) -> NDArray[np.void]:
        if block.users is None:
            raise ValueError("rows without users cannot be bounded by user")
        beside = self.beside(block)
        if (cells := getattr(block, "cells", None)) is not None:
            beside["cells"] = cells.astype(np.min_scalar_type(cells.max(initial=0)), copy=False)
        if (amounts := getattr(block, "amounts", None)) is not None:
            beside["amounts"] = _narrow(amounts)
        return packed(block, **beside)

    def beside(self, block: Any) -> dict[str, NDArray[Any]]:
        """What goes with each row that its block does not hold."""
        return {}

    def assign(self, rows: NDArray[np.void]) -> NDArray[np.uint64]:
        return bucket_of(rows[USERS], self._buckets)


def _narrow(numbers: Floats) -> NDArray[Any]:
    """The same numbers in four bytes, if they fit: with a user and a group a row then takes 16.

    An engine copies each byte ten times, and numpy picks rows of 16 bytes in a quarter of the time
    of 20.
    """
    with np.errstate(over="ignore"):
        narrower = numbers.astype(np.float32)
    return narrower if (narrower == numbers).all() else numbers


@typehints.with_input_types(Rows)
@typehints.with_output_types(tuple[int, Piece])
class ThinUsersDoFn(PartitionUsersDoFn, DrawingDoFn):
    """The same with one row of each user in a bundle, or in as much of it as may be held back.

    A piece says how many rows its own were chosen from, so that a lost one is missed.
    """

    most_rows: ClassVar[int] = 1 << 18  # they stay in a core's cache on their way to their buckets

    def __init__(self, buckets: int, open_rng: Generator, kept: int = _KEPT) -> None:
        super().__init__(buckets)
        self._open_rng, self._kept = open_rng, kept

    def start_bundle(self) -> None:
        super().start_bundle()
        compact_at = max(_FEWEST, self._kept // (4 * self._buckets))
        self._choosers: defaultdict[Any, Chooser] = defaultdict(partial(Chooser, compact_at))

    def beside(self, block: Any) -> dict[str, NDArray[Any]]:
        return {PRIORITIES: priorities(block.size, block.applies, self._rng)}

    def gathered(self) -> Iterator[WindowedValue]:
        for window, bucket, rows in self.parts():
            # A slice would keep alive all that was gathered with it, which nobody counts.
            self._choosers[window, bucket].add(as_bytes(rows).copy().view(rows.dtype), rows.size)
        super().start_bundle()
        if sum(chooser.size for chooser in self._choosers.values()) >= self._kept:
            yield from self._left()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from self.gathered()
        yield from self._left()

    def _left(self) -> Iterator[WindowedValue]:
        while self._choosers:
            (window, bucket), chooser = self._choosers.popitem()
            count = chooser.came.to_bytes(_COUNT, "big")
            yield leaving(window, bucket, count + self.packed(chooser.rows()))


@typehints.with_input_types(tuple[int, Iterable[bytes]])
class ChooseDoFn(DrawingDoFn):
    """One row of each user in a bucket, or several different ones; how many came, and went, apart.

    These numbers are in the output tagged `FLOW`.
    """

    FLOW = "flow"

    def __init__(
        self, kind: type[Any], open_rng: Generator, named: bool = False, distinct: int | None = None
    ) -> None:
        self._kind, self._open_rng, self._named = kind, open_rng, named
        self._distinct = distinct

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        came = 0

        def pieces() -> Iterator[NDArray[np.void]]:
            nonlocal came
            for piece in bucket[1]:
                came += int.from_bytes(piece[:_COUNT], "big")
                yield decoded(piece[_COUNT:])

        if self._distinct is None:
            chosen = choose_one_per_user(pieces(), self._rng)
        else:
            rows = concatenated([*map(decoded, bucket[1])])
            chosen, came = choose_distinct(rows, self._distinct, self._rng), rows.size
        block = unpacked(self._kind, chosen)
        yield block if self._named else block._replace(users=None)
        for name, amount in ((BOUNDED, came), (CHOSEN, chosen.size)):
            yield beam.pvalue.TaggedOutput(self.FLOW, (name, amount))
