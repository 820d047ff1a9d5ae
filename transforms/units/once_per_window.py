"""Each user counts once in a window, also across the batches that a stream is taken in by.

What is remembered of users are digests under a key of the stream's and the window's, in files
that each hold one batch's, or several batches' put together, ascending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from apache_beam.pvalue import TaggedOutput
from numpy.typing import NDArray

from transforms.columns import decoded, plain
from transforms.elements.blocks import GroupOnce, PartitionDoFn, bucket_of
from transforms.elements.pieces import Piece
from transforms.elements.progress import tally
from transforms.encoders.users import Digests, UserDigest

SEEN = "user counted before"

_BUCKETS = 64
_WIDTH = 8  # bytes of a digest
_MIXED = 0x9E3779B97F4A7C15  # odd, so that no two windows of a stream have one key


@dataclass
class OncePerWindow(beam.PTransform):
    """Windowed tables in; the rows of users whom no earlier batch has seen in the window, out.

    A user's rows in one batch all pass: the metrics choose among them. Rows without a user pass
    too, and are counted where they are dropped. The output tagged `NEW` holds (bucket, digests)
    of each window, ascending, in buckets that ascend.

    Attributes:
        digest: of users, under the stream's key.
        seen: Beam's window's start, in microseconds -> files of digests.
    """

    digest: UserDigest
    seen: Mapping[int, Sequence[str]]

    NEW = "new"

    def expand(self, tables: beam.PCollection) -> Any:
        unseen = UnseenDoFn(self.digest, dict(self.seen))
        first = tables | "Unseen users" >> beam.ParDo(unseen).with_outputs(self.NEW, main="tables")
        distinct = (
            first[self.NEW]
            | "Partition digests" >> beam.ParDo(PartitionDigestsDoFn(_BUCKETS))
            | "Group digests" >> GroupOnce()
            | "Distinct" >> beam.MapTuple(_distinct).with_output_types(tuple[int, Piece])
        )
        return first.tables, distinct


@typehints.with_input_types(pa.Table)
@typehints.with_output_types(pa.Table)
class UnseenDoFn(beam.DoFn):
    """Drops the rows of users who are known."""

    def __init__(self, digest: UserDigest, seen: Mapping[int, Sequence[str]]) -> None:
        self._digest, self._seen = digest, seen

    def process(self, table: pa.Table, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        start = int(window.start.micros)
        ids = decoded(plain(table.column(self._digest.column).combine_chunks()))
        known = ids.is_valid().to_numpy(zero_copy_only=False)
        users = within(self._digest, start)(ids)
        # Rows without a user have a digest too, which is nobody's.
        again = known & contained(users, self._seen.get(start, ()))
        if again.any():
            tally(SEEN, int(np.count_nonzero(again)))
            table = table.filter(pa.array(~again))
        if table.num_rows:
            # The rows were cut to those that are new, the digests were not.
            yield TaggedOutput(OncePerWindow.NEW, users[known & ~again])
            yield table


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(tuple[int, Piece])
class PartitionDigestsDoFn(PartitionDoFn):
    """Sends each digest to the bucket of its range."""

    def rows(self, block: Digests) -> Digests:
        # A user's rows in one block need travel once only.
        return np.unique(block)

    def assign(self, rows: Digests) -> Digests:
        return bucket_of(rows, self._buckets)


def _distinct(bucket: int, pieces: Iterable[bytes]) -> tuple[int, bytes]:
    return bucket, np.unique(np.frombuffer(b"".join(pieces), np.uint64)).tobytes()


def within(digest: UserDigest, start: int) -> UserDigest:
    """The digest for one window: two windows' cannot be compared without the key."""
    # Multiplying by an odd number permutes the words of 64 bits, so distinct starts have distinct
    # keys.
    return replace(digest, key=digest.key ^ (start * _MIXED) % (1 << 64))


def contained(users: Digests, files: Iterable[str]) -> NDArray[np.bool_]:
    """Which users are in any of the files.

    Args:
        users: (n,) digests.
        files: of ascending digests; they are mapped, not read whole.

    Returns:
        (n,) a mask.
    """
    repeated = np.zeros(users.size, np.bool_)
    order = np.argsort(users)
    ascending = users[order]
    for file in files:
        digests = mapped(file)
        if digests.size:
            # Sought in ascending order, neighbours lie on the same pages of a mapped file.
            places = np.searchsorted(digests, ascending)
            repeated[order] |= digests[np.minimum(places, digests.size - 1)] == ascending
    return repeated


def mapped(file: str) -> Digests:
    """(n,) the digests in a file, of which only what is looked at comes into memory."""
    try:
        return np.memmap(file, np.uint64, "r")
    except ValueError:  # an empty file cannot be mapped
        return np.empty(0, np.uint64)


def merge(files: Sequence[str], into: str) -> int:
    """Put the digests of several files into one, a range at a time.

    Args:
        files: of ascending digests.
        into: the new file.

    Returns:
        How many there are.
    """
    parts = [mapped(file) for file in files]
    # 64 ranges of 2^58 digests each: only one range of every file is in memory at a time.
    borders = [k << 58 for k in range(1, _BUCKETS)]
    cuts = [[0, *np.searchsorted(p, np.array(borders, np.uint64)).tolist(), p.size] for p in parts]
    size = 0
    with open(into, "wb") as file:
        for k in range(_BUCKETS):
            pieces = [p[c[k] : c[k + 1]] for p, c in zip(parts, cuts, strict=True)]
            size += file.write(np.unique(np.concatenate(pieces)).tobytes()) // _WIDTH
    return size
