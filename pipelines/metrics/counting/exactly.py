"""Counters of a log, counted exactly within one job, for who adds noise to what they tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import AsDict

from mechanisms.channel import Floats
from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.errors import FailedError, RequestError, WithheldError, reason
from pipelines.jobs.publishing import require_nothing_lost
from pipelines.jobs.run import beam_options, run_beam
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.metric import columns_read
from pipelines.metrics.statistics.labels import label_columns
from pipelines.views.console import Screen
from pipelines.views.headline import OTHER
from transforms.collector.collect_counts import Counted
from transforms.elements.blocks import Generator
from transforms.elements.conservation import (
    Flow,
    Shuffled,
    leaving,
    require_whole,
    summed,
)
from transforms.elements.progress import CHANGED, tally

# How the counter begins that says why the numbers were not taken.
_REFUSED = "numbers not taken: "
WITHHELD = "withheld: "
"""How a reason begins that is a budget's, and no fault."""

_LOCAL = ("FnApiRunner", "DirectRunner")

Take = Callable[[Sequence[Floats], RandomSource], Any]
"""What becomes of numbers: (levels of the statistic, (counters,) each; the worker's generator)."""


def counted_here(beam_arguments: list[str]) -> Any:
    """Beam's options for exact numbers.

    Raises:
        RequestError: they are wrong, or numbers would travel to another machine.
    """
    options = beam_options(beam_arguments)
    runner = options.view_as(StandardOptions).runner.rpartition(".")[2]
    if runner not in _LOCAL:
        raise RequestError(
            f"--runner: {runner} would carry exact counts, and its workers do not reach what is "
            "kept between runs: they are counted on this machine"
        )
    return options


def take(metric: ByCounters, options: Any, then: Take, screen: Screen) -> list[str]:
    """Count a log exactly, in a job, and hand on what was counted.

    Args:
        metric: of its noise nothing is used, but how rows of a unit become one report.
        options: from `counted_here`.
        then: takes the numbers; may refuse to.
        screen: where progress is drawn.

    Returns:
        Why it refused, if it has.

    Raises:
        FailedError: the job failed.
    """
    try:
        counted = run_beam(CountExactly(metric, then), options, screen, None) or {}
    except Exception:
        require_nothing_lost()
        raise
    if CHANGED in counted:
        raise FailedError(
            "the files changed while they were read, and nothing was added: run again when they "
            "are at rest"
        )
    return [name.removeprefix(_REFUSED) for name in counted if name.startswith(_REFUSED)]


def names(metric: ByCounters) -> tuple[str, ...]:
    """What each number is of; all rows of other values share the last."""
    names = metric.heading.labels
    labels = label_columns(names, metric.statistic.domains)
    columns = [column.to_pylist() for column in labels.values()]
    rows = zip(*columns, strict=True) if columns else [("all",)]
    return tuple(OTHER if None in row else " · ".join(str(part) for part in row) for row in rows)


@dataclass
class CountExactly(beam.PTransform):
    """From files to numbers, and to who takes them.

    What travels between the steps is exact, and stays within the job: this is for a local runner.

    Attributes:
        metric: as of `take`.
        then: as of `take`.
        open_rng: opens the generator on the worker.
    """

    metric: ByCounters
    then: Take
    open_rng: Generator = SecureRandom

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        metric = self.metric
        tables = begin | "Read" >> metric.telemetry.read(columns_read(metric))
        reports = metric.client_reports(tables)
        sent = leaving(reports.messages, metric.shuffling.passed.batches)
        flow = summed(*reports.flow, sent)
        step = beam.ParDo(TakeDoFn(self), AsDict(reports.tallies), AsDict(flow))
        return metric.estimated(reports) | "Take" >> step


class TakeDoFn(beam.DoFn):
    """Hands numbers on, if nothing was lost on the way to them."""

    def __init__(self, job: CountExactly) -> None:
        self._metric, self._then, self._open_rng = job.metric, job.then, job.open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, counted: Counted, tallies: Mapping[str, int], flow: Flow) -> None:
        tallies = dict(tallies)
        if not self._metric.telemetry.all_came(tallies):
            tally(CHANGED, 1)
            return
        # No shuffler, and so no dummies. None of these messages may be impossible.
        passed = Shuffled(0, self._metric.shuffling.passed.batches)
        require_whole(tallies, flow, passed, counted.messages)
        amounts, layout = self._metric.reporting.amounts, self._metric.design.layout
        # No dummy was drawn, so none is taken away.
        levels = [np.asarray(row, float) for row in layout.split(counted.counts)]
        try:
            self._then(levels[: len(amounts.levels)], self._rng)
        except (RequestError, WithheldError) as error:  # Beam would make a failure of it
            of_budget = WITHHELD if isinstance(error, WithheldError) else ""
            tally(_REFUSED + of_budget + reason(error), 1)
