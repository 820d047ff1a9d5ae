"""The road of a histogram as a Beam pipeline: from tables to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam

from mechanisms.central.histogram import CentralHistogram
from pipelines.metrics.histogram import report
from pipelines.metrics.histogram.job import HistogramJob
from pipelines.metrics.histogram.result import TABLE, histogram_statement, histogram_table
from pipelines.numbers import Cells, parquet
from pipelines.road import Content, Reports, Road, columns_of, fresh_digest
from transforms import perturb
from transforms.collect import CollectExactly, CollectFrequencies, Frequencies
from transforms.contributions import OneValuePerUser
from transforms.encode import EncodeDoFn
from transforms.shuffle import Shuffle


@dataclass(frozen=True)
class HistogramRoad(Road):
    """From tables to a histogram."""

    job: HistogramJob

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.job.options.column, self.job.options.user_column)

    @property
    def shuffler(self) -> Shuffle | None:
        job = self.job
        if job.model != "shuffle":
            return None
        return Shuffle(job.min_reports, job.design.mechanism.codes, job.buckets, job.open_rng)

    def reports(self, tables: beam.PCollection) -> Reports:
        cells, tallies = self._cells(tables)
        users = cells | "Count users" >> beam.Map(perturb.users).with_output_types(int)
        step = perturb.Perturb(self.job.design.mechanism, self.job.open_rng)
        return Reports(cells | "Perturb" >> step, users, tallies)

    def found(self, reports: Reports) -> beam.PCollection:
        collect = CollectFrequencies(self.job.design.mechanism, self.job.postprocess, reports.users)
        return reports.messages | "Collect" >> collect

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        mechanism = self.job.design.mechanism
        if not isinstance(mechanism, CentralHistogram):
            return super().whole(tables)
        cells, tallies = self._cells(tables)
        exactly = CollectExactly(mechanism, self.job.postprocess, self.job.open_rng)
        return self.told(cells | "Collect" >> exactly, tallies)

    def content(self, found: Frequencies, tallies: Mapping[str, int]) -> Content | None:
        if found.n < self.job.min_reports:
            return None
        table = histogram_table(self.job, found)
        statement = histogram_statement(self.job, found, tallies)
        files = {TABLE: parquet(table), "report.html": report.page(table, statement)}
        return Content(files, statement)

    def _cells(self, tables: beam.PCollection) -> Cells:
        """One cell a row, or one a user."""
        job = self.job
        users = fresh_digest(job.options.user_column)
        encode = EncodeDoFn(job.options.column, job.domain, users)
        encoded = tables | "Encode" >> beam.ParDo(encode).with_outputs(encode.TALLIES, main="cells")
        cells = encoded.cells
        if users is not None:
            cells |= "Bound contributions" >> OneValuePerUser(job.buckets, job.open_rng)
        return Cells(cells, encoded[encode.TALLIES] | "Add up tallies" >> beam.CombinePerKey(sum))
