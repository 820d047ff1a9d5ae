"""From a checked request to a finished Beam job."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.runner import PipelineState
from rich.console import Console

from pipelines.console import counters, progress
from pipelines.errors import FailedError, RequestError, reason
from transforms.progress import reset

# Beam's in-process runner for batch jobs. "DirectRunner" would first try to fetch Prism.
_LOCAL_RUNNER = "FnApiRunner"

# Runners that were seen to give wrong results without a word, and what they lose.
_WRONG_RUNNERS = {
    "DaskRunner": "side outputs, and one of two sinks",
    "PySparkRunner": "side outputs, and what a bundle ends with",
}


def beam_options(arguments: Sequence[str]) -> PipelineOptions:
    """Beam's options, with a local runner by default.

    Raises:
        RequestError: an option is neither hushbeam's nor Beam's, or its value is not one, or the
            runner is known to be wrong.
    """
    options = PipelineOptions(list(arguments))
    parsers: list[argparse.ArgumentParser] = []
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.get_all_options(add_extra_args_fn=parsers.append)
            _, unknown = parsers[0].parse_known_args(arguments)
    except SystemExit:  # Beam's parser has printed its usage, and the reason in the last line
        raise RequestError(said.getvalue().rpartition(": error: ")[2]) from None
    if unknown:
        raise RequestError(f"neither hushbeam nor Beam knows {' '.join(unknown)}; see --help")
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or _LOCAL_RUNNER
    name = standard.runner.rpartition(".")[2]
    if name in _WRONG_RUNNERS:
        raise RequestError(
            f"--runner: {name} loses {_WRONG_RUNNERS[name]}, and says nothing; choose another"
        )
    return options


def run_beam(
    job: beam.PTransform, options: PipelineOptions, screen: Console, rows: int
) -> dict[str, int] | None:
    """Run one PTransform as a pipeline, with a progress line.

    Args:
        job: from the beginning of a pipeline to its release.
        options: Beam's, from `beam_options`.
        screen: where progress is drawn.
        rows: how many rows the job will read.

    Returns:
        hushbeam's counters, none if the runner cannot be asked for them; None if the job was only
        submitted, or only a template of it written.

    Raises:
        RequestError: the options do not make a pipeline.
        FailedError: the job failed elsewhere, or was cancelled.
        Exception: it failed here, with whatever its steps raised.
    """
    try:
        pipeline = beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:
        raise RequestError(f"Beam cannot take these options: {reason(error)}") from None
    reset()
    pipeline | job
    with progress(screen, rows) as follow:
        result = pipeline.run()
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
