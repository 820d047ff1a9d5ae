"""The road of heavy hitters as a Beam pipeline: from tables to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam

from pipelines.metrics.heavy_hitters import report as heavy_hitters_report
from pipelines.metrics.heavy_hitters.job import HeavyHittersJob
from pipelines.metrics.heavy_hitters.result import (
    TABLE,
    heavy_hitters_statement,
    heavy_hitters_table,
)
from pipelines.numbers import parquet
from pipelines.road import Content, Reports, Road, columns_of, fresh_digest
from transforms.contributions import OneValuePerUser
from transforms.discover import Discover, Discovered
from transforms.encode_prefixes import EncodePrefixesDoFn
from transforms.perturb import Perturb
from transforms.shuffle import Shuffle


@dataclass(frozen=True)
class HeavyHittersRoad(Road):
    """From tables to the frequent strings."""

    job: HeavyHittersJob

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.job.options.column, self.job.options.user_column)

    @property
    def shuffler(self) -> Shuffle | None:
        job = self.job
        if job.options.model != "shuffle":
            return None
        codes = job.plan.protocol.levels.codes
        return Shuffle(job.min_reports, codes, job.buckets, job.open_rng)

    def reports(self, tables: beam.PCollection) -> Reports:
        job, protocol = self.job, self.job.plan.protocol
        users = fresh_digest(job.options.user_column)
        encode = EncodePrefixesDoFn(job.options.column, protocol, users, job.open_rng)
        encoded = tables | "Encode" >> beam.ParDo(encode).with_outputs(encode.TALLIES, main="cells")
        cells = encoded.cells
        if users is not None:
            cells |= "Bound contributions" >> OneValuePerUser(job.buckets, job.open_rng)
        tallies = encoded[encode.TALLIES] | "Add up tallies" >> beam.CombinePerKey(sum)
        messages = cells | "Perturb" >> Perturb(protocol.levels, job.open_rng)
        return Reports(messages, None, tallies)

    def found(self, reports: Reports) -> beam.PCollection:
        job = self.job
        discover = Discover(
            job.plan.protocol, job.plan.search, job.options.top, job.options.confidence
        )
        return reports.messages | "Discover" >> discover

    def content(self, found: Discovered, tallies: Mapping[str, int]) -> Content | None:
        if found.found.n < self.job.min_reports:
            return None
        table = heavy_hitters_table(found)
        statement = heavy_hitters_statement(self.job, found, tallies)
        files = {TABLE: parquet(table), "report.html": heavy_hitters_report.page(table, statement)}
        return Content(files, statement)
