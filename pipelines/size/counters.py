"""`hushbeam size` of noisy counters: what each kind costs, and how far off it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import field_validator
from pydantic_core import PydanticCustomError
from rich.table import Table

from mechanisms.counters.activity import Activity
from mechanisms.counters.amounts import Amounts, WholeAmounts
from mechanisms.counters.axes import Table as Columns
from mechanisms.counters.axes import flat
from mechanisms.counters.choose import Drawer, least_error
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.counters.price import Price
from mechanisms.counters.rows import MOST_DIGITS, RowCounters
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.privacy.loss_sums import COARSE
from mechanisms.privacy.search import private_end
from mechanisms.vector.divided_tables import DividedTables
from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import most_masked
from pipelines.metrics.counting.options import JOB_TRUSTED, TRUSTED
from pipelines.metrics.options import JOB
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
from pipelines.wording import upward

# What a ledger comes to, at the most, over the exact price: see docs/appendix/accounting.md.
_BEYOND = 1.01
_PART = 100  # of delta, for one release
_CLOSE = 2e-3  # relative, of an epsilon
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
            "standard error of a count: with the shuffler's dummies, with bytes that a user seals "
            "and sends, and with noise of the job, which reads the rows; one per cent of epsilon "
            "tells how many users were truncated",
            "--rows-\nper-user", *(f"--per-value\n{b:,}" for b in self.per_value),
        )  # fmt: skip
        for k in (k for k in self.rows_per_user if k <= self.counts):
            table.add_row(f"{k:,}", *(self._cell(k, b) for b in self.per_value))
            table.add_row(JOB, *(self._cell(k, b, JOB) for b in self.per_value))
        return table

    def _cell(self, k: int, b: int, drawer: Drawer = "shuffler") -> str:
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
        A line of each that there can be: of the shuffler's dummies, and of the job's noise.
    """
    levels = Amounts(values, 1, 1).levels
    lines = []
    for trusted, made in (
        (TRUSTED, partial(Counters.meeting, levels, "add or remove", epsilon, delta)),
        (JOB_TRUSTED, partial(JobTotals.meeting, levels, "add or remove", epsilon, delta)),
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
        "how many numbers a row has: shows what `hushbeam vector-mean --drawn-by shuffler` costs "
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
        table = empty(
            f"average of {self.averages:,} numbers, {self.reports:,} users, {self.terms}",
            "messages, bytes and seconds to seal them: of a user, one by one, as in three "
            "parties; one job seals nothing. dummies: of the shuffler, and seconds to seal those. "
            "error: standard error of a mean in the middle of its bounds, these being -1 and 1, "
            "rounding included; of which squared: rounding",
            "--digits", "messages", "bytes", "s", "dummies", "s", "error", "rounding", padding=0,
        )  # fmt: skip
        return filled(table, "digits", self.digits, self._row)

    def _row(self, digits: int) -> Row:
        n, rows = self.reports, RowCounters(self.averages, (1 << digits) - 1)
        design = Counters.meeting(rows.levels, *self.target, beside=(Level(1, 1),))
        slots, dummies = int(design.layout.types.size), design.dummies.number(design.levels)
        coins = float(rows.rounding(np.array(n)))
        variance = rows.noise(design.variances).sum ** 2 + coins
        error, rounding = variance**0.5 / n, coins / variance
        facts = {
            "messages": slots, "bytes": SENT * slots, "dummies": dummies, "error": error,
            "rounding": rounding,
        }  # fmt: skip
        return facts, [
            f"{slots:,}", f"{SENT * slots:,}", f"{_SEALING * slots / 1000:.2g}", f"{dummies:,}",
            f"{_SEALING * dummies / 1000:,.0f}", f"{error:.3g}", f"{100 * rounding:.0f} %",
        ]  # fmt: skip


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
            "epsilon, delta: of each, for the plan. Then standard errors, in users: of new, "
            "returning, resurrected and kept ones, of the actives of a day and of 28",
            "releases", "epsilon", "delta", "new or kept", "active in a day", "in 28 days",
        )  # fmt: skip
        return filled(table, "releases", self.releases, self._row)

    def _row(self, several: int) -> Row:
        design = self._counters(several)
        one = math.sqrt(design.variances[0])
        day, *_, month = (math.sqrt(len(f.cells)) * one for f in Activity().figures[:3])
        facts = {"epsilon": design.epsilon, "delta": design.delta}
        errors = {"new": one, "day": day, "month": month}
        cells = [f"{number:g}" for number in facts.values()]
        return facts | errors, cells + [f"{error:.3g}" for error in errors.values()]

    def _counters(self, releases: int) -> Counters:
        """The counters of one release of so many.

        Raises:
            ValueError: they are out of reach.
        """
        levels, together = Activity().levels, self.epsilon / _BEYOND
        neighbours, delta = self.neighbours, self.delta
        part = delta / _PART if releases > 1 else delta

        def design(own: float) -> Counters:
            return Counters.meeting(levels, neighbours, own, part, releases=releases)

        def spent(own: float) -> float:
            charges = design(own).dummies.charges(levels, neighbours)
            several = [one.repeated(releases) for one in charges]
            return Price(several, neighbours, COARSE).upper(together)

        low, high = together / releases, together
        if releases > 1:  # the sum is safe; less is seldom true
            low = private_end(spent, delta, low, high, high / math.sqrt(releases), _CLOSE)[0]
        return design(-upward(-low, 3))  # downward, to digits that people write


class _Planned(NamedTuple):
    """What a cross-tab comes to.

    Attributes:
        variance: of a cell of a table, on average over its cells.
        terms: what has to hold, in words.
        sent: what a unit sends.
    """

    variance: Callable[[Columns], float]
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
            f"a unit sends {design.sent}; any other value, or none, is one more of each column",
            "columns", "cells", "standard error",
        )  # fmt: skip
        for place, own in enumerate(tabs.asked):
            error, cells = design.variance(own) ** 0.5, tabs.cells(own)
            columns = [column + 1 for column, _ in own]
            answers.add("rows", {"columns": columns, "cells": cells, "error": error})
            if place < _SHOWN:
                shape = " × ".join(f"{size:,}" for size in tabs.shape(own))
                named = ", ".join(map(str, columns))
                rows.add_row(f"{named}: {shape}", f"{cells:,}", f"{error:,.4g}")
        return rows

    def _counted(self, tabs: CrossTabs) -> _Planned:
        """From counters, among dummies."""
        if self.reports is not None:
            raise RequestError("--reports means nothing beside --tables, but with --model local")
        design = Counters.meeting(tabs.levels, *self.target)
        sent = f"{design.messages:g} messages, among {design.number:,} dummies"
        return _Planned(lambda t: tabs.variances(t, design.variances).mean(), self.terms, sent)

    def _divided(self, tabs: CrossTabs) -> _Planned:
        """From users who are divided among the tables."""
        if named := sorted(self.model_fields_set & {"delta", "neighbours"}):
            raise RequestError(f"{flag(named[0])} means nothing beside --model local")
        n = self.reports
        if n is None:
            raise RequestError("--reports is missing: locally errors grow with their root")
        mechanism = DividedTables(self.epsilon, tabs)
        sent = f"a cell of one of {len(mechanism.oracles)} tables, drawn for it"
        terms = f"epsilon {self.epsilon:g}, local, {n:,} reports"
        return _Planned(lambda table: n * mechanism.table_variance(table), terms, sent)
