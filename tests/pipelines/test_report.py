"""The page a person reads: whole in itself, true to the table, and deaf to what values contain."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.metrics.histogram import reading
from pipelines.views import facts, pages, report
from pipelines.views.listing import Listing
from tests.oracles.pages import Page

NASTY = [
    "<script>alert(1)</script>",
    "$x_1$",
    "a $ b",
    "\\frac{1}{2}",
    "--><script>alert(2)</script>",
    "</svg></figure><img src=x onerror=alert(3)>",
    "&amp; &lt;",
    "\"quoted\" 'values'",
    "${column} $n $",
    "%s {0} [/red]",
    "\x07\x1b[31mred",
    "日本 😀 ‮txt",
    "x" * 200,
    "tab\there",
]


def table(values: list[str | None], unbiased: np.ndarray, reach: float = 0.02) -> pa.Table:
    return pa.table(
        {
            "value": pa.array(values, pa.string()),
            "estimate": np.clip(unbiased, 0, 1),
            "unbiased": unbiased,
            "standard_error": np.full(len(values), reach / 1.96),
            "lower": np.clip(unbiased - reach / 2, 0, 1),
            "upper": np.clip(unbiased + reach / 2, 0, 1),
            "lower_simultaneous": np.clip(unbiased - reach, 0, 1),
            "upper_simultaneous": np.clip(unbiased + reach, 0, 1),
        }
    )


def statement(taken: str = "pop", **asked: object) -> dict[str, Any]:
    return {
        "created": "2026-11-21T00:00:00+00:00",
        "title": f"{asked.get('column', 'city')}: share of users",
        "release": "histogram",
        "guarantees": {"release": {"epsilon": 1.0, "delta": 1e-6, "unit": "user"}},
        "figures": {"histogram.parquet": "share"},
        "n": 12_345,
        "rows_read": 13_000,
        "rejects": {"null value": 655},
        "unusable": {"treated": "left out, and counted as they are"},
        "in_words": ["It is <promised> & proven."],
        "request": {
            "column": "city", "unit": "user", "confidence": 0.95, "model": "shuffle",
            "min_reports": 10_000, "domain": "14 declared values", "out_of_domain": "drop",
            "postprocess": "auto",
        } | asked,
        "postprocessing": {"taken": taken, "risks": {"uniform": 4e-6, "pop": 1e-6}},
        "mechanism": {
            "name": "srr",
            "source": "somebody, 2022",
            "constants": {"epsilon": 2.5, "hash_range": 7, "bound": "exact", "rows": None},
            "messages_per_user": 1.0,
            "bits_per_message": 12,
        },
        "error": {"standard_error_at_0": 0.01, "covers": "They cover <only> the noise."},
        "versions": {"hushbeam": "0.2.0"},
    }  # fmt: skip


def page(rows: pa.Table, said: dict[str, Any]) -> bytes:
    """The page of a histogram of randomised reports."""
    own = report.page_words(reading.reading(said), reading.facts(said))
    return report.page({"histogram.parquet": rows}, said | {report.OWN: own})


def show(screen: Console, rows: pa.Table) -> None:
    report.show(screen, {"histogram.parquet": rows}, statement())


@pytest.fixture(scope="module")
def nasty() -> bytes:
    """A page about values that nobody should have declared, of a column that nobody should have."""
    shares = np.linspace(0.2, 0.01, len(NASTY))
    return page(table(NASTY, shares), statement(column="<b>$city</b>"))


def test_values_are_text_wherever_they_stand(nasty: bytes) -> None:
    source, text = nasty.decode(), Page(nasty).text
    assert "<script" not in source.lower()
    assert "<img" not in source.lower()
    for value in NASTY:
        # In the table, and beside its bar: no character of it is a command to a reader.
        assert text.count(facts.cell(value)) in (2, 3)  # the three largest are figures, too
    assert "<b>$city</b>: share of users" in text
    assert "It is <promised> & proven." in text
    assert any("They cover <only> the noise." in line for line in text)


def arms(made: bytes) -> list[tuple[float, float]]:
    """The ends of the error bars, in percent of the picture's width."""
    found = re.findall(r'<line class="arm" x1="([\d.]+)%" x2="([\d.]+)%"', made.decode())
    return [(float(start), float(end)) for start, end in found]


def test_error_bars_are_the_intervals() -> None:
    # Those of all values together, which are the longer ones.
    shares = np.array([1.1, 0.5, 0.3, 0.01])
    drawn = arms(page(table(list("abcd"), shares, reach=0.2), statement()))
    assert len(drawn) == 4
    lengths = [end - start for start, end in drawn]
    # 0.9..1, 0.3..0.7, 0.1..0.5, 0..0.21
    scale = lengths[1] / 0.4
    assert lengths[0] == pytest.approx(0.1 * scale, rel=1e-3)
    assert lengths[2] == pytest.approx(0.4 * scale, rel=1e-3)
    assert lengths[3] == pytest.approx(0.21 * scale, rel=1e-3)


def test_the_largest_stand_first_and_the_rest_is_counted() -> None:
    shares = np.linspace(0.001, 0.02, 80)
    source = page(table([f"v{k}" for k in range(80)], shares), statement()).decode()
    rows = re.findall(r"<tr><th>(v\d+)</th><td>", source)
    assert rows == [f"v{79 - k}" for k in range(80)]
    assert source.count('<span class="name">') == 30
    assert "30 of 80 figures" in source


def test_a_table_that_is_too_long_says_where_the_rest_is() -> None:
    shares = np.linspace(0.001, 0.0002, 1200)
    source = page(table([f"v{k}" for k in range(1200)], shares), statement()).decode()
    assert len(re.findall(r"<tr><th>v\d+</th><td>", source)) == 1100
    assert "The 1,100 largest of 1,200; <code>histogram.parquet</code> has all" in source


def test_the_bin_of_all_others_has_a_name() -> None:
    source = page(table(["a", None], np.array([0.7, 0.3])), statement()).decode()
    assert "<th>(other or missing)</th>" in source
    assert source.count("The row (other or missing) holds all values that are not declared") == 1
    alone = page(table(["a", "b"], np.array([0.7, 0.3])), statement()).decode()
    assert "other or missing" not in alone


def test_where_all_is_noise_it_is_said() -> None:
    """An interval of one value alone may leave out 0 all the same: it was picked by looking."""
    shares = np.array([0.06, 0.05, 0.04])
    quiet, loud = (table(list("abc"), shares, reach=reach) for reach in (0.1, 0.055))
    assert quiet["lower"].to_numpy().max() > 0
    for rows, silent in ((quiet, True), (loud, False)):
        screen = Console(record=True, width=200, file=io.StringIO())
        show(screen, rows)
        for text in (page(rows, statement()).decode(), screen.export_text()):
            assert ("Nothing stands out of the noise" in text) == silent


def test_what_was_picked_has_the_interval_of_all() -> None:
    rows = table(list("abc"), np.array([0.6, 0.3, 0.1]), reach=0.05)
    assert "<td>55.0 to 65.0</td>" in page(rows, statement()).decode()
    screen = Console(record=True, width=200, file=io.StringIO())
    show(screen, rows)
    shown = screen.export_text()
    assert "55.0 to 65.0" in shown
    assert "95 % interval of all 3 together" in shown


def test_tables_beside_each_other_are_named_on_the_screen() -> None:
    """Of a funnel's shares and its numbers nothing else says which is which."""
    rows, screen = table(list("abc"), np.array([0.6, 0.3, 0.1])), io.StringIO()
    report.show(Console(file=screen), {"reached.parquet": rows}, statement())
    assert "reached" not in screen.getvalue()
    report.show(
        Console(file=screen), {"went-on.parquet": rows, "reached.parquet": rows}, statement()
    )
    assert "reached" in screen.getvalue()
    assert "went on" in screen.getvalue()


def test_numbers_of_a_column_stand_point_below_point_and_words_to_the_left() -> None:
    rows = [["a", "1.25", "yes"], ["b", "10", ""], ["c", "—", ""]]
    box = pages.boxed("all", ["", "estimate", "beyond noise"], rows)
    assert "<td>1.25</td>" in box
    assert "<td>10\u2008\u2007\u2007</td>" in box
    assert "<td>—</td>" in box
    assert '<th scope="col" class="of">beyond noise</th>' in box
    assert '<td class="of">yes</td>' in box
    assert '<th scope="col">estimate</th>' in box


@pytest.mark.parametrize(("figure", "head"), [("weight", "weight"), ("users", "estimate")])
def test_weights_are_shown_as_weights(figure: str, head: str) -> None:
    table = pa.table({"value": ["a", "b"], "estimate": [7.5, 2.5], "standard_error": [1.0, 1.0]})
    assert Listing(table, figure, 0.95, {}).columns[0].head == head
