"""The perceptron: how it begins, what it can learn that no line can, and that it is fast."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.learning.objectives import Softmax
from mechanisms.learning.perceptron import Perceptron
from mechanisms.randomness import SeededRandom


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_it_learns_what_is_not_linear(activation):
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (300, 2))
    rows = np.column_stack([points, np.ones(300)])
    labels = (points[:, 0] * points[:, 1] > 0).astype(int)
    line = Softmax(3, classes=2)
    assert line.errors(line.fit_exactly(rows, labels), rows, labels).mean() > 0.25
    model = Perceptron(3, (16,), classes=2, activation=activation)
    weights = model.fit_exactly(rows, labels, model.start(SeededRandom(4)))
    assert model.errors(weights, rows, labels).mean() < 0.02


def test_it_fits_numbers():
    rows = np.column_stack([np.linspace(-1, 1, 60), np.ones(60)])
    targets = np.sin(3 * rows[:, 0])
    model = Perceptron(2, (4, 3))
    weights = model.fit_exactly(rows, targets, model.start(SeededRandom(2)))
    assert model.errors(weights, rows, targets).mean() < 1e-3
    assert model.predict(weights, rows).shape == (60,)


def test_it_begins_with_uniform_weights_and_constants_at_zero():
    model = Perceptron(785, (100,), classes=10)
    weights = model.start(SeededRandom(1))
    first, second = model.matrices(weights, weights)
    for matrix in (first, second):
        inputs, outputs = matrix.shape
        reach = math.sqrt(6 / (inputs - 1 + outputs))
        assert not matrix[-1].any()
        inside = matrix[:-1] / reach
        assert np.abs(inside).max() <= 1
        # 1,000 uniform numbers or more: their mean square is 1/3 within 0.06 but once in 1e9 times.
        assert abs(np.mean(inside**2) - 1 / 3) < 0.06
        assert abs(np.mean(inside)) < 0.12
    np.testing.assert_array_equal(weights, model.start(SeededRandom(1)))
