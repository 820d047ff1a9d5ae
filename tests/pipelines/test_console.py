"""What a person sees: a moving line on a terminal, plain text anywhere else."""

from __future__ import annotations

import io
import re
import threading

import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.views import console, report
from tests.fakes.waiting import HANGS, until
from transforms.elements import progress as counting

ROWS = {
    "value": ["[/red] x", None, "[bold]b[/bold]", ":smile:"],
    "estimate": [0.4, 0.3, 0.2, 0.1],
    "unbiased": [0.41, 0.31, 0.21, -0.1],
    "standard_error": [0.01] * 4,
    "lower": [0.38, 0.28, 0.18, 0.08],
    "upper": [0.42, 0.32, 0.22, 0.12],
    "lower_simultaneous": [0.37, 0.27, 0.17, 0.07],
    "upper_simultaneous": [0.43, 0.33, 0.23, 0.13],
}


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """A histogram on the screen."""
    said = {
        "release": "histogram", "title": "city: share of users", "n": 7,
        "guarantees": {"release": {"epsilon": 1.0, "delta": 0.0, "unit": "user"}},
        "request": {"confidence": confidence}, "figures": {"histogram.parquet": "share"},
    }  # fmt: skip
    report.show(screen, {"histogram.parquet": table}, said)


@pytest.fixture(autouse=True)
def no_counts() -> None:
    counting.reset()


def test_nothing_is_drawn_unless_on_a_terminal() -> None:
    text, before = io.StringIO(), {*threading.enumerate()}
    with console.progress(Console(file=text, force_terminal=False), rows=10) as follow:
        follow(object())
        counting._live.update({counting.ROWS: 5})
    # Nobody who might draw later; of threads that tests before have left, some end meanwhile.
    assert {*threading.enumerate()} <= before
    assert text.getvalue() == ""


def test_a_terminal_shows_rows_reports_and_rejects() -> None:
    text = io.StringIO()
    screen = Console(file=text, force_terminal=True, width=120)
    with console.progress(screen, rows=1000):
        counting._live.update(
            {counting.ROWS: 500, counting.REPORTS: 12345, "null value": 7, counting.WITHHELD: 3}
        )
        until(lambda: "12,345 reports, 7 null value " in text.getvalue())
    assert "500/1000" in text.getvalue()


def test_where_presence_is_hidden_a_terminal_shows_no_number() -> None:
    text, before = io.StringIO(), {*threading.enumerate()}
    screen = Console(file=text, force_terminal=True, no_color=True, width=120)
    with console.progress(screen, rows=None) as follow:
        follow(object())
        counting._live.update({counting.ROWS: 523, counting.REPORTS: 12345, "null value": 789})
        until(lambda: "0:00:0" in text.getvalue())
        bar = {*threading.enumerate()} - before
    assert len(bar) == 1  # it draws, and nobody looks at counters
    assert not re.search(r"523|12,?345|789", text.getvalue())


def test_a_runner_that_cannot_be_asked_does_not_matter(capfd: pytest.CaptureFixture[str]) -> None:
    screen, asked = Console(file=io.StringIO(), force_terminal=True), threading.Event()

    class Mute:
        def metrics(self) -> None:
            asked.set()
            raise NotImplementedError

    with console.progress(screen, rows=10) as follow:
        follow(Mute())
        assert asked.wait(HANGS)
    assert capfd.readouterr() == ("", "")


def test_the_largest_come_first_and_markup_in_values_is_text() -> None:
    text = io.StringIO()
    screen = Console(file=text, force_terminal=True, no_color=True, width=100)
    rows = {
        name: [*values, *[None if name == "value" else 0.01] * 8] for name, values in ROWS.items()
    }
    rows["value"][4:] = [f"v{k}" for k in range(8)]
    show(screen, pa.table(rows), 0.999)
    shown = text.getvalue()
    assert "city: share of users (from 7 reports · epsilon 1 per user)" in shown
    assert "the 10 largest of 12" in shown
    assert "99.9 % interval" in shown
    labels = ["[/red] x", "(other or missing)", "[bold]b[/bold]", ":smile:", "v0"]
    places = [shown.index(label) for label in labels]
    assert places == sorted(places)
    assert "v6" not in shown  # the eleventh
    assert "37.0 to 43.0" in shown
    assert "41.0" in shown  # the unbiased estimate


def test_the_table_of_the_largest_fits_a_terminal() -> None:
    widest = {name: [1.0 if name != "value" else "v" * 200] for name in ROWS}
    text = io.StringIO()
    show(Console(file=text, width=79), pa.table(widest), 0.95)
    assert "unbiased, %" not in text.getvalue()  # the very same numbers once more
    assert "100 to 100" in text.getvalue()
    assert max(map(len, text.getvalue().splitlines())) <= 79


def test_what_looks_like_an_emoji_is_shown_as_it_is() -> None:
    text = io.StringIO()
    console.Screen(file=text).print("a metric called :boom:")
    assert text.getvalue() == "a metric called :boom:\n"
