"""Private gradient descent: its lots, its noise, its claim, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.learning.dp_sgd import DpSgd, design, usual_optimiser
from mechanisms.learning.objectives import Logistic, Softmax, SquaredError
from mechanisms.learning.optimisers import Momentum
from mechanisms.learning.perceptron import Perceptron
from mechanisms.privacy.sampled_gaussian import SubsampledGaussian, epsilon_of
from mechanisms.randomness import SeededRandom
from tests.oracles.learning import clipped_sum

PLAIN = Momentum(rate=0.5, memory=0.0, averaging=0.0)


def labelled(n, seed=1):
    """Rows of two blobs that a line tells apart 97.7 % of the time, at best."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    rows = rng.normal(size=(n, 3)) * 0.5 + np.outer(2 * labels - 1, [1.0, 0.0, 0.0])
    rows[:, -1] = 1
    return rows, labels


def test_lots_take_each_row_on_its_own_and_never_too_often():
    # 400 lots of 2,000 rows: 800,000 coins of mean 0.07; 6.5 standard errors, false alarm 8e-11.
    training = DpSgd(Logistic(inputs=3), rows=2000, rate=0.07, steps=1, sigma=1.0)
    rng = SeededRandom(3)
    lots = np.array([training.taken(2000, rng) for _ in range(400)])
    assert abs(lots.mean() - 0.07) <= 6.5 * math.sqrt(0.07 * 0.93 / lots.size)
    # Poisson lots vary in size as a binomial does (the variance of 400 sizes: 7 % off is one
    # standard error), and rows side by side are not taken together.
    sizes = lots.sum(axis=1).var()
    assert 0.5 < sizes / (2000 * 0.07 * 0.93) < 1.6
    together = (lots[:, 1:] & lots[:, :-1]).mean()
    assert abs(together - 0.07**2) <= 6.5 * math.sqrt(0.07**2 / lots.size)
    everyone = DpSgd(Logistic(inputs=3), rows=10, rate=1.0, steps=1, sigma=1.0)
    assert everyone.taken(10, rng).all()


def test_a_step_without_noise_is_the_clipped_mean_gradient():
    objective = SquaredError(inputs=3, penalty=0.1)
    rows, _ = labelled(50)
    targets = rows[:, 0] * 3
    training = DpSgd(objective, 40, rate=1.0, steps=1, sigma=0.0, clip=0.7, optimiser=PLAIN)
    weights = np.array([0.3, -0.2, 0.1])
    before = PLAIN.begin(weights)
    after = training.onward(before, training.total(weights, rows, targets), SeededRandom(1))
    mean = clipped_sum(objective.gradients(weights, rows, targets), 0.7) / 40
    expected = weights - 0.5 * (mean + objective.penalty_gradient(weights))
    np.testing.assert_allclose(after.weights, expected, atol=1e-3)


@pytest.mark.parametrize("sigma", [0.5, 3.0, 900.0])
def test_the_noise_of_a_step_is_what_was_claimed(sigma):
    # 40,001 coordinates: a standard deviation 3 % off would be 8 standard errors (0.35 % each).
    objective, short = Logistic(inputs=40_001), Momentum(1e-3, 0.0, 0.0)
    training = DpSgd(objective, 1000, 0.1, 5, sigma, clip=2.0, optimiser=short)
    start = training.begin(SeededRandom(1))
    nothing = np.zeros(objective.parameters, np.int64)
    moved = training.onward(start, nothing, SeededRandom(2)).weights / -1e-3
    assert training.noise_per_coordinate == pytest.approx(sigma * 2.0 / 100)
    assert abs(moved.std() / training.noise_per_coordinate - 1) <= 6.5 / math.sqrt(2 * 40_000)
    assert abs(moved.mean()) <= 6.5 * training.noise_per_coordinate / math.sqrt(40_000)
    # The sampled noise is in whole units, of which the noise's spread has 2^27 or more.
    assert training.noise is not None
    assert training.noise.sigma == sigma * 2.0**training.gradients.bits <= 2.0**36


def test_the_claim_is_the_accountants_at_what_delta_leaves():
    training = DpSgd(Logistic(inputs=3), 600, rate=0.01, steps=10_000, sigma=4.0)
    for name, known in [("moments", 1.2586), ("rdp", 1.035), ("pld", 0.947)]:
        claim = training.guarantee(1e-5, name)
        assert (claim.model, claim.delta, claim.unit) == ("central", 1e-5, "row")
        assert claim.epsilon == pytest.approx(known, abs=5e-4)
        run = SubsampledGaussian(0.01, 4.0, 10_000)
        assert claim.epsilon >= epsilon_of(run, 1e-5, name)
    replaced = training.guarantee(1e-5, "rdp", "replace one", unit="user")
    assert replaced.epsilon > 2 * 1.035
    assert replaced.unit == "user"
    assert "replacing one" in replaced.how


def test_without_noise_nobody_is_protected():
    claim = DpSgd(Logistic(inputs=3), 600, 0.1, 10, sigma=0.0).guarantee(1e-5)
    assert (claim.model, claim.epsilon) == ("none", math.inf)


def test_a_delta_below_what_the_sampler_is_off_by_is_refused():
    training = DpSgd(Logistic(inputs=3), 600, 0.1, 10, sigma=4.0)
    with pytest.raises(ValueError, match="delta must be above"):
        training.guarantee(1e-55, "rdp")


@pytest.mark.parametrize(("epsilon", "accountant"), [(0.5, "pld"), (8.0, "rdp")])
def test_a_design_keeps_to_its_target_and_wastes_little(epsilon, accountant):
    training = design(Logistic(inputs=3), 2000, epsilon, 1e-5, 0.2, 40, accountant=accountant)
    assert 0.999 * epsilon < training.guarantee(1e-5, accountant).epsilon <= epsilon


def test_it_learns_and_ever_better_with_a_larger_epsilon():
    """4,000 rows; nobody gets more than 97.7 % right. Ten runs of each epsilon, seeds fixed."""
    rows, labels = labelled(4000)
    fresh, truth = labelled(4000, seed=2)
    objective = Logistic(inputs=3)
    right = {}
    for epsilon in (0.05, 1.0, math.inf):
        training = design(objective, 4000, epsilon, 1e-5, 0.2, 30, 1.0, Momentum(2.0), "rdp")
        fits = [training.train(rows, labels, SeededRandom(seed)) for seed in range(10)]
        right[epsilon] = np.mean([1 - objective.errors(w, fresh, truth).mean() for w in fits])
    assert right[math.inf] > 0.97
    assert right[math.inf] - 0.005 < right[1.0]
    assert right[0.05] < right[1.0]


def test_a_perceptron_learns_what_no_line_tells_apart():
    rng = np.random.default_rng(5)
    rows = rng.uniform(-1, 1, (6000, 3)).astype(np.float32)
    rows[:, -1] = 1
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    objective = Perceptron(inputs=3, hidden=(16,), classes=2)
    training = design(objective, 5000, 8.0, 1e-5, 0.2, 120, 1.0, Momentum(8.0), "rdp")
    weights = training.train(rows[:5000], labels[:5000], SeededRandom(1))
    assert objective.errors(weights, rows[5000:], labels[5000:]).mean() < 0.1


def test_the_curve_is_watched_step_by_step_and_the_average_is_returned():
    rows, labels = labelled(500)
    training = DpSgd(Logistic(inputs=3), 500, rate=0.3, steps=6, sigma=1.0)
    seen = []
    weights = training.train(rows, labels, SeededRandom(1), seen.append)
    assert [progress.step for progress in seen] == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(weights, seen[-1].average)
    again = training.train(rows, labels, SeededRandom(1))
    assert np.array_equal(weights, again)


def test_parts_of_a_lot_add_up_to_the_whole():
    rows, labels = labelled(999)
    training = DpSgd(Logistic(inputs=3), 999, rate=0.3, steps=6, sigma=1.0)
    weights = np.array([0.1, 0.2, -0.3])
    parts = [training.total(weights, rows[i::4], labels[i::4]) for i in range(4)]
    assert np.array_equal(np.sum(parts, axis=0), training.total(weights, rows, labels))


def test_running_means_are_free_of_their_start():
    momentum = Momentum(rate=1.0, memory=0.9, averaging=0.9)
    progress = momentum.begin(np.zeros(1))
    for _ in range(3):
        progress = momentum.onward(progress, np.ones(1), steps=3)
        assert progress.velocity[0] == pytest.approx(1.0)
    shares = np.array([0.81, 0.9, 1.0])
    assert progress.average[0] == pytest.approx(shares @ [-1, -2, -3] / shares.sum())
    lengths = []
    for schedule in ("constant", "linear", "cosine"):
        fading = Momentum(1.0, 0.0, 0.0, schedule)
        second = fading.begin(np.zeros(1))._replace(step=2)
        lengths.append(float(-fading.onward(second, np.ones(1), steps=4).weights[0]))
    assert lengths == pytest.approx([1.0, 0.5, 0.5])


def test_a_run_that_leaves_all_numbers_is_stopped_with_its_step():
    rows, _ = labelled(100)
    objective = SquaredError(inputs=3, penalty=1e300)
    training = DpSgd(objective, 100, 1.0, 50, 1.0, optimiser=Momentum(1e200, 0.0, 0.0))
    with (
        pytest.raises(FloatingPointError, match=r"diverged in step \d+ of 50"),
        np.errstate(all="ignore"),
    ):
        training.train(rows, rows[:, 0], SeededRandom(1))


@pytest.mark.parametrize(
    "objective",
    [
        SquaredError(inputs=3),
        Logistic(inputs=3),
        Softmax(inputs=3, classes=4),
        Perceptron(inputs=3, hidden=(5,), classes=2),
    ],
)
def test_a_run_that_leaves_all_bounds_is_stopped_though_its_weights_are_numbers(objective):
    """A row's gradient is cut to 1, so a step of 1e6 goes as far as that, and no farther."""
    rows, labels = labelled(100)
    training = DpSgd(objective, 100, 1.0, 50, 1.0, optimiser=Momentum(1e6, 0.0, 0.0))
    with pytest.raises(FloatingPointError, match="diverged in step 1 of 50"):
        training.train(rows, labels, SeededRandom(1))


def test_bounds_are_those_of_runs_on_reports_and_the_wider_the_more_units_there_are():
    for objective, reach in [
        (SquaredError(inputs=4), 10.0),
        (Logistic(inputs=4), 100.0),
        (Softmax(inputs=1, classes=4), 200.0),
        (Perceptron(inputs=3, hidden=(8,), classes=None), 30.0),
    ]:
        ones = np.ones(objective.parameters) / math.sqrt(objective.parameters)
        assert not objective.diverged(reach * (1 - 1e-9) * ones)
        assert objective.diverged(reach * (1 + 1e-9) * ones)
        for wild in (math.nan, math.inf, -math.inf):
            assert objective.diverged(np.append(ones[1:], wild))


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf])
@pytest.mark.parametrize("name", ["rate", "sigma", "clip"])
def test_bad_numbers_are_refused(name, bad):
    good = {"rows": 10, "rate": 0.5, "steps": 3, "sigma": 1.0, "clip": 1.0}
    with pytest.raises(ValueError, match=name):
        DpSgd(Logistic(inputs=3), **(good | {name: bad}))


def test_bad_sizes_are_refused():
    good = {"rows": 10, "rate": 0.5, "steps": 3, "sigma": 1.0}
    for name in ("rows", "steps"):
        for bad in (0, 1.5):
            with pytest.raises(ValueError, match=name):
                DpSgd(Logistic(inputs=3), **(good | {name: bad}))
    for bad in ({"rate": math.nan}, {"memory": 1.0}, {"averaging": -0.1}, {"schedule": "none"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Momentum(**({"rate": 1.0} | bad))


def test_the_usual_rate_falls_with_the_noise_and_heeds_the_curvature_of_squares():
    noisy, quiet = (
        usual_optimiser(DpSgd(Softmax(inputs=400, classes=10), 8000, 0.25, 100, sigma, 0.5)).rate
        for sigma in (10.0, 0.1)
    )
    assert 1 / 0.5 <= noisy < quiet == 8 / 0.5
    squares = usual_optimiser(DpSgd(SquaredError(inputs=50), 10**6, 0.1, 100, 1.0))
    assert squares.rate == pytest.approx(10 / (2 * 50))
