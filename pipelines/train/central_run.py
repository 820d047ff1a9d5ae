"""Training in one place, as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsIter
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.learning.scores import Numbers
from pipelines.train.central import CentralPlan, DivergedError
from pipelines.train.curve import Curve, public_curve
from pipelines.train.job import TrainJob
from pipelines.train.result import Flowing, Trained
from transforms.encoders.block import RowBlock
from transforms.progress import DIVERGED, REPORTS, WITHHELD, tally
from transforms.train_curve import Scored


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
    plan: CentralPlan
    public: beam.PCollection | None

    def expand(self, blocks: beam.PCollection) -> Flowing:
        gathered = (
            blocks
            | "To one place" >> beam.Map(_keyed).with_output_types(tuple[int, RowBlock])
            | "Gather" >> beam.GroupByKey()
        )
        public = [] if self.public is None else AsIter(self.public)
        return Flowing(gathered | "Train" >> beam.ParDo(TrainDoFn(self.job, self.plan), public))


def _keyed(block: RowBlock) -> tuple[int, RowBlock]:
    return 0, block


class TrainDoFn(beam.DoFn):
    """The whole run."""

    def __init__(self, job: TrainJob, plan: CentralPlan) -> None:
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
        watcher = _Watcher(job, *self._rows(public))
        try:
            weights = plan.train(rows, targets, self._rng, watcher)
        except DivergedError as error:
            # By a counter: what a step raises may be shown with what it worked on.
            tally(DIVERGED, error.step)
            return
        yield Trained(weights, len(rows), 0, watcher.curve(), plan.training())

    def _rows(self, blocks: Iterable[RowBlock]) -> tuple[Numbers, NDArray[Any]]:
        """All rows and targets of some blocks."""
        parts = [self._job.examples(block) for block in blocks]
        if not parts:
            return np.empty((0, self._job.objective.inputs), np.float32), np.empty(0)
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([t for _, t in parts])


class _Watcher:
    """Scores models on public rows while a run goes on."""

    def __init__(self, job: TrainJob, rows: Numbers, targets: NDArray[Any]) -> None:
        self._job, self._rows, self._targets = job, rows, targets
        self._curve: Curve = []

    def __call__(self, step: int, weights: Floats) -> None:
        if not len(self._rows):
            return
        job = self._job
        errors = job.objective.errors(weights, self._rows, self._targets).astype(np.float64)
        scored = Scored(len(errors), errors.sum(keepdims=True), (errors**2).sum(keepdims=True))
        confidence = job.options.confidence
        self._curve += public_curve([step], scored, job.schema.unit_of_error, confidence)

    def curve(self) -> Curve:
        """What was seen."""
        return self._curve
