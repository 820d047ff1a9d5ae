"""`hushbeam plan --releases`: what each of many releases of active users may cost, and errs by."""

from __future__ import annotations

import math

from rich import box
from rich.table import Table

from mechanisms.counters.activity import Activity
from mechanisms.counters.design import Counters
from mechanisms.counters.price import Price
from mechanisms.privacy.loss_sums import COARSE
from mechanisms.privacy.search import private_end
from pipelines import answers
from pipelines.requests import Neighbours
from pipelines.views.wording import upward

_BEYOND = 1.01  # what a ledger comes to, at the most, over the exact price: see docs/accounting.md
_PART = 100  # of delta, for one release
_CLOSE = 2e-3  # relative, of an epsilon


def table(releases: tuple[int, ...], neighbours: Neighbours, epsilon: float, delta: float) -> Table:
    """A row for each number of releases that are to come to an epsilon together.

    Args:
        releases: of one user.
        neighbours, epsilon, delta: of all of them together.
    """
    shown = Table(
        title=f"releases of a user, together epsilon {epsilon:g}, delta {delta:g}, {neighbours}",
        caption="epsilon, delta: of each, for the plan. Then standard errors, in users: of new, "
        "returning, resurrected and kept ones, of the actives of a day and of 28",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
    )  # fmt: skip
    for heading in ("releases", "epsilon", "delta", "new or kept", "active in a day", "in 28 days"):
        shown.add_column(heading, justify="right")
    for several in releases:
        design = _each(several, neighbours, epsilon, delta)
        if design is None:
            answers.add("rows", {"releases": several, "refused": "out of reach"})
            shown.add_row(f"{several:,}", "out of reach")
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
        shown.add_row(f"{several:,}", f"{design.epsilon:g}", f"{design.delta:g}", *errors)
    return shown


def _each(releases: int, neighbours: Neighbours, epsilon: float, delta: float) -> Counters | None:
    """The counters of one release of so many; None if they are out of reach."""
    levels, together = Activity().levels, epsilon / _BEYOND
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
