"""One metric from the command line: from what was typed to what is shown at the end."""

from __future__ import annotations

from apache_beam.io.filesystems import FileSystems

from pipelines.errors import DONE
from pipelines.metrics.options import MetricOptions
from pipelines.metrics.registry import find
from pipelines.metrics.release import Release
from pipelines.publishing import carry_out, conclude
from pipelines.run import beam_options
from pipelines.views.console import Screen


def publish_one(name: str, options: MetricOptions, beam_arguments: list[str]) -> int:
    """Publish one metric, and show it.

    Args:
        name: of its kind, see `metrics.registry`.
        options: of the request.
        beam_arguments: what is for Beam.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few reports came.
        FailedError: the job ended without a release.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    metric = find(name).resolve(options)
    screen = Screen()
    if metric.prospect is not None:
        screen.print(metric.prospect, highlight=False, soft_wrap=True)
    if carry_out(metric, Release(metric), for_beam, screen):
        metric.show(screen)
        conclude(metric, screen)
    return DONE
