"""`hushbeam vector-mean` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from mechanisms.catalog import VECTOR
from pipelines.attribute_arguments import add_attributes
from pipelines.number_arguments import add_output, add_privacy

_MORE = """\
examples:
  hushbeam vector-mean --input 'logs/*.parquet' --number 'f*=0,1' --epsilon 1 --output features
  hushbeam vector-mean --input 'logs/*.parquet' --vector pixels=784:0,255 --user-column user \\
      --min-reports 100000 --epsilon 1 --output average-image

Every option that hushbeam does not know goes to Beam: --runner DataflowRunner --project ...
exit codes: 0 done; 1 withheld, too few reports; 2 the request or its input is wrong;
3 the run failed.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "vector-mean",
        help="the average of many numbers at once: of columns, or of a column of lists",
        description="The average row of a log whose rows hold many numbers: columns, or a column "
        "of lists, up to 100,000 and more of them. A user reports one number of the row, or a few, "
        "chosen at random. Numbers are clipped to their bounds; how many were is not published.",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what is averaged")
    what.add_argument(
        "--input", nargs="+", required=True, metavar="FILE",
        help="Parquet files or globs, local or gs://",
    )  # fmt: skip
    add_attributes(what)
    what.add_argument(
        "--user-column", metavar="COLUMN",
        help="protect users, not rows: one uniformly chosen row of each user is used",
    )  # fmt: skip
    what.add_argument(
        "--radius", metavar="R",
        help="the length (l2 norm) that rows have at the most, once every number is scaled from "
        "its bounds to [-1, 1]; lets auto consider privunit, which shortens longer rows and counts "
        "them on the screen",
    )  # fmt: skip

    privacy = parser.add_argument_group("what is promised")
    add_privacy(privacy)
    privacy.add_argument(
        "--mechanism", default="auto", metavar="NAME",
        help="auto takes the one with the least worst-case variance (default: %(default)s); or one "
        f"of: {', '.join(VECTOR)}",
    )  # fmt: skip

    result = parser.add_argument_group("what comes out")
    add_output(result, "vector-mean.parquet, statement.json, report.html")
    result.add_argument(
        "--shrink", choices=("none", "zero", "grand-mean", "prior"), default="grand-mean",
        help="a second estimate, moved towards the middle of the bounds, the mean of all "
        "coordinates or the row in --prior, by as much as the noise suggests (James and Stein): "
        "nearer to the truth in all, biased in each; the unbiased one stays beside it "
        "(default: %(default)s)",
    )  # fmt: skip
    result.add_argument(
        "--prior", metavar="FILE",
        help="a text file with a number for each coordinate, one a line, in the units of the "
        "bounds; public knowledge, not taken from the data",
    )  # fmt: skip
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish an average row and show it."""
    # Beam takes a second to import, and warns while it does: other commands need not wait, and
    # by now logs are silent.
    from pipelines.single import publish_one

    asked = {k: v for k, v in vars(arguments).items() if k != "command"}
    return publish_one("vector-mean", asked, beam_arguments)
