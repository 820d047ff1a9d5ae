"""`hushbeam size --experiment` says what a release finds, and how many users that takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.metrics import registry
from pipelines.metrics.resolving import resolve
from pipelines.request.requests import request

FLIGHTS = Path(__file__).parents[3] / "examples" / "flights.parquet"


def rows(run, *more: str) -> list[dict[str, float]]:
    outcome = run(["size", "--epsilon", "1", "--experiment", "100000", *more, "--json"])
    assert outcome.code == 0, outcome.said
    return json.loads(outcome.out)["rows"]


def test_differences_are_those_of_a_textbook_and_the_noise(run) -> None:
    """(1.96 + 0.84) standard errors; noise as the release has it."""
    asked = {
        "input": [str(FLIGHTS)], "output": "none", "arm": "origin", "arms": "EWR,JFK",
        "rate": "distance", "epsilon": 1.0,
    }  # fmt: skip
    design = resolve(request(registry.options("experiment"), asked)).design
    units, rates = design.variances
    for row in rows(run):
        rate = row["value"]
        if row["outcome"] == "rate":
            chance, noise = 2 * rate * (1 - rate) / 5e4, 2 * (rates + rate**2 * units) / 5e4**2
            assert row["difference"] == pytest.approx(2.8016 * np.sqrt(chance + noise), rel=1e-3)
        elif row["outcome"] == "quantile":  # a share's error, by the density of exponential numbers
            share = 2.8016 * np.sqrt(4 * rate * (1 - rate) / 1e5)
            exact = share / ((1 - rate) * -np.log(1 - rate))
            assert row["difference"] == pytest.approx(row["price"] * exact, rel=1e-3)
        else:
            assert row["difference"] == pytest.approx(2.8016 * rate * np.sqrt(2 / 5e4), rel=0.02)
        assert 1 < row["price"] < (1.2 if row["outcome"] == "quantile" else 1.03)


def test_users_and_days_find_the_lift(run) -> None:
    for row in rows(run, "--lift", "5", "--per-day", "2000"):
        assert row["days"] == row["users"] / 2000
        if row["outcome"] == "rate" and row["users"] > 1e5:  # noise is nothing then
            difference = 2.8016 * np.sqrt(4 * row["value"] * (1 - row["value"]) / row["users"])
            assert difference == pytest.approx(0.05 * row["value"], rel=0.01)


def test_what_is_out_of_reach_is_said(run) -> None:
    outcome = run(["size", "--epsilon", "1e-9", "--experiment", "1000", "--json"])
    assert outcome.code == 0
    assert {row["refused"] for row in json.loads(outcome.out)["rows"]} == {"out of reach"}


def test_looks_and_arms_cost_some(run) -> None:
    plain, looks, arms = (
        rows(run, *more)[0]["difference"] for more in ((), ("--looks", "28"), ("--arms", "4"))
    )
    assert 1.05 < looks / plain < 1.12
    assert arms / plain == pytest.approx(np.sqrt(2), rel=0.02)
