"""`hushbeam parties shuffle`: reports in, the same reports out, and no sign of whose they are.

It never decodes: it knows how few reports a metric may have and which messages there are, sees no
sealed message at all, and holds no statistic but how many reports came.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from rich.table import Table

from mechanisms.wire.report import Form
from pipelines.errors import DONE, Caution, FailedError, RequestError, WithheldError
from pipelines.jobs.publishing import require_able, require_nothing_lost
from pipelines.jobs.run import REPORT_COST, beam_options, run_beam, runs_here
from pipelines.parties.asking import LAST, ask, shares_of, sweep
from pipelines.parties.batches import chosen_of, remove
from pipelines.parties.command import ShuffleRequest
from pipelines.parties.drawing import shuffle_counters
from pipelines.parties.keys import ids, read_public, read_ring
from pipelines.parties.memory import (
    MEMORY,
    SENT_BEFORE,
    EarlierShuffle,
    LostMemoryError,
    ShufflerMemory,
)
from pipelines.parties.report_files import find, warn_of_strangers
from pipelines.parties.samples import MOST_SHARED, shared
from pipelines.parties.sent_ids import require_readable
from pipelines.parties.shuffling import ShuffleReports
from pipelines.parties.summary import SUMMARY, Summary, answered, nearby, read
from pipelines.plan.job import window_of
from pipelines.plan.loading import load
from pipelines.plan.split import Split, require_counters, require_sealable, require_twice, split
from pipelines.releases import release
from pipelines.request import answers
from pipelines.storage.formats import OtherFormatError
from pipelines.storage.paths import beside
from pipelines.storage.secrets import SHUFFLE, default_place, made_once
from pipelines.views.console import Screen
from pipelines.wording import number_of
from transforms.elements.blocks import bucket_count


class SharedError(RequestError):
    """What was shuffled now was shuffled before; it must not be handed on."""


_READERS = 16  # of summaries
# What ends so was written, and must not be handed on.
_UNSENT = (WithheldError, SharedError, LostMemoryError)


def shuffle(request: ShuffleRequest, beam_arguments: Sequence[str]) -> int:
    """Shuffle the reports of a window.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan or its input is wrong, the output is taken, or it cannot be told
            whether the reports were shuffled before.
        WithheldError: no metric had enough reports.
        FailedError: the job ended without its summary.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    plan = load(request.plan)
    parted = split(plan, window_of(plan, request.window))
    parted = replace(parted, tokens=_tokens(request, parted))
    if parted.counters:
        require_counters(parted, request.seal, "--seal")
    elif request.seal or request.second:
        require_sealable(parted)
    if request.second or request.key:
        require_twice(parted, bool(request.seal) or not request.key, "--second or --key")
    if request.second and (request.key or request.seal):
        raise RequestError("--second: the first shuffler knows no other key: leave out the others")
    shares = shares_of(request.share, parted)
    secret = made_once(SHUFFLE, request.shuffle_secret)
    # Of noisy counters every window has its batch, if anybody has reported in it or not.
    inputs = request.input
    _require_own(request)
    if request.key:
        inputs = chosen_of(inputs, parted, True, read_ring(request.key).ids).files
    files = find(inputs, or_none=bool(parted.counters))
    place = default_place(MEMORY) if request.shuffle_memory is None else request.shuffle_memory
    memory = ShufflerMemory(beside("", place), parted.fingerprint, secret)
    with memory.lock():
        sweep(memory.place)
        if shares and not request.input and (handed := memory.handed()):
            return ask(parted, memory, handed, shares, request.output)
        if not request.input:
            raise RequestError("--input is missing: name the reports, files or globs")
        if before := memory.sent_into(request.output, files.mark):
            return _show_before(request.output, before, Screen())
        if parted.counters:
            pem, here = read_public(request.seal[0]), runs_here(for_beam)
            first = tuple(one for one in shares if one < LAST)
            return shuffle_counters(
                parted, files, pem, request.output, memory, for_beam, here, first
            )
        killed = memory.take_up(request.output)
        if killed is not None:
            return _finish(memory, killed, request.output, Screen())
        release.require_vacant(request.output)
        earlier = memory.recall()
        require_readable(earlier)
        # By the bytes, for reports are not read before the job begins.
        relayed = request.second is not None
        reports = files.about(Form(sealed=bool(request.seal) or relayed))
        buckets = bucket_count(reports + sum(one.sent.reports for one in earlier))
        keys = ids([request.second], "--second") if request.second else ids(request.seal)
        rings = functools.partial(read_ring, request.key) if request.key else None
        here = runs_here(for_beam)
        job = ShuffleReports(
            parted, files, keys, request.output, memory, earlier, buckets, here, relayed, rings
        )
        return _carry_out(job, for_beam, Screen())


def _tokens(request: ShuffleRequest, parted: Split) -> Literal["", "checked", "none"]:
    """What the statement is to say of tokens: who receives reports alone knows it."""
    if parted.job.plan.tokens is None and request.tokens is not None:
        raise RequestError("--tokens: the plan asks for none: leave it out")
    if parted.job.plan.tokens is not None and request.tokens is None:
        raise RequestError(
            "--tokens is missing: say checked if an endpoint of yours has taken a token with each "
            "report, and none if these reports came otherwise, as from a log; the statement says it"
        )
    return request.tokens or ""


def _require_own(request: ShuffleRequest) -> None:
    """Refuse a second shuffler's batch without its key, and a key that the collector has, too."""
    if request.key and {*ids(request.seal)} & {*read_ring(request.key).ids}:
        raise RequestError(
            "--key: it is the collector's key: whoever has both keys knows the whole order; open "
            "with the second shuffler's own"
        )
    for name in () if request.key else request.input:
        if (summary := read(name)) is not None and summary.second:
            raise RequestError(
                f"--input: the reports in {name} are sealed once more, to key {summary.second}: "
                "name it with --key"
            )


def _carry_out(job: ShuffleReports, for_beam: PipelineOptions, screen: Screen) -> int:
    """Run a shuffle, and remember what it has sent on; or take it back."""
    reports = job.files.about(Form(sealed=bool(job.keys)))
    job.memory.begin(job.shuffle_id, job.begun)
    with _or_taken_back(job.memory, job.shuffle_id, job.output):
        if run_beam(job, for_beam, screen, 0, reports * REPORT_COST) is None:
            answers.tell(output=job.output, handed_over=True)
            line = f"handed over; {SUMMARY} will appear in the output folder at the end"
            screen.print(line, highlight=False)
            return DONE
        summary = _concluded(job.output, job.earlier)
        job.memory.commit(job.shuffle_id, job.output)
    job.memory.trim(job.begun.collection)
    _show(summary, job.output, screen)
    return DONE


def _finish(memory: ShufflerMemory, shuffle: str, output: str, screen: Screen) -> int:
    """Bring a shuffle to its end that was killed behind its summary, with all its checks."""
    with _or_taken_back(memory, shuffle, output):
        summary = _concluded(output, memory.recall(apart=shuffle))
        memory.commit(shuffle, output)
    return _show_before(output, summary, screen)


def _show_before(output: str, summary: Summary, screen: Screen) -> int:
    """Show what was shuffled already."""
    answers.tell(shuffled_before=True)
    screen.say(f"shuffled before, and not again: {output}")
    if summary.metrics:
        _show(summary, output, screen)
    else:  # of noisy counters it does not say what came
        answers.tell(**answered(output, summary))
    return DONE


@contextlib.contextmanager
def _or_taken_back(memory: ShufflerMemory, shuffle: str, output: str) -> Iterator[None]:
    """Take back what comes to nothing."""
    try:
        yield
    except BaseException as ending:
        _take_back(output, isinstance(ending, _UNSENT))
        # What stands may have been killed before it was committed: the next shuffle counts it.
        if not _stands(output):
            memory.forget(shuffle)
        require_nothing_lost()
        require_able(output, ending)
        raise


def _take_back(folder: str, whole: bool) -> None:
    """Remove what a shuffle has left that came to nothing, for the next one to begin.

    A folder with a summary is whole, and stays unless it is known that it holds no report, or
    reports that were shuffled before.
    """
    with contextlib.suppress(OSError, BeamIOError, ValueError):
        if FileSystems.exists(folder) and (whole or not _stands(folder)):
            remove(folder)


def _stands(folder: str) -> bool:
    """Whether a folder holds a summary; so it seems if nobody can look."""
    with contextlib.suppress(OSError, BeamIOError, ValueError):
        return bool(FileSystems.exists(FileSystems.join(folder, SUMMARY)))
    return True


def _concluded(output: str, earlier: Sequence[EarlierShuffle]) -> Summary:
    """What was done.

    Args:
        output: the shuffle's folder.
        earlier: shuffles of its window.

    Raises:
        WithheldError: nothing was to be sent on.
        SharedError: it was sent on before, as far as its neighbours tell.
    """
    summary = read(output)
    if summary is None:
        raise FailedError(f"the job came to its end, but {output} holds no {SUMMARY}")
    warn_of_strangers(summary.dropped)
    if not any(metric.sent_on for metric in summary.metrics.values()):
        came = f"{number_of(summary.reports, 'report')} came{_lost(summary)}"
        line = f"no metric had its min_reports; {came}"
        if SENT_BEFORE in summary.dropped:
            places = ", ".join(f"{one.output} ({one.folder})" for one in earlier)
            line += (
                f"; into {places}: what nobody was handed is shuffled again once it is removed, "
                "with its memory, the folder that is named behind it"
            )
        raise WithheldError(line)
    require_unshared(output, summary)
    return summary


def _lost(summary: Summary) -> str:
    """What was dropped, by reason."""
    return "".join(f"; {size:,} dropped: {name}" for name, size in summary.dropped.items())


def _show(summary: Summary, output: str, screen: Screen) -> None:
    """What came, and what was sent on."""
    answers.tell(**answered(output, summary))
    for name, metric in summary.metrics.items():
        if metric.sent_on < metric.reports:
            short = metric.reports - metric.sent_on
            size = f"{number_of(short, 'report')} {'was' if short == 1 else 'were'} withheld"
            line = f"{name}: {size}, for fewer than min_reports came"
            warnings.warn(line, Caution, stacklevel=1)
    screen.print(_table(summary))
    screen.say(f"{number_of(summary.reports, 'report')} came{_lost(summary)}")


def _table(summary: Summary) -> Table:
    """How many reports each metric had, and how many were sent on."""
    shown = Table("metric")
    for heading in ("reports", "min_reports", "sent on"):
        shown.add_column(heading, justify="right")
    for name, metric in summary.metrics.items():
        numbers = (metric.reports, metric.min_reports, metric.sent_on)
        shown.add_row(name, *(f"{number:,}" for number in numbers))
    return shown


def require_unshared(folder: str, own: Summary) -> None:
    """Refuse a shuffle of reports that another shuffle of the same window has sent on.

    Two shuffles that share reports show by their difference what the others held: of one that holds
    a single report more, the collector learns that report's message, whatever min_reports is. They
    are looked for beside the output, where the shuffler can see them.

    Args:
        folder: of the shuffle, in whose neighbourhood others are looked for.
        own: its summary.

    Raises:
        SharedError: more of its reports than a few clients send twice are in another one.
    """
    for other, summary in _others(folder, own):
        if summary.sample_key != own.sample_key:
            raise SharedError(
                f"--input: {other} is a shuffle of the same window under another --shuffle-secret, "
                "so nobody can tell whether these reports are in it, too: name that secret, or, if "
                f"nobody was handed {other}, remove it and shuffle everything"
            )
        share = max(shared({"": own.sample, other: summary.sample}).values(), default=0.0)
        line = f"about {max(1, round(100 * share))} % of these reports were shuffled into {other}"
        if share > MOST_SHARED:
            raise SharedError(
                f"--input: {line} before: two shuffles that share reports show by their difference "
                "what the others held; shuffle only what is new, or, if nobody was handed "
                f"{other}, remove it and shuffle everything"
            )
        if share:
            warnings.warn(f"--input: {line}, too: they came twice", Caution, stacklevel=2)


def _others(folder: str, own: Summary) -> Iterator[tuple[str, Summary]]:
    """Folders beside one, of finished shuffles of the same plan and window."""
    parent = FileSystems.split(folder.rstrip("/"))[0]
    try:
        pattern = FileSystems.join(parent, "*", SUMMARY) if parent else f"*/{SUMMARY}"
        paths = [file.path for file in FileSystems.match([pattern])[0].metadata_list]
    except (OSError, BeamIOError, ValueError):
        return  # a place that cannot be listed holds nothing that could be known
    with ThreadPoolExecutor(_READERS) as pool:
        try:
            summaries = [*pool.map(nearby, paths)]
        except OtherFormatError as error:
            raise SharedError(str(error)) from None  # nobody can tell what is in that one
    for file, summary in zip(paths, summaries, strict=True):
        # Its own summary lies in that folder as well.
        if summary is None or summary.shuffle_id == own.shuffle_id:
            continue
        # Of what a first shuffler hands to a second one, ids are others.
        if (summary.fingerprint, summary.shufflers) == (own.fingerprint, own.shufflers):
            yield FileSystems.split(file)[0], summary
