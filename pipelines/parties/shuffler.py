"""`hushbeam shuffle`: reports in, the same reports out, and nothing left that tells whose they are.

It never decodes: it knows how few reports a metric may have and which messages there are, sees no
sealed message at all, and holds no statistic but how many reports came.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from rich.table import Table

from mechanisms.wire.report import Form
from pipelines import release
from pipelines.errors import DONE, Caution, FailedError, WithheldError
from pipelines.metrics.metric import bucket_count
from pipelines.parties.earlier import SharedError, require_unshared
from pipelines.parties.keys import ids
from pipelines.parties.report_files import find, warn_of_strangers
from pipelines.parties.secrets import SHUFFLE, made_once
from pipelines.parties.shuffling import ShuffleReports
from pipelines.parties.split import require_sealable, split
from pipelines.parties.summary import SUMMARY, Summary, read
from pipelines.plan.job import window_of
from pipelines.plan.loading import load
from pipelines.publishing import require_nothing_lost
from pipelines.run import beam_options, run_beam
from pipelines.views.console import Screen


class ShuffleRequest(NamedTuple):
    """What was typed.

    Attributes:
        plan: its file.
        window: which part of the time.
        inputs: files of reports, or globs.
        output: the folder of the shuffled reports.
        seals: public keys that clients may have sealed to; without any, reports are plain.
        secret: the file of the shuffler's secret; None for this account's.
    """

    plan: str
    window: str | None
    inputs: tuple[str, ...]
    output: str
    seals: tuple[str, ...] = ()
    secret: str | None = None


def shuffle(request: ShuffleRequest, beam_arguments: Sequence[str]) -> int:
    """Shuffle the reports of a window.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan or its input is wrong, the output is taken, or the reports were
            shuffled before.
        WithheldError: no metric had enough reports.
        FailedError: the job ended without its summary.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    plan = load(request.plan)
    parted = split(plan, window_of(plan, request.window))
    if request.seals:
        require_sealable(parted)
    release.require_vacant(request.output)
    secret = made_once(SHUFFLE, request.secret)
    files, screen = find(request.inputs), Screen()
    # By the bytes, for reports are not read before the job begins.
    buckets = bucket_count(files.size // Form(sealed=bool(request.seals)).dtype.itemsize)
    keys = ids(request.seals)
    job = ShuffleReports(parted, files.files, keys, request.output, secret, buckets)
    try:
        if run_beam(job, for_beam, screen, 0) is None:
            line = f"handed over; {SUMMARY} will appear in the output folder at the end"
            screen.print(line, highlight=False)
            return DONE
        return _conclude(request.output, screen)
    except BaseException as ending:
        _take_back(request.output, isinstance(ending, WithheldError | SharedError))
        require_nothing_lost()
        raise


def _take_back(folder: str, whole: bool) -> None:
    """Remove what a shuffle has left that came to nothing, for the next one to begin.

    A folder with a summary is whole, and stays unless it is known that it holds no report, or
    reports that were shuffled before.
    """
    with contextlib.suppress(OSError, BeamIOError, ValueError):
        finished = FileSystems.exists(FileSystems.join(folder, SUMMARY))
        if FileSystems.exists(folder) and (whole or not finished):
            FileSystems.delete([folder])


def _conclude(output: str, screen: Screen) -> int:
    """Show what was done, or take it back if nothing was to be sent on."""
    summary = read(output)
    if summary is None:
        raise FailedError(f"the job came to its end, but {output} holds no {SUMMARY}")
    warn_of_strangers(summary.dropped)
    dropped = "".join(f"; {size:,} dropped: {name}" for name, size in summary.dropped.items())
    if not any(metric.sent_on for metric in summary.metrics.values()):
        line = f"no metric had its min_reports; {summary.reports:,} reports came{dropped}"
        raise WithheldError(line)
    require_unshared(output, summary)
    for name, metric in summary.metrics.items():
        if metric.sent_on < metric.reports:
            short = metric.reports - metric.sent_on
            line = f"{name}: {short:,} reports were withheld, for fewer than min_reports came"
            warnings.warn(line, Caution, stacklevel=1)
    screen.print(_table(summary))
    line = f"{summary.reports:,} reports came{dropped}"
    screen.print(line, highlight=False, markup=False, soft_wrap=True)
    return DONE


def _table(summary: Summary) -> Table:
    """How many reports each metric had, and how many were sent on."""
    shown = Table("metric")
    for heading in ("reports", "min_reports", "sent on"):
        shown.add_column(heading, justify="right")
    for name, metric in summary.metrics.items():
        numbers = (metric.reports, metric.min_reports, metric.sent_on)
        shown.add_row(name, *(f"{number:,}" for number in numbers))
    return shown
