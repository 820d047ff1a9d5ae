"""The road of an average row as a Beam pipeline: from tables to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam

from mechanisms.vector.mixed_rows import MixedRows
from pipelines.metrics.vector_mean import report
from pipelines.metrics.vector_mean.job import VectorMeanJob
from pipelines.metrics.vector_mean.result import estimated, tables, vector_statement
from pipelines.numbers import parquet
from pipelines.road import Content, Reports, Road, bucket_count, columns_of, fresh_digest
from transforms.collect_vector import CountedRows, CountRows
from transforms.contributions_rows import OneRowPerUser
from transforms.encode_rows import EncodeRowsDoFn, ReadRowsDoFn, RowBlock
from transforms.perturb_rows import PerturbMixed, PerturbPicked, PerturbRows
from transforms.pick_coordinates import PickCoordinatesDoFn, PickedBlock
from transforms.shuffle import Shuffle
from transforms.users import UserDigest


@dataclass(frozen=True)
class VectorMeanRoad(Road):
    """From tables to an average row."""

    job: VectorMeanJob

    @property
    def columns(self) -> frozenset[str]:
        job = self.job
        rows = (column for each in job.attributes for column in each.columns())
        return columns_of(job.options.user_column, *rows)

    @property
    def shuffler(self) -> Shuffle | None:
        job = self.job
        if job.options.model != "shuffle":
            return None
        buckets = bucket_count(job.telemetry.rows * job.messages)
        return Shuffle(job.min_reports, job.mechanism.codes, buckets, job.open_rng)

    def reports(self, tables: beam.PCollection) -> Reports:
        job, users = self.job, fresh_digest(self.job.options.user_column)
        encode = self._encode(users)
        encoded = tables | "Encode" >> beam.ParDo(encode).with_outputs(encode.TALLIES, main="rows")
        rows = encoded.rows
        if users is not None:
            kind = RowBlock if job.picked is None else PickedBlock
            buckets = bucket_count(job.telemetry.rows)
            rows |= "Bound contributions" >> OneRowPerUser(buckets, job.open_rng, kind)
        tallies = encoded[encode.TALLIES] | "Add up tallies" >> beam.CombinePerKey(sum)
        sizes = None
        if job.messages > 1:
            sizes = rows | "Users of block" >> beam.Map(_size).with_output_types(int)
        return Reports(rows | "Perturb rows" >> self._perturb(), sizes, tallies)

    def found(self, reports: Reports) -> beam.PCollection:
        count = CountRows(self.job.mechanism)
        return reports.messages | "Count" >> beam.CombineGlobally(count)

    def content(self, found: CountedRows, tallies: Mapping[str, int]) -> Content | None:
        job = self.job
        if found.messages < max(job.min_reports, 2) * job.messages:
            return None
        row = estimated(job, found)
        published = tables(job, row)
        statement = vector_statement(job, found, row, tallies)
        files = {name: parquet(table) for name, table in published.items()}
        return Content(files | {"report.html": report.page(published, statement)}, statement)

    def _encode(self, users: UserDigest | None) -> ReadRowsDoFn:
        """Where a user reports few coordinates, only these are taken from the tables."""
        job = self.job
        if job.sampled is None:
            return EncodeRowsDoFn(job.attributes, users)
        return PickCoordinatesDoFn(job.attributes, job.sampled, users, job.open_rng)

    def _perturb(self) -> PerturbPicked | PerturbRows | PerturbMixed:
        job = self.job
        if job.picked is not None:
            return PerturbPicked(job.picked, job.open_rng)
        if isinstance(job.mechanism, MixedRows):
            return PerturbMixed(job.mechanism, job.open_rng)
        return PerturbRows(job.mechanism, job.radius, job.open_rng)


def _size(block: RowBlock | PickedBlock) -> int:
    """How many users a block stands for."""
    return len(block[0])
