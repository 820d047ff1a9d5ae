"""One window of a log, counted exactly within one job, and added to running totals with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsDict

from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError, reason
from pipelines.metrics.counting.metric import Counting
from pipelines.running.kept import Place
from pipelines.running.totals import add
from transforms.blocks import Generator
from transforms.collect_counts import Counted
from transforms.conservation import Flow, LostError, Shuffled, leaving, require_whole, summed
from transforms.progress import CHANGED, LOST, ROWS, tally

# How the counter begins that says why a window was not added.
REFUSED = "window not added: "


@dataclass
class AddWindow(beam.PTransform):
    """From files to totals with one more window.

    What travels between the steps is exact, and stays within the job: this is for a local runner,
    whose workers reach the secret as well.

    Attributes:
        metric: a count, or a sum of whole numbers; of its counters nothing is used but how rows of
            a unit become one report.
        place: of the totals.
        window: its name.
        names: of the totals, in the order of the count's.
        open_rng: opens the generator on the worker.
    """

    metric: Counting
    place: Place
    window: str
    names: tuple[str, ...]
    open_rng: Generator = SecureRandom

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        metric = self.metric
        tables = begin | "Read" >> metric.telemetry.read(metric.columns)
        reports = metric.reports(tables)
        sent = leaving(reports.messages, metric.shuffled_batches.batches)
        flow = summed(*reports.flow, sent)
        step = beam.ParDo(AddWindowDoFn(self), AsDict(reports.tallies), AsDict(flow))
        return metric.estimated(reports) | "Add to totals" >> step


class AddWindowDoFn(beam.DoFn):
    """Adds a window, if nothing was lost on the way to its numbers.

    A worker that is retried with the same numbers adds nothing more.
    """

    def __init__(self, job: AddWindow) -> None:
        self._metric, self._place, self._window = job.metric, job.place, job.window
        self._names, self._open_rng = job.names, job.open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, counted: Counted, tallies: Mapping[str, int], flow: Flow) -> None:
        files = self._metric.telemetry
        if not files.unread and tallies.get(ROWS, 0) != files.rows:
            tally(CHANGED, 1)
            return
        try:
            # No shuffler, and so no dummies. None of these messages may be impossible.
            passed = Shuffled(0, self._metric.shuffled_batches.batches)
            require_whole(tallies, flow, passed, counted.messages)
        except LostError:
            tally(LOST, 1)
            raise
        amounts, layout = self._metric.reporting.amounts, self._metric.design.layout
        # No dummy was drawn, so none is taken away.
        levels = [np.asarray(row, float) for row in layout.split(counted.counts)]
        totals = self._metric.totals(levels[: len(amounts.levels)])
        exact = np.rint(totals).astype(np.int64).tolist()
        try:
            add(self._place, self._window, dict(zip(self._names, exact, strict=True)), self._rng)
        except RequestError as error:  # Beam would make a failure of it, in words of its own
            tally(REFUSED + reason(error), 1)
