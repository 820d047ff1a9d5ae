"""A window of a plan, held against its input: what is published, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from mechanisms.channel import Guarantee, together
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.errors import RequestError
from pipelines.ledger.spans import Span, digests, is_no_date, span_of
from pipelines.logs import inputs
from pipelines.metrics.metric import Metric
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.plan.document import WINDOW, PlanDocument
from pipelines.plan.joint import JointLoss, accounts, joint
from pipelines.plan.metrics import mark, mark_of_design, resolve
from pipelines.releases.statement import recorded, versions
from pipelines.request.options import undashed
from pipelines.request.spans import seconds_of
from pipelines.wording import RAW_ROWS, distinct_promises, meaning
from transforms.elements.progress import WITHHELD
from transforms.windows import moment_of

_WINDOW = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:T+-]{0,63}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_WHOLE = "all"  # the one window of a plan that names none


@dataclass(frozen=True)
class Destination:
    """Where a release goes, as publishing needs to know it."""

    output: str
    hides_presence: bool
    unit: str


@dataclass(frozen=True)
class PlanJob:
    """Everything that is decided before a row is read.

    Attributes:
        plan: what is collected.
        window: the part of the time.
        telemetry: the window's files.
        metrics: ready to run.
    """

    plan: PlanDocument
    window: str
    telemetry: inputs.Telemetry
    metrics: tuple[Metric, ...]

    @property
    def options(self) -> Destination:
        """Where the release goes, and whether a metric hides how many take part of which unit."""
        hidden = any(metric.options.hides_presence for metric in self.metrics)
        return Destination(output_of(self.plan, self.window), hidden, self.plan.unit)

    @property
    def min_reports(self) -> int:
        """The least batch of any metric."""
        return min(int(metric.min_reports) for metric in self.metrics)

    @property
    def design(self) -> bytes:
        """The fingerprint of the plan and of the mechanisms it has come to."""
        return mark_of_design(self.plan, self.window, self.metrics)

    @property
    def time(self) -> Span | None:
        """Of the window, by its name; None if the name is no date."""
        return time_of(self.plan, self.window)

    @property
    def made_of(self) -> tuple[str, ...] | None:
        """As a ledger keeps it; None if that is not known."""
        return digests(self.telemetry.files)

    @property
    def accounts(self) -> tuple[JointLoss, ...]:
        """What reveals something of a unit: each metric, or several of which it answers one."""
        return accounts(self.metrics)

    @property
    def counts_on_others(self) -> bool:
        """Whether another share of the users is counted on than their own clients' plan would."""
        options_of = [self.plan.options(m, self.window, clients=True) for m in self.plan.metrics]
        return any(
            metric.protection.honest_share not in (None, getattr(options, "honest_share", None))
            for metric, options in zip(self.metrics, options_of, strict=True)
        )

    @property
    def losses(self) -> tuple[Guarantee, ...]:
        """What each account's releases reveal."""
        return tuple(account.released for account in self.accounts)

    @property
    def profiles(self) -> tuple[PrivacyLoss, ...]:
        """The whole curve behind each of the losses."""
        return tuple(account.profile for account in self.accounts)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the release promises, and what a unit's reports of all metrics do."""
        locals_ = [account.local for account in self.accounts]
        added = together(self.losses)
        if added.epsilon < math.inf:
            added = min(added, joint(self.plan, self.metrics), key=_to_nine_digits)
        # A first round was priced, and paid for, before.
        before = (query.chosen.guarantee for query in self.plan.queries if query.chosen)
        return together((added, *before)), together(locals_)

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over."""
        permanent = self.plan.permanent
        lines = [] if permanent is None else [permanent.words]
        lines += [f"{m.name}: {undashed(line)}" for m in self.metrics for line in m.cautions]
        if len(self.metrics) > 1 or permanent is not None:
            lines += cautioned(self.guarantees[0].delta, self.plan.min_reports)
            lines += next_to_nothing(*self.guarantees)
        return list(dict.fromkeys(lines))

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """That no metric had enough reports; None if the release was not withheld."""
        if WITHHELD not in counted:
            return None
        return f"no metric had its min_reports, of which the least is {self.min_reports:,}"

    def statement(self, stamp: Mapping[str, Any]) -> dict[str, Any]:
        """What the whole release guarantees; each metric's folder says more of it.

        Args:
            stamp: of the right to make it.
        """
        plan, (released, local) = self.plan, self.guarantees
        promises = distinct_promises((released, local))
        words = [meaning(guarantee, self.min_reports) for guarantee in promises]
        time = self.time
        before = [query.chosen for query in plan.queries if query.chosen]
        watch = {m.name: w.model_dump() for m in plan.metrics if not isinstance(w := m.watch, bool)}
        watch |= {m.name: {} for m in plan.metrics if "above" in m.options}
        return {
            "release": "plan",
            **stamp,
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "in_words": [*words, *(one.words for one in before), *self.cautions, RAW_ROWS],
            "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
            "design": self.accounts_as_data,
            "plan": {
                "collection": plan.collection,
                "version": plan.version,
                "fingerprint": mark(plan).hex(),
                "design": self.design.hex(),
                "window": self.window,
                "from": None if time is None else time.start.isoformat(),
                "until": None if time is None else time.until.isoformat(),
                "unit": plan.unit,
                "noise": plan.drawn,
                **({} if plan.permanent is None else {"distinct_values": plan.distinct_values}),
                # By which a reader sees that a window came late; a run by hand is due at no time.
                **({} if plan.schedule is None else {"schedule": plan.schedule}),
            },
            **({"first_round": before[0].facts | {"design": before[0].design}} if before else {}),
            **({"watch": watch} if watch else {}),
            "versions": versions(),
        }

    @property
    def accounts_as_data(self) -> list[dict[str, Any]]:
        """What the joint promise composes: of each account its metrics, their price and designs.

        Of metrics among which units are divided, whose draw each takes: 64-bit words, as text.
        """
        return [
            {
                "epsilon": said["epsilon"],
                "delta": said["delta"],
                "metrics": {metric.name: recorded(metric.priced) for metric in metrics},
                **({"draws": draws} if (draws := _draws(metrics)) else {}),
            }
            for metrics, said in ((one.metrics, one.released.as_dict()) for one in self.accounts)
        ]


def _draws(metrics: Sequence[Metric]) -> dict[str, list[str]]:
    return {m.name: [str(m.part.first), str(m.part.last)] for m in metrics if m.part is not None}


def _to_nine_digits(guarantee: Guarantee) -> float:
    """By its epsilon: sums that differ in their last bits say the same."""
    return float(f"{guarantee.epsilon:.9g}")


def window_of(plan: PlanDocument, name: str | None) -> str:
    """The window that a run is about.

    Raises:
        RequestError: the plan needs one and none was named, or the other way round.
    """
    if not plan.windowed:
        if name is not None:
            raise RequestError(f"--window: neither input nor output of the plan holds {WINDOW}")
        return _WHOLE
    if name is None or not _WINDOW.fullmatch(name):
        raise RequestError(
            f"--window: name the window that stands for {WINDOW} in the plan, as in 2026-11-20: "
            "letters, digits and . _ : + - only"
        )
    if plan.looks_back and not (_DAY.fullmatch(name) and span_of(name)):
        raise RequestError("--window: the metrics look back from a day: name it, as in 2026-11-20")
    if is_no_date(name):
        raise RequestError(f"--window: there is no such time as {name}: name a day, or a word")
    return name


def time_of(plan: PlanDocument, window: str) -> Span | None:
    """The time of a window, by its name; None if the name is no date."""
    named = span_of(window)
    if named is None or plan.stream is None:
        return named
    # A stream's windows are named after their beginning, however long they are.
    length = timedelta(seconds=seconds_of(plan.stream.window))
    return Span(start=named.start, until=max(named.until, named.start + length))


def output_of(plan: PlanDocument, window: str) -> str:
    """The folder of a window's release."""
    return plan.output.replace(WINDOW, window)


def open_job(plan: PlanDocument, window: str) -> PlanJob:
    """A window of a plan, held against its files; reads footers only.

    Raises:
        RequestError: the input or a metric is not what the plan says, or would give every window of
            a stream's the same rows.
    """
    if plan.stream is not None and not all(WINDOW in pattern for pattern in plan.input):
        raise RequestError(
            f"{plan.where('input')}input: holds no {WINDOW}, so a run would release the rows of "
            "all windows as one: `hushbeam stream` puts them into windows by their time"
        )
    if plan.permanent is not None:
        raise RequestError(
            f"{plan.where('noise')}noise: permanent noise is drawn by each user's own client, and "
            "a run over a log draws fresh one: `hushbeam parties client --user-secret`, `shuffle`, "
            "`collect`; or say fresh"
        )
    days = plan.days(window)
    try:
        telemetry = _opened(plan, window, days)
    except RequestError as error:
        raise RequestError(plan.where("input") + undashed(str(error))) from None
    _require_rows(plan, telemetry)
    return _watchable(PlanJob(plan, window, telemetry, resolve(plan, window, telemetry)))


def _require_rows(plan: PlanDocument, telemetry: inputs.Telemetry) -> None:
    """Hold what a plan and its queries compute of rows against their columns."""
    with plan.located():
        seen = telemetry.seen(plan.view)
    for query in plan.queries:
        seen = seen.whole("a query may name a column that begins late in it")
        query.require_clear({name for _, schema in seen.columns for name in schema.names})
        seen.require_rows(query.places)


def _opened(plan: PlanDocument, window: str, days: Sequence[str]) -> inputs.Telemetry:
    """The files of a window, or of the days that its metrics look at, if they look at several."""
    if days:
        return inputs.open_days(plan.dated, days, plan.reading)
    patterns = tuple(pattern.replace(WINDOW, window) for pattern in plan.input)
    hidden = plan.promised == "add or remove"
    return inputs.open_telemetry(patterns, hidden, plan.reading, hidden and _due(plan, window))


def _due(plan: PlanDocument, window: str) -> bool:
    """Whether the plan's calendar says that a window is released, with rows or without."""
    served, moment = plan.stream, moment_of(window)
    if served is None or served.first is None or moment is None:
        return False
    first, last = moment_of(served.first), moment_of(served.last or window)
    return first is not None and last is not None and first <= moment <= last


def unread_job(
    plan: PlanDocument, window: str, clients: bool = False, seen: inputs.Telemetry = inputs.UNREAD
) -> PlanJob:
    """The same without a look at any row: for checks, shufflers and collectors.

    Args:
        plan: what is collected.
        window: the part of the time.
        clients: whether each user's own client draws the noise, and not one job for all.
        seen: what is known of the files.
    """
    return _watchable(PlanJob(plan, window, seen, resolve(plan, window, seen, clients)))


def _watchable(job: PlanJob) -> PlanJob:
    """Refuse figures to be watched that no release will have, before anything is paid."""
    for place, (said, metric) in enumerate(zip(job.plan.metrics, job.metrics, strict=False)):
        if figures := getattr(said.watch, "figures", ()):
            from pipelines.watch.alarms import require_figures  # which few plans need

            with job.plan.located("metrics", place):
                require_figures(metric, figures)
    return job


def headed(plan: PlanDocument, window: str) -> inputs.Telemetry:
    """What the files of a window say of their columns, where they are here already.

    Of a stream's and of clients' files nothing is asked: others read them.

    Raises:
        RequestError: one is not of its format, or a run would refuse the plan for its columns.
    """
    if plan.stream is not None or plan.permanent is not None or plan.looks_back:
        return inputs.UNREAD
    patterns = tuple(pattern.replace(WINDOW, window) for pattern in plan.input)
    try:
        telemetry = inputs.headed(patterns, plan.reading)
    except RequestError as error:
        raise RequestError(plan.where("input") + undashed(str(error))) from None
    _require_rows(plan, telemetry)
    return telemetry


def has_clients(job: PlanJob) -> bool:
    """Whether users' own clients can serve a window, going by the one job: see `parties.split`."""
    return all(
        metric.undivided is None
        and metric.options.one_job_only is None
        and getattr(metric.options, "min_reports", None) is not None
        for metric in job.metrics
    )
