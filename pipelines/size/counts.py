"""`hushbeam size --counts`: how exact counts of users and events are, at what cost."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from rich.table import Table

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.choose import Drawer, least_error
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from pipelines.metrics.counting.design import most_masked
from pipelines.metrics.counting.options import JOB_TRUSTED, TRUSTED
from pipelines.metrics.options import JOB
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.request.requests import Whole
from pipelines.size.question import SENT, PlannerQuestion, Several, empty


class CountsQuestion(PlannerQuestion):
    """How many users, or events, have each value."""

    asks: ClassVar[str] = "counts"
    title: ClassVar[str] = "counts of users and events"

    counts: Whole = option(
        "how many values are counted, 1 for a total: shows the standard error of `hushbeam count` "
        "for several --rows-per-user and --per-value",
        metavar="D", ge=1, le=1 << 24,
    )  # fmt: skip
    rows_per_user: Several = option(
        "values of a user that count (default: several)", (1, 3, 10, 30, 100), metavar="K,K,..."
    )
    per_value: Several = option(
        "rows of a value that count (default: 1,2,8,32)", (1, 2, 8, 32), metavar="B,B,..."
    )

    def table(self) -> Table:
        """A row for each K, a column for each B."""
        table = empty(
            f"counts of {self.counts:,} values, {self.terms}",
            "standard error of a count: with the shuffler's dummies, with bytes that a user seals "
            "and sends, and with noise of the job, which reads the rows; one per cent of epsilon "
            "tells how many users were truncated",
            "--rows-\nper-user",
            *(f"--per-value\n{b:,}" for b in self.per_value),
        )
        for k in (k for k in self.rows_per_user if k <= self.counts):
            table.add_row(f"{k:,}", *(self._cell(k, b) for b in self.per_value))
            table.add_row(JOB, *(self._cell(k, b, JOB) for b in self.per_value))
        return table

    def _cell(self, k: int, b: int, drawer: Drawer = "shuffler") -> str:
        # As `hushbeam count` has it: all other rows share one more count, and who was cut is told.
        groups = self.counts + (self.counts > 1)
        amounts = Amounts(groups, k, b)
        sides = (Level(1, 1),) * (b > 1 or groups > k)
        target = self.neighbours, self.epsilon, self.delta
        more: Any = {
            "drawers": [drawer],
            "beside": sides,
            "correlated": b > 1,
            "most_masked": most_masked(groups),
        }
        place = {"rows_per_user": k, "per_value": b, "dummies": drawer}
        try:
            design = least_error(amounts.levels, *target, **more)
        except ValueError:
            answers.add("rows", {**place, "refused": "out of reach"})
            return "out of reach"
        error = design.column_variance**0.5
        if drawer == JOB:  # what users contribute never leaves the job
            answers.add("rows", {**place, "error": error, "bytes": 0})
            return f"{error:,.4g}"
        size = SENT * int(design.layout.types.size)
        answers.add("rows", {**place, "error": error, "bytes": size})
        return f"{error:,.4g}\n{size:,} B"


def instead(values: int, n: int, epsilon: float, delta: float) -> list[str]:
    """What totals that hide who takes part would give in the place of randomised reports.

    Args:
        values: how many are counted.
        n: how many send one.
        epsilon: of the release.
        delta: of the release.

    Returns:
        A line of each that there can be: of the shuffler's dummies, and of the job's noise.
    """
    levels = Amounts(values, 1, 1).levels
    lines = []
    for trusted, made in (
        (TRUSTED, partial(Counters.meeting, levels, "add or remove", epsilon, delta)),
        (JOB_TRUSTED, partial(JobTotals.meeting, levels, "add or remove", epsilon)),
    ):
        try:
            error = made().column_variance ** 0.5 / n
        except ValueError:  # so many values take too many dummies
            continue
        lines.append(f"{trusted}: standard error {error:.2e}")
    return lines
