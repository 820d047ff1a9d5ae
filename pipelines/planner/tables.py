"""`hushbeam plan --tables`: how exact a cross-tab of several columns is, table by table."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table

from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import MOST_DUMMIES, CrossTabs, pairs
from mechanisms.counters.design import Counters
from pipelines import answers
from pipelines.errors import RequestError
from pipelines.options import option
from pipelines.planner.question import Question, Several, empty

_SHOWN = 50


class TablesQuestion(Question):
    """Tables of several columns."""

    asks: ClassVar[str] = "tables"
    title: ClassVar[str] = "cross-tabs"

    tables: Several = option(
        "how many values each column has: shows the standard error of a cell of each table of "
        "`hushbeam cross-tab`",
        metavar="D,D,...",
    )  # fmt: skip

    def table(self) -> Table:
        """A row for each table of one and of two columns."""
        sizes = [size + 1 for size in self.tables]  # any other, or none, is one more
        target = self.neighbours, self.epsilon, self.delta
        try:
            tabs = CrossTabs(flat(sizes), pairs(len(sizes)))
            design = Counters.meeting(tabs.levels, *target, most_dummies=MOST_DUMMIES)
        except ValueError as refused:
            raise RequestError(f"--tables, --epsilon, --delta: {refused}") from None
        found = empty(
            f"cross-tab of {len(sizes)} columns, {self.terms}",
            f"a unit sends {design.messages:g} messages, among {design.number:,} dummies; any "
            "other value, or none, is one more of each column",
            "columns", "cells", "standard error",
        )  # fmt: skip
        for place, asked in enumerate(tabs.asked):
            error = float(tabs.variances(asked, design.variances).mean()) ** 0.5
            columns = [column + 1 for column, _ in asked]
            answers.add("rows", {"columns": columns, "cells": tabs.cells(asked), "error": error})
            if place < _SHOWN:
                shape = " × ".join(f"{size:,}" for size in tabs.shape(asked))
                named = ", ".join(map(str, columns))
                found.add_row(f"{named}: {shape}", f"{tabs.cells(asked):,}", f"{error:,.4g}")
        return found
