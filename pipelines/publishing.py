"""What every publishing command does around its pipeline: cautions, progress, and how it ended."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from mechanisms.channel import Guarantee
from pipelines import release
from pipelines.claims import TAKEN
from pipelines.errors import Caution, FailedError, RequestError, WithheldError
from pipelines.inputs import Telemetry
from pipelines.run import run_beam
from pipelines.views import console
from pipelines.views.console import rejects
from pipelines.views.wording import one_line
from transforms.progress import CHANGED, LOST, ROWS, live

_LOST = (
    "fewer rows or messages came to a step than the one before it had handed on: the engine has "
    "lost some, and nothing is published; run it again, on another runner or in another mode"
)


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
) -> bool:
    """Run a pipeline that ends in a release.

    Args:
        job: the request, held against its input.
        pipeline: from nothing to a release in the job's folder.
        for_beam: Beam's options.
        screen: where progress is shown.
        times: how often each row is encoded.

    Returns:
        Whether there is a release now; False if the run was handed over to a service.

    Raises:
        RequestError: another run has taken the folder meanwhile.
        WithheldError: too few reports came.
        FailedError: the job ended without a release.
    """
    for line in job.cautions:
        warnings.warn(line, Caution, stacklevel=1)
    try:
        counted = run_beam(pipeline, for_beam, screen, job.telemetry.rows * times)
    except Exception:
        require_nothing_lost()
        if TAKEN not in live():
            raise
        raise RequestError(
            f"--output: another run has taken {job.options.output} meanwhile; this one has "
            "published nothing"
        ) from None
    if counted is None:
        screen.print(
            "handed over; the release will appear in the output folder once the job has run"
        )
        return False
    if not release.holds_release(job.options.output):
        raise _unpublished(job, counted, job.withheld(counted))
    return True


def require_nothing_lost() -> None:
    """Say of a job that has failed that its engine lost something, if that is why.

    Beam wraps what a worker raises in text of its own, so a counter says what the exception cannot.

    Raises:
        FailedError: it is.
    """
    if LOST in live():
        raise FailedError(_LOST) from None


def conclude(job: Job, screen: console.Screen) -> None:
    """Say what was read, what the release guarantees, and where its page is."""
    say_counts(job, screen)
    # Metrics may share a guarantee; it is said once, in the order in which they stand.
    for guarantee in dict.fromkeys(job.guarantees):
        screen.print(one_line(guarantee), highlight=False)
    page = f"report: {job.options.output}/report.html"
    screen.print(page, highlight=False, markup=False, soft_wrap=True)


def say_counts(job: Job, screen: console.Screen) -> None:
    """One line of what a release stands on, if its statement counts reports and rows."""
    said = json.loads(release.read(job.options.output, release.STATEMENT))
    if {"n", "rows_read"} <= said.keys():
        line = counts(said, len(job.telemetry.files))
        screen.print(line, highlight=False, markup=False, soft_wrap=True)


def counts(statement: Mapping[str, Any], files: int) -> str:
    """What a release stands on: numbers that its statement publishes exactly anyway.

    Args:
        statement: of the release.
        files: that were read; 0 where reports came in another way.

    >>> counts({"n": 1500, "rows_read": 2000, "rejects": {"null value": 500}}, 3)
    '1,500 reports of 2,000 rows in 3 files; 500 rows: null value'
    """
    line = f"{statement['n']:,} reports"
    if statement["rows_read"]:
        line += f" of {statement['rows_read']:,} rows"
    if files:
        line += f" in {files:,} file{'s' if files > 1 else ''}"
    rejected = (f"; {n:,} rows: {name}" for name, n in statement.get("rejects", {}).items())
    invalid = statement.get("invalid_reports", 0)
    return line + "".join(rejected) + (f"; {invalid:,} impossible reports" if invalid else "")


def _unpublished(job: Job, counted: Mapping[str, int], withheld: str | None) -> Exception:
    """Why a job that came to its end has published nothing."""
    folder = job.options.output
    if not counted:
        return FailedError(
            f"the job came to its end, but {folder} holds no release, and its runner "
            "cannot be asked why; too few reports may have come"
        )
    # Before what is withheld: files that changed may well be why too few reports came.
    if CHANGED in counted:
        return FailedError(
            f"the files changed while they were read: {counted.get(ROWS, 0):,} rows came, and "
            f"their footers had told of {job.telemetry.rows:,}; run again when they are at rest"
        )
    if withheld is not None:
        rejected = (f"; {amount:,} rows: {name}" for name, amount in rejects(counted).items())
        return WithheldError(withheld + "".join(rejected))
    return FailedError(
        f"the job came to its end, but {folder} holds no release; if its workers "
        "write to disks of their own, name a folder that they share"
    )
