"""From a checked request to a finished Beam job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState
from pydantic import BaseModel, ValidationError
from rich.console import Console

from pipelines.console import counters, progress
from pipelines.errors import RequestError
from transforms.progress import reset

_Options = TypeVar("_Options", bound=BaseModel)

# Beam's in-process runner for batch jobs. "DirectRunner" would first try to fetch Prism.
_LOCAL_RUNNER = "FnApiRunner"


def request(kind: type[_Options], asked: Mapping[str, Any]) -> _Options:
    """Validated options, or the first thing that is wrong with them in one line.

    Raises:
        RequestError: an option is malformed or out of range.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-")
        raise RequestError(f"{flag}: {first['msg']}, not {first['input']!r}") from None


def beam_options(arguments: Sequence[str]) -> PipelineOptions:
    """Beam's options, with a local runner by default.

    Raises:
        RequestError: an option is neither hushbeam's nor Beam's.
    """
    options = PipelineOptions(list(arguments))
    kept = options.get_all_options(retain_unknown_options=True)
    unknown = sorted(set(kept) - set(options.get_all_options()))
    stray = [word for word in arguments[:1] if not word.startswith("-")]
    if unknown or stray:
        names = ", ".join([*stray, *(f"--{name}" for name in unknown)])
        raise RequestError(f"neither hushbeam nor Beam knows {names}; see --help")
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or _LOCAL_RUNNER
    return options


def run_beam(
    job: beam.PTransform, arguments: Sequence[str], screen: Console, rows: int
) -> dict[str, int] | None:
    """Run one PTransform as a pipeline, with a progress line.

    Args:
        job: from the beginning of a pipeline to its release.
        arguments: Beam's options.
        screen: where progress is drawn.
        rows: how many rows the job will read.

    Returns:
        hushbeam's counters; None if the job was only submitted, or its graph only written.

    Raises:
        RequestError: an option is unknown.
        RuntimeError: the job failed or was cancelled.
    """
    options = beam_options(arguments)
    pipeline = beam.Pipeline(options=options)
    reset()
    pipeline | job
    with progress(screen, rows) as follow:
        result = pipeline.run()
        follow(result)
        state = result.wait_until_finish()
    if state is None or not PipelineState.is_terminal(state):
        return None
    if state != PipelineState.DONE:
        raise RuntimeError(f"the job ended in state {state}")
    return counters(result)
