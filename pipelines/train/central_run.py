"""Training in one place, as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsIter
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.learning.absent import present
from mechanisms.learning.baseline import BaselineComparison
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource
from pipelines.train.curator import CuratorPlan, DivergedError
from pipelines.train.curve import Curve, Scored, noisy_point, of_public_rows, public_curve
from pipelines.train.job import TrainJob
from pipelines.train.result import Flowing, Trained
from transforms.elements.progress import DIVERGED, REPORTS, WITHHELD, tally
from transforms.encoders.block import RowBlock

_BLOCK = 1 << 16  # rows that are looked at together


@dataclass
class TrainInOnePlace(beam.PTransform):
    """Blocks of rows in, `Flowing` out; nothing if rows are too few, or the run diverged.

    All rows meet in one worker's memory.

    Attributes:
        job: the request, held against its input.
        plan: the method's.
        public: blocks of public rows, or None.
    """

    job: TrainJob
    plan: CuratorPlan
    public: beam.PCollection | None

    def expand(self, blocks: beam.PCollection) -> Flowing:
        gathered = blocks | "To one place" >> beam.WithKeys(0) | "Gather" >> beam.GroupByKey()
        public = [] if self.public is None else AsIter(self.public)
        return Flowing(gathered | "Train" >> beam.ParDo(TrainDoFn(self.job, self.plan), public))


class TrainDoFn(beam.DoFn):
    """The whole run."""

    def __init__(self, job: TrainJob, plan: CuratorPlan) -> None:
        self._job, self._plan = job, plan

    def setup(self) -> None:
        self._rng = self._job.open_rng()

    def process(
        self, gathered: tuple[int, Iterable[RowBlock]], public: Iterable[RowBlock]
    ) -> Iterator[Trained]:
        job, plan = self._job, self._plan
        rows, targets = self._rows(gathered[1])
        tally(REPORTS, len(rows))
        if len(rows) < plan.least:
            tally(WITHHELD, len(rows))
            return
        watcher = _Watcher(job, plan, *self._rows(public))
        try:
            weights = plan.train(rows, targets, self._rng, watcher)
        except DivergedError as error:
            # By a counter: what a step raises may be shown with what it worked on.
            tally(DIVERGED, error.step)
            return
        looked = watcher.looked(weights, rows, targets, self._rng)
        yield Trained(weights, len(rows), 0, looked.curve, plan.training(), looked.comparison)

    def _rows(self, blocks: Iterable[RowBlock]) -> tuple[Numbers, NDArray[Any]]:
        parts = [self._job.examples(block) for block in blocks]
        if not parts:
            return np.empty((0, self._job.objective.inputs), np.float32), np.empty(0)
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([t for _, t in parts])


class _Looked(NamedTuple):
    """How a run went, and what it has come to beside the best constant."""

    curve: Curve
    comparison: BaselineComparison | None


class _Watcher:
    """Scores models: on public rows while a run goes on, or its own rows with noise at the end."""

    def __init__(
        self, job: TrainJob, plan: CuratorPlan, rows: Numbers, targets: NDArray[Any]
    ) -> None:
        there = present(targets)  # rows are public here, and so is what they lack
        self._job, self._plan, self._rows, self._targets = job, plan, rows[there], targets[there]
        self._baseline = job.objective.loss.baseline
        self._about = job.schema.unit_of_error, job.options.confidence
        self._looked, self._step = _Looked([], None), 0

    def __call__(self, step: int, weights: Floats) -> None:
        self._step = step
        if not len(self._rows):
            return
        numbers = self._numbers(weights, self._rows, self._targets)
        scored = Scored(len(numbers), numbers.sum(axis=0), (numbers**2).sum(axis=0))
        curve = self._looked.curve + public_curve([step], scored, *self._about)
        self._looked = _Looked(curve, of_public_rows(scored, self._baseline, *self._about))

    def looked(
        self, weights: Floats, rows: Numbers, targets: NDArray[Any], rng: RandomSource
    ) -> _Looked:
        """What was seen; of a run that nobody watched, what its own rows tell."""
        averages = self._plan.averages
        if averages is None:
            return self._looked
        objective, baseline = self._job.objective, self._baseline
        blocks = (slice(at, at + _BLOCK) for at in range(0, len(rows), _BLOCK))
        numbers = (
            np.column_stack([objective.bounded_errors(weights, rows[own], targets[own]),
                             baseline.answers(targets[own])])
            for own in blocks
        )  # fmt: skip
        means, variance = averages.release(numbers, rng)
        comparison = baseline.compared(means.tolist(), [variance] * len(means), *self._about)
        point = noisy_point(self._step, len(rows), baseline, means, variance, *self._about)
        return _Looked([point], comparison)

    def _numbers(self, weights: Floats, rows: Numbers, targets: NDArray[Any]) -> Floats:
        """(n, 1 + questions) each public row's error, and its answers about constants."""
        errors = self._job.objective.errors(weights, rows, targets)
        return np.column_stack([errors, self._baseline.answers(targets)]).astype(np.float64)
