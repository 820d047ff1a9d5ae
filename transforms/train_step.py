"""Steps of gradient descent, written out one after another: each is a round of reports.

The users of a group compute the gradient of their own row at the present model, which is public,
randomise it and send it; the collector adds their reports up and takes the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton
from numpy.typing import NDArray

from mechanisms.learning.local_steps import LocalSteps, Model
from mechanisms.randomness import SecureRandom
from transforms.blocks import Generator
from transforms.collect_vector import CountedRows, CountRows
from transforms.encode_rows import RowBlock
from transforms.examples import Examples, pieces
from transforms.progress import DIVERGED, REPORTS, tally
from transforms.shuffle import Shuffle

_ROWS = 1 << 14  # whose gradients are at hand at a time, ...
_NUMBERS = 1 << 24  # ... and of how many numbers these may consist


class Run(NamedTuple):
    """Where a run has come to.

    Attributes:
        model: the present one.
        users: how many users' reports moved it.
        skipped: how many steps were not taken, their group being too small.
        invalid: how many messages were dropped because no client could have sent them.
    """

    model: Model
    users: int = 0
    skipped: int = 0
    invalid: int = 0


@dataclass
class TrainSteps(beam.PTransform):
    """The rows of each group in; `Run`s after 0, 1, .. steps, each a collection of one, out.

    The messages of a group are grouped by key before they are counted, so a bundle that is retried
    replaces its messages and never adds a second draw. A group that is smaller than `min_reports`
    changes nothing; nor does any that comes after the run has diverged.

    Attributes:
        steps: what users and collector do.
        examples: what takes blocks to rows and targets.
        begin: the model before the first step.
        min_reports: the least group whose reports are used.
        shuffled: whether reports go through a shuffler.
        buckets: of each shuffler.
        open_rng: opens the generator on each worker.
    """

    steps: LocalSteps
    examples: Examples
    begin: Model
    min_reports: int = 1
    shuffled: bool = False
    buckets: int = 1
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, groups: Sequence[beam.PCollection]) -> list[beam.PCollection]:
        runs = [groups[0].pipeline | "Begin" >> beam.Create([Run(self.begin)])]
        update = UpdateDoFn(self.steps, self.min_reports)
        for number, rows in enumerate(groups, 1):
            counted = (rows, runs[-1]) | f"Step {number}" >> _Round(self)
            found = AsSingleton(counted, default_value=None)
            runs.append(runs[-1] | f"After step {number}" >> beam.ParDo(update, found))
        return runs


@dataclass
class _Round(beam.PTransform):
    """A group's rows and the present model in, one `CountedRows` out; nothing if nobody reports."""

    run: TrainSteps

    def expand(self, given: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        rows, present = given
        run, mechanism = self.run, self.run.steps.mechanism
        client = GradientsDoFn(run.steps, run.examples, run.open_rng)
        messages = rows | "Report gradients" >> beam.ParDo(client, AsSingleton(present))
        if run.shuffled:
            least = int(run.min_reports * mechanism.messages)
            messages |= Shuffle(least, mechanism.codes, run.buckets, run.open_rng)
        # By a key, for that takes fewer stages than `CombineGlobally`, and there are many steps.
        keyed = messages | beam.Map(_keyed).with_output_types(tuple[int, np.ndarray])
        counted = keyed | "Count" >> beam.CombinePerKey(CountRows(mechanism))
        return counted | beam.Map(_value).with_output_types(CountedRows)


def _keyed(messages: NDArray[np.uint64]) -> tuple[int, NDArray[np.uint64]]:
    return 0, messages


def _value(pair: tuple[int, CountedRows]) -> CountedRows:
    return pair[1]


@typehints.with_output_types(np.ndarray)
class GradientsDoFn(beam.DoFn):
    """The client: each row's gradient through the mechanism, with this worker's own keystream."""

    def __init__(self, steps: LocalSteps, examples: Examples, open_rng: Generator) -> None:
        self._steps, self._examples, self._open_rng = steps, examples, open_rng
        self._rows = max(1, min(_ROWS, _NUMBERS // steps.objective.parameters))

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock, run: Run) -> Iterator[NDArray[np.uint64]]:
        if run.model.diverged:  # nobody's report would be of use
            return
        tally(REPORTS, len(block.numbers))
        for piece in pieces(block, self._rows):
            rows, targets = self._examples(piece)
            yield self._steps.report(run.model.weights, rows, targets, self._rng)


@typehints.with_output_types(Run)
class UpdateDoFn(beam.DoFn):
    """The collector: the next model from what a group reported."""

    def __init__(self, steps: LocalSteps, min_reports: int) -> None:
        self._steps, self._min_reports = steps, min_reports

    def process(self, run: Run, counted: CountedRows | None) -> Iterator[Run]:
        each = self._steps.mechanism.messages
        if counted is None or counted.counts is None or counted.messages < self._min_reports * each:
            yield run._replace(model=self._steps.skip(run.model), skipped=run.skipped + 1)
            return
        after = self._steps.advance(run.model, counted.counts)
        if after.diverged and not run.model.diverged:
            tally(DIVERGED, after.diverged)
        users = run.users + round(counted.messages / each)
        yield Run(after, users, run.skipped, run.invalid + counted.invalid)
