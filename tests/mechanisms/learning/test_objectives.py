"""Losses and linear models: gradients against differences, sums against loops, exact optima."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushbeam.studies.systems.convolution import Convolution
from mechanisms.learning.objectives import Hinge, Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.learning.scores import CrossEntropy, HingeLoss
from mechanisms.papers.learning.local_steps import gradients_at
from mechanisms.randomness import SeededRandom
from tests.oracles import learning as oracles_learning

OBJECTIVES = [
    SquaredError(6),
    SquaredError(6, penalty=0.3),
    Logistic(6, penalty=0.1),
    Hinge(6),
    Hinge(6, rounding=0.5),
    Softmax(6, classes=3),
    Perceptron(6, (4,)),
    Perceptron(6, (4, 3), classes=3, penalty=0.2),
    Perceptron(6, (5,), classes=2, activation="relu"),
    Perceptron(6, (), classes=2),
    Convolution(26, 3, filters=2, kernel=2, stride=1, pooled=2, penalty=0.1),
    Convolution(26, 2, filters=3, kernel=3, stride=2, pooled=1),
]


def case(objective, n: int = 40, dtype=np.float64):
    """Weights, rows and targets for an objective."""
    rng = np.random.default_rng(1)
    numbers = rng.uniform(-1, 1, (n, objective.inputs - 1))
    rows = np.column_stack([numbers, np.ones(n)]).astype(dtype)
    classes = objective.loss.classes
    targets = rng.uniform(-1, 1, n) if classes is None else rng.integers(0, classes, n)
    weights = objective.start(SeededRandom(1)) + rng.normal(0, 0.3, objective.parameters)
    return weights, rows, targets


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_gradients_are_derivatives_of_the_losses(objective):
    weights, rows, targets = case(objective)
    gradients = objective.gradients(weights, rows, targets)
    assert gradients.shape == (len(rows), objective.parameters)
    expected = oracles_learning.numeric_gradients(objective, weights, rows, targets)
    np.testing.assert_allclose(gradients, expected, atol=1e-7)
    assert np.abs(gradients).max() > 0.1
    mean = objective.mean_gradient(weights, rows, targets) + objective.penalty_gradient(weights)
    numeric = oracles_learning.numeric_mean_gradient(objective, weights, rows, targets)
    np.testing.assert_allclose(mean, numeric, atol=1e-7)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_shortcuts_agree_with_gradients_laid_out(objective):
    weights, rows, targets = case(objective)
    gradients = objective.gradients(weights, rows, targets)
    coordinates = np.random.default_rng(2).integers(0, objective.parameters, (len(rows), 3))
    np.testing.assert_allclose(
        gradients_at(objective, weights, rows, targets, coordinates),
        np.take_along_axis(gradients, coordinates, axis=1),
        atol=1e-14,
    )
    factors = np.linspace(0, 1, len(rows))
    np.testing.assert_allclose(
        objective.weighted_gradient(weights, rows, targets, factors),
        factors @ gradients,
        atol=1e-12,
    )


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_single_precision_stays_single_and_near(objective):
    weights, rows, targets = case(objective, dtype=np.float32)
    gradients = objective.gradients(weights, rows, targets)
    assert gradients.dtype == np.float32
    exact = objective.gradients(weights, rows.astype(np.float64), targets)
    np.testing.assert_allclose(gradients, exact, atol=1e-5)
    assert objective.weighted_gradient(weights, rows, targets, np.ones(len(rows))).dtype == float


def test_the_penalty_spares_intercepts():
    ridge = SquaredError(3, penalty=2.0)
    np.testing.assert_array_equal(ridge.penalty_gradient(np.ones(3)), [2, 2, 0])
    softmax = Softmax(2, penalty=1.0, classes=2)
    np.testing.assert_array_equal(softmax.penalty_gradient(np.ones(4)), [1, 1, 0, 0])


@pytest.mark.parametrize(
    "objective",
    [SquaredError(6), SquaredError(6, 0.3), Logistic(6, 0.1), Softmax(6, 0.1, 3)],
    ids=repr,
)
def test_the_exact_fit_has_no_slope_left(objective):
    _, rows, targets = case(objective)
    best = objective.fit_exactly(rows, targets)
    slope = objective.mean_gradient(best, rows, targets) + objective.penalty_gradient(best)
    np.testing.assert_allclose(slope, 0, atol=1e-5)


def test_least_squares_without_a_unique_answer_gives_the_shortest():
    rows = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(SquaredError(2).fit_exactly(rows, [1.0, 3.0]), [1.0, 1.0])


def test_the_exact_support_vector_machine_is_a_minimum():
    """The loss has a corner, so it is compared with its neighbours, not by its slope."""
    objective = Hinge(6, penalty=0.05)
    _, rows, targets = case(objective, n=200)
    best = objective.fit_exactly(rows, targets)
    least = objective.objective(best, rows, targets)
    rng = np.random.default_rng(3)
    for size in (0.01, 0.1, 1.0):
        for _ in range(50):
            other = best + size * rng.normal(size=6)
            assert objective.objective(other, rows, targets) > least - 5e-4


def test_a_rounded_corner_is_at_most_half_of_the_rounding_too_low():
    margins = np.linspace(-3, 3, 601)[:, None]
    sharp, labels = HingeLoss().values(margins, np.ones(601)), np.ones(601)
    for rounding in (0.1, 1.0):
        off = sharp - HingeLoss(rounding).values(margins, labels)
        assert off.min() >= -1e-12
        assert off.max() == pytest.approx(rounding / 2)


def test_scores_of_any_size_have_finite_losses():
    far = np.array([[1e4], [-1e4]])
    for objective in (Logistic(1), Hinge(1)):
        losses = objective.losses(np.ones(1), far, [0, 1])
        assert np.isfinite(losses).all()
        assert (losses > 9e3).all()
    assert np.isfinite(CrossEntropy(2).values(np.array([[1e4, -1e4]]), [1])).all()


def test_errors_are_squares_of_numbers_and_mistakes_of_classes():
    rows = np.array([[1.0], [-1.0]])
    assert SquaredError(1).errors(np.ones(1), rows, [0.5, -1.0]).tolist() == [0.25, 0.0]
    assert Logistic(1).errors(np.ones(1), rows, [1, 1]).tolist() == [0.0, 1.0]
    assert Softmax(1, classes=3).errors(np.array([0.0, 0.0, 1.0]), rows, [2, 2]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: SquaredError(0), "inputs must be at least 1"),
        (lambda: SquaredError(2.5), "inputs must be an integer"),
        (lambda: Logistic(2, penalty=math.nan), "penalty must be a finite number"),
        (lambda: Softmax(2, classes=1).loss, "classes must be at least 2"),
        (lambda: Perceptron(3, (0,)), "hidden must be at least 1"),
        (lambda: Perceptron(3, (2,), classes=1), "classes must be at least 2"),
        (lambda: Perceptron(3, (2,), activation="step"), "activation must be"),
        (lambda: Perceptron(3, (2,), penalty=-1.0), "penalty must be"),
    ],
)
def test_what_is_no_model_is_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
