"""The plan of counts: a table of noise, and one line for what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mechanisms.counters.activity import Activity
from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.counters.rows import RowCounters
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.vector.divided_tables import DividedTables
from pipelines.ledger.accounting import total
from pipelines.ledger.entries import Loss
from pipelines.metrics import registry
from pipelines.metrics.counting.options import SPLIT_MIX, CountOptions
from pipelines.metrics.cross_tab.options import CrossTabOptions
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.mean import Mean
from pipelines.metrics.statistics.sum import Sum
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.request.requests import request

FLIGHTS = Path(__file__).parents[3] / "examples" / "flights.parquet"


def test_the_table_has_the_noise_of_the_counters(run) -> None:
    asked = "--epsilon 1 --counts 40 --rows-per-user 1,4,99 --per-value 1,3"
    outcome = run(["size", *asked.split()])
    assert outcome.code == 0, outcome.said
    log = {"input": [str(FLIGHTS)], "user_column": "tail_number", "output": "none"}
    values = {"column": "distance", "domain": "0..39", "epsilon": 1.0}
    for k, b in ((1, 1), (1, 3), (4, 1), (4, 3)):
        bounds = {"rows_per_user": k, "per_value": b, "drawn_by": "shuffler"}
        design = resolve(request(CountOptions, log | values | bounds)).design
        assert isinstance(design, Counters)
        assert f" {design.column_variance**0.5:,.4g} " in outcome.out + " "
        assert f"{82 * design.layout.types.size:,} B" in outcome.out
        job: Any = resolve(request(CountOptions, log | values | bounds | {"drawn_by": "job"}))
        assert f" {job.error:,.4g} " in outcome.out + " "
    # Nobody has more values than there are.
    assert "99" not in [line.split()[0] for line in outcome.out.splitlines() if line.strip()]


def test_average_rows_show_messages_bytes_and_error(run) -> None:
    asked = "--epsilon 1 --averages 9 --digits 2,3 --reports 1e5"
    outcome = run(["size", *asked.split()])
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


def test_average_rows_of_the_job_have_the_error_of_the_release(run) -> None:
    outcome = run(
        [
            *[
                "size",
                "--epsilon",
                "1",
                "--averages",
                "2",
                "--digits",
                "3,6",
                "--reports",
                "1e5",
                "--json",
            ]
        ]
    )
    assert outcome.code == 0, outcome.said
    first, *others = json.loads(outcome.out)["rows"]
    log = {"input": [str(FLIGHTS)], "output": "none", "epsilon": 1.0, "expected": 10**5}
    numbers = ["distance=0,5000", "departure_delay=0,90"]
    metric: Any = resolve(request(VectorMeanOptions, log | {"number": numbers}))
    coins = 1e5 * metric.accuracy.coin
    variance = metric.accuracy.total.standard_error**2 + coins
    assert first["error"] == pytest.approx(variance**0.5 / 1e5)
    assert first["rounding"] == pytest.approx(coins / variance)
    assert [row["drawn_by"] for row in (first, *others)] == ["job", "shuffler", "shuffler"]
    assert first["error"] < min(row["error"] for row in others)


def test_unknown_strings_show_from_how_many_users_on_they_are_found(run) -> None:
    asked = "--epsilon 2 --delta 1e-7 --strings --rows-per-user 1,20"
    outcome = run(["size", *asked.split()])
    assert outcome.code == 0, outcome.said
    for k in (1, 20):
        crowds = Crowds.meeting(k, "add or remove", 2.0, 1e-7)
        error = crowds.design.variances[0] ** 0.5
        wanted = [f"{k}", f"{crowds.threshold}", f"{crowds.detection_limit}", f"{error:.3g}"]
        assert wanted in [line.split() for line in outcome.out.splitlines()]
    far = run(["size", "--epsilon", "1e-6", "--strings", "--rows-per-user", "1000"])
    assert (far.code, "out of reach" in far.out) == (0, True)


@pytest.mark.verify  # some ten designs
@pytest.mark.parametrize("neighbours", ["replace", "add or remove"])
def test_sums_and_means_show_what_their_commands_would_err_by(run, neighbours: str) -> None:
    """With bounds of both signs; as far as ways are laid down by what is trusted, they rank so."""
    words = ["--neighbours", neighbours, "--reports", "1e5", "--epsilon", "1", "--json"]
    outcome = run(["size", "--bounds=-100,300", *words])
    assert outcome.code == 0, outcome.said
    rows = {(row["statistic"], row["way"]): row for row in json.loads(outcome.out)["rows"]}
    asked = {"input": [str(FLIGHTS)], "output": "none", "column": "distance", "epsilon": 1.0,
             "bounds": "-100,300", "neighbours": neighbours, "expected": 10**5}  # fmt: skip
    for kind in (Sum, Mean):
        metric = resolve(request(registry.options(kind.kind), asked | {"drawn_by": "job"}))
        shown = rows[kind.kind, "the job's noise"]
        assert (shown["messages"], shown["dummies"], shown["error"]) == (0, None, metric.error)
        assert shown["error"] < rows[kind.kind, "correlated dummies"]["error"]
    for kind in (Sum, Mean):
        metric = resolve(request(registry.options(kind.kind), asked | {"drawn_by": "shuffler"}))
        shown = rows[kind.kind, "correlated dummies"]
        assert (shown["messages"], shown["dummies"]) == (
            metric.protection.messages,
            metric.design.number,
        )
        assert shown["error"] == metric.error
        error = {way: row["error"] for (of, way), row in rows.items() if of == kind.kind}
        assert error[SPLIT_MIX] < error["correlated dummies"] < error["same, three parties"]
        assert error["same, three parties"] <= error["independent dummies"]
        assert error["independent dummies"] < error["devices' dummies"]
    assert rows["mean", "one report"]["error"] > 2 * rows["mean", "devices' dummies"]["error"]
    for row in rows.values():
        assert row["ranges"] == row["error"] / 400
        assert row["bytes"] == 82 * row["messages"]


def test_releases_of_active_users_come_to_no_more_than_was_asked(run) -> None:
    """By the ledger's own sum, of the counters that a plan would make; and to little less."""
    outcome = run(["size", "--epsilon", "1", "--releases", "1,28", "--json"])
    assert outcome.code == 0, outcome.said
    for row in json.loads(outcome.out)["rows"]:
        levels, several = Activity().levels, row["releases"]
        target = "add or remove", row["epsilon"], row["delta"]
        kind = JobTotals if row["drawn_by"] == "job" else Counters
        design = kind.meeting(levels, *target, releases=several)
        assert row["new"] == pytest.approx(design.variances[0] ** 0.5)
        assert row["month"] == pytest.approx((5 * design.variances[0]) ** 0.5)
        loss = Loss.of(design.guarantee, design.profile())
        assert 0.97 < total([loss] * several, 1e-6).epsilon <= 1


def test_tables_have_the_errors_of_the_release(run) -> None:
    outcome = run(["size", "--tables", "3,4", "--epsilon", "1", "--json"])
    assert outcome.code == 0, outcome.said
    shown = json.loads(outcome.out)["rows"]
    asked = {"input": [str(FLIGHTS)], "output": "none", "columns": ["distance", "departure_delay"],
             "domains": ["distance=0..2", "departure_delay=0..3"], "epsilon": 1.0}  # fmt: skip
    for drawer in ("job", "shuffler"):
        metric = resolve(request(CrossTabOptions, asked | {"drawn_by": drawer}))
        own = [row for row in shown if row["drawn_by"] == drawer]
        assert [row["cells"] for row in own] == [4, 5, 20]
        for row, table in zip(own, metric.statistic.tabs.asked, strict=True):
            variance = metric.statistic.tabs.variances(table, metric.design.variances).mean()
            assert row["error"] == variance**0.5


def test_tables_of_the_local_model_have_the_errors_of_the_release(run) -> None:
    words = ["--tables", "3,4", "--epsilon", "1", "--model", "local", "--reports", "1e6", "--json"]
    outcome = run(["size", *words])
    assert outcome.code == 0, outcome.said
    shown = json.loads(outcome.out)["rows"]
    mechanism = DividedTables(1.0, CrossTabs(flat([4, 5]), pairs(2)))
    total = sum(row["cells"] * row["error"] ** 2 for row in shown)
    assert total == pytest.approx(1e6 * 29 * mechanism.report_variance)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--tables 9,x", "--tables"),
        ("--tables 9,9 --counts 5", "--tables means nothing beside --counts"),
        ("--tables 9,9 --reports 5", "--reports means nothing beside --tables, but with"),
        ("--tables 9,9 --model local", "--reports is missing"),
        ("--tables 9,9 --model local --reports 5 --delta 1e-6", "--delta means nothing beside"),
        ("--tables 90000,90000", "8,100,360,006 counters are more than the 268,435,456 there may"),
        ("--averages 9 --digits 17", "a number has at most 16 digits"),
        ("--counts 9 --digits 2", "--digits means nothing beside --counts"),
        ("--dimension 9 --reports 900 --digits 2", "--digits means nothing beside --dimension"),
        ("--counts 9 --releases 3", "--releases means nothing beside --counts"),
        ("--releases 0", "name whole numbers of at least 1"),
        ("--counts 9 --reports 5", "--reports means nothing beside --counts"),
        ("--bounds 0,9 --digits 2", "--digits means nothing beside --bounds"),
        ("--bounds 9,0", "--bounds"),
        ("--bounds 0,9 --counts 9", "--bounds means nothing beside --counts"),
        ("--counts 0", "--counts must be a number of at least 1"),
        ("--counts 9 --rows-per-user 1,0", "name whole numbers of at least 1"),
        ("--counts 9 --per-value x", "whole number"),
        ("--reports 900 --per-value 2", "--per-value needs --counts"),
        ("--domain-size 9 --reports 900 --per-value 2", "--per-value means nothing beside --dom"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, complaint: str, refused) -> None:
    refused(["size", "--epsilon", "1", *words.split()], complaint)
