"""`hushbeam histogram` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from mechanisms import systems
from mechanisms.target import MODELS

_EXAMPLE = """\
example, with the files of the repository:
  hushbeam histogram --input examples/flights.parquet --column destination \\
      --domain examples/airports.txt --epsilon 1 --output flights-histogram

Every option that hushbeam does not know goes to Beam: --runner DataflowRunner --project ...
exit codes: 0 done; 1 withheld, too few reports; 2 the request or its input is wrong;
3 the run failed.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "histogram",
        help="how often each value of a declared domain occurs",
        description="How often each value of a declared domain occurs in a telemetry log.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what is counted")
    what.add_argument(
        "--input", nargs="+", required=True, metavar="FILE",
        help="Parquet files or globs, local or gs://",
    )  # fmt: skip
    what.add_argument("--column", required=True, help="the column whose values are counted")
    what.add_argument(
        "--domain", required=True, metavar="FILE|LOW..HIGH",
        help="the values that may occur: a text file with one a line, or a range of integers "
        "(--domain=-60..60, with an equals sign, if it starts below 0). It must be public "
        "knowledge, not taken from the data",
    )  # fmt: skip
    what.add_argument(
        "--user-column", metavar="COLUMN",
        help="protect users, not rows: one uniformly chosen value of each user is used",
    )  # fmt: skip
    what.add_argument(
        "--out-of-domain", choices=("drop", "other"), default="drop",
        help="values outside the domain are dropped and counted, or share one more bin "
        "(default: %(default)s)",
    )  # fmt: skip

    privacy = parser.add_argument_group("what is promised")
    privacy.add_argument(
        "--model", choices=MODELS,
        help="local: every report alone is epsilon-private. shuffle: the release is "
        "(epsilon, delta)-private, at a far smaller error. central: the collector counts raw "
        "values and the release is epsilon-private (default: shuffle, or what --mechanism serves)",
    )  # fmt: skip
    privacy.add_argument(
        "--epsilon", help="the privacy loss of the release; 1 is a common choice, less is safer"
    )
    privacy.add_argument(
        "--delta",
        help="shuffle model: the probability that epsilon may fail (default: 1e-6, less for "
        "batches of a million and more)",
    )
    privacy.add_argument(
        "--min-reports", metavar="N",
        help="withhold the release if fewer reports come (default: nine tenths of the rows; "
        "needed with --user-column)",
    )  # fmt: skip
    privacy.add_argument(
        "--epsilon-local", metavar="E",
        help="shuffle model: the most that one report may reveal to the shuffler; "
        "without --epsilon it is what each report spends",
    )  # fmt: skip
    privacy.add_argument(
        "--mechanism", default=systems.AUTO, metavar="NAME",
        help="auto takes the one with the least predicted error (default: %(default)s); or one "
        f"of: {', '.join(systems.SYSTEMS)}",
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
    result.add_argument(
        "--output", required=True, metavar="FOLDER",
        help="a new folder, local or gs://: histogram.parquet, statement.json, report.html",
    )  # fmt: skip
    result.add_argument(
        "--postprocess", choices=("pop", "none"),
        help="pop: the nearest histogram whose shares are nonnegative and add up to 1; "
        "the unbiased estimates are published either way (default: pop, or as a named system's "
        "paper has it)",
    )  # fmt: skip
    result.add_argument(
        "--confidence", default="0.95", help="of the intervals (default: %(default)s)"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish a histogram, and show the top of it."""
    # Beam takes a second to import, and warns while it does: other commands need not wait, and
    # by now logs are silent.
    from pipelines.single import publish_one

    asked = {k: v for k, v in vars(arguments).items() if k != "command"}
    return publish_one("histogram", asked, beam_arguments)
