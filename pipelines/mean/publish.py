"""The road of a mean as a Beam pipeline: from files to a release, in one round or in two."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsSingleton

from pipelines import release
from pipelines.mean import report as mean_report
from pipelines.mean.job import SCOUTS, MeanJob
from pipelines.mean.result import TABLE, mean_statement, mean_table
from pipelines.numbers import ReadCells, bucket_count, parquet
from transforms.collect_counts import Counted, CountMessages
from transforms.perturb import Perturb
from transforms.progress import CHANGED, ROWS, WITHHELD, tally
from transforms.scout import AsTheyAre, ChooseBounds, Chosen, Divide, FloatWords, RoundWithin
from transforms.shuffle import Shuffle


@dataclass
class PublishMean(beam.PTransform):
    """The whole road, from files to a release."""

    job: MeanJob

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        job = self.job
        if job.bounds is None:
            counted, tallies, chosen = self._two_rounds(begin)
        else:
            read = begin | "Cells" >> ReadCells(
                job.options, job.telemetry, job.bounds, job.rounding, job.groups, job.open_rng
            )
            counted, tallies = self._counted(read.cells), read.tallies
            chosen = Chosen(job.bounds, 0.0, 0, 0)
        step = ReleaseDoFn(job, uuid.uuid4().hex)
        return counted | "Release" >> beam.ParDo(step, AsDict(tallies), chosen)

    def _two_rounds(
        self, begin: beam.pvalue.PBegin
    ) -> tuple[beam.PCollection, beam.PCollection, AsSingleton]:
        """The counts of the second round, the tallies, and what the first has chosen."""
        job = self.job
        read = begin | "Numbers" >> ReadCells(
            job.options, job.telemetry, AsTheyAre(), FloatWords(), None, job.open_rng
        )
        scouts, rest = read.cells | "Divide" >> Divide(SCOUTS, job.open_rng)
        chosen = scouts | "Choose bounds" >> self._choice()
        cells = rest | "Within bounds" >> RoundWithin(chosen, job.rounding, job.open_rng)
        return self._counted(cells), read.tallies, AsSingleton(chosen)

    def _counted(self, cells: beam.PCollection) -> beam.PCollection:
        """From one cell a user to one `Counted`."""
        job, mechanism = self.job, self.job.mechanism
        messages = cells | "Perturb" >> Perturb(mechanism, job.open_rng)
        if job.options.model == "shuffle":
            messages |= "Shuffle" >> Shuffle(
                job.min_reports, mechanism.codes, bucket_count(job.telemetry.rows), job.open_rng
            )
        return messages | "Count" >> beam.CombineGlobally(CountMessages(mechanism))

    def _choice(self) -> ChooseBounds:
        """The first round."""
        job, scouts = self.job, self.job.scouts
        if scouts is None:
            raise ValueError("there are no bounds, and nobody to choose them")
        least = scouts.min_reports if job.options.model == "shuffle" else None
        buckets = bucket_count(job.telemetry.rows)
        return ChooseBounds(scouts.design.mechanism, scouts.rule, least, buckets, job.open_rng)


class ReleaseDoFn(beam.DoFn):
    """Writes the release, unless there are too few reports for one, or the files changed.

    Why there is none is told by a counter: what a step raises reaches nobody, for its text might
    quote the data.
    """

    def __init__(self, job: MeanJob, release_id: str) -> None:
        self._job, self._release_id = job, release_id

    def process(self, counted: Counted, tallies: Mapping[str, int], chosen: Chosen) -> None:
        if tallies.get(ROWS, 0) != self._job.telemetry.rows:
            tally(CHANGED, 1)
            return
        table = None
        if chosen.bounds is not None and counted.counts.sum() >= self._job.min_reports:
            table = mean_table(self._job, chosen.bounds, counted)
        if table is None:
            tally(WITHHELD, 1)
            return
        statement = mean_statement(self._job, chosen, counted, tallies, self._release_id)
        files = {TABLE: parquet(table), "report.html": mean_report.page(table, statement)}
        release.publish(self._job.options.output, files, statement)
