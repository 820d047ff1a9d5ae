"""All rows of users to their sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from transforms.columns import plain
from transforms.elements.blocks import GroupOnce, bucket_count, bucket_of, partition
from transforms.elements.progress import ROWS
from transforms.encoders.sessions import Sessions
from transforms.encoders.users import Digests, UserDigest

_MERGED = "rows in sessions of others"  # as rows that are rejected: they go no further


def in_sessions(
    rows: beam.PCollection, then: Callable[..., Any], made: Sessions, users: UserDigest, size: int
) -> Any:
    """What follows of tables of sessions, with tallies of the rows that they are of.

    Args:
        rows: tables. Rows of no user, or without a time, end here.
        then: takes tables to something with tallies, (name, count).
        made: how rows are cut.
        users: who they are of.
        size: how many rows there are.
    """
    step = _Cut(made, users, bucket_count(size))
    part = beam.FlatMap(step.parts).with_output_types(tuple[int, pa.Table])
    cut = beam.FlatMap(step.cut).with_output_types(pa.Table).with_outputs(ROWS, main="own")
    own = rows | "Part by user" >> part | "Group by user" >> GroupOnce() | "Sessions" >> cut
    reports = then(own.own)
    # Rows are counted as they were read, so that none is lost unseen.
    tallies = (reports.tallies, own[ROWS]) | "All rows" >> beam.Flatten()
    return reports._replace(tallies=tallies | "Add up rows" >> beam.CombinePerKey(sum))


@dataclass(frozen=True)
class _Cut:
    """Rows by the bucket of their user, and all rows of a bucket's users to their sessions."""

    sessions: Sessions
    users: UserDigest
    buckets: int

    def parts(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        buckets = bucket_of(self._owners(rows), self.buckets)
        for bucket, places in partition(np.arange(rows.num_rows), buckets, self.buckets):
            yield bucket, rows.take(places)

    def cut(self, bucket: tuple[int, Iterable[pa.Table]]) -> Iterator[Any]:
        rows = pa.concat_tables(bucket[1], promote_options="permissive")
        some = rows.filter(rows[self.users.column].is_valid())
        made = self.sessions.of(some, self._owners(some))
        for name in (ROWS, _MERGED):
            yield beam.pvalue.TaggedOutput(ROWS, (name, rows.num_rows - made.num_rows))
        yield made

    def _owners(self, rows: pa.Table) -> Digests:
        return self.users(plain(rows[self.users.column].combine_chunks()))
