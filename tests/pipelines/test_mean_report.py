"""The page and the terminal's table of a release of means."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.views import report
from pipelines.views.listing import listed

STATEMENT: dict[str, Any] = {
    "n": 12345,
    "title": "a<b: mean",
    "release": "mean",
    "guarantees": {"release": {"epsilon": 1.0, "delta": 1e-6, "unit": "row"}},
    "figures": {"mean.parquet": "mean"},
    "created": "2026-11-21T00:00:00+00:00",
    "in_words": ["A promise with <brackets>."],
    "published_exactly": "the number of reports",
    "rows_read": 12350,
    "rejects": {"null value": 5},
    "unusable": {"treated": "hidden", "share": 0.25, "standard_error": 0.01},
    "neighbours": "one row's number is replaced by any other finite number",
    "request": {
        "column": "a<b", "group_by": None, "groups": None, "groups_public": False,
        "confidence": 0.95, "interval": "plug-in", "model": "local", "min_reports": 1,
    },
    "bounds": {"low": -10.0, "high": 30.0, "how": "declared"},
    "mechanism": {"name": "pm", "source": "somebody", "bits_per_message": 8,
                  "constants": {"epsilon": 1.0, "cells": 64}},
    "error": {"covers": "All & everything."},
    "versions": {"hushbeam": "0"},
}  # fmt: skip

ONE = pa.table(
    {"estimate": [5.0], "standard_error": [0.5], "lower": [4.0], "upper": [6.0],
     "unclipped": [5.0], "rows": [12345.0], "rows_standard_error": [0.0]}
)  # fmt: skip
GROUPS = pa.table(
    {
        "group": ["x<script>", "y" * 90, "z"],
        "estimate": [5.0, None, None],
        "standard_error": [0.5, None, None],
        "lower": [4.0, -10.0, None],
        "upper": [6.0, 30.0, None],
        "lower_simultaneous": [3.5, -10.0, None],
        "upper_simultaneous": [6.5, 30.0, None],
    }
)
PRIVATE = GROUPS.append_column("rows", pa.array([6000.0, -9.0, 0.0])).append_column(
    "rows_standard_error", pa.array([120.0, 120.0, 120.0]))  # fmt: skip
PUBLIC = GROUPS.append_column("rows", pa.array([7000.0, None, None])).append_column(
    "rows_standard_error", pa.array([0.0, None, None]))  # fmt: skip


def grouped(public: bool) -> dict[str, Any]:
    more = {"group_by": "g", "groups": "3 declared groups", "groups_public": public}
    return STATEMENT | {"request": STATEMENT["request"] | more}


def page(table: pa.Table, statement: dict[str, Any]) -> str:
    return report.page({"mean.parquet": table}, statement).decode()


def test_the_page_of_one_mean():
    text = page(ONE, STATEMENT)
    assert "a&lt;b" in text
    assert "A promise with &lt;brackets&gt;." in text
    assert "All &amp; everything." in text
    assert "hidden: 25 % (standard error 1 %)" in text
    assert "<td>5.00</td><td>5.00</td><td>0.50</td><td>4.00 to 6.00</td><td>12,345</td>" in text
    assert "null value: 5" in text
    assert "clipped to -10 to 30 (declared)" in text
    assert "<tr><th>epsilon</th><td>ε</td><td>1</td></tr>" in text
    assert "<tr><th>cells</th><td>k</td><td>64</td></tr>" in text
    assert "$" not in text


@pytest.mark.parametrize("public", [True, False])
def test_the_page_of_groups(public):
    text = page(PUBLIC if public else PRIVATE, grouped(public))
    assert "x&lt;script&gt;" in text
    assert "<script" not in text
    assert "y" * 47 + "…" in text
    assert ("6,000 ± 120" in text) == (not public)
    assert "withheld" in text
    assert "<td>3.50 to 6.50</td>" in text  # whoever reads the largest has picked it by looking
    assert "of all 3 together" in text
    # One mean is known, and its interval is all that the axis shows.
    assert text.count("<circle") == 1
    assert "<span>3.5</span><span>6.5</span>" in text


def cells(**columns: float | None) -> list[str]:
    """What a table says of one row: its estimate and its interval."""
    names = ("estimate", "standard_error", "lower", "upper")
    row = {name: columns.get(name) for name in names}
    table = pa.table({name: pa.array([value], pa.float64()) for name, value in row.items()})
    listing = listed("mean.parquet", table, STATEMENT)
    return [column.text(row) for column in listing.columns if not column.head.startswith("±")]


def test_numbers_and_their_absence():
    known = {"lower": 1.2, "upper": 1.25}
    assert cells(estimate=1.23456789, standard_error=0.0123, **known) == ["1.235", "1.200 to 1.250"]
    # Where only an interval is known, it says how many digits mean something.
    assert cells(estimate=1.23456789, **known) == ["1.235", "1.200 to 1.250"]
    assert cells(**known) == ["—", "1.200 to 1.250"]
    assert cells(estimate=1e9) == ["1e+09", "withheld"]


def test_the_terminal_shows_means_and_no_markup():
    for table, wanted in ((ONE, "a<b: mean"), (PRIVATE, "x<script>"), (PUBLIC, "[/red]")):
        if wanted == "[/red]":
            groups = pa.array(["[/red]", "b", "c"])
            table = table.set_column(0, "group", groups)
        written = io.StringIO()
        said = STATEMENT | {"request": STATEMENT["request"] | {"confidence": 0.9}}
        report.show(Console(file=written, width=200), {"mean.parquet": table}, said)
        assert wanted in written.getvalue()
        assert "90 % interval" in written.getvalue()
