"""Linear models from private gradients: cross-validated, on common chance."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.engine.cells import Cell
from hushbeam.studies.populations.tables import StudyExamples, read_examples
from hushbeam.studies.studies.regression import (
    FOLDS,
    Learner,
    RegressionStudyOptions,
    cross_validate,
    descent,
    fit,
)
from hushbeam.studies.systems.gradients import lines
from mechanisms.learning.objectives import SquaredError
from mechanisms.randomness import SeededRandom

REGRESSION = ["evaluate", "train", "--jobs", "1", "--study", "regression", "--data", "census:400"]


def setting(population: StudyExamples, system: str, epsilon: float, **options: Any) -> Any:
    """What `fit` takes."""
    chosen = RegressionStudyOptions(epsilons=(epsilon,), output="out", **options)
    (line,) = (line for line in lines(["all"]) if line.system == system)
    return chosen, Cell(population.name, line, epsilon, 1e-6, True), population


def mean_error(population: StudyExamples, system: str, epsilon: float) -> float:
    options, cell, _ = setting(population, system, epsilon)
    return fit(options, cell, population).release(SeededRandom(cell.seed(0, 0)))["test_mse"]


@pytest.mark.verify
def test_private_models_approach_the_exact_fit_as_users_grow() -> None:
    """Excess errors of 12,500 and 200,000 users differ by a factor of more than 4."""
    excess = []
    for population in read_examples(["census:100"], [12_500, 200_000]):
        best = mean_error(population, "least_squares", 2.0)
        excess.append(mean_error(population, "default", 2.0) - best)
        assert mean_error(population, "no_noise", 2.0) - best > 0
        assert best < mean_error(population, "constant", 2.0)
    assert 0 < 2 * excess[1] < excess[0]
    assert excess[1] < 0.005


def test_sums_among_dummies_err_like_a_curators_and_less_than_gradients() -> None:
    (census,) = read_examples(["census:20000"])
    best, constant, dummies, curator, gradients = (
        mean_error(census, system, 0.5)
        for system in ("least_squares", "constant", "counters", "central_sums", "default")
    )
    assert best < curator < constant
    # Root mean squared errors; five folds of each.
    assert math.sqrt(dummies / curator) < 1.05
    assert dummies - best < (gradients - best) / 3


def test_all_systems_share_one_opening() -> None:
    """So that they differ by the mechanism of gradients alone; who names a cut has no opening."""
    (census,) = read_examples(["census:30000"])
    seen, begun = set(), []
    for system in ("default", "duchi", "dct_published", "no_noise"):
        run = descent(*setting(census, system, 4.0))
        assert run.steps.groups == run.steps.schedule.steps + 1 == 51
        model = run.train(census.rows, census.targets, 5)
        seen.add(model.seen)
        begun.append(model.scale)
    (opening,) = seen
    assert abs(opening.variance - census.targets.var()) < 6.5 * opening.variance_error < 0.2
    assert set(begun) == {opening.scale}
    cut = descent(*setting(census, "no_noise", 4.0, clip=0.5))
    assert cut.steps.opening is None
    assert cut.train(census.rows, census.targets, 5).seen is None


def test_folds_hold_everybody_back_once() -> None:
    (census,) = read_examples(["census:1003"])
    objective, trained = SquaredError(census.d), []

    def learned(rows: np.ndarray, targets: np.ndarray, seed: int) -> Any:
        trained.append(rows)
        return np.zeros(objective.parameters), False

    run = cross_validate(objective, census, Learner(learned), 1, SeededRandom(1))
    assert [len(rows) for rows in trained] == [802, 802, 802, 803, 803]
    # What is zero everywhere errs by the targets alone: every one of them, and once.
    errors = [run[fold] for fold in FOLDS]
    assert run["test_mse"] == pytest.approx(np.mean(errors))
    sizes = [1003 - len(rows) for rows in trained]
    squares = np.square(census.targets, dtype=np.float64).sum()
    assert np.dot(errors, sizes) == pytest.approx(squares, rel=1e-6)
    constant = mean_error(census, "constant", 1.0)
    assert constant == pytest.approx(float(np.var(census.targets)), rel=0.02)


def test_an_error_is_the_mean_of_the_draws_of_what_is_noisy() -> None:
    (census,) = read_examples(["census:400"])
    objective, seeds = SquaredError(census.d), []

    def errors(weights: list[float], noisy: bool) -> dict[str, float]:
        """Of fits whose weights are these in turn."""
        turn = itertools.cycle(weights)

        def learned(rows: np.ndarray, targets: np.ndarray, seed: int) -> Any:
            seeds.append(seed)
            return np.full(objective.parameters, next(turn)), False

        learner = Learner(learned, noisy=noisy)
        return cross_validate(objective, census, learner, 3, SeededRandom(1))

    mean = errors([0.0, 0.1, 0.2], noisy=True)
    assert len(seeds) == len(set(seeds)) == 15
    alone = [errors([weight], noisy=False) for weight in (0.0, 0.1, 0.2)]
    assert len(seeds) == 15 + 3 * 5
    for fold in FOLDS:
        assert mean[fold] == pytest.approx(np.mean([run[fold] for run in alone]))


def test_from_the_command_to_the_table(run) -> None:
    words = [*REGRESSION, "--epsilons", "1", "4", "--repetitions", "2", "--systems", "pm",
             "dct_published", "constant"]  # fmt: skip
    outcome = run([*words, "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    assert re.search(r"least mean error in \d of 2 comparisons", outcome.out)
    rows = pq.read_table("out/results.parquet").to_pylist()
    assert len(rows) == 2 * 2 * 4
    for row in rows:
        assert row["private"] == (row["system"] in ("default", "pm"))
        assert row["test_mse"] == pytest.approx(np.mean([row[fold] for fold in FOLDS]))
        assert (row["steps"] is None) == (row["system"] == "constant")
    for repetition in (0, 1):
        level = {r["test_mse"] for r in rows if r["system"] == "constant"
                 and r["repetition"] == repetition}  # fmt: skip
        assert len(level) == 1  # the same folds, whatever epsilon is
    assert "dct_published" in Path("out/test_mse-by-epsilon.svg").read_text()
    differences = pq.read_table("out/differences.parquet").to_pylist()
    assert {row["system"]: row["private"] for row in differences}["dct_published"] is False
    assert all(row["difference"] == 0 for row in differences if row["system"] == "default")
