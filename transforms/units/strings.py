"""Different strings of each user: digests of strings travel with rows, and each string once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from transforms.elements.blocks import Generator, GroupOnce, PartitionDoFn, bucket_of, partition
from transforms.elements.conservation import fail_lost
from transforms.elements.pieces import Piece
from transforms.encoders.block import CellBlock, PooledBlock
from transforms.encoders.strings import Words, distinct, width_of
from transforms.encoders.users import mix
from transforms.units.contributions import BoundContributions, Bounded, EncodeContributions

_DIGEST, _COUNT = 3, 2  # words of a string's digest, and of a number of rows
_LENGTH = np.uint32((1 << 31) - 1)  # of the first word of a string: the other bit says it was cut
_HEAD = 4  # bytes before a piece: how many words of each string follow; 0 of numbers of rows


class StringDigest(NamedTuple):
    """96 bits of each string, under keys that nobody knew who made it.

    Two of 10^8 strings have the same with probability 10^-13; were it 64 bits, what one user holds
    could change which string is shown with a probability that delta does not count.

    Attributes:
        keys: two of 64 bits.
    """

    keys: tuple[int, ...]

    @classmethod
    def fresh(cls) -> StringDigest:
        """One that is drawn."""
        return cls((*SecureRandom().words(2).tolist(),))

    def __call__(self, strings: Words) -> Words:
        """(n, 3) of (n, w) strings, whatever w is."""
        states = [mix(strings[:, 0] ^ np.uint64(key)) for key in self.keys]
        lengths, active = strings[:, 0] & _LENGTH, np.arange(len(strings))
        for place in range(1, strings.shape[1], 2):
            # All that a string has, zeros too: else two strings with the same others were one.
            active = active.compress(lengths.take(active) > 4 * (place - 1))
            if not active.size:
                break
            words = strings[active, place].astype(np.uint64)
            if place + 1 < strings.shape[1]:
                words |= strings[active, place + 1].astype(np.uint64) << np.uint64(32)
            for state in states:
                state[active] = mix(state.take(active) ^ words)
        digests = np.empty((len(strings), _DIGEST), np.uint32)
        for place, (state, key) in enumerate(zip(states, self.keys, strict=True)):
            sealed = mix(state + np.uint64(key))
            digests[:, 2 * place] = sealed
            if place == 0:
                digests[:, 1] = sealed >> np.uint64(32)
        return digests


@dataclass
class EncodeStrings(EncodeContributions):
    """The same of strings, pooled, of which several different ones of each user count.

    Attributes:
        most: bytes of UTF-8 that the encoder looks at.
    """

    most: int = 1

    def bound(self) -> beam.PTransform:
        width, k = width_of(self.most), self.distinct or 1
        return BoundStrings(width, k, self.buckets, self.open_rng)


@dataclass
class BoundStrings(beam.PTransform):
    """Pooled strings with users in; `Bounded` out, the strings that count for some user, pooled.

    A string is in memory 68 bytes, and a user's row of it would take them along to its bucket; its
    digest has 12. Each worker sends a string once for all rows that it has gathered, and where all
    of one bucket meet, those that users have chosen are spelt again.

    Attributes:
        width: words of a string.
        distinct, buckets, open_rng: as of `BoundContributions`.
        digest: of strings.
    """

    width: int
    distinct: int
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    digest: StringDigest = field(default_factory=StringDigest.fresh)

    def expand(self, blocks: beam.PCollection) -> Bounded:
        pool = beam.ParDo(PoolDoFn(self.buckets, self.digest)).with_output_types(CellBlock)
        outputs = blocks | "Pool" >> pool.with_outputs(PoolDoFn.STRINGS, main="rows")
        bound = BoundContributions(
            buckets=self.buckets, open_rng=self.open_rng, distinct=self.distinct
        )
        chosen, flow = outputs.rows | "Bound contributions" >> bound
        numbers = chosen | "Partition by digest" >> beam.ParDo(
            PartitionStringDigestsDoFn(self.buckets)
        )
        # Beam takes what has a tag for anything at all, which engines would pickle.
        typed = beam.Map(_same).with_output_types(tuple[int, Piece])
        strings = outputs[PoolDoFn.STRINGS] | "Strings" >> typed
        spelt = (
            (numbers, strings)
            | "Numbers and strings" >> beam.Flatten()
            | "Group by digest bucket" >> GroupOnce()
            | "Spell" >> beam.ParDo(SpellDoFn(self.width)).with_output_types(PooledBlock)
        )
        return Bounded(spelt, flow)


def _same(piece: tuple[int, bytes]) -> tuple[int, bytes]:
    return piece


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(tuple[int, Piece])
class PartitionStringDigestsDoFn(PartitionDoFn):
    """Counts equal digests of what it gathers, and sends each on to its bucket."""

    def rows(self, block: CellBlock) -> Words:
        return block.cells

    def assign(self, rows: Words) -> NDArray[np.uint64]:
        return bucket_of(rows[:, 0].astype(np.uint64) << np.uint64(32), self._buckets)

    def parted(self, rows: Words) -> Iterator[tuple[int, Words]]:
        first, places = distinct(rows)
        counts = np.bincount(places, minlength=first.size).view(np.uint32).reshape(-1, _COUNT)
        table = np.concatenate([rows.take(first, axis=0), counts], axis=1)
        return partition(table, self.assign(table), self._buckets)

    def packed(self, rows: Words) -> bytes:
        return bytes(_HEAD) + rows.tobytes()


@typehints.with_input_types(PooledBlock)
class PoolDoFn(PartitionStringDigestsDoFn):
    """Rows with the digest of their string; each string once, apart, in the output `STRINGS`."""

    STRINGS = "strings"

    def __init__(self, buckets: int, digest: StringDigest) -> None:
        super().__init__(buckets)
        self._digest = digest

    def parted(self, rows: Words) -> Iterator[tuple[int, Words]]:
        first, _ = distinct(np.ascontiguousarray(rows[:, :_DIGEST]))
        table = rows.take(first, axis=0)
        return partition(table, self.assign(table), self._buckets)

    def packed(self, rows: Words) -> bytes:
        """Without the words at their ends that no string of the piece has."""
        used = np.flatnonzero(rows[:, _DIGEST:].any(axis=0))
        size = int(used[-1]) + 1 if used.size else 1
        return size.to_bytes(_HEAD, "little") + rows[:, : _DIGEST + size].tobytes()

    def process(self, block: PooledBlock, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        digests = self._digest(block.pool)
        yield CellBlock(digests.take(block.cells, axis=0), block.users, block.applies)
        table = CellBlock(np.concatenate([digests, block.pool], axis=1), None)
        yield from super().process(table, window)

    def finish_bundle(self) -> Iterator[Any]:
        for piece in super().finish_bundle():
            yield beam.pvalue.TaggedOutput(self.STRINGS, piece)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
class SpellDoFn(beam.DoFn):
    """The strings of a bucket's digests, each as often as some rows chose it.

    Args:
        width: words of a string.
    """

    def __init__(self, width: int) -> None:
        self._width = width

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[PooledBlock]:
        counted, strings = [np.empty((0, _DIGEST + _COUNT), np.uint32)], list[Words]()
        for piece in bucket[1]:
            size = int.from_bytes(piece[:_HEAD], "little")
            rows = np.frombuffer(piece, np.uint32, offset=_HEAD).reshape(
                -1, _DIGEST + (size or _COUNT)
            )
            (strings if size else counted).append(rows)
        numbers = np.concatenate(counted)
        digests = [numbers[:, :_DIGEST], *(rows[:, :_DIGEST] for rows in strings)]
        # Those that are counted come first, so that their places do.
        _, places = distinct(np.concatenate(digests))
        mine, theirs = places[: len(numbers)], places[len(numbers) :]
        many = int(mine.max(initial=-1)) + 1
        times, pool = np.zeros(many, np.int64), np.zeros((many, self._width), np.uint32)
        np.add.at(times, mine, np.ascontiguousarray(numbers[:, _DIGEST:]).view(np.int64)[:, 0])
        known, start = np.zeros(many, np.bool_), 0
        for rows in strings:
            whose = theirs[start : start + len(rows)]
            own = np.flatnonzero(whose < many)
            pool[whose[own], : rows.shape[1] - _DIGEST] = rows[own, _DIGEST:]
            known[whose[own]] = True
            start += len(rows)
        if not known.all():  # an engine has lost a piece
            fail_lost()
        if many:
            yield PooledBlock(np.repeat(np.arange(many, dtype=np.uint32), times), pool)
