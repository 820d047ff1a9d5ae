"""`hushbeam distribution` on the command line."""

from __future__ import annotations

from typing import Any

from mechanisms.catalog import of_task
from mechanisms.distribution.fitting import oracles
from mechanisms.planner import AUTO
from pipelines.arguments import add_column, add_output, add_privacy, command, publishing

_MORE = """\
example:
  hushbeam distribution --input 'logs/*.parquet' --column seconds --bounds 0,600 \\
      --epsilon 1 --output seconds-distribution
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = command(
        commands,
        "distribution",
        brief="the histogram, the quantiles and the mean of a column of numbers",
        description="The histogram, the quantiles and the mean of a column of numbers, from one "
        "report of each user. Numbers are clipped to --bounds; how many were is not published.",
        more=_MORE,
    )
    add_column(parser.add_argument_group("what is looked at"))

    privacy = parser.add_argument_group("what is promised")
    add_privacy(privacy)
    privacy.add_argument(
        "--mechanism", default=AUTO, metavar="NAME",
        help="auto takes the square wave, nm, whose quantiles came nearest wherever they were "
        f"compared (default: %(default)s); or one of: {', '.join((*of_task('mean'), *oracles()))}; "
        "those whose reports do not determine a distribution are refused",
    )  # fmt: skip

    result = parser.add_argument_group("what comes out")
    add_output(result, "distribution.parquet, quantiles.parquet, statement.json, report.html")
    result.add_argument(
        "--bins", metavar="B",
        help="how many bins lie between the bounds (default: about the square root of the number "
        "of reports, a power of two from 8 to 512)",
    )  # fmt: skip
    result.add_argument(
        "--quantiles", metavar="P,P,...",
        help="which quantiles are published (default: 0.01,0.05,0.1,0.25,0.5,0.75,0.9,0.95,0.99)",
    )  # fmt: skip
    result.add_argument(
        "--smooth", action="store_true",
        help="smooth the estimated shares (EMS): closer where the distribution is smooth, biased "
        "and far off where it has spikes; intervals, unbiased shares and the mean stay as they are",
    )  # fmt: skip
    parser.set_defaults(command=publishing("distribution"))
