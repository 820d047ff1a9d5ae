"""The pipeline of a model: from files to a release."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import AsDict

from pipelines.errors import DONE
from pipelines.jobs.publishing import carry_out, conclude, say_where
from pipelines.jobs.run import beam_options
from pipelines.ledger.held import is_reserved
from pipelines.ledger.paying import Payment, ReleasePrice, paid
from pipelines.ledger.spans import digests
from pipelines.logs.inputs import Telemetry
from pipelines.metrics.metric import columns_of
from pipelines.releases import release
from pipelines.request import answers
from pipelines.train.central_run import TrainInOnePlace
from pipelines.train.job import TrainJob, prepare
from pipelines.train.options import TrainOptions
from pipelines.train.result import Trained, content, used
from pipelines.train.sums import SumsPlan
from pipelines.train.sums_run import TrainFromSums
from pipelines.views import console
from pipelines.views.headline import written
from transforms.elements.blocks import bucket_count
from transforms.elements.conservation import (
    PASSED,
    PERTURBED,
    Batches,
    Flow,
    Shuffled,
    entering,
    require_whole,
    summed,
)
from transforms.elements.progress import CHANGED, ROWS, SETTLED, WITHHELD, tally
from transforms.encoders.encoder import Encoder
from transforms.encoders.examples import ExampleEncoder
from transforms.encoders.part import Viewed
from transforms.encoders.rows import RowEncoder
from transforms.encoders.users import UserDigest, fresh_digest
from transforms.units.contributions import EncodeContributions, EncodedContributions

_ALL_PASS = Shuffled(0, Batches(1))


@dataclass
class ReadRows(beam.PTransform):
    """From files to rows: the attributes, and the target last among its like.

    Attributes:
        job: the request, held against its input.
        telemetry: the files.
        users: the privacy unit, each with one row in the end; None where that is a row.
        hides: whether rows that cannot be used take part like any other.
    """

    job: TrainJob
    telemetry: Telemetry
    users: UserDigest | None = None
    hides: bool = False

    def expand(self, begin: beam.pvalue.PBegin) -> EncodedContributions:
        job, users, buckets = self.job, self.users, bucket_count(self.telemetry.rows)
        attributes = (*job.schema.attributes, job.schema.target)
        encoder: Encoder = ExampleEncoder(attributes) if self.hides else RowEncoder(attributes)
        if view := job.options.view:
            hidden = encoder.columns if self.hides else frozenset[str]()
            encoder = Viewed(encoder, view, hidden, leaves_out=not self.hides)
        columns = encoder.columns | columns_of(None if users is None else users.column)
        reported = not job.options.hides_presence
        return (
            begin
            | "Read" >> self.telemetry.read(columns)
            | "Rows"
            >> EncodeContributions(encoder, users, buckets, job.open_rng, reported=reported)
        )


@dataclass
class PublishModel(beam.PTransform):
    """From files to a release.

    Attributes:
        job: the request, held against its input.
        stamp: which release it is, and who has paid for it; see `paying.Right`.
        ledger: where its price is set aside, if it is.
    """

    job: TrainJob
    stamp: Mapping[str, Any] = field(default_factory=lambda: {"release_id": uuid.uuid4().hex})
    ledger: str | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        job = self.job
        users = fresh_digest(job.options.user_column)
        read = begin | "Rows" >> ReadRows(job, job.telemetry, users, job.options.hides)
        public = None
        if job.public is not None:
            public = (begin | "Public rows" >> ReadRows(job, job.public)).blocks
        if isinstance(job.plan, SumsPlan):
            run = read.blocks | "Train" >> TrainFromSums(job, job.plan)
        else:
            run = read.blocks | "Train" >> TrainInOnePlace(job, job.plan, public)
        flow = summed(entering(read.blocks), *read.flow, *run.flow)
        step = ReleaseModelDoFn(job, self.stamp, self.ledger)
        return run.trained | "Release" >> beam.ParDo(step, AsDict(read.tallies), AsDict(flow))


class ReleaseModelDoFn(beam.DoFn):
    """Writes the release, unless too few took part, or the files changed.

    Why there is none is said by a counter: what a step raises reaches nobody, for its text might
    quote the data.
    """

    def __init__(self, job: TrainJob, stamp: Mapping[str, Any], ledger: str | None) -> None:
        self._job, self._stamp, self._ledger = job, stamp, ledger

    def process(self, trained: Trained | None, tallies: Mapping[str, int], flow: Flow) -> None:
        if tallies.get(ROWS, 0) != self._job.telemetry.rows:
            tally(CHANGED, 1)
        elif trained is None:
            tally(WITHHELD, 1)
        elif not is_reserved(self._ledger, self._stamp):
            tally(SETTLED, 1)
        else:
            self._require_whole(trained, tallies, flow)
            files, statement = content(self._job, trained, tallies, self._stamp)
            release.publish(self._job.options.output, files, statement)

    def _require_whole(self, trained: Trained, tallies: Mapping[str, int], flow: Flow) -> None:
        if isinstance(self._job.plan, SumsPlan):
            self._job.plan.require_whole(tallies, flow, trained.heard)
        else:
            passed = {**flow, PASSED: flow.get(PERTURBED, 0)}
            require_whole(tallies, passed, _ALL_PASS, trained.n)


def run(options: TrainOptions, beam_arguments: list[str], payment: Payment | None = None) -> int:
    """Train a model, publish it and say how well it does.

    Args:
        options: of the request.
        beam_arguments: what is for Beam.
        payment: where it is paid for, if it is.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few took part, or too little budget is left.
        FailedError: the run diverged, or the job ended without a release.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = prepare(options, paid=payment is not None)
    screen = console.Screen()
    files = digests(job.telemetry.files)
    price = ReleasePrice("train", job.guarantees[0], job.plan.profile, options.output, files)
    with paid(payment, lambda: price) as right:
        if right.published:
            say_where(right.output, screen)
            return DONE
        # Rounds of short stages, at whose ends all workers would wait for each other.
        publish = PublishModel(job, right.stamp, right.ledger)
        published = carry_out(job, publish, for_beam, screen, alone=True)
        right.conclude(published)
    if published:
        show(screen, release.statement_of(options.output))
        conclude(job, screen)
    return DONE


def show(screen: console.Screen, statement: Mapping[str, Any]) -> None:
    """Whether the model is of any use, what it is, and how well it does: a line each."""
    model, error = statement["model"], statement["error"]
    last = error.get("of_the_published_model")
    answers.tell(
        model={"kind": model["kind"], "parameters": model["parameters"]},
        verdict=error["verdict"], measure=error["measure"], of_the_published_model=last,
    )  # fmt: skip
    units = f"{used(statement)} {statement['request']['unit']}s"
    line = f"{model['kind']}, {model['parameters']:,} parameters, from {units}"
    for text in (error["verdict"], line):
        screen.say(text)
    if last is None or last["error"] is None:
        return
    number = written(last["error"], None, last["lower"], last["upper"])
    screen.say(f"{error['measure']}: {number} on {error['measured_on']}")
