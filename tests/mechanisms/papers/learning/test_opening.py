"""The opening of a run: what it tells of targets, what follows from it, what it is good for."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from mechanisms.learning.objectives import Logistic, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.papers.laplace_vector import laplace_vector
from mechanisms.papers.learning.gradient_reports import gradient_mechanism
from mechanisms.papers.learning.local_steps import LocalSteps
from mechanisms.papers.learning.opening import Opening, TargetEstimates, opens
from mechanisms.papers.learning.schedule import SPREAD, StepSchedule, hurry
from mechanisms.papers.learning.whole_run import plan_run
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_hm, multi_optimal
from tests.oracles.learning import simulate

SURE = -NormalDist().inv_cdf(1e-10)  # of normal noise; for a few numbers tested at once
USUAL = SPREAD**2


def spread(variance: float, error: float = 1e-9) -> TargetEstimates:
    return TargetEstimates(0.0, 0.01, variance, error)


# ---- what is reported ------------------------------------------------------------------------


@pytest.mark.parametrize("build", [multi_optimal, gradient_mechanism, laplace_vector])
def test_means_and_spreads_are_unbiased_and_as_uncertain_as_they_say(build):
    """Errors 30 % off would be seen but once in 1e9 times: 300 runs know a variance to 0.082."""
    opening, rng = Opening(build(2.0, 2)), SeededRandom(3)
    targets = np.repeat([-0.9, -0.2, 0.5], [600, 300, 100])
    found = [
        opening.seen(opening.mechanism.count(opening.report(targets, rng))) for _ in range(300)
    ]
    assert SURE * math.sqrt(2 / len(found)) < 1.3**2 - 1
    for name, truth in (("mean", targets.mean()), ("variance", targets.var())):
        values = np.array([getattr(seen, name) for seen in found])
        errors = np.array([getattr(seen, f"{name}_error") for seen in found])
        off = SURE * errors.mean() / math.sqrt(len(found))
        assert abs(values.mean() - truth) < off < 0.05
        ratio = float(np.mean((values - truth) ** 2) / np.mean(errors**2))
        assert abs(ratio - 1) < SURE * math.sqrt(2 / len(found))


def test_targets_beyond_their_bounds_count_as_these_and_absent_ones_as_the_middle():
    opening = Opening(multi_optimal(4.0, 2))
    inside = opening.report(np.array([-1.0, 1.0]), SeededRandom(1))
    np.testing.assert_array_equal(opening.report([-7.0, 3.0], SeededRandom(1)), inside)
    middle = opening.report([0.25, 0.0], SeededRandom(1))
    np.testing.assert_array_equal(opening.report([0.25, math.nan], SeededRandom(1)), middle)
    with pytest.raises(ValueError, match="report"):
        opening.seen(np.zeros(opening.mechanism.codes, np.int64))


def test_a_report_of_a_target_costs_what_one_of_a_gradient_does():
    run = plan_run(SquaredError(4), gradient_mechanism(1.5, 4), gradient_mechanism(1.5, 2), 40_000)
    assert tight_epsilon(run.opening.mechanism.mechanism) <= 1.5
    promise = run.guarantee
    assert (promise.model, promise.epsilon, promise.delta) == ("local", 1.5, 0.0)
    assert f"{run.schedule.steps + 1} disjoint groups" in promise.how
    assert run.opening.mechanism.guarantee.how in promise.how
    dear = LocalSteps(
        SquaredError(4), multi_hm(1.0, 4), StepSchedule(10, 0.1), opening=Opening(multi_hm(3.0, 2))
    )
    assert dear.guarantee.epsilon == 3.0


# ---- what follows ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variance", "error", "scale"),
    [
        (USUAL, 0.01, 1.0),
        (0.7, 1e-9, math.sqrt(0.7) / SPREAD),  # known well
        (0.7, 0.1, math.sqrt(0.5) / SPREAD),  # two errors nearer to the usual one
        (0.2, 0.07, 1.0),  # within two errors of it
        (0.01, 1e-9, 0.4),
        (0.01, 0.01, math.sqrt(0.03) / SPREAD),
        (-0.02, 0.01, math.sqrt(0.02) / SPREAD),  # no variance is below 0
        (-3.0, 1.0, 1.0),
        (5.0, 0.1, 4.0),  # nor above 1
    ],
)
def test_the_scale_is_the_least_change_that_reports_admit(variance, error, scale):
    assert spread(variance, error).scale == pytest.approx(scale, rel=1e-6)


def test_a_mean_that_is_all_noise_is_none():
    assert TargetEstimates(0.1, 0.1, USUAL, 0.1).centre == 0
    assert TargetEstimates(-0.2, 0.1, USUAL, 0.1).centre == pytest.approx(-0.15)
    assert TargetEstimates(-1.4, 0.1, USUAL, 0.1).centre == -1


def test_the_descent_begins_nearer_to_the_mean_the_narrower_targets_are():
    opening = Opening(multi_optimal(4.0, 2), trust=0.25)
    seen = TargetEstimates(-0.8, 1e-9, USUAL, 1e-9)
    assert opening.begin(seen) == pytest.approx(-0.2)
    assert opening.begin(seen._replace(variance=0.9)) == pytest.approx(-0.2)
    assert opening.begin(seen._replace(variance=USUAL / 100)) == pytest.approx(-0.72)


def test_only_the_constant_and_the_cut_follow_from_it():
    opening = Opening(gradient_mechanism(6.0, 2), trust=0.5)
    steps = LocalSteps(
        SquaredError(3), gradient_mechanism(6.0, 3), StepSchedule(10, 0.1), opening=opening
    )
    n, rng = 200_000, SeededRandom(2)
    targets = np.where(np.arange(n) % 4 == 0, 1.0, -1.0)
    model = steps.open(steps.start(rng), opening.mechanism.count(opening.report(targets, rng)))
    assert model.weights[:2].tolist() == [0.0, 0.0]
    assert abs(model.weights[2] + 0.25) < 0.02
    np.testing.assert_array_equal(model.average, model.weights)
    assert model.step == model.used == 0
    assert abs(model.scale - math.sqrt(0.75) / SPREAD) < 0.1
    # A gradient of 1.4 is beyond the usual cut of 0.5, and within that of 1.7.
    rows = np.tile([0.0, 0.7, 0.0], (n, 1))
    messages = steps.report(np.zeros(3), rows, np.full(n, -1.0), rng, model.scale)
    found = steps.mean_gradient(steps.mechanism.count(messages), model.scale)
    noise = SURE * steps.predicted_noise(n, 0.5) * model.scale
    assert (np.abs(found - [0, 1.4, 0]) < noise).all()
    assert noise < 0.1
    with pytest.raises(ValueError, match="no opening"):
        LocalSteps(SquaredError(3), steps.mechanism, steps.schedule).open(model, messages)


def test_noise_hurries_the_descent():
    """So the fewer users there are, the nearer to the mean it begins."""
    objective, mechanism = SquaredError(20), gradient_mechanism(1.0, 20)
    shares = [hurry(objective, mechanism, n) for n in (100, 10_000, 1_000_000)]
    assert 1 > shares[0] > 0.7 > shares[1] > 0.2 > shares[2] > 0
    runs = [
        plan_run(objective, mechanism, gradient_mechanism(1.0, 2), n, steps=10)
        for n in (100, 10_000, 1_000_000)
    ]
    trusts = [run.opening.trust for run in runs]
    assert 0.5 == trusts[0] >= trusts[1] > 0.3 > 0.1 > trusts[2] > 0
    # And the less its constant leads the others.
    leads = [run.schedule.lead for run in runs]
    assert leads == pytest.approx([4 - 6 * trust for trust in trusts])


def test_runs_that_open():
    assert opens(SquaredError(3, penalty=0.1), 10)
    assert not opens(SquaredError(3), 9)
    assert not opens(Logistic(3), 50)
    assert not opens(Perceptron(3, (4,)), 50)
    mechanism, of_targets = gradient_mechanism(2.0, 3), gradient_mechanism(2.0, 2)
    run = plan_run(SquaredError(3), mechanism, of_targets, 50_000)
    assert run.groups == run.schedule.steps + 1 == 51
    for told in ({"clip": 0.5}, {"steps": 9}):
        assert plan_run(SquaredError(3), mechanism, of_targets, 50_000, **told).opening is None
    assert plan_run(SquaredError(3), mechanism, None, 50_000).opening is None
    assert plan_run(SquaredError(3), mechanism, None, 50_000, clip=2.0).clip == 2.0


@pytest.mark.parametrize("trust", [-0.1, 1.1, math.nan])
def test_trust_is_a_share(trust):
    with pytest.raises(ValueError, match="trust"):
        Opening(multi_optimal(1.0, 2), trust)


def test_an_opening_needs_two_numbers():
    with pytest.raises(ValueError, match="rows of 2"):
        Opening(multi_optimal(1.0, 3))


# ---- what it is good for ---------------------------------------------------------------------


def at_the_bounds(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets of 1 for some, the more the larger a number is, and of -1 for most."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.uniform(-1, 1, (n, 3)), np.ones(n)]).astype(np.float32)
    return rows, np.where(rng.uniform(size=n) < 0.3 + 0.2 * rows[:, 0], 1.0, -1.0)


def test_targets_at_their_bounds_are_told_better_than_by_the_usual_cut():
    """Ten runs of each: a seventh of the error, which is many times what chance would make."""
    rows, targets = at_the_bounds(60_000, 1)
    objective, errors = SquaredError(4), {}
    for clip in (None, 0.5):
        run = plan_run(
            objective, gradient_mechanism(2.0, 4), gradient_mechanism(2.0, 2), len(rows), clip=clip
        )
        errors[clip] = []
        for seed in range(10):
            *_, model = simulate(run, rows, targets, SeededRandom(seed))
            errors[clip].append(objective.errors(model.average, rows, targets).mean())
    opened, usual = np.array(errors[None]), np.array(errors[0.5])
    chance = math.sqrt((opened.var(ddof=1) + usual.var(ddof=1)) / 10)
    assert 6 / 7 * usual.mean() - opened.mean() > SURE * chance
    assert opened.mean() < targets.var() < usual.mean()


def test_nobody_is_asked_twice():
    seen = []

    class Watched(Opening):
        def report(self, targets, rng):
            seen.extend(np.asarray(targets).tolist())
            return super().report(targets, rng)

    class WatchedSteps(LocalSteps):
        def report(self, weights, rows, targets, rng, scale=1.0):
            seen.extend(np.asarray(targets).tolist())
            return super().report(weights, rows, targets, rng, scale)

    targets = np.arange(-60, 61) / 61
    steps = WatchedSteps(
        SquaredError(1), multi_hm(1.0, 1), StepSchedule(10, 0.01),
        opening=Watched(multi_hm(1.0, 2)),
    )  # fmt: skip
    models = list(simulate(steps, np.ones((121, 1)), targets, SeededRandom(1)))
    assert sorted(seen) == targets.tolist()
    assert [model.step for model in models] == list(range(11))
    assert all(model.seen == models[0].seen is not None for model in models)
