"""Beam's options, made where somebody needs them: a request that is refused before does not wait.

Beam takes more than a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from transforms.files import systems

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

ForBeam = Callable[[], "PipelineOptions"]
"""Beam's options, the same ones every time."""


def prepared(arguments: Sequence[str]) -> ForBeam:
    """Beam's options of a command, which its file systems are told before they are first asked.

    Args:
        arguments: what is for Beam. If there is any, what is wrong with it is said at once.

    Raises:
        RequestError: as `pipelines.jobs.run.beam_options`; of what is returned, too.
    """

    @cache
    def options() -> PipelineOptions:
        from apache_beam.io.filesystems import FileSystems

        from pipelines.jobs.run import beam_options

        made = beam_options(arguments)
        FileSystems.set_options(made)
        return made

    if arguments:
        options()
    systems.FileSystems.prepare = options
    return options
