"""What a person asks for of a variance."""

from __future__ import annotations

from typing import ClassVar

from pipelines.metrics.counting.options import PRESENCE, CountingOptions
from pipelines.metrics.options import GroupedOptions, declared_bounds, published
from pipelines.request.options import option


class VarianceOptions(CountingOptions, GroupedOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.variance:Variance"
    files: ClassVar[tuple[str, ...]] = ("groups", "group")
    brief: ClassVar[str] = "the variance and standard deviation of a column, or of each group"
    description: ClassVar[str] = (
        "The variance, the standard deviation and the mean of a column of numbers, of everybody or "
        "of each group of rows. A user counts with the average of its rows; with --by-row each row "
        f"counts. Numbers are clipped to --bounds; how many were is not published. {PRESENCE}"
    )
    examples: ClassVar[str] = """\
example:
  hushbeam variance --input 'logs/*.parquet' --column seconds --bounds 0,600 --epsilon 1 --output v
"""
    mechanism: ClassVar[str] = "counters"

    column: str = option("the column of numbers")
    bounds: str = declared_bounds()
    group_by: str | None = option("one for each value of this column", None, metavar="COLUMN")
    groups: str | None = option(
        "the groups: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. All other rows share one more",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    output: str = published("deviation.parquet", "variance.parquet", "mean.parquet")
