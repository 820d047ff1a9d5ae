"""Training by reports, as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from mechanisms.learning.baseline import Comparison
from pipelines.train.comparison import of_public_rows, of_reports
from pipelines.train.curve import Curve, private_curve, public_curve
from pipelines.train.job import TrainJob
from pipelines.train.local import LocalPlan
from pipelines.train.result import Flowing, Trained
from transforms.collector.collect_counts import Counted
from transforms.elements.blocks import bucket_count
from transforms.encoders.attributes import categorical, width
from transforms.rounds.train_curve import AskHeldBack, Scored, ScoreModels
from transforms.rounds.train_step import Run, TrainSteps
from transforms.units.split_groups import SplitGroups

_PUBLIC_POINTS = 51  # of a curve on public rows, at most
_SHARD = 1 << 28  # bytes of a group's rows that one worker treats


@dataclass
class TrainLocally(beam.PTransform):
    """Blocks of rows in, `Flowing` out; `Trained` is None if too few took part, and nothing is
    there if the run diverged.

    Attributes:
        job: the request, held against its input.
        plan: how it goes.
        public: blocks of public rows, or None.
    """

    job: TrainJob
    plan: LocalPlan
    public: beam.PCollection | None

    def expand(self, blocks: beam.PCollection) -> Flowing:
        job, plan = self.job, self.plan
        groups, sizes = blocks | "Divide" >> self._division()
        users = self._at_most(1 - plan.held_back, plan.steps.groups)
        train = TrainSteps(
            plan.steps, job.examples, plan.steps.start(job.open_rng()), plan.least,
            job.options.shuffled, bucket_count(users * plan.design.mechanism.messages),
            job.open_rng,
        )  # fmt: skip
        runs = tuple(groups[:-1]) | "Descend" >> train
        finish = FinishDoFn(job, plan)
        answers = self._answers(runs, groups[-1])
        answered = None if answers is None else AsSingleton(answers, default_value=None)
        return Flowing(runs[-1] | "Finish" >> beam.ParDo(finish, answered), (sizes,))

    def _at_most(self, share: float, batches: int) -> float:
        """How many users a batch has, as far as rows tell, if a share of all is in so many."""
        return self.job.telemetry.rows * share / batches

    def _division(self) -> SplitGroups:
        """Users to the opening, to steps, or among those held back."""
        schema, plan = self.job.schema, self.plan
        columns = (*schema.attributes, schema.target)
        words = width(columns) + len(categorical(columns))
        shards = 1 + plan.users * 4 * words // _SHARD
        return SplitGroups(plan.steps.groups, plan.held_back, shards, self.job.open_rng)

    def _answers(
        self, runs: list[beam.PCollection], held_back: beam.PCollection
    ) -> beam.PCollection | None:
        """What is known of models on the way, or None if nobody reports on them."""
        job, plan = self.job, self.plan
        if self.public is None and plan.curve is None:
            return None
        scored = tuple(runs[step] for step in scored_steps(plan))
        models = scored | "Models to score" >> beam.Flatten()
        if plan.curve is None:
            return self.public | "Score" >> ScoreModels(job.objective, job.examples, models)
        least = plan.curve.least if job.options.shuffled else None
        buckets = bucket_count(self._at_most(plan.held_back, plan.curve.groups))
        ask = AskHeldBack(
            job.objective, job.examples, models, plan.curve.mechanism, least, buckets, job.open_rng
        )
        return held_back | "Ask those held back" >> ask


def scored_steps(plan: LocalPlan) -> list[int]:
    """After which steps of a run it is known how well the model does, ascending."""
    if plan.curve is not None:
        return list(plan.curve.steps)
    steps = plan.steps.schedule.steps
    points = min(steps + 1, _PUBLIC_POINTS)
    return sorted({round(steps * place / (points - 1)) for place in range(points)})


class FinishDoFn(beam.DoFn):
    """The last state of a local run as `Trained`."""

    def __init__(self, job: TrainJob, plan: LocalPlan) -> None:
        self._job, self._plan = job, plan

    def process(self, run: Run, answers: Scored | Counted | None) -> Iterator[Trained | None]:
        plan = self._plan
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
        curve, comparison = self._curve(answers), self._comparison(answers)
        yield Trained(run.model.average, n, invalid, curve, training, comparison, run.heard)

    def _comparison(self, answers: Scored | Counted | None) -> Comparison | None:
        job, plan = self._job, self._plan
        about = job.objective.loss.baseline, job.schema.unit_of_error, job.options.confidence
        if isinstance(answers, Counted) and plan.curve is not None:
            return of_reports(plan.curve.mechanism, answers.counts, plan.curve.least, *about)
        return of_public_rows(answers, *about) if isinstance(answers, Scored) else None

    def _curve(self, answers: Scored | Counted | None) -> Curve:
        job, plan = self._job, self._plan
        steps, confidence = scored_steps(plan), job.options.confidence
        if isinstance(answers, Counted) and plan.curve is not None:
            mechanism, least = plan.curve.mechanism, plan.curve.least
            baseline, unit = job.objective.loss.baseline, job.schema.unit_of_error
            return private_curve(
                steps, mechanism, baseline, answers.counts, least, unit, confidence
            )
        if isinstance(answers, Scored):
            return public_curve(steps, answers, job.schema.unit_of_error, confidence)
        return []
