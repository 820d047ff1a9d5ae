"""What every publishing command does around its pipeline: cautions, progress, and how it ended."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mechanisms.channel import Guarantee
from pipelines.errors import (
    Caution,
    FailedError,
    OutOfSightError,
    RequestError,
    WithheldError,
    system_reason,
)  # fmt: skip
from pipelines.logs.inputs import Telemetry, unreadable
from pipelines.releases import release
from pipelines.releases.schema import read_own
from pipelines.request import answers
from pipelines.storage.claims import TAKEN
from pipelines.views import console, report
from pipelines.views.console import rejects
from pipelines.wording import distinct_promises, number_of, one_line
from transforms.elements.progress import CHANGED, LOST, ROWS, SETTLED, UNREADABLE, live
from transforms.files.partitions import shown
from transforms.files.systems import FileSystems

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

_LOST = (
    "fewer rows or messages came to a step than the one before it had handed on: the engine has "
    "lost some, and nothing is published; run it again, on another runner or in another mode"
)
_SETTLED = (
    "the run's entry of the ledger was settled by an operator while it went on, or it was taken "
    "for lost and a later attempt has overtaken it; nothing was published: run it again"
)
_CHANGED, _AT_REST = "the files changed while they were read", "run again when they are at rest"

# Of a statement: what it promises, and what it says in public of how much it stands on.
_FIRST = (
    "release_id", "guarantees", "withheld", "n", "rows_read", "rejects", "invalid_reports"
)  # fmt: skip

# Beam ends what it says of an exception with the step in which it was raised.
_READING = re.compile(r"\[while running '[^']*Read row groups/[^']*'\]\s*$")


class Job(Protocol):
    """A request that was held against its input, as far as carrying it out needs to know it."""

    @property
    def options(self) -> Any: ...

    @property
    def telemetry(self) -> Telemetry: ...

    @property
    def min_reports(self) -> int: ...

    @property
    def cautions(self) -> Sequence[str]: ...

    @property
    def guarantees(self) -> Sequence[Guarantee]: ...

    def withheld(self, counted: Mapping[str, int]) -> str | None: ...


def carry_out(
    job: Job,
    pipeline: beam.PTransform,
    for_beam: PipelineOptions,
    screen: console.Screen,
    times: int = 1,
    alone: bool = False,
    work: int = 0,
) -> bool:
    """Run a pipeline that ends in a release.

    Args:
        job: the request, held against its input.
        pipeline: from nothing to a release in the job's folder.
        for_beam: Beam's options.
        screen: where progress is shown.
        times: how often each row is encoded.
        alone: whether one core does it, however much there is to do, if nobody says more.
        work: that there is besides rows, as of `run_beam`.

    Returns:
        Whether there is a release now; False if the run was handed over to a service.

    Raises:
        RequestError: another run has taken the folder meanwhile, or there is no key to sign with.
        WithheldError: too few reports came.
        FailedError: the job ended without a release.
    """
    from pipelines.jobs.run import USERS_COST, run_beam
    from pipelines.releases.signature import signing_key

    signing_key()  # before a row is read: without one the job would end with nothing
    for line in job.cautions:
        warnings.warn(line, Caution, stacklevel=1)
    encoded = job.telemetry.about * times
    rows = encoded if job.telemetry.counts.whole and rows_are_public(job.options) else None
    work += encoded * (1 if job.options.unit == "row" else USERS_COST)
    try:
        counted = run_beam(pipeline, for_beam, screen, rows, 0 if alone else work)
    except OutOfSightError:
        raise
    except Exception as error:
        require_nothing_lost()
        why = _failed(job, error)
        if why is None:
            raise
        raise why from None
    if counted is None:
        answers.tell(release=job.options.output, handed_over=True)
        screen.print(
            "handed over; the release will appear in the output folder once the job has run"
        )
        return False
    if not release.holds_release(job.options.output):
        raise _unpublished(job, counted, job.withheld(counted), times)
    return True


def rows_are_public(options: Any) -> bool:
    """Whether anybody may learn how many rows there are: where one of them is what is replaced."""
    return options.unit == "row" and not options.hides_presence


def say_where(folder: str, screen: console.Screen) -> None:
    """Say of a release that an earlier run has made where it stands."""
    tell_release(folder)
    answers.tell(released_before=True)
    screen.say(f"released before, and not made again: {folder}")


def show_release(folder: str, screen: console.Screen) -> None:
    """A release, where people look first."""
    tables = {name: read_own(folder, name) for name in release.table_names(folder)}
    report.show(screen, tables, release.statement_of(folder))


def require_nothing_lost() -> None:
    """Say of a job that has failed that its engine lost something, if that is why.

    Beam wraps what a worker raises in text of its own, so a counter says what the exception cannot.

    Raises:
        FailedError: it is.
    """
    if LOST in live():
        raise FailedError(_LOST) from None


def require_able(output: str, error: BaseException) -> None:
    """Say of a job that has failed what the system refused, if that is why.

    Args:
        output: what it was to write.
        error: that ended it.

    Raises:
        FailedError: it is.
    """
    why = system_reason(error)
    if why is not None and not isinstance(error, RequestError | WithheldError | FailedError):
        raise FailedError(
            f"{output} was not made: {why}, while the input was read or the output written; "
            "nothing is left of it: mend that and run again"
        ) from None


def conclude(job: Job, screen: console.Screen) -> None:
    """Say what was read, what the release guarantees, and where its page is."""
    tell_release(job.options.output)
    say_counts(job, screen)
    # Metrics may share a guarantee; it is said once, in the order in which they stand.
    for guarantee in distinct_promises(job.guarantees):
        screen.print(one_line(guarantee), highlight=False)
    screen.say(f"report: {job.options.output}/report.html")


def tell_release(folder: str) -> None:
    """Tell programs of a release what its statement says."""
    if answers.wanted():
        answers.tell(release=folder)
        if release.holds_release(folder):  # else an operator has moved it
            answers.tell(**_facts(folder))


def _facts(folder: str) -> dict[str, Any]:
    """Of a release: its files, and those of its statement's facts that programs ask first."""
    said = release.statement_of(folder)
    facts = {
        "statement": FileSystems.join(folder, release.STATEMENT),
        "tables": release.table_names(folder),
        **{name: said[name] for name in _FIRST if name in said},
    }
    if "metrics" in said:
        metrics = {name: FileSystems.join(folder, name) for name in said["metrics"]}
        facts["metrics"] = {n: {"release": f, **_facts(f)} for n, f in metrics.items()}
    return facts


def say_counts(job: Job, screen: console.Screen) -> None:
    """One line of what a release stands on, if its statement counts reports."""
    said = release.statement_of(job.options.output)
    if {"n", "rejects"} <= said.keys():
        line = counts(said, len(job.telemetry.files))
        screen.say(line)


def say_cautions(cautions: Sequence[str], metric: str = "") -> None:
    """Say what a release says of itself: people read it last, programs as `cautions`.

    Args:
        cautions: of its statement.
        metric: of a plan, whose they are.
    """
    for text in cautions:
        line = f"{metric}: {text}" if metric else text
        answers.add("cautions", line)
        warnings.warn(line, Caution, stacklevel=2)


def counts(statement: Mapping[str, Any], files: int) -> str:
    """What a release stands on: numbers that its statement publishes exactly anyway.

    Args:
        statement: of the release.
        files: that were read; 0 where reports came in another way.

    >>> counts({"n": 1500, "rows_read": 2000, "rejects": {"null value": 500}}, 3)
    '1,500 reports of 2,000 rows in 3 files; 500 rows: null value'
    >>> counts({"n": 1500}, 3)  # of users: how many rows they have is hidden
    '1,500 reports'
    """
    line = number_of(statement["n"], "report")
    if statement.get("rows_read"):
        line += f" of {number_of(statement['rows_read'], 'row')}"
        line += f" in {number_of(files, 'file')}" * bool(files)
    rejected = (
        f"; {number_of(n, 'row')}: {name}" for name, n in statement.get("rejects", {}).items()
    )
    invalid = statement.get("invalid_reports", 0)
    return (
        line
        + "".join(rejected)
        + (f"; {number_of(invalid, 'impossible report')}" if invalid else "")
    )


def _failed(job: Job, error: Exception) -> Exception | None:
    """Why a job has failed, as far as that can be told without the words of a stranger's."""
    folder, counted = job.options.output, live()
    if TAKEN in counted:
        return RequestError(
            f"--output: another run has taken {folder} meanwhile; this one has published nothing"
        )
    for name in counted:
        if name.startswith(release.UNWRITTEN):
            return FailedError(
                f"{folder} could not be written: {name.removeprefix(release.UNWRITTEN)}; nothing "
                "was published: mend that and run again"
            )
    telemetry, why = job.telemetry, system_reason(error)
    changed = telemetry.changed(not rows_are_public(job.options))
    if changed is not None:
        return FailedError(f"{_CHANGED}: {changed}; {_AT_REST}")
    # A damaged file is an input that is wrong; where nobody has looked at one, a stream's, the
    # stream knows what becomes of it.
    wrong = FailedError if telemetry.unread or why is not None else RequestError
    for name in counted:
        if name.startswith(UNREADABLE):
            return wrong(f"{name.removeprefix(UNREADABLE)}; put it right or aside")
    if _READING.search(str(error)):
        # Local files only: to read a log in a bucket once more could take hours.
        local = (file for file in telemetry.files if "://" not in file)
        damaged = next(
            (shown(file) for file in local if unreadable(file, None, telemetry.reading)),
            "a file of the input",
        )
        why = why or "it is damaged inside"
        return wrong(f"{damaged} cannot be read to its end: {why}; put it right or aside")
    return None


def _unpublished(
    job: Job, counted: Mapping[str, int], withheld: str | None, times: int
) -> Exception:
    """Why a job that came to its end has published nothing."""
    folder, hidden = job.options.output, not rows_are_public(job.options)
    if not counted:
        return FailedError(
            f"the job came to its end, but {folder} holds no release, and its runner "
            "cannot be asked why; too few reports may have come"
        )
    # Not withheld: what was read is as good as before, and a stream must keep it.
    if SETTLED in counted:
        return FailedError(_SETTLED)
    # Before what is withheld: files that changed may well be why too few reports came.
    if CHANGED in counted:
        # Every metric counts the rows that it is given.
        came, declared = counted.get(ROWS, 0) // times, job.telemetry.about
        why = f"{number_of(came, 'row')} came, and their footers told of {declared:,}"
        if hidden or not job.telemetry.counts.whole:
            why = "other rows came than their footers or readers told of"
        return FailedError(f"{_CHANGED}: {job.telemetry.changed(hidden) or why}; {_AT_REST}")
    if withheld is not None:
        # Of users, and where rows that cannot be used are hidden, nothing is left out and told.
        left_out = {} if hidden else rejects(counted)
        rejected = (f"; {number_of(amount, 'row')}: {name}" for name, amount in left_out.items())
        return WithheldError(withheld + "".join(rejected))
    return FailedError(
        f"the job came to its end, but {folder} holds no release; if its workers "
        "write to disks of their own, name a folder that they share"
    )
