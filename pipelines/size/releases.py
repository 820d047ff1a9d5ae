"""`hushbeam size --releases`: what each of many releases of active users may cost, and errs by."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeVar

from rich.table import Table

from mechanisms.counters.activity import Activity
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.price import Price
from mechanisms.privacy.accountant import composed_delta
from mechanisms.privacy.loss_sums import COARSE
from mechanisms.privacy.search import private_end
from pipelines.metrics.options import JOB, SHUFFLER
from pipelines.request.options import option
from pipelines.size.counters import Row
from pipelines.size.question import PlannerQuestion, Several, empty, filled
from pipelines.wording import upward

# What a ledger comes to, at the most, over the exact price: see docs/appendix/accounting.md.
_BEYOND = 1.01
_PART = 100  # of delta, for one release
_CLOSE = 2e-3  # relative, of an epsilon
_Design = TypeVar("_Design", Counters, JobTotals)


class ReleasesQuestion(PlannerQuestion):
    """What each of many releases of active users may cost, and errs by."""

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
            "epsilon, delta: of each, for the plan, where the job draws the noise, or the "
            "shuffler. Then standard errors, in users: of new, returning, resurrected and kept "
            "ones, of the actives of a day and of 28",
            "releases", "epsilon", "delta", "new or kept", "active in a day", "in 28 days",
            "drawn by",
        )  # fmt: skip
        for several in self.releases:
            for drawer in (JOB, SHUFFLER):
                filled(table, "releases", [several], partial(self._row, drawer))
        return table

    def _row(self, drawer: str, several: int) -> Row:
        design = self._by_job(several) if drawer == JOB else self._counters(several)
        one = math.sqrt(design.variances[0])
        day, *_, month = (math.sqrt(len(f.cells)) * one for f in Activity().figures[:3])
        facts = {"epsilon": design.epsilon, "delta": design.delta}
        errors = {"new": one, "day": day, "month": month}
        cells = [f"{number:g}" for number in facts.values()]
        cells += [f"{error:.3g}" for error in errors.values()]
        return {"drawn_by": drawer} | facts | errors, [*cells, drawer]

    def _counters(self, releases: int) -> Counters:
        levels, neighbours = Activity().levels, self.neighbours

        def spent(design: Counters, together: float) -> float:
            charges = design.dummies.charges(levels, neighbours)
            several = [one.repeated(releases) for one in charges]
            return Price(several, neighbours, COARSE).upper(together)

        return self._affordable(Counters.meeting, spent, releases)

    def _by_job(self, releases: int) -> JobTotals:
        def spent(design: JobTotals, together: float) -> float:
            return composed_delta({design.profile(): releases}, together)

        return self._affordable(JobTotals.meeting, spent, releases)

    def _affordable(
        self, meeting: Callable[..., _Design], spent: Callable[[_Design, float], float], n: int
    ) -> _Design:
        """The design with the largest epsilon of which n releases keep the target together."""
        together, part = self.epsilon / _BEYOND, self.delta / _PART if n > 1 else self.delta

        def design(own: float) -> _Design:
            return meeting(Activity().levels, self.neighbours, own, part, releases=n)

        low, high = together / n, together
        if n > 1:  # the sum is safe; less is seldom true

            def all_spent(own: float) -> float:
                return spent(design(own), together)

            low = private_end(all_spent, self.delta, low, high, high / math.sqrt(n), _CLOSE)[0]
        return design(-upward(-low, 3))  # downward, to digits that people write
