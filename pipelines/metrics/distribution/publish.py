"""The road of a distribution as a Beam pipeline: from tables to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam

from pipelines.metrics.distribution import report as distribution_report
from pipelines.metrics.distribution.job import DistributionJob
from pipelines.metrics.distribution.result import (
    QUANTILES,
    TABLE,
    distribution_statement,
    distribution_table,
    quantile_table,
)
from pipelines.numbers import EncodeCells, parquet
from pipelines.road import Content, Reports, Road, bucket_count, columns_of
from transforms.collect_distribution import CollectDistribution, Distribution
from transforms.perturb import Perturb
from transforms.shuffle import Shuffle


@dataclass(frozen=True)
class DistributionRoad(Road):
    """From tables to shares, quantiles and mean."""

    job: DistributionJob

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.job.options.column, self.job.options.user_column)

    @property
    def shuffler(self) -> Shuffle | None:
        job = self.job
        if job.options.model != "shuffle":
            return None
        codes = job.fitted.design.mechanism.codes
        return Shuffle(job.min_reports, codes, bucket_count(job.telemetry.rows), job.open_rng)

    def reports(self, tables: beam.PCollection) -> Reports:
        job, rng = self.job, self.job.open_rng
        buckets = bucket_count(job.telemetry.rows)
        encode = EncodeCells(
            job.options, job.bounds, job.fitted.rounding, buckets=buckets, open_rng=rng
        )
        read = tables | "Cells" >> encode
        messages = read.cells | "Perturb" >> Perturb(job.fitted.design.mechanism, rng)
        return Reports(messages, None, read.tallies)

    def found(self, reports: Reports) -> beam.PCollection:
        job = self.job
        collect = CollectDistribution(job.estimator, job.options.confidence, job.probabilities)
        return reports.messages | "Collect" >> collect

    def content(self, found: Distribution, tallies: Mapping[str, int]) -> Content | None:
        job, summary = self.job, found.summary
        if summary is None or found.n < job.min_reports:
            return None
        table, values = distribution_table(job, summary), quantile_table(job, summary)
        statement = distribution_statement(job, found, tallies)
        files = {
            TABLE: parquet(table),
            QUANTILES: parquet(values),
            "report.html": distribution_report.page(table, values, statement),
        }
        return Content(files, statement)
