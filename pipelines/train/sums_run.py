"""Linear regression from sums among dummies, as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.learning.products import Products
from mechanisms.postprocess.intervals import normal_quantile
from pipelines.metrics.counting.metric import CountCodes
from pipelines.train.curve import Point
from pipelines.train.job import TrainJob
from pipelines.train.result import Flowing, Trained
from pipelines.train.sums import SumsPlan
from transforms.blocks import Generator, bucket_count
from transforms.collect_counts import Counted, CountMessages
from transforms.conservation import PASSED, leaving
from transforms.dummies import AddDummies
from transforms.encoders.block import RowBlock, pieces
from transforms.examples import Examples
from transforms.shuffle import Batches, Shuffle

_WORDS = 1 << 20  # of a block of messages


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
        job, design = self.job, self.plan.design
        codes, slots = design.layout.codes, design.layout.types.size
        send = SendDoFn(job.examples, self.plan.products, job.open_rng)
        buckets = bucket_count(job.telemetry.rows * slots)
        shuffle = Shuffle(0, codes, buckets, job.open_rng, counted=True)
        sending = beam.ParDo(send).with_output_types(np.ndarray)
        messages = blocks | "Messages" >> sending.with_outputs(SendDoFn.FLOW, main="messages")
        sent, drawn = messages.messages | "Dummies" >> AddDummies(design, job.open_rng)
        trained = (
            sent
            | "Shuffle" >> shuffle
            | "Count" >> beam.CombineGlobally(CountMessages(CountCodes(design.layout.codes)))
            | "Solve" >> beam.ParDo(SolveDoFn(job, self.plan))
        )
        return Flowing(trained, (messages[SendDoFn.FLOW], drawn, leaving(sent, Batches(codes))))


@typehints.with_input_types(RowBlock)
class SendDoFn(beam.DoFn):
    """What users send; of how many rows, in the output tagged `FLOW`."""

    FLOW = "flow"

    def __init__(self, examples: Examples, products: Products, open_rng: Generator) -> None:
        self._examples, self._products, self._open_rng = examples, products, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock) -> Iterator[Any]:
        layout = self._products.layout
        for piece in pieces(block, max(_WORDS // layout.types.size, 1)):
            words = layout.reports(self._products.encode(*self._examples(piece), self._rng))
            # Nobody sees a report by itself here, so empty slots need not travel: they are more
            # than half of all, and what is seen without them follows from what is paid for.
            yield words[words < int(layout.starts[-1])]
        yield beam.pvalue.TaggedOutput(self.FLOW, (PASSED, block.size))


class SolveDoFn(beam.DoFn):
    """The model that noisy counts make."""

    def __init__(self, job: TrainJob, plan: SumsPlan) -> None:
        self._job, self._plan = job, plan

    def process(self, counted: Counted) -> Iterator[Trained]:
        job, plan, unit = self._job, self._plan, self._job.schema.unit_of_error
        solved = plan.products.solve(plan.design, counted.counts)
        n, came = max(round(solved.rows), 0), (counted.messages + counted.invalid,)
        made = Trained(
            np.zeros(plan.products.inputs), n, counted.invalid, [], plan.training(),
            heard=came, n_error=solved.rows_error,
        )  # fmt: skip
        if solved.drowned:
            yield made
            return
        fit, confidence = solved.fit(job.objective.penalty), job.options.confidence
        error, spread = unit * fit.error, unit * solved.standard_error(fit)
        half, middle = normal_quantile(confidence) * spread, max(error, 0.0)
        point = Point(1, n, middle, spread, max(error - half, 0.0), max(error + half, middle))
        yield made._replace(
            weights=fit.weights, curve=[point], training=plan.training(fit),
            comparison=solved.compared(fit, unit, confidence),
        )  # fmt: skip
