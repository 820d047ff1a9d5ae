"""`hushbeam size --tables`: how exact a cross-tab of several columns is, table by table."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

from rich.table import Table

from mechanisms.counters.axes import Table as Columns
from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.design import Counters
from mechanisms.vector.divided_tables import DividedTables
from pipelines.errors import RequestError
from pipelines.request import answers
from pipelines.request.options import flag, option
from pipelines.size.question import PlannerQuestion, Several, Users, empty

_SHOWN = 50


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
    """Tables of several columns."""

    asks: ClassVar[str] = "tables"
    title: ClassVar[str] = "cross-tabs"

    tables: Several = option(
        "how many values each column has: shows the standard error of a cell of each table of "
        "`hushbeam cross-tab`; with --model local and --reports, of `--dummies none`",
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
        for place, table_columns in enumerate(tabs.asked):
            error = design.variance(table_columns) ** 0.5
            columns = [column + 1 for column, _ in table_columns]
            answers.add(
                "rows", {"columns": columns, "cells": tabs.cells(table_columns), "error": error}
            )
            if place < _SHOWN:
                shape = " × ".join(f"{size:,}" for size in tabs.shape(table_columns))
                named = ", ".join(map(str, columns))
                rows.add_row(f"{named}: {shape}", f"{tabs.cells(table_columns):,}", f"{error:,.4g}")
        return rows

    def _counted(self, tabs: CrossTabs) -> _Planned:
        """From counters, among dummies."""
        if self.reports is not None:
            raise RequestError("--reports means nothing beside --tables, but with --model local")
        target = self.neighbours, self.epsilon, self.delta
        design = Counters.meeting(tabs.levels, *target)
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
