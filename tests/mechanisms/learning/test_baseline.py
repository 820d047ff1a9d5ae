"""The error of the best constant, against the constant itself."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.learning.baseline import Baseline, Comparison, Error, compared
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.randomness import SeededRandom

SIGMAS = 6.2  # of two sides: false alarms below 1e-9


def targets_of(classes: int | None, n: int) -> np.ndarray:
    rng = SeededRandom(1).generator()
    return rng.uniform(-0.2, 1, n) if classes is None else rng.integers(0, 2 * classes, n) % classes


@pytest.mark.parametrize("classes", [None, 2, 3, 10])
def test_the_error_is_that_of_the_best_constant(classes) -> None:
    targets, baseline = targets_of(classes, 5000), Baseline(classes)
    answers = baseline.answers(targets)
    assert answers.shape == (5000, baseline.questions)
    assert answers.min() >= 0
    assert answers.max() <= 1
    error = baseline.error(answers.mean(axis=0), np.zeros(baseline.questions))
    if classes is None:
        best = np.var(targets)
    else:
        best = min(np.mean(targets != guess) for guess in range(classes))
    assert error.value == pytest.approx(best, rel=1e-12)
    assert error.variance == 0


@pytest.mark.parametrize("classes", [None, 2])
def test_noisy_answers_give_an_unbiased_error_with_its_variance(classes) -> None:
    """Of numbers and of two classes, of which one is far more common than the other."""
    baseline, runs = Baseline(classes), 20_000
    truth = np.array([0.7, 0.4]) if classes is None else np.array([0.2])
    spread = np.full(len(truth), 0.03)
    noisy = truth + spread * SeededRandom(2).generator().normal(size=(runs, len(truth)))
    errors = [baseline.error(row, spread**2) for row in noisy]
    values = np.array([error.value for error in errors])
    exact = baseline.error(truth, np.zeros(len(truth))).value
    variance = baseline.error(truth, spread**2).variance
    assert abs(values.mean() - exact) < SIGMAS * np.sqrt(variance / runs)
    # A variance is known from so many runs to 1 %, by normal moments.
    assert np.var(values) == pytest.approx(variance, rel=0.062)


@pytest.mark.parametrize(
    ("model", "gained"), [(0.20, True), (0.29, None), (0.31, None), (0.45, False), (np.nan, None)]
)
def test_what_noise_may_have_done_is_left_open(model, gained) -> None:
    comparison = compared(Error(model, 1e-4), Error(0.3, 1e-4), 4.0, 1.96)
    assert comparison.gained is gained
    assert comparison.constant == 1.2
    assert comparison.standard_error == pytest.approx(4 * np.sqrt(2e-4))


def test_a_comparison_is_plain_data() -> None:
    assert list(Comparison(1.0, 2.0, 0.1, 1.96)._asdict()) == [
        "model", "constant", "standard_error", "reach",
    ]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "holders"), [(0.05, 1), (0.001, 3), (2.0, 1)])
def test_noisy_averages_are_unbiased_with_the_variance_they_say(epsilon, holders) -> None:
    averages, runs = NoisyAverages(epsilon, moved=3, holders=holders), 2000
    numbers, rng = np.tile([[0.1, 0.73], [0.9, 0.0]], (50, 1)), SeededRandom(3)
    drawn = np.array([averages.release(numbers, rng)[0] for _ in range(runs)])
    variance = averages.release(numbers, rng)[1]
    # Rounding to the grid adds at most a quarter of a cell's square of each row.
    rounding = 0.25 / averages.grid**2 / len(numbers)
    for column, mean in enumerate(numbers.mean(axis=0)):
        off = SIGMAS * np.sqrt((variance + rounding) / runs)
        assert abs(drawn[:, column].mean() - mean) < off
        # Laplace noise has a kurtosis of 6: a variance from so many runs is known to 5 %.
        measured = np.var(drawn[:, column])
        assert 0.69 * variance < measured < 1.31 * (variance + rounding)


def test_noise_is_as_the_promise_needs_for_one_row() -> None:
    """The noise weights of sums that one row moves differ by no more than e^epsilon."""
    averages = NoisyAverages(0.3, moved=3)
    weights, _ = averages.noise.weights
    shift = 3 * averages.grid
    ratio = weights[shift:].astype(float) / weights[:-shift].astype(float)
    assert max(ratio.max(), 1 / ratio.min()) <= np.exp(0.3) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_a_loss_that_is_none_is_refused(epsilon) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        NoisyAverages(epsilon, moved=3)
