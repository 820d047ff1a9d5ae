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
        "The variance and the standard deviation of a column of numbers, and their mean, of "
        "everybody or of each group of rows. It is the population variance of the numbers that "
        "count: a user's is the average of its rows; with --by-row each row has its own. Numbers "
        f"are clipped to --bounds; how many were is not published. {PRESENCE}"
    )
    examples: ClassVar[str] = """\
examples:
  hushbeam variance --input 'logs/*.parquet' --column seconds --bounds 0,600 \\
      --epsilon 1 --output seconds-spread
  hushbeam variance --input 'logs/*.parquet' --column seconds --bounds 0,600 --user-column user \\
      --by-row --rows-per-user 5 --group-by city --groups cities.txt \\
      --epsilon 1 --output seconds-spread-by-city
"""
    subject: ClassVar[str] = "whose spread it is"

    column: str = option("the column of numbers")
    bounds: str = declared_bounds()
    group_by: str | None = option("one variance for each value of this column", None,
                                  metavar="COLUMN")
    groups: str | None = option(
        "the groups: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. All other rows share one more",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    output: str = published("deviation.parquet", "variance.parquet", "mean.parquet")
