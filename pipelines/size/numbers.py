"""`hushbeam size --bounds`: a sum and a mean of one number a user."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table

from pipelines.request.options import option
from pipelines.size.question import PlannerQuestion, Users


class NumbersQuestion(PlannerQuestion):
    """The sum and the mean of a number that every user has."""

    asks: ClassVar[str] = "bounds"
    title: ClassVar[str] = "sums and means of one number a user"

    bounds: str = option(
        "of the number: shows what each way to `hushbeam sum` and `mean` costs and errs by, for "
        "as many users as --reports says (10^6)",
        metavar="L,U",
    )  # fmt: skip
    reports: Users = 1_000_000

    def table(self) -> Table:
        """A row for each way."""
        from pipelines.size import ways  # it imports Beam

        return ways.table(self, self.bounds, self.reports)
