"""One price for all that a pipeline publishes of the same rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import apache_beam as beam

from mechanisms.randomness import SecureRandom
from pipelines.compat.replacing import replace_steps, require_closed
from pipelines.errors import FailedError, RequestError
from pipelines.jobs.run import beam_options
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import Spend, population_of, require_declared
from pipelines.logs.inputs import Source
from pipelines.metrics import registry
from pipelines.metrics.counting import wording
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import JOB, ReleaseOptions
from pipelines.metrics.permanent import promises
from pipelines.metrics.resolving import resolve
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import PlanJob, unread_job
from pipelines.releases.statement import head
from pipelines.request.options import undashed
from pipelines.request.requests import request
from pipelines.rows.calendar import calendar_of
from pipelines.rows.steps import FIGURES, ROWS, DrawOnce, PrivateFigures
from pipelines.rows.tables import Types, schema_of, seen
from pipelines.storage.paths import beside
from pipelines.wording import meaning
from transforms.elements.blocks import Generator
from transforms.elements.drawing import Drawing

_COLLECTION, _ALL = "beam", "all"  # of a plan that nobody has written; its one window
_OPEN = (
    "the budget of a private transform is open: leave `with Budget(...)` before the pipeline runs"
)
_CLOSED = (
    "the budget is closed, and its price is divided among what was applied before: apply all of it "
    "inside `with Budget(...)`, each transform once"
)
_WINDOWS = (
    "Each window is a release of its own, and each has this price: who is in several loses as much "
    "in every one of them. Every window of the span is published, with rows or without; rows that "
    "come late, or of other windows, are dropped, and nobody counts them."
)
_ONCE = (
    "The noise was drawn once in this run: of the same totals a step that runs again publishes the "
    "same. Which rows count, and roundings, are drawn before; the promise holds if the runner "
    "keeps what it has grouped, and does not draw these again for figures that it has handed on. "
    "Whoever runs the job, its runner, and what that stores between steps are trusted with rows."
)


class JointBudget:
    """The most that several transforms together may reveal of a user, or of a row.

    They are applied while it is open, and built when it is closed: then their number is known, and
    one price is solved for all of them.

    ```python
    with private.Budget(epsilon=1, delta=1e-6) as budget:
        visits = rows | "visits" >> private.Count(user="visitor", budget=budget)
        spent = rows | "spent" >> private.Sum("euros", (0, 50), user="visitor", budget=budget)
    ```

    Args:
        epsilon: in nats; in windows, of each window.
        delta: the probability that epsilon may fail, of all of them; by default as in plans, where
            each has its own.
        ledger: what is paid to, a file or gs://BUCKET/ledger.json, by the job as it runs.
        population: whose budget of the ledger it is.
        large_delta: whether a delta above 0.01 is meant.
        open_rng: opens generators on workers; a seeded one is for tests.

    Raises:
        RequestError: a ledger without a population, or the other way round.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float | None = None,
        *,
        ledger: str | os.PathLike[str] | None = None,
        population: str | None = None,
        large_delta: bool = False,
        open_rng: Generator = SecureRandom,
    ) -> None:
        if (ledger is None) != (population is None):
            raise RequestError("ledger and population go together: where it is paid, and of whom")
        self.epsilon, self.delta, self._large_delta = epsilon, delta, large_delta
        self._ledger = None if ledger is None else beside("", os.fspath(ledger))
        self._population, self._open_rng = population or "", open_rng
        self._promised: list[PromisedFigures] = []
        self._closed = False

    def __enter__(self) -> JointBudget:
        return self

    def __exit__(self, failed: Any, *_: object) -> None:
        if failed is None:
            self.close()

    def add(self, promised: PromisedFigures) -> None:
        """Take what a transform promises, unless it is closed."""
        if self._closed or promised in self._promised:
            raise RequestError(_CLOSED)
        self._promised.append(promised)

    def verify_closed(self) -> None:
        """Refuse to run: see `require_closed`."""
        if not self._closed:
            raise RequestError(_OPEN)

    def close(self) -> None:
        """Solve the price, and build what was promised.

        Raises:
            RequestError: the budget does not hold it, or the ledger knows nobody of whom it is.
        """
        if self._closed:
            return
        self._closed = True
        if not self._promised:
            return
        first = self._promised[0]
        for promised in self._promised:
            first.require_alike(promised)
        job, pipeline = self._solved(), first.rows.pipeline
        windowfn, price = first.rows.windowing.windowfn, self._price(job)
        once = DrawOnce(first.calendar, windowfn, price, self._open_rng)
        drawn = pipeline | f"Budget of {first.where}" >> once
        drawing = Drawing(drawn["secret"], drawn.get("windows"))
        said = self._said(job)
        for promised, metric in zip(self._promised, job.metrics, strict=True):
            promised.build(metric, drawing, said)
        replace_steps(pipeline, {one: one.built for one in self._promised if one.applied})

    def _solved(self) -> PlanJob:
        """The metrics, at one price: see `pipelines.plan.joint`."""
        metrics, numbers = [], Counter[str]()
        for one in self._promised:
            numbers[one.kind] += 1
            usual = f"{one.kind}-{numbers[one.kind]}".removesuffix("-1")
            metrics.append({**one.words, **one.place, "name": one.place["name"] or usual})
            if metrics[-1]["name"] in {metric["name"] for metric in metrics[:-1]}:
                raise RequestError("name: two transforms of the budget have one; say another")
        first = self._promised[0]
        several = first.calendar.length > 0
        said = {
            "collection": _COLLECTION, "version": 1, "input": ("rows",), "output": "rows",
            "unit": "row" if first.user is None else "user per window" if several else "user",
            "user_column": first.user, "epsilon": self.epsilon, "delta": self.delta,
            "large_delta": self._large_delta, "metrics": metrics,
        }  # fmt: skip
        try:
            job = unread_job(request(PlanDocument, said), _ALL)
        except RequestError as error:
            raise RequestError(undashed(str(error))) from None
        own = (replace(metric, open_rng=self._open_rng, paged=False) for metric in job.metrics)
        return replace(job, metrics=tuple(own))

    def _price(self, job: PlanJob) -> tuple[str, Spend] | None:
        """What a ledger is told of a window; None if there is none."""
        if self._ledger is None:
            return None
        known = CollectionLedger.open(self._ledger).read().populations
        people = population_of(self._population, known, self._ledger)
        spend = Spend(
            _COLLECTION, 1, "", _ALL, people.scope, people.budget, job.losses,
            "rows of a pipeline", tuple(account.name for account in job.accounts), job.profiles,
            design=job.design.hex(), population=self._population,
        )  # fmt: skip
        require_declared(spend, known, self._ledger)
        return self._ledger, spend

    def _said(self, job: PlanJob) -> dict[str, Any]:
        """What the statements of all metrics say of the budget."""
        names, joint = [metric.name for metric in job.metrics], job.guarantees[0]
        words = [_ONCE, *[_WINDOWS] * bool(self._promised[0].calendar.length)]
        if len(names) > 1:
            words.insert(0, f"{meaning(joint, 0)} That is of {' and '.join(names)}.")
        return {"budget": {"promise": joint.as_dict(), "metrics": names}, "in_words": words}


class PromisedFigures(beam.PTransform):
    """A step that promises figures until its budget is closed.

    Attributes:
        kind, words: of the metric, as in a plan.
        user: the column that tells users apart; None where rows are protected.
        place: its name and share in the budget, if they are said.
        statement: what it promises, once the budget is closed.
        built: from rows to figures, likewise.
    """

    statement: dict[str, Any] | None = None
    built: PrivateFigures | None = None
    applied, where = False, _ALL

    def __init__(
        self, budget: JointBudget, kind: str, words: Mapping[str, Any], user: str | None,
        types: Types, span: tuple[Any, Any] | None, share: float | None, name: str | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._budget, self.kind, self.words, self.user = budget, kind, words, user
        self._types, self._span = types, span
        self.place = {"kind": kind, "share": share, "name": name}

    def hold(self, rows: beam.PCollection) -> None:
        """Take rows in the budget, unless it is closed, or the request does not fit them."""
        # Who builds a pipeline has not passed hushbeam's door: the runner is looked at here.
        beam_options([f"--runner={type(rows.pipeline.runner).__name__}"])
        self.rows, self.calendar = rows, calendar_of(rows, self._span)
        # What can never be is refused where it stands, and not where the budget is closed.
        words = {**self.words, "input": ("rows",), "output": "rows", "user_column": self.user}
        words |= {"epsilon": self._budget.epsilon, "delta": self._budget.delta}
        kind = registry.options(self.kind)
        options = request(kind, words)
        said = {name: getattr(options, name) for name in options.model_fields_set}
        if kind.who_draws(said) != JOB or not self._resolved(options).draws_once:
            raise RequestError(
                f"drawn_by: {self.kind} in a pipeline of your own has the noise of the job that "
                "runs it: leave it out"
            )
        self._budget.add(self)

    def _resolved(self, options: ReleaseOptions) -> Metric:
        schema = schema_of(self.rows.element_type, self._types)
        return resolve(options, Source(seen(schema), 0))

    def require_alike(self, other: PromisedFigures) -> None:
        """Refuse a budget of several pipelines, units or calendars."""
        for what, mine, theirs in (
            ("pipeline", self.rows.pipeline, other.rows.pipeline),
            ("user", self.user, other.user),
            ("windows", self.calendar, other.calendar),
        ):
            if mine != theirs:
                raise RequestError(
                    f"{what}: all transforms of one budget have the same: open another budget"
                )

    def build(self, metric: Metric, drawing: Drawing, said: Mapping[str, Any]) -> None:
        """Say, and make, what was promised."""
        covers = wording.protected(metric.unit, metric.options.neighbours)
        words = [*metric.words, *metric.cautions, *said["in_words"]]
        self.statement = {
            **head(metric.kind, promises(metric), covers, words, 0, metric.priced),
            "metric": metric.name,
            "request": metric.request,
            "error": metric.error_statement,
            "budget": said["budget"],
        }
        self.built = PrivateFigures(metric, self.calendar, drawing, self._types, said)

    def expand(self, rows: beam.PCollection) -> dict[str, beam.PCollection]:
        self.hold(rows)
        self.applied = True
        require_closed(rows.pipeline, self._budget)
        promised = {
            name: rows | name >> beam.ParDo(OpenDoFn()).with_output_types(ROWS[name])
            for name in ROWS
        }
        self.where = promised[FIGURES].producer.full_label.rsplit("/", 2)[0]
        return promised


class OpenDoFn(beam.DoFn):
    """Stands where figures will be: nobody runs it."""

    def process(self, _: Any) -> Any:
        raise FailedError(_OPEN)
