"""`hushbeam run`: a window of a plan, once, and within its budget."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pipelines.errors import (
    ALARM,
    DONE,
    RUN_FAILED,
    WITHHELD,
    WRONG_REQUEST,
    Caution,
    FailedError,
    RequestError,
    WithheldError,
    because,
    reason,
)
from pipelines.jobs.engine import ForBeam, prepared
from pipelines.jobs.publishing import (
    carry_out,
    conclude,
    say_cautions,
    say_counts,
    say_where,
    show_release,
)
from pipelines.ledger.entries import Budget
from pipelines.ledger.held import is_reserved
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.listing import Entries
from pipelines.ledger.paying import Right
from pipelines.ledger.rules import Spend
from pipelines.ledger.spans import Span
from pipelines.metrics.metric import Metric
from pipelines.metrics.registry import imported
from pipelines.plan.document import WINDOW, PlanDocument
from pipelines.plan.job import PlanJob, open_job, output_of, window_of
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.releases import release
from pipelines.request import answers
from pipelines.request.options import undashed
from pipelines.storage.stores import require_reachable
from pipelines.views.console import Screen, numbers_table
from transforms.elements.progress import REPORTS
from transforms.elements.progress import WITHHELD as COUNTED_OUT
from transforms.files.systems import escaped

if TYPE_CHECKING:
    import apache_beam as beam

    from pipelines.query.answer import QueryResult


@dataclass(frozen=True)
class ReleaseTarget:
    """What a run has the right to publish.

    Attributes:
        output: the release's folder.
        statement: of the release, but for what each metric comes to; with the reservation's stamp.
        ledger: where its price is set aside, if it is.
        queries: what is published of the figures of several metrics.
    """

    output: str
    statement: Mapping[str, Any]
    ledger: str | None = None
    queries: tuple[QueryResult, ...] = ()

    def telling(self, **more: Any) -> ReleaseTarget:
        """The same with more in the statement."""
        return replace(self, statement={**self.statement, **more})

    def stands(self) -> bool:
        """Whether its price still counts, and for this attempt; see `is_reserved`."""
        return is_reserved(self.ledger, self.statement)


# By each metric: an id of its secret, and the windows that were drawn from it.
Remembered = tuple[tuple[str, tuple[str, ...]], ...]


def run(path: str, window: str | None, beam_arguments: list[str]) -> str | None:
    """Publish a window of a plan, unless that was done before.

    Args:
        path: of the plan.
        window: which part of the time.
        beam_arguments: what is for Beam.

    Returns:
        The folder of the release; None if the run was handed over to a service.

    Raises:
        RequestError: the plan or its input is wrong.
        WithheldError: too few reports came, or the budget does not cover the window.
        FailedError: the job ended without a release.
    """
    for_beam = prepared(beam_arguments)
    plan = load(path)
    window = window_of(plan, window)
    return release_window(plan, window, open_job, of_files, for_beam)


def of_files(*of: Any) -> beam.PTransform:
    """A window's pipeline from its files: see `PublishPlan`."""
    from pipelines.plan.publish import PublishPlan

    return PublishPlan(*of)


def release_window(
    plan: PlanDocument,
    window: str,
    prepare: Callable[[PlanDocument, str], PlanJob],
    pipeline: Callable[..., beam.PTransform],
    for_beam: ForBeam,
    span: Span | None = None,
    screen: Screen | None = None,
    work: int = 0,
) -> str | None:
    """Publish a window of a plan from its files, reports or messages, unless that was done before.

    Args:
        plan: what is collected.
        window: which part of the time.
        prepare: (plan, window) -> what is decided before a row is read.
        pipeline: (metrics, target) -> from nothing to the release.
        for_beam: Beam's options.
        span: the time of the window, if it is not what the window's name says.
        screen: where the release is shown; a new one by default.
        work: that there is besides rows, as of `run_beam`.

    Returns:
        As `run`.

    Raises:
        RequestError, WithheldError, FailedError: as `run`.
    """
    screen, output = screen or Screen(), output_of(plan, window)
    require_reachable((*plan.input, output))
    ledger = None
    if plan.ledger is not None:
        # Its releases carry what the ledger was: an older copy of it is found out by them.
        ledger = CollectionLedger.open(plan.ledger, releases_of(plan), plan.collection)
    stands = _standing(plan, window, output) if ledger is None else _paid(ledger, plan, window)
    if stands is not None:
        _say_again(stands, screen)
        return stands
    job = prepare(plan, window)
    # Looked up first: whatever was released by then was drawn by then.
    known = None if ledger is None else ledger.read().entries
    remembered = _remembered(job, for_beam)
    if remembered and known is not None:
        _require_newest(known, remembered)
    with _reserved(ledger, job, span, remembered) as right:
        if right.published:
            _say_again(right.output, screen)
            return right.output
        if remembered:
            # A window that is drawn is in the totals of all later ones, come of this run what may.
            right.keep()
        if not _published(job, right, pipeline, for_beam, screen, work):
            return None
        right.conclude(published=True)
    return right.output


def releases_of(plan: PlanDocument) -> list[str]:
    """Globs for the folders of a plan's releases."""
    return [escaped(plan.output).replace(WINDOW, "*")]


def _paid(ledger: CollectionLedger, plan: PlanDocument, window: str) -> str | None:
    """Where a ledger says that the window was released, in whatever folder."""
    made = ledger.published(mark(plan).hex(), window)
    return None if made is None else made.output


def _standing(plan: PlanDocument, window: str, output: str) -> str | None:
    """Where the window has been released: a second randomisation would cost privacy anew."""
    if not release.holds_release(output):
        release.require_vacant(output)
        return None
    made_by = release.statement_of(output).get("plan") or {}
    if (made_by.get("fingerprint"), made_by.get("window")) != (mark(plan).hex(), window):
        release.require_vacant(output)  # something else's: it is refused
    return output


def _remembered(job: PlanJob, for_beam: ForBeam) -> Remembered:
    """(an id of what windows before were drawn from, those windows) where noise goes on."""
    if not any(metric.options.remembers for metric in job.metrics):
        return ()
    from pipelines.jobs.run import runs_here

    if not runs_here(for_beam()):
        raise RequestError(
            "--runner: running totals go on from a secret of this machine, which workers of "
            "another one do not reach: leave it out"
        )
    begun = ((metric, metric.options.remembers) for metric in job.metrics)
    return tuple(imported(look)(metric) if look else ("", ()) for metric, look in begun)


def code_of(folder: str | None, screen: Screen | None = None) -> int:
    """The exit code of a release that stands, or stood: `say_alarms`, or 1 if some is withheld."""
    # Handed over to a service, or moved, as an operator has said.
    if folder is None or not release.holds_release(folder):
        return DONE
    code = say_alarms(folder, screen or Screen())
    return code or (WITHHELD if release.statement_of(folder)["withheld"] else DONE)


def watched(folder: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The alarms of a release that stands, and why some cannot be looked for."""
    if not (folder and release.holds_release(folder) and release.statement_of(folder).get("watch")):
        return [], []
    from pipelines.watch.alarms import alarms_of  # numbers and tables, which few plans need

    return alarms_of(folder)


def say_alarms(folder: str, screen: Console) -> int:
    """4 if a figure of a release that is watched has shifted, 2 if one cannot be; each is said."""
    alarms, problems = watched(folder)
    for alarm in alarms:
        answers.add("alarms", alarm)
        screen.print(f"alarm: {alarm['line']}", highlight=False, markup=False, soft_wrap=True)
    for problem in problems:
        answers.add("unwatched", problem)
        warnings.warn(problem, Caution, stacklevel=1)
    return ALARM if alarms else WRONG_REQUEST if problems else DONE


@contextmanager
def _reserved(
    ledger: CollectionLedger | None, job: PlanJob, span: Span | None, remembered: Remembered
) -> Iterator[Right]:
    """The price is set aside before a row is read.

    What is drawn from another secret is another noise, and is paid for anew.
    """
    if ledger is None:
        yield Right(job.options.output)
        return
    wanted = price(job, span)
    if remembered:
        wanted = replace(wanted, design=_design_of(remembered))
    with ledger.spend(wanted) as reservation:
        yield Right(reservation.entry.output, reservation)


def _design_of(remembered: Remembered) -> str:
    """What a ledger knows the secrets of running totals by."""
    return hashlib.sha256("".join(secret for secret, _ in remembered).encode()).hexdigest()


def _require_newest(entries: Entries, remembered: Remembered) -> None:
    """Refuse secrets older than what the ledger has paid for: a copy, of wherever it was kept."""
    design = _design_of(remembered)
    for entry in entries.where(state="committed", design=design):
        if not all(entry.window in windows for secret, windows in remembered if secret):
            raise RequestError(
                f"ledger: window {entry.window} was drawn from a newer copy of the secret of these "
                "running totals: drawn again it would tell more than was paid for; bring the "
                "newest back"
            )


def price(job: PlanJob, span: Span | None = None) -> Spend:
    """What a window costs, as the ledger counts it.

    Args:
        job: the window, and what its metrics reveal.
        span: its time, if it is not what its name says.

    Raises:
        RequestError: it has no price, for a metric of it promises nothing.
    """
    plan = job.plan
    if plan.budget is None:
        raise ValueError("a plan without a budget has no account")
    losses, profiles = job.losses, job.profiles
    names = tuple(account.name for account in job.accounts)
    if any(query.chosen for query in plan.queries):
        # The curve of the loss follows from the first round's answer. Epsilon and delta do not:
        # what was fixed before composes, whatever is chosen (Dwork, Rothblum, Vadhan 2010).
        delta = sum(one.delta for one in losses) if plan.delta is None else plan.delta
        losses, names = (replace(losses[0], epsilon=plan.epsilon, delta=delta),), names[:1]
        profiles = ()
    try:
        return Spend(
            plan.collection, plan.version, mark(plan).hex(), job.window, plan.scope,
            Budget(epsilon=plan.budget.epsilon, delta=plan.budget.delta),
            losses, job.options.output, names, profiles, span=span or job.time,
            design=job.design.hex(), files=job.made_of, noise=plan.drawn,
            population=plan.population,
        )  # fmt: skip
    except ValueError as error:
        raise RequestError(f"ledger: {reason(error)}") from None


def _published(
    job: PlanJob,
    right: Right,
    pipeline: Callable[..., beam.PTransform],
    for_beam: ForBeam,
    screen: Screen,
    work: int,
) -> bool:
    """Run it; False if the run was handed over to a service."""
    whole = pipeline(job.metrics, _target(job, right))
    ended = carry_out(job, whole, for_beam(), screen, len(job.metrics), work=work)
    if not ended:
        right.conclude(published=False)
        return False
    show(job, screen)
    conclude(job, screen)
    _say_of_itself(release.statement_of(job.options.output))
    return True


def _target(job: PlanJob, right: Right) -> ReleaseTarget:
    """What a run of a window has the right to publish."""
    plan = job.plan
    return ReleaseTarget(right.output, job.statement(right.stamp), plan.ledger, plan.queries)


def _say_again(folder: str, screen: Screen) -> None:
    """Say of a release that stands where it does, and why some of it was withheld."""
    say_where(folder, screen)
    if not release.holds_release(folder):  # moved, as an operator has said
        return
    statement = release.statement_of(folder)
    said = unusable(statement)
    for name in statement["withheld"]:
        if name not in said:
            screen.print(f"{name}: withheld, too few reports", highlight=False)
    _say_of_itself(statement)


def _say_of_itself(statement: Mapping[str, Any]) -> None:
    """The cautions of a release, and which metrics hardly a value of can be used."""
    for name, cautions in statement.get("cautions", {}).items():
        say_cautions(cautions, name)
    for name, why in unusable(statement).items():
        warnings.warn(f"{name}: withheld: {why}", Caution, stacklevel=1)


def unusable(statement: Mapping[str, Any]) -> dict[str, str]:
    """The metrics of a release of which the share of unusable values alone is published, and why.

    Args:
        statement: of the release.
    """
    missing = statement.get("missing", {})
    return {name: said["why"] for name, said in missing.items() if "unusable" in said}


def show(job: PlanJob, screen: Screen) -> None:
    """Every metric that was published, and those that were not."""
    statement = release.statement_of(job.options.output)
    show_answers(job.plan, job.options.output, screen)
    queried = {figure.metric for query in job.plan.queries for figure in query.figures}
    for metric in job.metrics:
        if metric.name in queried & {*statement["metrics"]}:
            continue
        for warning in statement["doubts"].get(metric.name, ()):
            warnings.warn(f"{metric.name}: {warning}", Caution, stacklevel=1)
        screen.rule(metric.name, align="left")
        if metric.name in statement["metrics"]:
            show_release(metric.options.output, screen)
            say_counts(metric, screen)
        else:
            why = missing_reports(metric, statement["missing"].get(metric.name, {}))
            answers.add("missing", {"metric": metric.name, "why": why})
            screen.print(f"withheld: {why}", highlight=False)


def show_answers(plan: PlanDocument, folder: str, screen: Screen) -> None:
    """The tables that queries have asked for, where they are published.

    Args:
        plan: with its queries.
        folder: of the release.
        screen: where they are shown.
    """
    there = {*release.table_names(folder)}
    for query in plan.queries:
        if (name := f"{query.name}.parquet") in there:
            table = release.read_table(folder, name)
            answers.add("answers", {"query": query.name, "rows": table.to_pylist()})
            query.show(table, screen)


def missing_reports(metric: Metric, batch: Mapping[str, Any]) -> str:
    """Why a metric of a release was withheld, and how many reports more there had to be.

    Args:
        metric: of the plan.
        batch: how many "reports" it had, if anybody has counted them; or "why" it was.
    """
    if "why" in batch:
        return str(batch["why"])
    came = batch.get("reports", 0)
    why = undashed(metric.withheld({REPORTS: came, COUNTED_OUT: 1}) or "too few reports")
    missing = int(metric.min_reports) - came
    return f"{why}; {missing:,} are missing" if missing > 0 else why


_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)")
_MOST = 3660  # ten years of days: more is a slip of the pen


def days(text: str) -> list[str]:
    """The days from one to another, both among them.

    Raises:
        RequestError: they are none.

    >>> days("2026-02-27..2026-03-01")
    ['2026-02-27', '2026-02-28', '2026-03-01']
    """
    form = "--windows: two days, the first not after the last, as in 2026-11-01..2026-11-14"
    match = _DAYS.fullmatch(text)
    try:
        first, last = (date.fromisoformat(day) for day in match.groups()) if match else (None, None)
    except ValueError:
        raise RequestError(form) from None
    if first is None or last is None or not first <= last:
        raise RequestError(form)
    count = (last - first).days + 1
    if not count <= _MOST:
        raise RequestError(f"--windows: {count:,} days are more than the {_MOST:,} of one run")
    return [str(first + timedelta(days=k)) for k in range(count)]


def backfill(path: str, windows: str, beam_arguments: list[str]) -> int:
    """Publish windows of a plan, except what was published before, and say of each what came of it.

    One that fails or is withheld does not keep the next from its turn.

    Args:
        path: of the plan.
        windows: as `days` reads it.
        beam_arguments: what is for Beam.

    Returns:
        The exit code: of the worst that came of a window.

    Raises:
        RequestError: the plan is wrong, or there is nothing in it that a window stands for.
    """
    names = days(windows)
    for_beam = prepared(beam_arguments)
    plan, screen = load(path), Screen()
    window_of(plan, names[0])
    table = numbers_table(("window", "exit code", "what came of it"), ())
    codes = [DONE]
    try:
        for name in names:
            with answers.apart() as facts:
                code, said = _released(plan, name, for_beam)
            answers.add("windows", {"window": name, "exit_code": code, "what": said, **facts})
            codes.append(code)
            table.add_row(name, str(code), said)
    finally:  # also what an interrupted run has done
        screen.print(table)
    return max(codes, key=(DONE, WITHHELD, ALARM, WRONG_REQUEST, RUN_FAILED).index)


@contextmanager
def _cautions_of(window: str, said: bool) -> Iterator[None]:
    """Begin each caution with the window that it is of; leave it out if it was said before."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, Caution):
                others(message, category, *where, **more)
            elif not said:
                others(f"{window}: {message}", category, *where, **more)

        warnings.showwarning = show
        yield


def _released(plan: PlanDocument, window: str, for_beam: ForBeam) -> tuple[int, str]:
    """The exit code of one window, and a line about it."""
    quiet = Screen(quiet=True)
    try:
        before = release.holds_release(output_of(plan, window))
        with _cautions_of(window, said=before):
            made = release_window(plan, window, open_job, of_files, for_beam, screen=quiet)
            code = code_of(made, quiet)
    except RequestError as error:
        return WRONG_REQUEST, str(error)
    except WithheldError as error:
        return WITHHELD, f"withheld: {error}"
    except FailedError as error:
        return RUN_FAILED, str(error)
    except Exception as error:  # its text may quote the data, so only its type is shown
        return RUN_FAILED, f"failed with {type(error).__name__}{because(error)}"
    said = "released before, and not made again" if before else "released"
    more = {
        WITHHELD: "; some metrics were withheld",
        ALARM: "; an alarm (hushbeam watch tells it)",
        WRONG_REQUEST: "; a figure cannot be watched (hushbeam watch tells why)",
    }
    return code, said + more.get(code, "")
