"""Sums are compared by what they err, by the messages they take, and by what liars do to them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from hushbeam.studies.engine.cells import Simulation
from hushbeam.studies.populations.numbers import read_numbers
from hushbeam.studies.studies.sum import STUDY, SumStudyOptions, fit
from hushbeam.studies.systems.number_sums import SYSTEMS, lines
from mechanisms.randomness import SeededRandom

FALSE_ALARM = 1e-10  # of one comparison; there are fewer than a hundred
RUNS = 200
PUBLIC = ("ddps", "ddps:published", "one-report")  # how many users there are shows


@cache
def fitted(
    name: str, data: str = "beta:10000,2,5", neighbours: str = "replace", messages: int = 0,
    liars: float = 0.0, epsilon: float = 1.0,
) -> Simulation:  # fmt: skip
    """A system at delta 1e-6."""
    options = SumStudyOptions.model_validate(
        {"systems": (name,), "data": (data,), "output": "out", "epsilons": (epsilon,),
         "neighbours": neighbours, "messages": (messages,) if messages else (),
         "liars": (liars,)}
    )  # fmt: skip
    (line,), (population,) = STUDY.lines(options), STUDY.data(options)
    (cell,) = STUDY.grid(options, [population], [line])
    return fit(options, cell, population)


def errors(simulation: Simulation, times: int) -> np.ndarray:
    return np.array([simulation.release(SeededRandom(seed))["error"] for seed in range(times)])


@pytest.mark.verify
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("neighbours", ["replace", "add-or-remove"])
def test_errors_are_those_predicted(name: str, neighbours: str) -> None:
    if name in PUBLIC and neighbours == "add-or-remove":
        with pytest.raises(ValueError, match="how many users there are"):
            fitted(name, neighbours=neighbours)
        return
    simulation = fitted(name, neighbours=neighbours)
    made, variance = errors(simulation, RUNS), simulation.known["predicted_variance"]
    assert abs(made.mean()) < stats.norm.isf(FALSE_ALARM) * math.sqrt(variance / RUNS)
    # Laplace noise has a kurtosis of 6: twice the variance, at most, would not pass.
    assert 0.45 * variance < np.mean(made**2) < 2.2 * variance
    assert simulation.known["shift_bound"] == 0


def test_systems_rank_as_their_laws_do() -> None:
    """In standard errors, of 10,000 users at epsilon 1."""
    error = {name: math.sqrt(fitted(name).known["predicted_variance"]) for name in SYSTEMS}
    assert error["laplace"] == pytest.approx(math.sqrt(2), rel=0.02)
    assert error["split-mix"] <= 1.01 * error["laplace"]
    assert error["counters-correlated"] <= 1.55
    assert error["counters"] <= 3.3
    assert error["gaussian"] == pytest.approx(4.22, rel=0.02)
    assert error["devices-masked"] <= 3.5 < error["devices-poisson"] <= 5.2
    assert error["one-report"] > 10
    # As a curator's Gaussian, but for 2 % that are rounded up, and one user in ten not counted on.
    assert error["gaussian"] < error["ddps"] * math.sqrt(0.9) < 1.03 * error["gaussian"]
    assert error["ddps:published"] > 10 * error["ddps"]
    drawn = {name: fitted(name).known["drawn_by"] for name in SYSTEMS}
    assert set(drawn.values()) == {"shuffler", "devices", "users", "curator"}


@pytest.mark.parametrize("name", ["counters", "counters-correlated", "devices-poisson"])
def test_fewer_messages_round_more(name: str) -> None:
    free, few = fitted(name), fitted(name, messages=3)
    assert few.known["messages"] <= 3 < free.known["messages"]
    assert few.known["units"] < free.known["units"]
    assert few.known["predicted_variance"] > free.known["predicted_variance"]
    with pytest.raises(ValueError, match=r"messages|dummies"):
        fitted(name if name == "devices-poisson" else "split-mix", data="spike:50,0", messages=1)


@pytest.mark.parametrize("name", SYSTEMS)
def test_liars_go_as_far_as_is_said_and_no_farther(name: str) -> None:
    simulation = fitted(name, liars=0.05)
    bound = simulation.known["shift_bound"]
    shift = errors(simulation, 20).mean() / 10_000
    if name == "split-mix":
        assert bound is None
        assert shift > 0.5
        return
    # Their own numbers, 2/7 of the range on average, are lost.
    own, noise = 0.05 * 2 / 7, 6.5 * math.sqrt(simulation.known["predicted_variance"] / 20) / 10_000
    low = bound - own if name != "one-report" else bound / 2
    assert low - noise - 0.001 < shift < bound + noise
    if not name.startswith(("devices", "ddps:published")):
        assert bound == pytest.approx(0.05, rel=0.3)
    else:
        assert bound > 0.1


def test_signs_and_bounds() -> None:
    gauss = fitted("counters", data="gauss:10000,0,0.25", neighbours="add-or-remove")
    shifted = fitted("counters", data="gauss:10000,0,0.25")
    assert abs(gauss.known["truth"]) < 1
    # Signs take counters of their own, of half the range: 2 (1/2)^2 of the variance.
    ratio = gauss.known["predicted_variance"] / shifted.known["predicted_variance"]
    assert ratio == pytest.approx(0.5, rel=0.1)
    (population,) = read_numbers(["gauss:10000,0,0.25"])
    assert population.mean == pytest.approx(2 * gauss.known["truth"] / 10_000, abs=1e-9)


@pytest.mark.verify
def test_a_study_leaves_its_files(run, workspace) -> None:
    words = ["--systems", "counters", "counters-correlated", "laplace", "--epsilons", "1"]
    more = ["--data", "beta:2000,2,5", "--messages", "3", "5", "--liars", "0", "0.01"]
    asked = ["evaluate", "sum", *words, *more, "--repetitions", "2", "--jobs", "1"]
    outcome = run([*asked, "--output", "out"])
    assert outcome.code == 0, outcome.said
    rows: list[dict[str, Any]] = pq.read_table("out/results.parquet").to_pylist()
    assert pq.read_table("out/results.parquet").schema.equals(STUDY.columns)
    assert {row["most_messages"] for row in rows} == {3, 5, None}
    assert all(row["messages"] <= (row["most_messages"] or 1) for row in rows)
    names = {path.name for path in workspace.glob("out/*.png")}
    for along in ("by-messages", "by-liars", "by-collected"):
        assert any(name.startswith(f"squared_error-{along}") for name in names)
        assert any(name.startswith(f"distance-{along}") for name in names)
    again = run([*asked, "--output", "out"])
    assert again.code == 0


def test_lines_are_named_once() -> None:
    made = lines(["all", "counters"], [4], [0.0, 0.01])
    assert len({line.system for line in made}) == len(made) == 2 * len(SYSTEMS)
