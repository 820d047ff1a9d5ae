"""Steps of gradient descent, written out one after another: each is a round of reports.

The users of a group compute the gradient of their own row at the present model, which is public,
randomise it and send it; the collector adds their reports up and takes the next step. Where a run
has an opening, the first group's users send their targets instead, once and no more as all others.
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
from mechanisms.learning.opening import Opening
from mechanisms.randomness import SecureRandom
from mechanisms.vector.base import VectorMean
from transforms.collector.collect_counts import Counted, CountMessages
from transforms.elements.blocks import Generator
from transforms.elements.progress import DIVERGED, REPORTS, tally
from transforms.encoders.block import RowBlock, pieces
from transforms.rows.examples import Examples
from transforms.shuffle.shuffle import Shuffle

_ROWS = 1 << 14  # whose gradients are at hand at a time


class Run(NamedTuple):
    """Where a run has come to.

    Attributes:
        model: the present one.
        users: how many users' reports it has heard.
        skipped: how many steps were not taken, their group being too small.
        invalid: how many messages were dropped because no client could have sent them.
        heard: how many messages of each group so far have come, possible or not.
    """

    model: Model
    users: int = 0
    skipped: int = 0
    invalid: int = 0
    heard: tuple[int, ...] = ()


@dataclass
class TrainSteps(beam.PTransform):
    """The rows of each group in; `Run`s after 0, 1, .. steps, each a collection of one, out.

    With an opening the first group is that, and the `Run` after 0 steps has its estimates. The
    messages of a group are grouped by key before they are counted, so a bundle that is retried
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
        begin = groups[0].pipeline | "Begin" >> beam.Create([Run(self.begin)])
        runs, of_steps = [begin], list(groups)
        if (opening := self.steps.opening) is not None:
            client = TargetsDoFn(opening, self.examples, self.open_rng)
            messages = of_steps.pop(0) | "Report targets" >> beam.ParDo(client)
            counted = messages | "Opening" >> _Heard(self, opening.mechanism)
            counts = AsSingleton(counted, default_value=None)
            open_model = OpenDoFn(self.steps, self.min_reports)
            runs = [begin | "After the opening" >> beam.ParDo(open_model, counts)]
        update = UpdateDoFn(self.steps, self.min_reports)
        for number, rows in enumerate(of_steps, 1):
            counted = (rows, runs[-1]) | f"Step {number}" >> _Round(self)
            counts = AsSingleton(counted, default_value=None)
            runs.append(runs[-1] | f"After step {number}" >> beam.ParDo(update, counts))
        return runs


@dataclass
class _Round(beam.PTransform):
    """A group's rows and the present model in, one `Counted` out; nothing if nobody reports."""

    run: TrainSteps

    def expand(self, given: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        rows, present = given
        run = self.run
        client = GradientsDoFn(run.steps, run.examples, run.open_rng)
        messages = rows | "Report gradients" >> beam.ParDo(client, AsSingleton(present))
        return messages | "Hear" >> _Heard(run, run.steps.mechanism)


@dataclass
class _Heard(beam.PTransform):
    """A group's messages in, one `Counted` out; nothing if there are none."""

    run: TrainSteps
    mechanism: VectorMean

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        run, mechanism = self.run, self.mechanism
        if run.shuffled:
            # The shuffler counts messages, not users.
            least = int(run.min_reports * mechanism.messages)
            messages |= Shuffle(least, mechanism.codes, run.buckets, run.open_rng, counted=True)
        # By a key, for that takes fewer stages than `CombineGlobally`, and there are many steps.
        count = beam.CombinePerKey(CountMessages(mechanism))
        return messages | beam.WithKeys(0) | "Count" >> count | beam.Values()


@typehints.with_output_types(np.ndarray)
class TargetsDoFn(beam.DoFn):
    """The client of the opening: each row's target, with this worker's own keystream."""

    def __init__(self, opening: Opening, examples: Examples, open_rng: Generator) -> None:
        self._opening, self._examples, self._open_rng = opening, examples, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock) -> Iterator[NDArray[np.uint64]]:
        tally(REPORTS, len(block.numbers))
        for piece in pieces(block, _ROWS):
            _, targets = self._examples(piece)
            yield self._opening.report(targets, self._rng)


@typehints.with_output_types(np.ndarray)
class GradientsDoFn(beam.DoFn):
    """The client: each row's gradient through the mechanism, with this worker's own keystream."""

    def __init__(
        self, steps: LocalSteps, examples: Examples, open_rng: Generator, numbers: int = 1 << 24
    ) -> None:
        self._steps, self._examples, self._open_rng = steps, examples, open_rng
        # Gradients at hand consist of at most so many numbers.
        self._rows = max(1, min(_ROWS, numbers // steps.objective.parameters))

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock, run: Run) -> Iterator[NDArray[np.uint64]]:
        if run.model.diverged:  # nobody's report would be of use
            return
        tally(REPORTS, len(block.numbers))
        for piece in pieces(block, self._rows):
            rows, targets = self._examples(piece)
            model = run.model
            yield self._steps.report(model.weights, rows, targets, self._rng, model.scale)


@typehints.with_output_types(Run)
class OpenDoFn(beam.DoFn):
    """The collector: the model that the first step begins with; the usual one if few reported."""

    def __init__(self, steps: LocalSteps, min_reports: int) -> None:
        if steps.opening is None:
            raise ValueError("this run has no opening")
        self._steps, self._per_user = steps, steps.opening.mechanism.messages
        # From a single report nobody knows by how much it is off.
        self._least = max(min_reports, 2) * self._per_user

    def process(self, run: Run, counted: Counted | None) -> Iterator[Run]:
        heard = _heard(run, counted)
        if counted is None or counted.messages < self._least:
            yield run._replace(heard=heard)
            return
        model = self._steps.open(run.model, counted.counts)
        users = run.users + round(counted.messages / self._per_user)
        yield Run(model, users, run.skipped, run.invalid + counted.invalid, heard)


@typehints.with_output_types(Run)
class UpdateDoFn(beam.DoFn):
    """The collector: the next model from what a group reported."""

    def __init__(self, steps: LocalSteps, min_reports: int) -> None:
        self._steps, self._min_reports = steps, min_reports

    def process(self, run: Run, counted: Counted | None) -> Iterator[Run]:
        per_user, heard = self._steps.mechanism.messages, _heard(run, counted)
        if counted is None or counted.messages < self._min_reports * per_user:
            skipped = self._steps.skip(run.model)
            yield run._replace(model=skipped, skipped=run.skipped + 1, heard=heard)
            return
        after = self._steps.advance(run.model, counted.counts)
        # Counted once: every later step carries the same flag on.
        if after.diverged and not run.model.diverged:
            tally(DIVERGED, after.diverged)
        users = run.users + round(counted.messages / per_user)
        yield Run(after, users, run.skipped, run.invalid + counted.invalid, heard)


def _heard(run: Run, counted: Counted | None) -> tuple[int, ...]:
    """What has come of each group, one more than before."""
    return (*run.heard, 0 if counted is None else counted.messages + counted.invalid)
