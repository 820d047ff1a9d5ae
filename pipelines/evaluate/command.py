"""`hushbeam evaluate` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from pipelines.evaluate import (
    heavy_hitters_command,
    histogram_command,
    mean_command,
    train_command,
    vector_mean_command,
)

_DESCRIPTION = """\
Compare systems side by side on simulated releases of populations whose truth is known. Nothing here
is a release: errors are measured against the true histogram, so that whoever may not see the data
may not see this folder either.
"""


def add_to(commands: Any) -> None:
    """Add the command and what can be evaluated."""
    parser = commands.add_parser(
        "evaluate",
        help="compare systems on simulated releases whose truth is known",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds = parser.add_subparsers(
        title="what is evaluated", metavar="WHAT", required=True, parser_class=type(parser)
    )
    for kind in (
        histogram_command,
        heavy_hitters_command,
        mean_command,
        train_command,
        vector_mean_command,
    ):
        kind.add_to(kinds)
    for each in kinds.choices.values():
        each.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks"
        )
