"""`hushbeam distribution`: what it publishes, how near it comes, and what it keeps to itself."""

from __future__ import annotations

import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.releases.schema import own
from tests.fakes import canaries
from tests.oracles.releases import Release

pytestmark = pytest.mark.verify

USABLE, NULLS, NANS, INFINITE, UNKNOWN = 4000, 30, 20, 10, 40
ROWS = USABLE + NULLS + NANS + INFINITE + UNKNOWN
LOW, HIGH = -20.0, 80.0
BEYOND = 55_500_000_123.0  # a canary: clipped to the upper bound
WITHIN = 12.345678901234  # another, of so many digits that no estimate begins with them by chance
# No interval of a test may miss by chance: these releases are not seeded.
CERTAIN = "0.999999999999"


def numbers() -> np.ndarray:
    """A quarter at one value, a bell, a tail that is clipped."""
    ranks = (np.arange(USABLE) + 0.5) / USABLE
    bell = 30 + 8 * np.log(ranks / (1 - ranks))
    values = np.where(np.arange(USABLE) % 4 == 0, WITHIN, bell)
    values[7::100] = BEYOND
    return values


def clipped() -> np.ndarray:
    return np.clip(numbers(), LOW, HIGH)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One usable row a user; columns of several types, and constant ones."""
    values: list[float | None] = numbers().tolist()
    values += [None] * NULLS + [math.nan] * NANS + [math.inf, -math.inf] * (INFINITE // 2)
    values += [5.0] * UNKNOWN
    users = [f"CANARY-USER-{k:05}" for k in range(ROWS - UNKNOWN)] + [None] * UNKNOWN
    table = pa.table(
        {
            "real": pa.array(values, pa.float64()),
            "user": users,
            "whole": pa.array((np.arange(ROWS) % 7).astype(np.int16)),
            "same": pa.array([3.25] * ROWS, pa.float32()),
            "none": pa.array([None] * ROWS, pa.float64()),
            "text": ["CANARY-TEXT"] * ROWS,
            "flag": [True] * ROWS,
        }
    )
    return canaries.write(tmp_path_factory.mktemp("real"), table, 3, 700)


def request(log: str, **changes: object) -> list[str]:
    """The words of a request that is right but for the changes; None takes an option away."""
    asked: dict[str, Any] = {
        "input": log,
        "column": "real",
        "epsilon": 2,
        "bounds": f"{LOW:g},{HIGH:g}",
        "bins": 32,
        "confidence": CERTAIN,
        "drawn_by": "each-report",
        "output": "out",
    }
    return canaries.words("distribution", asked | changes, joined=True)


ASKED: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "users": {
        "user_column": "user", "min_reports": USABLE, "delta": 1e-5, "epsilon": 1,
        "mechanism": "grr",
    },
    "local": {"model": "local", "epsilon": 1},
    "response": {"model": "local", "epsilon": 5, "quantiles": "0.5,0.123", "bins": None},
    "smooth": {"model": "local", "epsilon": 3, "mechanism": "pm", "smooth": True},
    "geometry": {"mechanism": "projective", "epsilon_local": 3},
    "integers": {"column": "whole", "bounds": "0,6", "bins": 7, "model": "local", "epsilon": 8},
    "constant": {"column": "same", "bounds": "0,10", "model": "local", "epsilon": 4},
}  # fmt: skip


class Shape(Release):
    """One release, read back."""

    @cached_property
    def bins(self) -> dict[str, np.ndarray]:
        table = own(self.tables["distribution.parquet"])
        return {name: table[name].to_numpy() for name in table.column_names}

    @cached_property
    def quantiles(self) -> list[dict[str, float]]:
        return self.tables["quantiles.parquet"].to_pylist()

    @cached_property
    def values(self) -> np.ndarray:
        """What the users reported, clipped."""
        column = self.asked.get("column", "real")
        if column == "whole":
            return np.arange(ROWS) % 7
        if column == "same":
            return np.full(ROWS, 3.25)
        known = clipped()
        return known if "user_column" in self.asked else np.append(known, [5.0] * UNKNOWN)


@pytest.fixture(scope="module")
def releases(real: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shape]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        assert cli.main(request(real, output=folder, **changes)) == 0
        made[name] = Shape(folder, changes)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Shape]) -> Shape:
    return releases[request.param]


# ---- the tables --------------------------------------------------------------------------------


def test_shares_are_a_distribution_and_lie_in_their_intervals(release: Shape) -> None:
    bins = release.bins
    assert np.all(bins["estimate"] >= 0)
    assert bins["estimate"].sum() == pytest.approx(1)
    assert bins["unbiased"].sum() == pytest.approx(1)
    assert bins["cumulative"] == pytest.approx(np.cumsum(bins["estimate"]))
    for middle, low, high in (
        ("estimate", "lower", "upper"),
        ("cumulative", "cumulative_lower", "cumulative_upper"),
        ("cumulative", "cumulative_lower_sure", "cumulative_upper_sure"),
    ):
        assert np.all(0 <= bins[low])
        assert np.all(bins[low] <= bins[middle])
        assert np.all(bins[middle] <= bins[high])
        assert np.all(bins[high] <= 1)


def test_the_truth_lies_in_every_interval(release: Shape) -> None:
    """F at each edge, the quantiles, the mean: of the numbers as they were, clipped."""
    bins, values = release.bins, release.values
    truth = np.array([np.mean(values <= edge) for edge in bins["high"]])
    assert np.all(bins["cumulative_lower_sure"] <= truth + 1e-9)
    assert np.all(truth <= bins["cumulative_upper_sure"] + 1e-9)
    ordered = np.sort(values)
    for row in release.quantiles:
        exact = ordered[math.ceil(row["p"] * len(values) - 1e-9) - 1]
        low = -math.inf if row["lower"] is None else row["lower"]
        high = math.inf if row["upper"] is None else row["upper"]  # numbers beyond were clipped
        assert low - 1e-9 <= exact <= high + 1e-9
        assert low <= row["estimate"] <= high
    mean = release.statement["mean"]
    assert mean["lower"] <= values.mean() <= mean["upper"]
    assert abs(mean["unbiased"] - values.mean()) < 7 * mean["standard_error"]
    points = np.linspace(bins["low"][0], bins["high"][-1], len(bins["low"]))
    held = np.maximum(0, 1 - np.abs(values[:, None] - points) / (points[1] - points[0])).mean(0)
    assert np.all((bins["lower"] <= held + 1e-9) & (held <= bins["upper"] + 1e-9))


def test_estimates_come_near(releases: dict[str, Shape]) -> None:
    """Far nearer than the intervals, which serve every distribution."""
    for name, most in (("shuffle", 0.012), ("users", 0.015), ("local", 0.08), ("integers", 0.003)):
        found = releases[name]
        truth = np.array([np.mean(found.values <= edge) for edge in found.bins["high"]])
        assert np.abs(found.bins["cumulative"] - truth).mean() < most, name


def test_a_constant_is_found(releases: dict[str, Shape]) -> None:
    found = releases["constant"]
    median = next(row["estimate"] for row in found.quantiles if row["p"] == 0.5)
    assert median == pytest.approx(3.25, abs=10 / 31)
    assert found.statement["mean"]["estimate"] == pytest.approx(3.25, abs=0.45)


# ---- what ends a request -----------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "reversed": ({"bounds": "5,1"}, "--bounds"),
    "equal": ({"bounds": "5,5"}, "--bounds"),
    "nan": ({"bounds": "nan,5"}, "--bounds"),
    "three": ({"bounds": "1,2,3"}, "--bounds"),
    "text": ({"column": "text"}, "--column"),
    "flag": ({"column": "flag"}, "--column"),
    "missing": ({"column": "absent"}, "--column"),
    "one bin": ({"bins": 1}, "--bins must be a number of at least 2"),
    "many bins": ({"bins": 5000}, "--bins must be a number of at most 1,024"),
    "half a bin": ({"bins": 2.5}, "--bins must be a whole number"),
    "quantile 0": ({"quantiles": "0,0.5"}, "--quantiles"),
    "quantile text": ({"quantiles": "median"}, "--quantiles"),
    "nan quantile": ({"quantiles": "nan"}, "--quantiles"),
    "two points": ({"mechanism": "duchi"}, "nm, grr serve any number"),
    "unknown": ({"mechanism": "best"}, "there are: auto"),
    "epsilon": ({"epsilon": None}, "epsilon is missing"),
    "negative": ({"epsilon": -1}, "--epsilon"),
    "user": ({"user_column": "user"}, "--min-reports is missing"),
    "central": ({"model": "central"}, "--model"),
    "confidence": ({"confidence": 1}, "--confidence"),
    "cells": ({"cells": 10}, "--cells"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_refused_in_one_line(name: str, refused, real: str) -> None:
    changes, told = WRONG[name]
    refused(request(real, **changes), told)


def test_one_user_with_many_rows_is_one_report(run, workspace: Path) -> None:
    table = pa.table({"x": np.arange(500.0), "user": ["CANARY-USER-00001"] * 500})
    log = canaries.write(workspace / "one", table)
    asked = {"column": "x", "bounds": "0,500", "model": "local", "user_column": "user"}
    refused = run(request(log, **asked))  # how many rows a user has chooses no bins
    assert refused.code == 2
    assert "--min-reports is missing" in refused.err
    outcome = run(request(log, **asked, min_reports=1))
    assert outcome.code == 0
    told = json.loads((workspace / "out/statement.json").read_text())
    assert told["n"] == 1
    found = pq.ParquetFile(workspace / "out/quantiles.parquet").read().to_pylist()
    assert all((row["lower"], row["upper"]) == (0, None) for row in found)  # or more than 500
    assert not canaries.found(outcome.said)
