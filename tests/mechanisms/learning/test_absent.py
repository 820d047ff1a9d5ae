"""Rows without a target: their gradient is 0 at every model, of every loss."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.learning.baseline import Baseline
from mechanisms.learning.objectives import Hinge, Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.papers.learning.local_steps import gradients_at
from mechanisms.papers.learning.opening import Opening
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_optimal

MODELS = [
    SquaredError(4), Logistic(4), Hinge(4), Softmax(4, classes=3), Perceptron(4, (5,), None),
    Perceptron(4, (5,), 3),
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}")
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gradients_are_those_of_the_others(model, kind) -> None:
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, (40, 4)).astype(kind)
    weights, lacking = rng.normal(size=model.parameters), np.arange(40) % 3 == 0
    if model.loss.classes is None:
        targets = rng.uniform(-1, 1, 40).astype(kind)
        targets[lacking] = np.nan
    else:
        targets = rng.integers(0, model.loss.classes, 40).astype(np.int32)
        targets[lacking] = -1
    gradients = model.gradients(weights, rows, targets)
    assert not gradients[lacking].any()
    others = model.gradients(weights, rows[~lacking], targets[~lacking])
    assert np.allclose(gradients[~lacking], others, atol=1e-6)
    ones = np.ones(40)
    summed = model.weighted_gradient(weights, rows, targets, ones)
    alone = model.weighted_gradient(weights, rows[~lacking], targets[~lacking], ones[~lacking])
    assert np.allclose(summed, alone, atol=1e-5)
    picked = np.tile(np.arange(model.parameters), (40, 1))
    assert not gradients_at(model, weights, rows, targets, picked)[lacking].any()
    errors = model.errors(weights, rows, targets)
    instead = np.where(lacking, 0, targets).astype(targets.dtype)
    assert np.array_equal(errors, model.errors(weights, rows, instead))


def test_in_the_opening_targets_that_lack_are_those_of_the_middle() -> None:
    lacking, middle = np.array([0.5, np.nan]), np.array([0.5, 0.0])
    opening = Opening(multi_optimal(4.0, dimension=2))
    reports = [opening.report(targets, SeededRandom(1)) for targets in (lacking, middle)]
    assert np.array_equal(*reports)


def test_who_has_no_target_answers_nothing_about_errors() -> None:
    assert not Baseline(None).answers([np.nan, 0.5])[0].any()
    assert not Baseline(3).answers([-1, 2])[0].any()
    numbers = SquaredError(2).bounded_errors(np.ones(2), np.ones((2, 2)), np.array([np.nan, -1.0]))
    classes = Logistic(2).bounded_errors(np.ones(2), np.ones((2, 2)), np.array([-1, 0]))
    # The model says 2, which counts as the bound 1: as far from -1 as can be.
    assert numbers.tolist() == classes.tolist() == [0.0, 1.0]
