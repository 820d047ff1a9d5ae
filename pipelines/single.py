"""One metric from the command line: from what was typed to what is shown at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apache_beam.io.filesystems import FileSystems

from pipelines import kinds
from pipelines.console import Screen
from pipelines.errors import DONE
from pipelines.publishing import carry_out, conclude
from pipelines.requests import request
from pipelines.road import Publish
from pipelines.run import beam_options


def publish_one(name: str, asked: Mapping[str, Any], beam_arguments: list[str]) -> int:
    """Publish one metric, and show it.

    Args:
        name: of its kind, see `kinds`.
        asked: option -> what was typed.
        beam_arguments: what is for Beam.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few reports came.
        FailedError: the job ended without a release.
    """
    kind = kinds.find(name)
    options = request(kind.options, asked)
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = kind.prepare(options)
    screen = Screen()
    foretold = kind.foretold(job)
    if foretold is not None:
        screen.print(foretold, highlight=False, soft_wrap=True)
    if carry_out(job, Publish(kind.road(job)), for_beam, screen, kind.withheld):
        kind.show(screen, job)
        conclude(job, screen)
    return DONE
