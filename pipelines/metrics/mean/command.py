"""`hushbeam mean` on the command line."""

from __future__ import annotations

from typing import Any

from mechanisms.catalog import of_task
from mechanisms.mean.task import LOCAL_CELLS, SHUFFLE_CELLS
from mechanisms.planner import AUTO
from pipelines.arguments import add_column, add_output, add_privacy, command, publishing

_MORE = """\
examples:
  hushbeam mean --input 'logs/*.parquet' --column seconds --bounds 0,600 \\
      --epsilon 1 --output seconds-mean
  hushbeam mean --input 'logs/*.parquet' --column seconds --bounds 0,600 --user-column user \\
      --min-reports 100000 --group-by city --groups cities.txt --epsilon 1 --output seconds-by-city
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = command(
        commands,
        "mean",
        brief="the average of a column of numbers, or of each group of rows",
        description="The average of a column of numbers, or of each group of rows. Numbers are "
        "clipped to --bounds; how many were is not published.",
        more=_MORE,
    )
    what = parser.add_argument_group("what is averaged")
    add_column(what, bounds_required=False)
    what.add_argument(
        "--choose-bounds", action="store_true",
        help="let one user in ten tell privately how large numbers are, choose powers of two that "
        "hold all but 0.1 %% of them (or all but what noise hides), and average the numbers of the "
        "others; --bounds is then not needed",
    )  # fmt: skip
    what.add_argument(
        "--group-by", metavar="COLUMN",
        help="one mean for each value of this column; which group a user is in stays as private as "
        "the number",
    )  # fmt: skip
    what.add_argument(
        "--groups", metavar="FILE|LOW..HIGH",
        help="the groups: a text file with one a line, or a range of integers; public knowledge, "
        "not taken from the data",
    )  # fmt: skip
    what.add_argument(
        "--groups-public", action="store_true",
        help="everybody may know who is in which group: reports say it in the clear, which makes "
        "errors far smaller; --min-reports is then the least of each group",
    )  # fmt: skip

    privacy = parser.add_argument_group("what is promised")
    add_privacy(privacy)
    privacy.add_argument(
        "--mechanism", default=AUTO, metavar="NAME",
        help="auto takes the one with the least worst-case variance (default: %(default)s); or one "
        f"of: {', '.join(of_task('mean'))}; of private groups only "
        f"{', '.join(of_task('group means'))}",
    )  # fmt: skip
    privacy.add_argument(
        "--cells", metavar="N",
        help="into how many cells the range between the bounds is cut; values are rounded to their "
        f"ends by a coin (default: {LOCAL_CELLS} in the local model, "
        f"{SHUFFLE_CELLS} in the shuffle model, what is best for private groups)",
    )  # fmt: skip

    result = parser.add_argument_group("what comes out")
    add_output(result, "mean.parquet, statement.json, report.html")
    result.add_argument(
        "--interval", choices=("plug-in", "worst"), default="plug-in",
        help="plug-in: as wide as the reports show it must be. worst: wide enough for any values "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(command=publishing("mean"))
