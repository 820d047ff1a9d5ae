"""`hushbeam check`: a plan, validated, with what it costs and how exact it will be; no data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.table import Table

from mechanisms.channel import Guarantee
from pipelines.errors import DONE, WITHHELD, RequestError
from pipelines.ledger.accounting import fits, further
from pipelines.metrics.instead import said
from pipelines.metrics.metric import Metric, enrolled
from pipelines.metrics.permanent import promises
from pipelines.metrics.registry import imported
from pipelines.metrics.terms import answering_share
from pipelines.plan.described import described
from pipelines.plan.document import WINDOW, PlanDocument
from pipelines.plan.job import PlanJob, has_clients, headed, unread_job, window_of
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.plan.run import price
from pipelines.plan.sample import there
from pipelines.plan.split import split
from pipelines.request import answers
from pipelines.views.console import Screen
from pipelines.wording import distinct_promises, number_of, one_line

_PLACEHOLDER = "WINDOW"
_MOST_WINDOWS = 1000  # beyond which nobody looks
_ASK = "where each user's own client draws the noise: `hushbeam check --clients` shows the design"
_AGREED = ": clients, shuffler and collector must agree on it"


def check(
    path: str,
    window: str | None = None,
    clients: bool = False,
    look: Mapping[str, Any] | None = None,
    output: str | None = None,
) -> int:
    """Show what a plan promises, costs and can know.

    Args:
        path: of the plan.
        window: whose fingerprint a program needs, if it does.
        clients: whether to show as well what users' own clients run; programs are told in any case.
        look: what was seen of the plan's input, for programs.
        output: a new file for the sheet that a privacy engineer reads and signs, if one is wanted.

    Returns:
        The exit code; 1 where a run would be refused for its price.

    Raises:
        RequestError: the plan is wrong, or cannot be served.
    """
    job, window = _unread(path, window)
    plan, screen = job.plan, Screen()
    refused, about_windows = _about_windows(job)
    if output is not None:
        from pipelines.plan.review import review  # it draws errors at forty settings
        from pipelines.storage.table_files import write_whole

        # What is missing on this machine is no matter of the plan, and names its folders.
        write_whole(output, review(job, [*_about_units(job), *about_windows]))
        screen.say(f"review: {output}")
    if answers.wanted():  # a device's, that has to run the very mechanisms
        seen = {} if look is None else {"look": look}
        answers.give(_summary(job, window, refused) | seen)
        return WITHHELD if refused else DONE
    agreed, about_clients = _about_clients(job, clients)
    for text in (
        f"{plan.collection} version {plan.version}, fingerprint {mark(plan).hex()}",
        f"resolved to design {job.design.hex()}{_AGREED * agreed}",
    ):
        screen.say(text)
    screen.print(_table(job))
    for guarantee in distinct_promises(job.guarantees):
        unit = plan.unit if guarantee.unit == "user" else guarantee.unit
        line = one_line(replace(guarantee, unit=unit))
        screen.print(f"together: {line}", highlight=False)
    about = [
        *about_clients,
        *_about_units(job),
        *_about_tokens(job),
        *said(job.metrics),
        *job.cautions,
        *about_windows,
    ]
    for line in [*about, *_about_input(plan), *_about_ledger(plan)]:
        screen.print(line, highlight=False, markup=False)
    return WITHHELD if refused else DONE


def summary(path: str, window: str | None = None) -> dict[str, Any]:
    """What `check` shows, for programs.

    Args:
        path: of the plan.
        window: whose fingerprint a program needs, if it does.

    Raises:
        RequestError: as `check`.
    """
    job, window = _unread(path, window)
    return _summary(job, window, _about_windows(job)[0])


def _unread(path: str, window: str | None) -> tuple[PlanJob, str | None]:
    """A plan, prepared without a look at any row, and its window, if there is one to name."""
    plan = load(path)
    if window is not None or not plan.windowed:
        window = window_of(plan, window)
    named = window or _PLACEHOLDER
    # Permanent noise is no job's to draw.
    clients = plan.permanent is not None
    job = unread_job(plan, named, clients, headed(plan, named))
    if plan.stream is not None:  # `stream` comes after plans, and refuses more than they do
        with plan.located():
            imported("pipelines.stream.windows:require_streamed")(plan, job.metrics, clients)
    return job, window


def _summary(job: PlanJob, window: str | None, refused: str | None) -> dict[str, Any]:
    return described(job, window, refused, _parted(job))


def _table(job: PlanJob) -> Table:
    shown = Table(show_lines=True)
    for heading in ("metric, and its error", "kind, mechanism"):
        shown.add_column(heading)
    for heading in ("epsilon, delta", "one report", "reports", "bits"):
        shown.add_column(heading, justify="right")
    for metric in job.metrics:
        released, local = promises(metric)[0], metric.guarantees[1]
        shown.add_row(
            f"{metric.name}\n{metric.expected_error}{_hiding(metric)}",
            f"{metric.kind}\n{metric.protection.system}",
            f"{released.epsilon:.4g}\n{released.delta:.2g}",
            _of_report(metric.protection.model, local),
            f"{metric.min_reports:,}" if metric.min_reports else "any",
            f"{metric.protection.bits:,.4g}",
        )
    return shown


def _of_report(model: str, local: Guarantee) -> str:
    """What one report alone reveals, if somebody sends one and it is not sealed."""
    if local.model == "none":
        return "none is sent" if model == "central" else "sealed"
    return f"{local.epsilon:.4g}"


def _hiding(metric: Metric) -> str:
    """What it costs that values that cannot be used are hidden, as a line of its own."""
    cost = metric.hiding_cost
    if cost is None:
        return ""
    return f"\n{100 * max(cost - 1, 0):.2g} % of it hides what is missing"


def _about_input(plan: PlanDocument) -> list[str]:
    """What of it is not there, where the log is on this machine and of no window."""
    names = (name for name in plan.input if "://" not in name and WINDOW not in name)
    missing = (name for name in names if not there([name]))
    return [f"no file matches {name} here: `hushbeam run` refuses that" for name in missing]


def _about_ledger(plan: PlanDocument) -> list[str]:
    """Whether it is there; one in a bucket is not asked for."""
    if plan.ledger is None or "://" in plan.ledger or os.path.lexists(plan.ledger):
        return []
    return [f"there is no ledger {plan.ledger} yet: `hushbeam ledger init` of this plan begins it"]


def _parted(job: PlanJob) -> PlanJob | None:
    """The window as the parties serve it; None if they cannot."""
    from pipelines.plan.split import split  # whom `check` does not ask unless a program does

    try:
        return split(job.plan, job.window).job
    except RequestError:
        return None


def _about_clients(job: PlanJob, whole: bool) -> tuple[bool, list[str]]:
    """Whether users' own clients run this very design, and what is other there.

    Another design takes as long to be found as all of the rest, so it is if somebody asks.
    """
    if not has_clients(job):
        slots = any(m.options.who_draws(dict(m.options)) == "devices" for m in job.metrics)
        return False, (_about_slots(job) if whole else [_ASK]) * slots
    if not job.counts_on_others:
        return True, []
    if not whole:
        return False, [_ASK]
    try:
        divided = unread_job(job.plan, job.window, clients=True)
    except RequestError as error:
        return False, [f"not where each user's own client draws the noise: {error}"]
    if divided.design == job.design:
        return True, []
    lines = [
        f"where each user's own client draws the noise, resolved to design {divided.design.hex()}"
        f"{_AGREED}; there"
    ]
    for metric in divided.metrics:
        honest = metric.protection.honest_share
        if honest is not None:
            lines.append(
                f"  {metric.name}: {metric.design.name}, {metric.expected_error}, one report "
                f"{metric.guarantees[1].epsilon:.4g}; {100 * honest:.10g} % of the "
                "users are counted on"
            )
    return False, lines


def _about_slots(job: PlanJob) -> list[str]:
    """What is other in three parties where devices draw the dummies: reports are of one size."""
    try:
        metrics = unread_job(job.plan, job.window, clients=True).metrics
    except RequestError as error:
        return [f"not in three parties: {error}"]
    return [
        f"in three parties, {metric.name}: {metric.prospect}"
        for metric in metrics
        if enrolled(metric) is not None
    ]


def _about_units(job: PlanJob) -> list[str]:
    """Whether metrics of the local model divide units or epsilon, if there are several."""
    for account in job.accounts:
        if len(account.metrics) > 1:
            shares = ", ".join(
                f"{m.name} {100 * answering_share(m):.3g} %" for m in account.metrics
            )
            return [
                f"each {job.losses[0].unit} answers one metric, which errs less than a part of "
                f"epsilon for each: {shares}; min_reports counts a metric's own reports"
            ]
    if sum(metric.protection.model == "local" for metric in job.metrics) > 1:
        return [f"each {job.losses[0].unit} answers every metric of the local model"]
    return []


def _about_tokens(job: PlanJob) -> list[str]:
    """How many reports of a user are admitted, and who could admit more; or why none is."""
    tokens = job.plan.tokens
    if tokens is None:
        return []
    try:
        split(job.plan, job.window)
    except RequestError as error:
        return [f"not in three parties, which alone take tokens: {error}"]
    return [
        f"three parties admit {tokens:,} report{'s' * (tokens > 1)} of a user and window by "
        "tokens, which say nothing of the user; issuer and endpoint can make more, so count both "
        "on the honest side"
    ]


def _about_windows(job: PlanJob) -> tuple[str | None, list[str]]:
    """Why a run would be refused, if it would, and what many windows come to."""
    plan = job.plan
    if plan.budget is None:
        line = "no ledger: nothing counts what several runs reveal together"
        return None, [line] if plan.windowed else []
    spend = price(job)
    budget = f"the budget of epsilon {plan.budget.epsilon:g}, delta {plan.budget.delta:g}"
    if not fits(spend.records, spend.budget):
        refused = f"{budget} does not hold one window, and a run would be refused"
        return refused, [plan.where("budget") + refused]
    if plan.permanent is not None:
        return None, [f"{budget} holds all windows: a further one of this plan costs nothing more"]
    if plan.drawn == "running":
        return None, [f"{budget} holds all windows of the horizon: they are paid for once"]
    if plan.scope == "user per window":
        return None, [f"windows do not compose: a unit is in one of them ({plan.unit})"]
    windows = further((), spend.records, spend.budget, _MOST_WINDOWS)
    more = " or more" if windows == _MOST_WINDOWS else ""
    line = f"{budget} covers {number_of(windows, 'window')}{more}, as the ledger composes them"
    return None, [f"{line}; `hushbeam ledger show` tells what is left"]
