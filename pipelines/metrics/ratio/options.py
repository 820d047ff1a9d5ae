"""What a person asks for of a ratio of sums."""

from __future__ import annotations

from typing import ClassVar

from pipelines.metrics.counting.options import PRESENCE, CountingOptions
from pipelines.metrics.options import GroupedOptions, declared_bounds, published
from pipelines.request.options import option


class RatioOptions(CountingOptions, GroupedOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.ratio:Ratio"
    files: ClassVar[tuple[str, ...]] = ("groups", "group")
    brief: ClassVar[str] = "the sum of one column over that of another, or over the number of rows"
    description: ClassVar[str] = (
        "The sum of a column of numbers divided by the sum of another (such as errors per "
        "session), or by the number of rows; of everybody or of each group. What the rows of a "
        f"user add up to is clipped to bounds, of either column. {PRESENCE}"
    )
    subject: ClassVar[str] = "what is divided"

    column: str = option("the column of numbers that is divided")
    bounds: str = declared_bounds()
    over: str | None = option(
        "the column that it is divided by, none below 0 (default: rows are counted)", None,
        metavar="COLUMN", essential=True,
    )  # fmt: skip
    over_bounds: str = option(
        "0, and the most that counts of a unit of what it is divided by", "0,1", metavar="0,U",
        essential=True,
    )  # fmt: skip
    group_by: str | None = option("a ratio for each value of this column", None, metavar="COLUMN")
    groups: str | None = option(
        "the groups: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. All other rows share one more",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    output: str = published("ratio.parquet")
