"""`hushbeam size --averages`: what average rows over counters cost, and err by."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import field_validator
from pydantic_core import PydanticCustomError
from rich.table import Table

from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.counters.rows import MOST_DIGITS, RowCounters
from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.request.requests import Whole
from pipelines.size.question import SENT, PlannerQuestion, Several, Users, empty

_SEALING = 0.25  # milliseconds of a core for a word: `python -m benchmarks sealing`


class AveragesQuestion(PlannerQuestion):
    """The average of many numbers at once."""

    asks: ClassVar[str] = "averages"
    title: ClassVar[str] = "average rows over noisy counters"

    averages: Whole = option(
        "how many numbers a row has: shows what `hushbeam vector-mean --dummies shuffler` costs "
        "and errs by, for several --digits and as many users as --reports says (10^6)",
        metavar="D", ge=1, le=LARGEST_DIMENSION,
    )  # fmt: skip
    reports: Users = 1_000_000
    digits: Several = option(
        "binary digits of a number (default: 1,2,3,4,5,6)", (1, 2, 3, 4, 5, 6), metavar="T,T,..."
    )

    @field_validator("digits")
    @classmethod
    def _few(cls, digits: tuple[int, ...]) -> tuple[int, ...]:
        if max(digits) > MOST_DIGITS:
            raise PydanticCustomError("digits", f"a number has at most {MOST_DIGITS} digits")
        return digits

    def table(self) -> Table:
        """A row for each number of digits."""
        n = self.reports
        table = empty(
            f"average of {self.averages:,} numbers, {n:,} users, {self.terms}",
            "messages, bytes and seconds to seal them: of a user, one by one, as in three "
            "parties; one job seals nothing. dummies: of the shuffler, and seconds to seal those. "
            "error: standard error of a mean in the middle of its bounds, these being -1 and 1, "
            "rounding included; of which squared: rounding",
            "--digits", "messages", "bytes", "s", "dummies", "s", "error", "rounding",
        )  # fmt: skip
        table.padding = 0
        for digits in self.digits:
            rows = RowCounters(self.averages, (1 << digits) - 1)
            target = self.neighbours, self.epsilon, self.delta
            try:
                design = Counters.meeting(rows.levels, *target, beside=(Level(1, 1),))
            except ValueError:
                answers.add("rows", {"digits": digits, "refused": "out of reach"})
                table.add_row(f"{digits}", "out of reach")
                continue
            slots, dummies = int(design.layout.types.size), design.dummies.number(design.levels)
            coins = float(rows.rounding(np.array(n)))
            variance = rows.noise(design.variances).sum ** 2 + coins
            error, rounding = variance**0.5 / n, coins / variance
            answers.add(
                "rows",
                {
                    "digits": digits, "messages": slots, "bytes": SENT * slots, "dummies": dummies,
                    "error": error, "rounding": rounding,
                },
            )  # fmt: skip
            table.add_row(
                f"{digits}", f"{slots:,}", f"{SENT * slots:,}", f"{_SEALING * slots / 1000:.2g}",
                f"{dummies:,}", f"{_SEALING * dummies / 1000:,.0f}", f"{error:.3g}",
                f"{100 * rounding:.0f} %",
            )  # fmt: skip
        return table
