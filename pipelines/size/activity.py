"""`hushbeam size --releases`: what each of many releases of active users may cost, and errs by."""

from __future__ import annotations

import math
from typing import ClassVar

from rich.table import Table

from mechanisms.counters.activity import Activity
from mechanisms.counters.design import Counters
from mechanisms.counters.price import Price
from mechanisms.privacy.loss_sums import COARSE
from mechanisms.privacy.search import private_end
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.size.question import PlannerQuestion, Several, empty
from pipelines.wording import upward

# What a ledger comes to, at the most, over the exact price: see docs/appendix/accounting.md.
_BEYOND = 1.01
_PART = 100  # of delta, for one release
_CLOSE = 2e-3  # relative, of an epsilon


class ReleasesQuestion(PlannerQuestion):
    """Active users, day after day."""

    asks: ClassVar[str] = "releases"
    title: ClassVar[str] = "active users, day after day"

    releases: Several = option(
        "how many releases of `hushbeam active-users` are to come to --epsilon and --delta "
        "together, for a user who is in all of them (28 is a month): shows what each may cost, and "
        "how far off it is",
        metavar="R,R,...",
    )  # fmt: skip

    def table(self) -> Table:
        """A row for each number of releases that are to come to an epsilon together."""
        table = empty(
            f"releases of a user, together {self.terms}",
            "epsilon, delta: of each, for the plan. Then standard errors, in users: of new, "
            "returning, resurrected and kept ones, of the actives of a day and of 28",
            "releases", "epsilon", "delta", "new or kept", "active in a day", "in 28 days",
        )  # fmt: skip
        for several in self.releases:
            design = _counters(several, self)
            if design is None:
                answers.add("rows", {"releases": several, "refused": "out of reach"})
                table.add_row(f"{several:,}", "out of reach")
                continue
            one = math.sqrt(design.variances[0])
            day, *_, month = (math.sqrt(len(f.cells)) * one for f in Activity().figures[:3])
            answers.add(
                "rows",
                {
                    "releases": several, "epsilon": design.epsilon, "delta": design.delta,
                    "new": one, "day": day, "month": month,
                },
            )  # fmt: skip
            errors = (f"{error:.3g}" for error in (one, day, month))
            table.add_row(f"{several:,}", f"{design.epsilon:g}", f"{design.delta:g}", *errors)
        return table


def _counters(releases: int, question: ReleasesQuestion) -> Counters | None:
    """The counters of one release of so many; None if they are out of reach."""
    levels, together = Activity().levels, question.epsilon / _BEYOND
    neighbours, delta = question.neighbours, question.delta
    part = delta / _PART if releases > 1 else delta

    def design(own: float) -> Counters:
        return Counters.meeting(levels, neighbours, own, part, releases=releases)

    def spent(own: float) -> float:
        charges = design(own).dummies.charges(levels, neighbours)
        several = [one.repeated(releases) for one in charges]
        return Price(several, neighbours, COARSE).upper(together)

    try:
        low, high = together / releases, together
        if releases > 1:  # the sum is safe; less is seldom true
            low = private_end(spent, delta, low, high, high / math.sqrt(releases), _CLOSE)[0]
        return design(-upward(-low, 3))  # downward, to digits that people write
    except ValueError:
        return None
