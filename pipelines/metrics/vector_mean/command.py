"""`hushbeam vector-mean` on the command line."""

from __future__ import annotations

from typing import Any

from mechanisms.catalog import of_task
from pipelines.arguments import add_input, add_output, add_privacy, add_users, command, publishing
from pipelines.attribute_arguments import add_attributes

_MORE = """\
examples:
  hushbeam vector-mean --input 'logs/*.parquet' --number 'f*=0,1' --epsilon 1 --output features
  hushbeam vector-mean --input 'logs/*.parquet' --vector pixels=784:0,255 --user-column user \\
      --min-reports 100000 --epsilon 1 --output average-image
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = command(
        commands,
        "vector-mean",
        brief="the average of many numbers at once: of columns, or of a column of lists",
        description="The average row of a log whose rows hold many numbers: columns, or a column "
        "of lists, up to 100,000 and more of them. A user reports one number of the row, or a few, "
        "chosen at random. Numbers are clipped to their bounds; how many were is not published.",
        more=_MORE,
    )
    what = parser.add_argument_group("what is averaged")
    add_input(what)
    add_attributes(what)
    add_users(what, "row")
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
        f"of: {', '.join(of_task('vector'))}",
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
    parser.set_defaults(command=publishing("vector-mean"))
