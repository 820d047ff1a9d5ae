"""What a person asks for of a ratio of sums."""

from __future__ import annotations

from typing import ClassVar

from pipelines.errors import RequestError
from pipelines.metrics.options import published
from pipelines.metrics.variance.options import VarianceOptions
from pipelines.request.options import option


class RatioOptions(VarianceOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.ratio:Ratio"
    brief: ClassVar[str] = "the sum of one column over that of another, or over how many rows"
    description: ClassVar[str] = (
        "The sum of a column of numbers over the sum of another, or over the number of rows; of "
        "everybody or of each group. What the rows of a user add up to is clipped to bounds, of "
        "either column. Whether anybody takes part is hidden: no exact counts are published."
    )
    whole_numbers: ClassVar[bool] = False
    subject: ClassVar[str] = "what is divided"
    examples: ClassVar[str] = """\
example:
  hushbeam ratio --input 'logs/*.parquet' --column errors --bounds 0,20 --over requests \\
      --over-bounds 0,500 --user-column user --epsilon 1 --output errors-per-request
"""

    over: str | None = option(
        "the column that it is divided by, none below 0 (default: rows are counted)", None,
        metavar="COLUMN", essential=True,
    )  # fmt: skip
    over_bounds: str | None = option(
        "0, and the most that counts of a user, or a row, of what it is divided by (default: 0,1 "
        "where that is rows, and each counts for itself)", None, metavar="0,U", essential=True,
    )  # fmt: skip
    output: str = published("ratio.parquet")

    @property
    def divisor_bounds(self) -> str:
        """Of what it is divided by.

        Raises:
            RequestError: nobody says how much of it counts.
        """
        if self.over_bounds is None and (self.over or (self.unit == "user" and not self.by_row)):
            raise RequestError(
                f"--over-bounds: name 0, and the most of {self.over or 'its rows'} that one "
                f"{self.unit} may add, as in 0,500"
            )
        return self.over_bounds or "0,1"
