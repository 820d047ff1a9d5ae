"""The road of a mean as a Beam pipeline: from tables to a release, in one round or in two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from mechanisms.mean.public_groups import PublicGroups
from pipelines.metrics.mean import report as mean_report
from pipelines.metrics.mean.job import SCOUTS, MeanJob
from pipelines.metrics.mean.result import TABLE, mean_statement, mean_table
from pipelines.numbers import Cells, EncodeCells, parquet
from pipelines.road import Content, Reports, Road, bucket_count, columns_of
from transforms.collect_counts import Counted, CountMessages
from transforms.encode_numbers import Rounding, Scale
from transforms.perturb import Perturb
from transforms.scout import AsTheyAre, ChooseBounds, Chosen, Divide, FloatWords, RoundWithin
from transforms.shuffle import Shuffle


@dataclass(frozen=True)
class MeanRoad(Road):
    """From tables to a mean, or to one of each group."""

    job: MeanJob

    @property
    def columns(self) -> frozenset[str]:
        options = self.job.options
        return columns_of(options.column, options.user_column, options.group_by)

    @property
    def shuffler(self) -> Shuffle | None:
        job = self.job
        if job.options.model != "shuffle":
            return None
        mechanism, buckets = job.mechanism, bucket_count(job.telemetry.rows)
        # A report that says its group hides among those of its group.
        batches = mechanism.groups if isinstance(mechanism, PublicGroups) else 1
        return Shuffle(job.min_reports, mechanism.codes, buckets, job.open_rng, batches=batches)

    def reports(self, tables: beam.PCollection) -> Reports:
        job = self.job
        if job.bounds is None:
            raise TypeError(
                "where bounds are chosen, the clients of the second round wait for them"
            )
        read = tables | "Cells" >> self._cells(job.bounds, job.rounding)
        return Reports(self._perturbed(read.cells), None, read.tallies)

    def found(self, reports: Reports) -> beam.PCollection:
        count = CountMessages(self.job.mechanism)
        return reports.messages | "Count" >> beam.CombineGlobally(count)

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        return super().whole(tables) if self.job.bounds is not None else self._two_rounds(tables)

    def content(
        self,
        found: Counted,
        tallies: Mapping[str, int],
        chosen: Chosen | None = None,
    ) -> Content | None:
        job = self.job
        chosen = chosen or Chosen(job.bounds, 0.0, 0, 0)
        if chosen.bounds is None or found.counts.sum() < job.min_reports:
            return None
        table = mean_table(job, chosen.bounds, found)
        if table is None:
            return None
        statement = mean_statement(job, chosen, found, tallies)
        files = {TABLE: parquet(table), "report.html": mean_report.page(table, statement)}
        return Content(files, statement)

    def _two_rounds(self, tables: beam.PCollection) -> beam.PCollection:
        """Bounds from some of the users, the mean from the others."""
        job = self.job
        read: Cells = tables | "Numbers" >> self._cells(AsTheyAre(), FloatWords())
        scouts, rest = read.cells | "Divide" >> Divide(SCOUTS, job.open_rng)
        chosen = scouts | "Choose bounds" >> self._choice()
        cells = rest | "Within bounds" >> RoundWithin(chosen, job.rounding, job.open_rng)
        reports = self.shuffled(Reports(self._perturbed(cells), None, read.tallies))
        return self.told(self.found(reports), read.tallies, AsSingleton(chosen))

    def _cells(self, bounds: Scale, rounding: Rounding) -> EncodeCells:
        job = self.job
        buckets = bucket_count(job.telemetry.rows)
        return EncodeCells(job.options, bounds, rounding, job.groups, buckets, job.open_rng)

    def _perturbed(self, cells: beam.PCollection) -> beam.PCollection:
        return cells | "Perturb" >> Perturb(self.job.mechanism, self.job.open_rng)

    def _choice(self) -> ChooseBounds:
        """The first round."""
        job, scouts = self.job, self.job.scouts
        if scouts is None:
            raise ValueError("there are no bounds, and nobody to choose them")
        least = scouts.min_reports if job.options.model == "shuffle" else None
        buckets = bucket_count(job.telemetry.rows)
        return ChooseBounds(scouts.design.mechanism, scouts.rule, least, buckets, job.open_rng)
