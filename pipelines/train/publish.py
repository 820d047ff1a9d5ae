"""The road of a model as a Beam pipeline: from files to a release."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsSingleton

from pipelines import release
from pipelines.inputs import Telemetry
from pipelines.metrics.metric import bucket_count, columns_of, fresh_digest
from pipelines.train.central import CentralPlan
from pipelines.train.central_run import TrainInOnePlace
from pipelines.train.curve import Curve, private_curve, public_curve
from pipelines.train.job import TrainJob
from pipelines.train.local import LocalPlan
from pipelines.train.result import Trained, content
from transforms.collect_counts import Counted
from transforms.contributions import EncodeContributions
from transforms.encode import Encoded
from transforms.encoders.attributes import categorical, width
from transforms.encoders.rows import RowEncoder
from transforms.encoders.users import UserDigest
from transforms.progress import CHANGED, ROWS, WITHHELD, tally
from transforms.split_groups import SplitGroups
from transforms.telemetry import ReadTelemetry
from transforms.train_curve import AskHeldBack, Scored, ScoreModels
from transforms.train_step import Run, TrainSteps

_PUBLIC_POINTS = 51  # of a curve on public rows, at most
_SHARD = 1 << 28  # bytes of a group's rows that one worker treats


@dataclass
class ReadRows(beam.PTransform):
    """From files to `Encoded` rows: the attributes, and the target last among its like.

    Attributes:
        job: what was asked.
        telemetry: the files.
        users: the privacy unit, each with one row in the end; None where that is a row.
    """

    job: TrainJob
    telemetry: Telemetry
    users: UserDigest | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> Encoded:
        job, users, buckets = self.job, self.users, bucket_count(self.telemetry.rows)
        encoder = RowEncoder((*job.schema.attributes, job.schema.target))
        columns = encoder.columns | columns_of(None if users is None else users.column)
        return (
            begin
            | "Read" >> ReadTelemetry(self.telemetry.files, tuple(sorted(columns)))
            | "Rows" >> EncodeContributions(encoder, users, buckets, job.open_rng)
        )


@dataclass
class PublishModel(beam.PTransform):
    """The whole road, from files to a release."""

    job: TrainJob

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        job = self.job
        users = fresh_digest(job.options.user_column)
        read = begin | "Rows" >> ReadRows(job, job.telemetry, users)
        public = None
        if job.public is not None:
            public = (begin | "Public rows" >> ReadRows(job, job.public)).blocks
        if isinstance(job.plan, CentralPlan):
            train = TrainInOnePlace(job, public)
            trained = read.blocks | "Train" >> train
        else:
            trained = read.blocks | "Train" >> TrainLocally(job, public)
        step = ReleaseDoFn(job, uuid.uuid4().hex)
        return trained | "Release" >> beam.ParDo(step, AsDict(read.tallies))


@dataclass
class TrainLocally(beam.PTransform):
    """Blocks of rows in, one `Trained` out; None if too few took part, nothing if it diverged.

    Attributes:
        job: what was asked.
        public: blocks of public rows, or None.
    """

    job: TrainJob
    public: beam.PCollection | None

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        job, plan = self.job, self.job.plan
        if not isinstance(plan, LocalPlan):
            raise TypeError("the plan is of another method")
        groups = blocks | "Divide" >> self._division(plan)
        users = self._at_most(1 - plan.held_back, plan.steps.groups)
        train = TrainSteps(
            plan.steps, job.examples, plan.steps.start(job.open_rng()), plan.least,
            job.options.shuffled, bucket_count(users * plan.design.mechanism.messages),
            job.open_rng,
        )  # fmt: skip
        runs = tuple(groups[:-1]) | "Descend" >> train
        finish = FinishDoFn(job)
        answers = self._answers(plan, runs, groups[-1])
        if answers is None:
            return runs[-1] | "Finish" >> beam.ParDo(finish, None)
        return runs[-1] | "Finish" >> beam.ParDo(finish, AsSingleton(answers, default_value=None))

    def _at_most(self, share: float, batches: int) -> float:
        """How many users a batch has, as far as rows tell, if a share of all is in so many."""
        return self.job.telemetry.rows * share / batches

    def _division(self, plan: LocalPlan) -> SplitGroups:
        """Users to the opening, to steps, or among those held back."""
        schema = self.job.schema
        columns = (*schema.attributes, schema.target)
        words = width(columns) + len(categorical(columns))
        shards = 1 + plan.users * 4 * words // _SHARD
        return SplitGroups(plan.steps.groups, plan.held_back, shards, self.job.open_rng)

    def _answers(
        self, plan: LocalPlan, runs: list[beam.PCollection], held_back: beam.PCollection
    ) -> beam.PCollection | None:
        """What is known of models on the way, or None if nobody is asked."""
        job = self.job
        if self.public is None and plan.curve is None:
            return None
        models = tuple(runs[step] for step in asked_steps(job)) | "Asked about" >> beam.Flatten()
        if plan.curve is None:
            return self.public | "Score" >> ScoreModels(job.objective, job.examples, models)
        least = plan.curve.least if job.options.shuffled else None
        buckets = bucket_count(self._at_most(plan.held_back, len(plan.curve.steps)))
        ask = AskHeldBack(
            job.objective, job.examples, models, plan.curve.mechanism, least, buckets, job.open_rng
        )
        return held_back | "Ask those held back" >> ask


def asked_steps(job: TrainJob) -> list[int]:
    """After which steps of a local run it is known how well the model does, ascending."""
    plan = job.plan
    if not isinstance(plan, LocalPlan):
        raise TypeError("the plan is of another method")
    if plan.curve is not None:
        return list(plan.curve.steps)
    steps = plan.steps.schedule.steps
    points = min(steps + 1, _PUBLIC_POINTS)
    return sorted({round(steps * place / (points - 1)) for place in range(points)})


class FinishDoFn(beam.DoFn):
    """The last state of a local run as `Trained`."""

    def __init__(self, job: TrainJob) -> None:
        self._job = job

    def process(self, run: Run, answers: Scored | Counted | None) -> Iterator[Trained | None]:
        plan = self._job.plan
        if not isinstance(plan, LocalPlan):
            raise TypeError("the plan is of another method")
        if run.model.diverged:
            return
        if not run.model.used or run.users < plan.steps.schedule.steps:
            yield None
            return
        invalid, n = run.invalid, run.users
        if isinstance(answers, Counted):
            invalid, n = invalid + answers.invalid, n + int(answers.counts.sum())
        training = plan.training(run.model)
        training |= {"steps_used": run.model.used, "steps_skipped": run.skipped}
        training["users_who_trained"] = run.users
        yield Trained(run.model.average, n, invalid, self._curve(plan, answers), training)

    def _curve(self, plan: LocalPlan, answers: Scored | Counted | None) -> Curve:
        job = self._job
        steps, confidence = asked_steps(job), job.options.confidence
        if isinstance(answers, Counted) and plan.curve is not None:
            mechanism, least = plan.curve.mechanism, plan.curve.least
            return private_curve(
                steps, mechanism, answers.counts, least, job.schema.unit_of_error, confidence
            )
        if isinstance(answers, Scored):
            return public_curve(steps, answers, job.schema.unit_of_error, confidence)
        return []


class ReleaseDoFn(beam.DoFn):
    """Writes the release, unless too few took part, or the files changed.

    Why there is none is told by a counter: what a step raises reaches nobody, for its text might
    quote the data.
    """

    def __init__(self, job: TrainJob, release_id: str) -> None:
        self._job, self._release_id = job, release_id

    def process(self, trained: Trained | None, tallies: Mapping[str, int]) -> None:
        if tallies.get(ROWS, 0) != self._job.telemetry.rows:
            tally(CHANGED, 1)
        elif trained is None:
            tally(WITHHELD, 1)
        else:
            files, statement = content(self._job, trained, tallies, self._release_id)
            release.publish(self._job.options.output, files, statement)
