"""What a person asks for of a funnel."""

from __future__ import annotations

from typing import ClassVar

from pipelines.metrics.counting.options import PRESENCE, CountingOptions
from pipelines.metrics.options import published
from pipelines.request.options import option
from pipelines.request.requests import Pairs
from pipelines.request.spans import TimeSpan

TABLE, CONVERSION, TIMES = "funnel.parquet", "conversion.parquet", "times.parquet"

TIMES_SHARE = 0.5  # of epsilon and delta, for the noise of times, where they are counted


class FunnelOptions(CountingOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.funnel:Funnel"
    files: ClassVar[tuple[str, ...]] = ("groups",)
    brief: ClassVar[str] = "how many users reach each of several steps, and which share goes on"
    description: ClassVar[str] = (
        "How many users reach each of several steps in their order, by the times of their rows, "
        "and which share goes on from one to the next: of everybody, or of each segment, too. A "
        f"user counts once, by the furthest step. {PRESENCE}"
    )
    examples: ClassVar[str] = """\
examples:
  who sees a page, fills the cart and pays, within an hour of the page
    hushbeam funnel --input 'logs/*.parquet' --user-column user --time time \\
        --steps "view=page == 'home'" --steps "cart=page == 'cart'" --steps "pay=paid > 0" \\
        --within 1h --epsilon 1 --output funnel
  the same by the country of the row with which a user begins
    hushbeam funnel --input 'logs/*.parquet' --user-column user --time time \\
        --steps "view=page == 'home'" --steps "pay=paid > 0" \\
        --group-by country --groups countries.txt --epsilon 1 --output funnel
"""

    steps: Pairs = option(
        "what must hold of a row, step by step in their order, such as \"cart=page == 'cart'\"; a "
        "user reaches one by a row later than that of the step before, and rows of one moment are "
        "one row",
        metavar="NAME=EXPRESSION", repeated=True, min_length=1,
    )  # fmt: skip
    time: str = option(
        "the column that says when a row happened: moments, or dates. Rows without one do not "
        "count",
        metavar="COLUMN", min_length=1,
    )  # fmt: skip
    within: TimeSpan | None = option(
        "how long after the first step all others may be, as in 30min, 1h or 7d. Where several "
        "rows begin, that one counts from which the user comes farthest (default: ever)",
        None, metavar="SPAN",
    )  # fmt: skip
    times: str | None = option(
        "how long users took from step to step, too: how many took up to each of these spans, as "
        "in 1min,5min,1h, and how many longer. It takes half of the price (default: steps alone)",
        None, metavar="SPAN,...", min_length=1,
    )  # fmt: skip
    group_by: str | None = option(
        "the same for each value of this column, too: a user's is that of the first row that "
        "holds the first step",
        None, metavar="COLUMN",
    )  # fmt: skip
    groups: str | None = option(
        "the values: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. All other values share one more segment",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    output: str = published(TABLE, CONVERSION, TIMES)

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | ({"times"} - self.model_fields_set)
