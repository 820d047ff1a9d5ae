"""`hushbeam size` of noisy counters: what each kind costs, and how far off it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import field_validator
from pydantic_core import PydanticCustomError
from rich.table import Table

from mechanisms.counters.amounts import Amounts, WholeAmounts
from mechanisms.counters.axes import Table as Columns
from mechanisms.counters.axes import flat
from mechanisms.counters.choose import Drawer, least_error
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.counters.rows import MOST_DIGITS, RowCounters, SummedRows, fine_steps
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.vector.divided_tables import DividedTables
from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import most_masked
from pipelines.metrics.counting.options import JOB_TRUSTED, TRUSTED
from pipelines.metrics.options import BY_REPORT, JOB, SHUFFLER
from pipelines.request import answers
from pipelines.request.options import flag, option
from pipelines.request.requests import Whole
from pipelines.size.question import (
    OUT_OF_REACH,
    SENT,
    PlannerQuestion,
    Several,
    Users,
    empty,
    filled,
)

_SEALING = 0.25  # milliseconds of a core for a word: `python -m benchmarks sealing`
_SHOWN = 50  # tables

Row = tuple[dict[str, Any], list[str]]  # as programs and as people read it


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
            "standard error of a count: with noise of the job, which reads the rows, and with the "
            "shuffler's dummies, with the bytes that a user seals and sends; one per cent of "
            "epsilon tells how many users were truncated",
            "--rows-\nper-user", *(f"--per-value\n{b:,}" for b in self.per_value),
        )  # fmt: skip
        for k in (k for k in self.rows_per_user if k <= self.counts):
            table.add_row(f"{k:,}", *(self._cell(k, b, JOB) for b in self.per_value))
            table.add_row(SHUFFLER, *(self._cell(k, b, SHUFFLER) for b in self.per_value))
        return table

    def _cell(self, k: int, b: int, drawer: Drawer) -> str:
        # As `hushbeam count` has it: all other rows share one more count, and who was cut is told.
        groups = self.counts + (self.counts > 1)
        amounts = (WholeAmounts if drawer == JOB else Amounts)(groups, k, b)
        place = {"rows_per_user": k, "per_value": b, "drawn_by": drawer}
        more: Any = {
            "drawers": [drawer], "beside": (Level(1, 1),) * (b > 1 or groups > k),
            "correlated": b > 1, "most_masked": most_masked(groups),
        }  # fmt: skip
        if isinstance(amounts, WholeAmounts):
            more["parts"] = amounts.parts
        try:
            design = least_error(amounts.levels, *self.target, **more)
        except ValueError:
            answers.add("rows", {**place, "refused": OUT_OF_REACH})
            return OUT_OF_REACH
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
        A line of each that there can be: of the job's noise, and of the shuffler's dummies.
    """
    levels = Amounts(values, 1, 1).levels
    lines = []
    for trusted, made in (
        (JOB_TRUSTED, partial(JobTotals.meeting, levels, "add or remove", epsilon, delta)),
        (TRUSTED, partial(Counters.meeting, levels, "add or remove", epsilon, delta)),
    ):
        try:
            error = made().column_variance ** 0.5 / n
        except ValueError:  # so many values take too many dummies
            continue
        lines.append(f"{trusted}: standard error {error:.2e}")
    return lines


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
        return filled(table, "rows_per_user", self.rows_per_user, self._row)

    def _row(self, k: int) -> Row:
        crowds = Crowds.meeting(k, *self.target)
        threshold, limit = crowds.threshold, crowds.detection_limit
        error = crowds.design.variances[0] ** 0.5
        facts = {"threshold": threshold, "found_from": limit, "error": error}
        return facts, [f"{threshold:,}", f"{limit:,}", f"{error:,.3g}"]


class AveragesQuestion(PlannerQuestion):
    """The average of many numbers at once."""

    asks: ClassVar[str] = "averages"
    title: ClassVar[str] = "average rows over noisy counters"

    averages: Whole = option(
        "how many numbers a row has: shows the error of `hushbeam vector-mean` where the job draws "
        "the noise, and its cost and error with --drawn-by shuffler for several --digits, of as "
        "many users as --reports says (10^6)",
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
        """A row for the job's noise, and one for each number of digits of the shuffler."""
        table = empty(
            f"average of {self.averages:,} numbers, {self.reports:,} users, {self.terms}",
            "job: one job reads the rows, and adds noise to exact totals; the other rows: with the "
            "shuffler's dummies. messages, bytes and seconds to seal them: of a user, one by one, "
            "as in three parties. dummies: of the shuffler, and seconds to seal those. "
            "error: standard error of a mean in the middle of its bounds, these being -1 and 1, "
            "rounding included; of which squared: rounding",
            "--digits", "messages", "bytes", "s", "dummies", "s", "error", "rounding", padding=0,
        )  # fmt: skip
        error, rounding = self._by_job()
        answers.add("rows", {"drawn_by": JOB, "error": error, "rounding": rounding})
        table.add_row(JOB, "0", "0", "", "", "", f"{error:.3g}", f"{100 * rounding:.0f} %")
        return filled(table, "digits", self.digits, self._row)

    def _by_job(self) -> tuple[float, float]:
        """The error of a mean where the job draws, and the share of rounding in it, squared."""
        n, steps = self.reports, fine_steps(self.averages, 0, self.reports, *self.target[1:])
        rows = SummedRows(self.averages, steps)
        known = rows.levels, *self.target, (Level(1, 1),)
        noise = JobTotals.meeting(*known, parts=rows.parts).variances[0] / steps**2
        coins = float(rows.rounding(np.array(n)))
        return math.sqrt(noise + coins) / n, coins / (noise + coins)

    def _row(self, digits: int) -> Row:
        n, rows = self.reports, RowCounters(self.averages, (1 << digits) - 1)
        design = Counters.meeting(rows.levels, *self.target, beside=(Level(1, 1),))
        slots, dummies = int(design.layout.types.size), design.dummies.number(design.levels)
        coins = float(rows.rounding(np.array(n)))
        variance = rows.noise(design.variances).sum ** 2 + coins
        error, rounding = variance**0.5 / n, coins / variance
        facts = {
            "drawn_by": SHUFFLER, "messages": slots, "bytes": SENT * slots, "dummies": dummies,
            "error": error, "rounding": rounding,
        }  # fmt: skip
        return facts, [
            f"{slots:,}", f"{SENT * slots:,}", f"{_SEALING * slots / 1000:.2g}", f"{dummies:,}",
            f"{_SEALING * dummies / 1000:,.0f}", f"{error:.3g}", f"{100 * rounding:.0f} %",
        ]  # fmt: skip


class _Planned(NamedTuple):
    """What a cross-tab comes to."""

    variances: dict[str, Callable[[Columns], float]]
    terms: str
    sent: str


class TablesQuestion(PlannerQuestion):
    """How exact a cross-tab of several columns is, table by table."""

    asks: ClassVar[str] = "tables"
    title: ClassVar[str] = "cross-tabs"

    tables: Several = option(
        "how many values each column has: shows the standard error of a cell of each table of "
        "`hushbeam cross-tab`; with --model local and --reports, of `--drawn-by each-report`",
        metavar="D,D,...",
    )  # fmt: skip
    model: Literal["local", "shuffle"] = "shuffle"
    reports: Users | None = None

    def table(self) -> Table:
        """A row for each table of one and of two columns."""
        sizes = [size + 1 for size in self.tables]  # any other, or none, is one more
        try:
            tabs = CrossTabs(flat(sizes), pairs(len(sizes)))
            design = self._divided(tabs) if self.model == "local" else self._counted(tabs)
        except ValueError as refused:
            raise RequestError(f"--tables, --epsilon, --delta: {refused}") from None
        rows = empty(
            f"cross-tab of {len(sizes)} columns, {design.terms}",
            f"standard error of a cell, by who draws the noise; {design.sent}; any other value, or "
            "none, is one more of each column",
            "columns", "cells", *design.variances,
        )  # fmt: skip
        for place, own in enumerate(tabs.asked):
            cells, columns = tabs.cells(own), [column + 1 for column, _ in own]
            errors = {who: of(own) ** 0.5 for who, of in design.variances.items()}
            for who, error in errors.items():
                answers.add("rows", {"columns": columns, "cells": cells, "drawn_by": who,
                                     "error": error})  # fmt: skip
            if place < _SHOWN:
                shape = " × ".join(f"{size:,}" for size in tabs.shape(own))
                named = ", ".join(map(str, columns))
                shown = (f"{error:,.4g}" for error in errors.values())
                rows.add_row(f"{named}: {shape}", f"{cells:,}", *shown)
        return rows

    def _counted(self, tabs: CrossTabs) -> _Planned:
        """From totals to which the job adds noise, and from counters among dummies."""
        if self.reports is not None:
            raise RequestError("--reports means nothing beside --tables, but with --model local")
        design = Counters.meeting(tabs.levels, *self.target)
        by_job = JobTotals.meeting(tabs.levels, *self.target)
        sent = f"to the shuffler a unit sends {design.messages:g} messages, among "
        sent += f"{design.number:,} dummies"

        def of(variances: Sequence[float]) -> Callable[[Columns], float]:
            return lambda table: tabs.variances(table, variances).mean()

        known: dict[str, Callable[[Columns], float]] = {
            JOB: of(by_job.variances), SHUFFLER: of(design.variances)
        }  # fmt: skip
        return _Planned(known, self.terms, sent)

    def _divided(self, tabs: CrossTabs) -> _Planned:
        """From users who are divided among the tables."""
        if named := sorted(self.model_fields_set & {"delta", "neighbours"}):
            raise RequestError(f"{flag(named[0])} means nothing beside --model local")
        n = self.reports
        if n is None:
            raise RequestError("--reports is missing: locally errors grow with their root")
        mechanism = DividedTables(self.epsilon, tabs)
        sent = f"a unit sends a cell of one of {len(mechanism.oracles)} tables, drawn for it"
        terms = f"epsilon {self.epsilon:g}, local, {n:,} reports"
        known: dict[str, Callable[[Columns], float]] = {
            BY_REPORT: lambda table: n * mechanism.table_variance(table)
        }
        return _Planned(known, terms, sent)
