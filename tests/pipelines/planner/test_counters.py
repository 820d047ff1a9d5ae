"""The plan of counts: a table of noise, and one line for what makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.counters.rows import RowCounters
from pipelines.metrics.counting.count import CountMetric
from pipelines.metrics.counting.options import CountOptions
from pipelines.requests import request

FLIGHTS = Path(__file__).parents[3] / "examples" / "flights.parquet"


def test_the_table_has_the_noise_of_the_counters(run) -> None:
    asked = "--epsilon 1 --counts 40 --rows-per-user 1,4,99 --per-value 1,3"
    outcome = run(["plan", *asked.split()])
    assert outcome.code == 0, outcome.said
    log = {"input": [str(FLIGHTS)], "user_column": "tail_number", "output": "none"}
    values = {"column": "distance", "domain": "0..39", "epsilon": 1.0}
    for k, b in ((1, 1), (1, 3), (4, 1), (4, 3)):
        bounds = {"rows_per_user": k, "per_value": b}
        design = CountMetric.resolve(request(CountOptions, log | values | bounds)).design
        assert isinstance(design, Counters)
        assert f" {design.column_variance**0.5:,.4g} " in outcome.out + " "
        assert f"{82 * design.layout.types.size:,} B" in outcome.out
    assert "99" not in outcome.out  # nobody has more values than there are


def test_the_table_fits_on_a_narrow_screen(run) -> None:
    outcome = run(["plan", "--epsilon", "1", "--counts", "915"])
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_average_rows_show_messages_bytes_and_error(run) -> None:
    asked = "--epsilon 1 --averages 9 --digits 2,3 --reports 1e5"
    outcome = run(["plan", *asked.split()])
    assert outcome.code == 0, outcome.said
    for digits in (2, 3):
        rows = RowCounters(9, (1 << digits) - 1)
        target = "add or remove", 1.0, 1e-6
        design = Counters.meeting(rows.levels, *target, beside=[Level(1, 1)])
        variance = rows.noise(design.variances).sum ** 2 + 1e5 / rows.steps**2
        sent = 9 * digits + 2
        shown = f"{sent} ", f"{82 * sent:,} ", f"{variance**0.5 / 1e5:.3g} "
        line = next(text for text in outcome.out.splitlines() if f" {sent} " in text)
        assert all(text in line for text in shown)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--averages 9 --digits 17", "a number has at most 16 digits"),
        ("--counts 9 --digits 2", "--digits means nothing beside --counts"),
        ("--dimension 9 --reports 900 --digits 2", "--digits needs --averages"),
        ("--counts 9 --reports 5", "--reports means nothing beside --counts"),
        ("--counts 0", "--counts must be a number of at least 1"),
        ("--counts 9 --rows-per-user 1,0", "name whole numbers of at least 1"),
        ("--counts 9 --per-value x", "whole number"),
        ("--domain-size 9 --reports 900 --per-value 2", "--per-value needs --counts"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, complaint: str, refused) -> None:
    refused(["plan", "--epsilon", "1", *words.split()], complaint)
