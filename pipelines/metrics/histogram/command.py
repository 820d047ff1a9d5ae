"""`hushbeam histogram` on the command line."""

from __future__ import annotations

from typing import Any

from mechanisms.catalog import of_task
from mechanisms.planner import AUTO
from mechanisms.planner.target import MODELS
from pipelines.arguments import (
    add_input,
    add_output,
    add_privacy,
    add_users,
    command,
    publishing,
)

_EXAMPLE = """\
example, with the files of the repository:
  hushbeam histogram --input examples/flights.parquet --column destination \\
      --domain examples/airports.txt --epsilon 1 --output flights-histogram
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = command(
        commands,
        "histogram",
        brief="how often each value of a declared domain occurs",
        description="How often each value of a declared domain occurs in a telemetry log.",
        more=_EXAMPLE,
    )
    what = parser.add_argument_group("what is counted")
    add_input(what)
    what.add_argument("--column", required=True, help="the column whose values are counted")
    what.add_argument(
        "--domain", required=True, metavar="FILE|LOW..HIGH",
        help="the values that may occur: a text file with one a line, or a range of integers "
        "(--domain=-60..60, with an equals sign, if it starts below 0). It must be public "
        "knowledge, not taken from the data",
    )  # fmt: skip
    add_users(what)
    what.add_argument(
        "--out-of-domain", choices=("drop", "other"), default="drop",
        help="values outside the domain are dropped and counted, or share one more bin "
        "(default: %(default)s)",
    )  # fmt: skip

    privacy = parser.add_argument_group("what is promised")
    add_privacy(privacy, MODELS, None)
    privacy.add_argument(
        "--mechanism", default=AUTO, metavar="NAME",
        help="auto takes the one with the least predicted error (default: %(default)s); or one "
        f"of: {', '.join(of_task('frequency'))}",
    )  # fmt: skip
    privacy.add_argument(
        "--max-messages", metavar="M",
        help="shuffle model: how many messages a user may send on average, for auto; more than "
        "1 lets users hide their values among dummies (default: 1)",
    )  # fmt: skip
    privacy.add_argument(
        "--honest-share", metavar="H",
        help="the share of users whose dummies the guarantee counts on: what the others leave "
        "out weakens nothing (default: 0.9)",
    )  # fmt: skip
    privacy.add_argument(
        "--bound", choices=("exact", "published"),
        help="published: choose parameters by the closed form of the system's own paper, to "
        "reproduce it; the statement tells the exact loss (default: exact)",
    )  # fmt: skip

    result = parser.add_argument_group("what comes out")
    add_output(result, "histogram.parquet, statement.json, report.html")
    result.add_argument(
        "--postprocess", choices=("pop", "none"),
        help="pop: the nearest histogram whose shares are nonnegative and add up to 1; "
        "the unbiased estimates are published either way (default: pop, or as a named system's "
        "paper has it)",
    )  # fmt: skip
    parser.set_defaults(command=publishing("histogram"))
