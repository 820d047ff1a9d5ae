"""From a checked request to a finished Beam job."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineResult, PipelineState
from rich.console import Console

from pipelines.compat import signatures
from pipelines.compat.signatures import ViewedOptions
from pipelines.compat.worker_processes import cores, may_fork, worker_processes
from pipelines.errors import (
    STOPPED,
    FailedError,
    OutOfSightError,
    RequestError,
    UnknownWordsError,
    reason,
)
from pipelines.views.console import counters, progress
from transforms.elements.progress import reset
from transforms.encoders.texts import pickled_by_digest, pickled_whole
from transforms.files import systems

# Beam's in-process runner for batch jobs. "DirectRunner" would first try to fetch Prism.
_LOCAL_RUNNER = "FnApiRunner"

# Runners that were seen to give wrong results without a word, and what they lose.
_WRONG_RUNNERS = {
    "DaskRunner": "side outputs, and one of two sinks",
    "PySparkRunner": "side outputs, and what a bundle ends with",
}

# Seven of 40 runs over ten million rows lost some of them, one of them every fourteenth.
_LOSING_MODE = "multi_threading"

_PROCESSES = "multi_processing"

_MOST_WORKERS = 256

# Runners whose jobs end with this process.
_HERE = frozenset({"FnApiRunner", "DirectRunner", "SwitchingDirectRunner"})

_MODE, _WORKERS = "--direct_running_mode", "--direct_num_workers"

# Rows, each once for every metric that reads it, from which on a second worker pays: it is forked
# and connected for 0.25 CPU seconds, and takes half of the 14 ns of a row of the cheapest job.
_WORTH = 40_000_000

# What weighs as so many rows of the cheapest job: a row whose user is bounded, 250 to 400 ns; a
# report that is shuffled, from 1.2 us on; a seal that is opened, 42 us, and one is made in 76.
USERS_COST, REPORT_COST, SEAL_COST = 10, 80, 3_000

# What names the program of a job server that Beam would otherwise try to fetch.
_SERVERS = {
    "FlinkRunner": "--flink_job_server_jar=JAR",
    "PrismRunner": "--prism_location=PROGRAM",
    "SparkRunner": "--spark_job_server_jar=JAR",
}

# Bytes up to which glibc takes a piece from its heap, and up to which it keeps that heap's end:
# M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h.
_MALLOC = ((-3, 1 << 22), (-1, 1 << 26))

_EARLIER = count()  # jobs of this process

Run = Callable[[Callable[[], PipelineResult]], PipelineResult]  # of what runs a pipeline

# Calls within calls: a chain of transforms grows with every round that waits for another one.
_DEEPEST = 5_000


def beam_options(arguments: Sequence[str]) -> PipelineOptions:
    """Beam's options, with a local runner by default.

    Raises:
        RequestError: an option is neither hushbeam's nor Beam's, or its value is not one, or the
            runner, or its mode, is known to be wrong.
    """
    systems.FileSystems.prepare = systems.nothing  # of an earlier command in this process
    options = ViewedOptions(list(arguments))
    parsers: list[argparse.ArgumentParser] = []
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.get_all_options(add_extra_args_fn=parsers.append)
            _, unknown = parsers[0].parse_known_args(arguments)
    except SystemExit:  # Beam's parser has printed its usage, and the reason in the last line
        raise RequestError(said.getvalue().rpartition(": error: ")[2]) from None
    if unknown:
        raise UnknownWordsError(
            f"unknown option: {' '.join(unknown)}; see --help",
            unknown, parsers[0]._option_string_actions,
        )  # fmt: skip
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or _LOCAL_RUNNER
    name = standard.runner.rpartition(".")[2]
    if name in _WRONG_RUNNERS:
        raise RequestError(
            f"--runner: {name} loses {_WRONG_RUNNERS[name]}, and says nothing; choose another"
        )
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode == _LOSING_MODE:
        raise RequestError(
            f"{_MODE}: {_LOSING_MODE} loses whole blocks of rows in Beam {beam.__version__}, "
            f"and says nothing; take {_PROCESSES}, or leave it out"
        )
    # A process each, which hold the machine up long before they are of use.
    if not 0 <= (direct.direct_num_workers or 0) <= _MOST_WORKERS:
        raise RequestError(f"{_WORKERS}: 0, for one a core, to {_MOST_WORKERS:,}")
    typed = {word.partition("=")[0] for word in arguments}
    if name == _LOCAL_RUNNER and _MODE not in typed:
        if _WORKERS not in typed:
            direct.direct_num_workers = None  # as many as pay
        elif direct.direct_num_workers != 1:
            direct.direct_running_mode = _PROCESSES  # Beam would have threads
    return options


def run_beam(
    job: beam.PTransform, options: PipelineOptions, screen: Console, rows: int | None, work: int = 0
) -> dict[str, int] | None:
    """Run one PTransform as a pipeline, with a progress line.

    Args:
        job: from the beginning of a pipeline to its release.
        options: Beam's, from `beam_options`.
        screen: where progress is drawn.
        rows: how many rows the job will read; None where nobody is to learn that.
        work: what there is to do, in rows of the cheapest job: more than one core takes part where
            it pays, unless the options say how many do.

    Returns:
        hushbeam's counters, none if the runner cannot be asked for them; None if the job was only
        submitted, or only a template of it written.

    Raises:
        RequestError: the options do not make a pipeline, or the runner's job server is not there.
        FailedError: the job failed elsewhere, or was cancelled.
        OutOfSightError: the waiting ended early, and the job may go on elsewhere.
        Exception: it failed here, with whatever its steps raised.
    """
    reset()  # first of all: what an earlier run has counted explains nothing of this one
    _keep_freed_memory()
    # A job's steps and what it has shuffled hold each other: of few objects, which Python would not
    # look at before a dozen jobs of a stream, or of windows, have left some 30 MB each.
    if next(_EARLIER):
        gc.collect()
    pipeline = opened(options)
    local = type(pipeline.runner).__name__ == _LOCAL_RUNNER
    with signatures.kept(), pickled_by_digest() if local else pickled_whole():
        pipeline | job
        with (
            _workers(pipeline, work) as run,
            progress(screen, rows) as follow,
            _in_sight(options) as seen,
        ):
            result = _submitted(pipeline, run)
            seen(result)
            follow(result)
            state = result.wait_until_finish()
    # Who has written a template says DONE, and knows of no job.
    if options.view_as(GoogleCloudOptions).template_location is not None:
        return None
    if state is None or not PipelineState.is_terminal(state):
        return None
    if state != PipelineState.DONE:
        raise FailedError(f"the job ended in state {state}; its runner's log has the reason")
    with contextlib.suppress(Exception):  # what was published is published, counted or not
        return counters(result)
    return {}


def runs_here(options: PipelineOptions) -> bool:
    """Whether a job cannot outlive this process.

    Args:
        options: Beam's.
    """
    runner = options.view_as(StandardOptions).runner or ""
    return runner.rpartition(".")[2] in _HERE


@contextlib.contextmanager
def _in_sight(options: PipelineOptions) -> Iterator[Callable[[PipelineResult], None]]:
    """Tell a job that has failed from one that goes on where nobody here can stop it.

    Yields:
        What takes Beam's result, once there is one.
    """
    results: list[PipelineResult] = []
    try:
        yield results.append
    except RequestError:
        raise
    except BaseException as error:
        stopped = STOPPED.is_set() or not isinstance(error, Exception)
        if runs_here(options) or not (results or stopped) or _is_over(results):
            raise
        why = "interrupted" if stopped else f"the waiting failed with {type(error).__name__}"
        raise OutOfSightError(
            f"{why}; the job may go on where its runner is, and publish: look at it there, and "
            "stop it there"
        ) from None


def _is_over(results: Sequence[PipelineResult]) -> bool:
    try:
        return any(PipelineState.is_terminal(result.state) for result in results)
    except Exception:  # nobody answers
        return False


def opened(options: PipelineOptions) -> beam.Pipeline:
    """A pipeline of Beam's, with nothing in it.

    Args:
        options: for Beam.

    Raises:
        RequestError: the options do not make a pipeline.
    """
    try:
        pipeline = beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:
        raise RequestError(f"Beam cannot take these options: {reason(error)}") from None
    # A folder for what comes with steps in other languages, of which there are none: who kills a
    # job would leave it behind.
    with contextlib.suppress(OSError):
        os.rmdir(pipeline.local_tempdir)
    return pipeline


def _keep_freed_memory() -> None:
    """Have glibc, if it is what allocates, keep what a block's arrays took for the next block's.

    By default it hands such pieces back, and the system clears each page anew: of a hash table of
    a bucket's users that was two thirds of its time.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another system's library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, size in _MALLOC:
            mallopt(parameter, size)


def _workers(pipeline: beam.Pipeline, work: int) -> contextlib.AbstractContextManager[Run]:
    """The worker processes that are asked for, or pay, if any."""
    direct = pipeline.options.view_as(DirectOptions)
    if direct.direct_num_workers is None and work >= _WORTH and may_fork() and cores() > 1:
        direct.direct_running_mode, direct.direct_num_workers = _PROCESSES, cores()
    if direct.direct_running_mode == _PROCESSES:
        # For 0 Beam starts one for each core of the machine: of more than were forked, some could
        # not read what others have put where those share it.
        direct.direct_num_workers = direct.direct_num_workers or cores()
        return worker_processes(direct.direct_num_workers)
    return contextlib.nullcontext(lambda run: run())


def _submitted(pipeline: beam.Pipeline, run: Run) -> PipelineResult:
    try:
        with _deep():
            return run(pipeline.run)
    except Exception as error:
        if not _without_server(error):
            raise
        raise RequestError(_no_server(pipeline, reason(error).partition(". ")[0])) from None


def _no_server(pipeline: beam.Pipeline, why: str) -> str:
    """That there is none, and how to name one."""
    name = type(pipeline.runner).__name__
    endpoint = pipeline.options.view_as(PortableOptions).job_endpoint
    if endpoint is not None:
        return f"--job_endpoint: no job server answers at {endpoint} ({why})"
    program = f", or its program with {_SERVERS[name]}" if name in _SERVERS else ""
    return (
        f"--runner: {name} has no job server: name one that runs with --job_endpoint=HOST:PORT"
        f"{program} ({why})"
    )


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    """Room for the local runner, which goes along a pipeline by recursion, side inputs and all."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _without_server(error: Exception) -> bool:
    """Whether Beam failed on the way to a job server: before it had submitted anything."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is PortableRunner.create_job_service.__code__ for frame, _ in frames)
