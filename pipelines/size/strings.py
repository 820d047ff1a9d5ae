"""`hushbeam size --strings`: from how many users on a string is found."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table

from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.heavy_hitters.schedule import MISSED
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.size.question import PlannerQuestion, Several, empty


class StringsQuestion(PlannerQuestion):
    """How many must hold a string of which nobody has a list."""

    asks: ClassVar[str] = "strings"
    title: ClassVar[str] = "strings of which nobody has a list"

    strings: bool = option(
        "how many users must hold a string for `hushbeam strings` to find it, for several "
        "--rows-per-user"
    )
    rows_per_user: Several = option(
        "values of a user that count (default: several)", (1, 2, 3, 5, 10, 30, 100),
        metavar="K,K,...",
    )  # fmt: skip

    def table(self) -> Table:
        """A row for each K."""
        table = empty(
            f"strings by a threshold, {self.terms}",
            "threshold: a string is published if its noisy number of users is above it; found "
            f"from: how many users must hold it so that it is with probability {1 - MISSED:g}; "
            "error: standard error of that number",
            "--rows-per-user", "threshold", "found from", "error",
        )  # fmt: skip
        for k in self.rows_per_user:
            try:
                crowds = Crowds.meeting(k, self.neighbours, self.epsilon, self.delta)
            except ValueError:
                answers.add("rows", {"rows_per_user": k, "refused": "out of reach"})
                table.add_row(f"{k:,}", "out of reach")
                continue
            threshold, limit = crowds.threshold, crowds.detection_limit
            error = crowds.design.variances[0] ** 0.5
            row = {"rows_per_user": k, "threshold": threshold, "found_from": limit, "error": error}
            answers.add("rows", row)
            table.add_row(f"{k:,}", f"{threshold:,}", f"{limit:,}", f"{error:,.3g}")
        return table
