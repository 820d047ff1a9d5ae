"""Models from noisy sums, as a step of a pipeline: one round after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsSingleton

from mechanisms.channel import Floats
from mechanisms.learning.baseline import BaselineComparison
from mechanisms.learning.logistic_rounds import Judgement, Present, opened, signs
from mechanisms.learning.normal_equations import NormalEquations
from mechanisms.learning.row_sums import RowSums
from mechanisms.postprocess.intervals import normal_quantile
from pipelines.metrics.counting.by_job import noisy
from pipelines.metrics.counting.codes import CountCodes
from pipelines.train.curve import Point
from pipelines.train.job import TrainJob
from pipelines.train.result import Flowing, Trained
from pipelines.train.sums import SumsPlan
from transforms.collector.collect_counts import Counted, CountMessages
from transforms.elements.blocks import Generator
from transforms.elements.combine_all import CombineAll
from transforms.elements.conservation import PASSED, Batches, leaving
from transforms.elements.drawing import Drawing, DrawNoise, DrawSecret
from transforms.elements.numbers import numbered
from transforms.encoders.block import RowBlock
from transforms.rows.encode import Examples


class Heard(NamedTuple):
    """What the rounds so far have come to.

    Attributes:
        present: the model and what is known of it.
        messages: how many were counted.
        invalid: how many of them no client could have sent.
    """

    present: Present
    messages: int
    invalid: int


class _Sent(NamedTuple):
    """A round that was counted."""

    counted: beam.PCollection
    flow: tuple[beam.PCollection, ...]
    rows: beam.PCollection


@dataclass
class TrainFromSums(beam.PTransform):
    """Blocks of rows in, `Flowing` out: a model, whatever came.

    Attributes:
        job: the request, held against its input.
        plan: how it goes.
    """

    job: TrainJob
    plan: SumsPlan

    def expand(self, blocks: beam.PCollection) -> Flowing:
        job, plan = self.job, self.plan
        heard: beam.PCollection | None = None
        flow: list[beam.PCollection] = []
        last = len(plan.designs) - 1
        for number in range(last + 1):
            before = None if heard is None else AsSingleton(heard)
            counted = blocks | f"Round {number + 1}" >> _RunRound(job, plan, number, before)
            flow, blocks = [*flow, *counted.flow], counted.rows
            step = SolveDoFn(job, plan) if number == last else LearnDoFn(job, plan, number)
            heard = counted.counted | f"After round {number + 1}" >> beam.ParDo(step, before)
        return Flowing(heard, tuple(flow))


@dataclass
class _RunRound(beam.PTransform):
    """Blocks of rows in; `_Sent` out.

    Noise knows no model: how noisy a round is was decided beforehand.
    """

    job: TrainJob
    plan: SumsPlan
    number: int
    heard: AsSingleton | None

    def expand(self, blocks: beam.PCollection) -> _Sent:
        job = self.job
        design, sums = self.plan.designs[self.number], self.plan.rounds.sums[self.number]
        codes = design.layout.codes
        send = SendDoFn(job.examples, sums, job.open_rng)
        sending = beam.ParDo(send, self.heard).with_output_types(np.ndarray)
        messages = blocks | "Messages" >> sending.with_outputs(
            SendDoFn.FLOW, SendDoFn.ROWS, main="messages"
        )
        sent = messages.messages
        exact = sent | "Add up" >> CombineAll(CountMessages(CountCodes(codes)))
        drawing = Drawing(blocks.pipeline | "Secret" >> DrawSecret(job.open_rng))
        counted = exact | "Noise" >> DrawNoise(partial(noisy, design), "sums", drawing)
        flow = (messages[SendDoFn.FLOW], leaving(sent, Batches(codes)))
        rows = messages[SendDoFn.ROWS] | "Rows" >> beam.Map(_same).with_output_types(RowBlock)
        return _Sent(counted, flow, rows)


def _same(block: RowBlock) -> RowBlock:
    return block


class SendDoFn(beam.DoFn):
    """What rows add in a round, summed; of how many rows, in the output tagged `FLOW`.

    The rows themselves go on to the next round, tagged `ROWS`. Were they read once for all rounds,
    Beam's local runner would wait: what some step has read is done with when all its readers are,
    of which one waits for what another one sends.
    """

    FLOW, ROWS = "flow", "rows"

    def __init__(self, examples: Examples, sums: RowSums, open_rng: Generator) -> None:
        self._examples, self._sums, self._open_rng = examples, sums, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock, heard: Heard | None) -> Iterator[Any]:
        codes, weights = (
            self._sums.layout.starts[-1],
            None if heard is None else heard.present.weights,
        )
        rows, targets = self._examples(block)
        labels = signs(targets) if self._examples.classified else targets
        totals = self._sums.totals(rows, labels, self._rng, weights)[:codes]
        yield numbered(np.arange(codes), totals)
        yield beam.pvalue.TaggedOutput(self.FLOW, (PASSED, block.size))
        yield beam.pvalue.TaggedOutput(self.ROWS, block)


class LearnDoFn(beam.DoFn):
    """The model after a round, for the next one."""

    def __init__(self, job: TrainJob, plan: SumsPlan, number: int) -> None:
        self._job, self._plan, self._number = job, plan, number

    def process(self, counted: Counted, heard: Heard | None) -> Iterator[Heard]:
        plan, penalty = self._plan, self._job.objective.penalty
        design = plan.designs[self._number]
        if heard is None:
            present = opened(plan.products.solve(design, counted.counts), penalty)
        else:
            sums = plan.rounds.sums[self._number]
            present = heard.present.after(sums, design, counted.counts, penalty)
        yield Heard(present, *_came(counted, heard))


class _Solved(NamedTuple):
    weights: Floats
    said: dict[str, float]
    error: float
    spread: float
    comparison: BaselineComparison | None


class SolveDoFn(beam.DoFn):
    """The model that noisy counts make, and how it stands beside the best constant."""

    def __init__(self, job: TrainJob, plan: SumsPlan) -> None:
        self._job, self._plan = job, plan

    def process(self, counted: Counted, heard: Heard | None) -> Iterator[Trained]:
        job, plan = self._job, self._plan
        if heard is None:
            equations = plan.products.solve(plan.designs[0], counted.counts)
        else:
            equations = heard.present.equations
        n, (messages, invalid) = max(round(equations.rows), 0), _came(counted, heard)
        made = Trained(
            np.zeros(plan.products.inputs), n, invalid, [], plan.training(),
            heard=messages, n_error=equations.rows_error,
        )  # fmt: skip
        if equations.drowned:
            yield made
            return
        if heard is None:
            weights, said, error, spread, seen = self._fitted(equations)
        else:
            weights, said, error, spread, seen = self._judged(heard.present, counted)
        half, middle = normal_quantile(job.options.confidence) * spread, max(error, 0.0)
        point = Point(1, n, middle, spread, max(error - half, 0.0), max(error + half, middle))
        yield made._replace(
            weights=weights, curve=[point], training=plan.training(said), comparison=seen
        )

    def _fitted(self, equations: NormalEquations) -> _Solved:
        job, unit = self._job, self._job.schema.unit_of_error
        fit = equations.fit(job.objective.penalty)
        seen = equations.compared(fit, unit, job.options.confidence)
        error, spread = unit * fit.error, unit * equations.standard_error(fit)
        return _Solved(fit.weights, _said(fit.ridge, fit.covariance), error, spread, seen)

    def _judged(self, present: Present, counted: Counted) -> _Solved:
        plan, (judge, design) = self._plan, (self._plan.rounds.sums[-1], self._plan.designs[-1])
        if not isinstance(judge, Judgement) or present.step is None:
            raise ValueError("the last round must judge a model")
        shares = judge.sums(design, counted.counts), judge.variances(design, 0.0)
        seen, error, spread = judge.compared(*shares, self._job.options.confidence)
        said = _said(present.step.ridge, present.step.covariance) | {"steps": len(plan.designs) - 1}
        return _Solved(present.weights, said, error, spread, seen)


def _said(ridge: float, covariance: Floats) -> dict[str, float]:
    spread = float(np.sqrt(np.diag(covariance).max()))
    return {"ridge": ridge, "largest_standard_error_of_a_weight": spread}


def _came(counted: Counted, heard: Heard | None) -> tuple[int, int]:
    """How many messages have come in all rounds, and how many of them are impossible."""
    before = (0, 0) if heard is None else (heard.messages, heard.invalid)
    return before[0] + counted.messages + counted.invalid, before[1] + counted.invalid
