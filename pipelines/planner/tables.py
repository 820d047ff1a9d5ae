"""`hushbeam plan --tables`: how exact a cross-tab of several columns is, table by table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import MOST_DUMMIES, CrossTabs, pairs
from mechanisms.counters.design import Counters
from pipelines import answers
from pipelines.errors import RequestError

if TYPE_CHECKING:
    from pipelines.planner.counters import TablesRequest

_SHOWN = 50


def table(options: TablesRequest) -> Table:
    """A row for each table of one and of two columns.

    Raises:
        RequestError: there are too many of them, or the target is out of reach.
    """
    sizes = [size + 1 for size in options.tables]  # any other, or none, is one more
    target = options.neighbours, options.epsilon, options.delta
    try:
        tabs = CrossTabs(flat(sizes), pairs(len(sizes)))
        design = Counters.meeting(tabs.levels, *target, most_dummies=MOST_DUMMIES)
    except ValueError as refused:
        raise RequestError(f"--tables, --epsilon, --delta: {refused}") from None
    found = Table(
        title=f"cross-tab of {len(sizes)} columns, epsilon {options.epsilon:g}, delta "
        f"{options.delta:g}, {options.neighbours}",
        caption=f"a unit sends {design.messages:g} messages, among {design.number:,} dummies; any "
        "other value, or none, is one more of each column",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
    )  # fmt: skip
    for heading in ("columns", "cells", "standard error"):
        found.add_column(heading, justify="right")
    for place, asked in enumerate(tabs.asked):
        error = float(tabs.variances(asked, design.variances).mean()) ** 0.5
        columns = [column + 1 for column, _ in asked]
        answers.add("rows", {"columns": columns, "cells": tabs.cells(asked), "error": error})
        if place < _SHOWN:
            shape = " × ".join(f"{size:,}" for size in tabs.shape(asked))
            named = ", ".join(map(str, columns))
            found.add_row(f"{named}: {shape}", f"{tabs.cells(asked):,}", f"{error:,.4g}")
    return found
