"""One window of a log, counted exactly within one job, and added to running totals with noise."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
import numpy as np

from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError, reason
from pipelines.metrics.counting.count import CountMetric
from pipelines.running.kept import Place
from pipelines.running.totals import add
from transforms.blocks import Generator
from transforms.collect_counts import Counted
from transforms.progress import tally

# How the counter begins that says why a window was not added.
REFUSED = "window not added: "


@dataclass
class AddWindow(beam.PTransform):
    """From files to totals with one more window.

    What travels between the steps is exact, and stays within the job: this is for a local runner,
    whose workers reach the secret as well.

    Attributes:
        metric: the count; of its counters nothing is used but how rows of a unit become one report.
        place: of the totals.
        window: its name.
        names: of the totals, in the order of the count's.
        open_rng: opens the generator on the worker.
    """

    metric: CountMetric
    place: Place
    window: str
    names: tuple[str, ...]
    open_rng: Generator = SecureRandom

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        metric = self.metric
        tables = begin | "Read" >> metric.telemetry.read(metric.columns)
        counted = metric.estimated(metric.reports(tables))
        return counted | "Add to totals" >> beam.ParDo(AddWindowDoFn(self))


class AddWindowDoFn(beam.DoFn):
    """Adds a window; a worker that is retried with the same numbers adds nothing more."""

    def __init__(self, job: AddWindow) -> None:
        self._metric, self._place, self._window = job.metric, job.place, job.window
        self._names, self._open_rng = job.names, job.open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, counted: Counted) -> None:
        amounts, layout = self._metric.reporting.amounts, self._metric.design.layout
        # No dummy was drawn, so none is taken away.
        levels = [np.asarray(row, float) for row in layout.split(counted.counts)]
        exact = np.rint(amounts.estimate(levels[: len(amounts.levels)])).astype(np.int64).tolist()
        try:
            add(self._place, self._window, dict(zip(self._names, exact, strict=True)), self._rng)
        except RequestError as error:  # Beam would make a failure of it, in words of its own
            tally(REFUSED + reason(error), 1)
