"""Clipped gradients in whole numbers: what a row can move, exactly, and how little is lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushbeam.studies.systems.convolution import Convolution
from mechanisms.learning.dp_sgd import WholeGradients
from mechanisms.learning.objectives import Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.randomness import SeededRandom
from tests.fakes.few import ends
from tests.oracles.learning import clipped_sum

MODELS = [
    (SquaredError(inputs=9), 1),
    (Logistic(inputs=9), 2),
    (Softmax(inputs=9, classes=4), 4),
    (Perceptron(inputs=9, hidden=(7,), classes=4), 4),
    (Perceptron(inputs=9, hidden=(6, 5), classes=3, activation="relu"), 3),
    (Convolution(inputs=26, classes=3, filters=4, kernel=3, stride=1), 3),
]


def made(classes, n, seed=1, dtype=np.float32, inputs=9):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (n, inputs)).astype(dtype)
    rows[:, -1] = 1
    targets = rng.normal(size=n) if classes == 1 else rng.integers(classes, size=n)
    return rows, targets


def some_weights(objective, seed=2):
    return objective.start(SeededRandom(seed)) + np.random.default_rng(seed).normal(
        scale=0.3, size=objective.parameters
    )


def exact_length(total):
    return math.isqrt(sum(int(x) ** 2 for x in total.tolist()) - 1) + 1 if total.any() else 0


@pytest.mark.parametrize(("objective", "classes"), MODELS)
@pytest.mark.parametrize(("clip", "bits"), ends([(0.1, 30), (1.0, 16), (3.7, 40), (100.0, 30)]))
def test_no_row_moves_the_sum_by_more_than_the_bound(objective, classes, clip, bits):
    gradients = WholeGradients(objective, clip, bits)
    rows, targets = made(classes, 40, inputs=objective.inputs)
    weights = some_weights(objective)
    for i in range(40):
        total = gradients.total(weights, rows[i : i + 1], targets[i : i + 1])
        assert exact_length(total) <= 1 << bits


@pytest.mark.parametrize(("objective", "classes"), MODELS)
def test_a_rows_part_does_not_depend_on_the_rows_beside_it(objective, classes):
    """To the bit: the sum over any part of the rows, in any order and place, adds up."""
    gradients, weights = WholeGradients(objective, 0.5), some_weights(objective)
    rows, targets = made(classes, 700, inputs=objective.inputs)
    whole = gradients.total(weights, rows, targets)
    singles = [gradients.total(weights, rows[i : i + 1], targets[i : i + 1]) for i in range(700)]
    assert np.array_equal(whole, np.sum(singles, axis=0))
    order = np.random.default_rng(3).permutation(700)
    assert np.array_equal(whole, gradients.total(weights, rows[order], targets[order]))
    for cut in (1, 255, 256, 257, 511):
        parts = [(rows[:cut], targets[:cut]), (rows[cut:], targets[cut:])]
        assert np.array_equal(whole, sum(gradients.total(weights, *part) for part in parts))


@pytest.mark.parametrize(
    "objective", [Perceptron(inputs=785, hidden=(100,), classes=10), Convolution(785, classes=10)]
)
def test_a_wide_model_too(objective):
    """785 inputs and 100 units are what matrix products cut into tiles and share among threads."""
    rng = np.random.default_rng(4)
    rows = rng.uniform(-1, 1, (300, 785)).astype(np.float32)
    targets = rng.integers(10, size=300)
    gradients, weights = WholeGradients(objective, 1.0), objective.start(SeededRandom(1))
    whole = gradients.total(weights, rows, targets)
    for i in (0, 17, 255, 256, 299):
        rest = np.delete(np.arange(300), i)
        one = gradients.total(weights, rows[i : i + 1], targets[i : i + 1])
        assert np.array_equal(whole - one, gradients.total(weights, rows[rest], targets[rest]))
        assert 0.99 * 2**30 < exact_length(one) <= 1 << 30


@pytest.mark.parametrize(("objective", "classes"), MODELS)
@pytest.mark.parametrize("clip", [0.2, 1000.0])
def test_the_grid_loses_little_of_the_clipped_sum(objective, classes, clip):
    rows, targets = made(classes, 200, dtype=np.float64, inputs=objective.inputs)
    weights = some_weights(objective)
    gradients = WholeGradients(objective, clip)
    found = gradients.total(weights, rows, targets) * gradients.unit
    expected = clipped_sum(objective.gradients(weights, rows, targets), clip)
    # Slopes are cut by less than one step of clip / 2^15, inputs by 2^-13 of their length.
    assert np.linalg.norm(found - expected) <= 200 * clip * 3 * 2.0**-12


def test_short_gradients_keep_their_length_and_long_ones_their_direction():
    objective = SquaredError(inputs=2)
    rows, weights = np.array([[0.6, 0.8]]), np.zeros(2)
    gradients = WholeGradients(objective, clip=2.0, bits=40)
    for target, expected in [(-0.25, [0.3, 0.4]), (-50.0, [1.2, 1.6]), (50.0, [-1.2, -1.6])]:
        found = gradients.total(weights, rows, [target]) * gradients.unit
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, 1e30])
def test_a_row_without_a_finite_gradient_counts_for_nothing(strange):
    objective = SquaredError(inputs=9)
    gradients, weights = WholeGradients(objective, 1.0), np.ones(9)
    rows, targets = made(1, 20)
    whole = gradients.total(weights, rows, targets)
    rows = np.insert(rows, 7, np.float32(strange), axis=0)
    with np.errstate(all="ignore"):
        found = gradients.total(weights, rows, np.insert(targets, 7, 0.0))
    moved = found - whole
    assert exact_length(moved) <= 1 << 30
    if not np.isfinite(strange):
        assert not moved.any()


def test_no_rows_make_no_sum():
    gradients = WholeGradients(Logistic(inputs=3), 1.0)
    assert gradients.total(np.zeros(3), np.empty((0, 3)), []).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("bits", "most"), [(30, 1 << 32), (40, 1 << 22)])
def test_as_many_rows_as_a_sum_can_hold(bits, most):
    """Lots of more than 2^22 rows are served where the grid leaves room in 63 bits."""
    largest = np.array([256 << bits])

    class Largest(WholeGradients):  # what the sum really is takes long for so many rows
        def block(self, *_):
            return largest

    gradients = Largest(SquaredError(inputs=1), 1.0, bits)
    for n in (1 << 20, min(most, 5 << 20)):
        rows, targets = np.broadcast_to(np.float32(1.0), (n, 1)), np.broadcast_to(0.0, n)
        assert gradients.total(np.zeros(1), rows, targets).tolist() == [n << bits]
    assert most << bits < 1 << 63
    rows, targets = np.broadcast_to(np.float32(1.0), (most + 1, 1)), np.broadcast_to(0.0, most + 1)
    with pytest.raises(ValueError, match="at most 2"):
        gradients.total(np.zeros(1), rows, targets)


def test_bad_parameters_are_refused():
    for bad in (math.nan, 0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="clip"):
            WholeGradients(Logistic(inputs=3), bad)
    for bits in (15, 41, 20.5):
        with pytest.raises(ValueError, match="bits"):
            WholeGradients(Logistic(inputs=3), 1.0, bits)
    with pytest.raises(ValueError, match="as many targets as rows"):
        WholeGradients(Logistic(inputs=3), 1.0).total(np.zeros(3), np.ones((2, 3)), [1])
