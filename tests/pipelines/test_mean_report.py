"""The page and the terminal's table of a release of means."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.metrics.mean.view import interval, labels, number, page, show

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
     "unbiased": [5.0], "rows": [12345.0], "rows_standard_error": [0.0]}
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


def test_the_page_of_one_mean():
    text = page(ONE, STATEMENT).decode()
    assert "a&lt;b" in text
    assert "A promise with &lt;brackets&gt;." in text
    assert "All &amp; everything." in text
    assert "hidden: 25 % (standard error 1 %)" in text
    assert "<td>5.00</td><td>0.50</td><td>4.00 to 6.00</td><td>12,345</td>" in text
    assert "null value: 5" in text
    assert "epsilon = 1, cells = 64" in text
    assert "$" not in text


@pytest.mark.parametrize("public", [True, False])
def test_the_page_of_groups(public):
    text = page(PUBLIC if public else PRIVATE, grouped(public)).decode()
    assert "x&lt;script&gt;" in text
    assert "<script" not in text
    assert "y" * 47 + "…" in text
    assert ("6,000 ± 120" in text) == (not public)
    assert "withheld" in text
    assert "<td>3.50 to 6.50</td>" in text  # whoever reads the largest has picked it by looking
    assert "all groups together" in text
    # The interval is drawn where the bounds say: 5 is 15/40 of the way.
    assert f'cx="{4 + 180 * 15 / 40:.1f}"' in text
    assert text.count("<circle") == 1


def test_numbers_and_their_absence():
    row = {"none": None, "x": 1.23456789, "standard_error": 0.0123, "lower": 1.2, "upper": 1.25}
    assert [number(row, name) for name in ("none", "x")] == ["—", "1.235"]
    # Where only an interval is known, it says how many digits mean something.
    assert number(row | {"standard_error": None}, "x") == "1.235"
    nothing = {"standard_error": None, "lower": None, "upper": None}
    assert number(nothing | {"x": 1e9}, "x") == "1e+09"
    assert interval(nothing) == "withheld"
    assert interval(nothing | {"lower": 1.5, "upper": 2.0}) == "1.50 to 2.00"
    assert labels(ONE) == ["mean"]


def test_the_terminal_shows_means_and_no_markup():
    for table, wanted in ((ONE, "mean"), (PRIVATE, "x<script>"), (PUBLIC, "3 of 3 groups")):
        written = io.StringIO()
        show(Console(file=written, width=200), table, 0.9)
        assert wanted in written.getvalue()
        assert "90 % interval" in written.getvalue()
