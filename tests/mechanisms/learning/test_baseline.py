"""The error of the best constant, against the constant itself."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.learning.absent import present
from mechanisms.learning.baseline import Baseline
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.randomness import SeededRandom

SIGMAS = 6.2  # of two sides: false alarms below 1e-9


def targets_of(classes: int | None, n: int) -> np.ndarray:
    rng = SeededRandom(1).generator()
    return rng.uniform(-0.2, 1, n) if classes is None else rng.integers(0, 2 * classes, n) % classes


def averages_of(baseline: Baseline, targets: np.ndarray, error: float) -> np.ndarray:
    """What a model of some mean error, and rows of some targets, come to."""
    usable = present(targets).mean()
    mean_answers = baseline.answers(targets).mean(axis=0)
    return np.concatenate([[error * usable / baseline.largest], mean_answers])


@pytest.mark.parametrize("absent", [0.0, 0.5])
@pytest.mark.parametrize("classes", [None, 2, 3, 10])
def test_the_error_is_that_of_the_best_constant_where_there_are_targets(classes, absent) -> None:
    targets, baseline = targets_of(classes, 5000), Baseline(classes)
    gone = np.arange(5000) < 5000 * absent
    known = targets[~gone]
    targets = np.where(gone, np.nan if classes is None else -1, targets)
    answers = baseline.answers(targets)
    assert answers.shape == (5000, baseline.questions)
    assert 0 <= answers.min() <= answers.max() <= 1
    assert not answers[gone].any()
    found = averages_of(baseline, targets, 0.25)
    made = baseline.compared(found, np.zeros(len(found)), 3.0, 0.95)
    if classes is None:
        best = np.var(known)
    else:
        best = min(np.mean(known != guess) for guess in range(classes))
    assert made.constant == pytest.approx(3 * best, rel=1e-9)
    assert made.model == pytest.approx(3 * 0.25, rel=1e-9)
    assert made.gained is bool(best > 0.25)


@pytest.mark.parametrize("classes", [None, 2])
def test_noisy_averages_give_an_unbiased_difference_with_its_error(classes) -> None:
    """Of numbers and of two classes, of which one is far more common than the other."""
    baseline, runs, sd = Baseline(classes), 8000, 0.01
    truth = np.array([0.05, 0.8, 0.5, 0.3] if classes is None else [0.1, 0.2, 0.6])
    noise = sd * SeededRandom(2).generator().normal(size=(runs, len(truth)))
    spread = np.full(len(truth), sd**2)
    made = [baseline.compared(truth + one, spread, 1.0, 0.95) for one in noise]
    differences = np.array([one.model - one.constant for one in made])
    exact = baseline.compared(truth, spread * 0, 1.0, 0.95)
    error = baseline.compared(truth, spread, 1.0, 0.95).standard_error
    # Quotients are unbiased to first order: what is left is well below a tenth of the error.
    off = abs(differences.mean() - (exact.model - exact.constant))
    assert off < SIGMAS * error / np.sqrt(runs) + 0.05 * error
    # A variance is known from so many runs to 1.6 %, by normal moments.
    assert np.var(differences) == pytest.approx(error**2, rel=0.1)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_the_commonest_class_is_not_picked_by_noise(classes: int) -> None:
    """All alike, and a model as good as the best constant: it is hardly ever called of no use."""
    baseline, runs = Baseline(classes), 1000
    truth = np.array([1 - 1 / classes, *[1 / classes] * classes])
    spread = np.full(len(truth), 1e-6)
    noise = 1e-3 * SeededRandom(3).generator().normal(size=(runs, len(truth)))
    lost = sum(
        made is not None and made.gained is False
        for made in (baseline.compared(truth + one, spread, 1.0, 0.95) for one in noise)
    )
    # 5 % were promised at most; 6.2 standard deviations of a binomial are 4.3 % of the runs, and
    # noise that picks the class loses most of them.
    assert lost < 0.093 * runs


@pytest.mark.parametrize(
    ("model", "gained"), [(0.20, True), (0.29, None), (0.31, None), (0.45, False)]
)
def test_what_noise_may_have_done_is_left_open(model, gained) -> None:
    made = Baseline(2).compared([model, 0.7, 0.3], [1e-4, 2e-5, 2e-5], 4.0, 0.95)
    assert made.gained is gained
    assert made.constant == pytest.approx(1.2)


def test_nothing_is_compared_where_next_to_no_row_can_be_used() -> None:
    assert Baseline(None).compared([0.1, 0.01, 0.0, 0.0], [1e-4] * 4, 1.0, 0.95) is None
    assert Baseline(None).compared([np.inf, 1.0, 0.5, 0.3], [1e-4] * 4, 1.0, 0.95) is None


@pytest.mark.parametrize("classes", [None, 2, 7])
def test_another_row_moves_no_more_than_is_paid_for(classes) -> None:
    """All pairs of extreme rows, those that cannot be used among them; and the model's error."""
    baseline = Baseline(classes)
    targets = np.array([-1.0, 0.0, 1.0, np.nan] if classes is None else [*range(classes), -1])
    answers = baseline.answers(targets)
    moved = np.abs(answers[:, None] - answers[None]).sum(axis=2).max() + 1
    assert moved <= baseline.moved


@pytest.mark.parametrize("epsilon", [0.05, 0.001, 2.0])
def test_noisy_averages_are_unbiased_with_the_variance_they_say(epsilon) -> None:
    averages, runs = NoisyAverages(epsilon, moved=3), 2000
    numbers, rng = np.tile([[0.1, 0.73], [0.9, 0.0]], (50, 1)), SeededRandom(3)
    drawn = np.array([averages.release([numbers[:31], numbers[31:]], rng)[0] for _ in range(runs)])
    variance = averages.release([numbers[:31], numbers[31:]], rng)[1]
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
