"""A private run: what is reported, what the collector makes of it, and how good it gets."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.learning.objectives import Hinge, Logistic, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.papers.laplace_vector import laplace_vector
from mechanisms.papers.learning.gradient_reports import gradient_mechanism
from mechanisms.papers.learning.local_steps import LocalSteps
from mechanisms.papers.learning.schedule import StepSchedule, plan, typical_variance
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.privunit import PrivUnit
from mechanisms.vector.rows import equal_share
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles import learning as oracles_learning
from tests.oracles.learning import simulate

SURE = -NormalDist().inv_cdf(1e-10)  # of normal noise; for a few coordinates tested at once


def fitted(objective, mechanism, rows, targets, seed: int, **chosen):
    """The last model of a planned run."""
    schedule = plan(objective, mechanism, len(rows), longest=rows.shape[1], **chosen)
    *_, last = simulate(
        LocalSteps(objective, mechanism, schedule), rows, targets, SeededRandom(seed)
    )
    return last


def excess(objective, model, rows, targets) -> float:
    """How much larger the mean error of a model is than that of the best one."""
    best = objective.fit_exactly(rows, targets)
    errors = [objective.errors(w, rows, targets).mean() for w in (model.average, best)]
    return float(errors[0] - errors[1])


# ---- one step ------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", oracles_learning.GROUP_MEAN_VARIANCE, ids=str)
def test_reference_noise_of_a_group(entry):
    given = entry["params"]
    mechanism = multi_hm(given["eps"], given["dim"], cells=65536)
    assert mechanism.sampled == entry["attributes_sampled"]
    steps = LocalSteps(SquaredError(given["dim"]), mechanism, StepSchedule(10, 0.1), clip=1.0)
    noise = steps.predicted_noise(given["group"], given["clipped_gradient_coordinate"])
    np.testing.assert_allclose(noise**2, entry["variance"], rtol=1e-5)


@pytest.mark.parametrize(
    "mechanism",
    [
        multi_optimal(4.0, 5),
        multi_hm(6.0, 5),
        laplace_vector(8.0, 5, cells=64),
        catalog.build("meanest", epsilon=4.0, dimension=5),
    ],
    ids=lambda mechanism: type(mechanism).__name__ + str(mechanism.messages),
)
def test_the_mean_of_cut_gradients_is_unbiased_and_as_noisy_as_predicted(mechanism):
    """A bias of a tenth of the clip, or noise 30 % off, would be seen but once in 1e9 times."""
    objective = SquaredError(5)
    rows = np.array([[1.0, -0.5, 0.2, 0.0, 1.0]])
    steps = LocalSteps(objective, mechanism, StepSchedule(1, 0.1), clip=0.5)
    weights = np.array([0.3, 0.2, 0.0, 0.0, 0.0])
    exact = np.clip(objective.gradients(weights, rows, [0.05])[0], -0.5, 0.5)
    assert {0.3, -0.15, 0.06, 0.0} == set(exact.round(9).tolist())
    noise = steps.predicted_noise(1)
    group, groups = math.ceil((2 * SURE * noise / 0.05) ** 2 / 100), 100
    rng = SeededRandom(5)
    many = np.repeat(rows, group, axis=0)
    means = np.array(
        [
            steps.mean_gradient(
                mechanism.count(steps.report(weights, many, np.full(group, 0.05), rng))
            )
            for _ in range(groups)
        ]
    )
    assert np.abs(means.mean(axis=0) - exact).max() < SURE * noise / math.sqrt(group * groups)
    predicted = np.array([steps.predicted_noise(group, g) for g in exact])
    # 500 normal deviations: their mean square has a relative error of sqrt(2 / 500) = 0.063.
    measured = np.mean(((means - exact) / predicted) ** 2)
    assert abs(measured - 1) < SURE * math.sqrt(2 / means.size)
    assert 1.3**2 - 1 > SURE * math.sqrt(2 / means.size)


def test_gradients_beyond_the_clip_are_cut():
    steps = LocalSteps(SquaredError(1), multi_optimal(4.0, 1), StepSchedule(1, 0.1), clip=0.5)
    rows = np.ones((200_000, 1))
    messages = steps.report(np.zeros(1), rows, np.full(200_000, -3.0), SeededRandom(1))
    found = float(steps.mean_gradient(steps.mechanism.count(messages))[0])
    assert abs(found - 0.5) < SURE * steps.predicted_noise(200_000, 0.5)


def test_looking_up_only_what_is_sent_sends_the_same():
    """By the same words as the whole gradient would."""
    objective, rng = Logistic(6), np.random.default_rng(1)
    rows = np.column_stack([rng.uniform(-1, 1, (500, 5)), np.ones(500)])
    labels, weights = rng.integers(0, 2, 500), rng.normal(size=6)
    steps = LocalSteps(objective, multi_hm(6.0, 6), StepSchedule(1, 0.1), clip=0.5)
    cut = np.clip(objective.gradients(weights, rows, labels) / 0.5, -1, 1)
    np.testing.assert_array_equal(
        steps.report(weights, rows, labels, SeededRandom(3)),
        steps.mechanism.report(cut, SeededRandom(3)),
    )


def test_a_mechanism_for_short_rows_is_given_short_rows():
    mechanism = PrivUnit(2.0, dimension=5, radius=1.0, lines=32, codebooks=64)
    steps = LocalSteps(SquaredError(5), mechanism, StepSchedule(1, 0.1), clip=0.5)
    rows = np.ones((50, 5))
    messages = steps.report(np.zeros(5), rows, np.full(50, -1.0), SeededRandom(1))
    assert len(messages) == 50
    assert mechanism.valid(messages).all()


# ---- the collector -------------------------------------------------------------------------


def counted(steps, values, copies: int = 4000) -> np.ndarray:
    """Counts of a group that all hold the same gradient."""
    rng = SeededRandom(int(1e6 * abs(values[0])))
    return steps.mechanism.count(steps.mechanism.report(np.tile(values, (copies, 1)), rng))


def test_the_model_follows_the_gradients_it_was_given():
    schedule = StepSchedule(6, rate=0.3, momentum=0.5, averaged=0.5)
    steps = LocalSteps(SquaredError(2, penalty=0.1), multi_optimal(8.0, 2), schedule, clip=0.5)
    model, gradients = steps.start(SeededRandom(1)), []
    for size in np.linspace(0.9, 0.1, 6):
        counts = counted(steps, [size, -size])
        gradients.append(steps.mean_gradient(counts) + 0.1 * model.weights * np.array([1.0, 0.0]))
        model = steps.advance(model, counts)
    last, average = oracles_learning.descent(0.3, 0.5, 3, gradients, np.zeros(2))
    np.testing.assert_allclose(model.weights, last, atol=1e-12)
    np.testing.assert_allclose(model.average, average, atol=1e-12)
    assert (model.step, model.used, model.averaged, model.diverged) == (6, 6, 3, 0)
    assert not np.allclose(last, average)


def test_weights_of_constants_lead():
    mechanism, rate = multi_optimal(8.0, 2), 0.3
    plain, led = (
        LocalSteps(SquaredError(2), mechanism, StepSchedule(5, rate, lead=lead))
        for lead in (1.0, 3.0)
    )
    counts = counted(plain, [0.5, 0.1])
    ratio = led.advance(led.start(SeededRandom(1)), counts).weights
    ratio /= plain.advance(plain.start(SeededRandom(1)), counts).weights
    np.testing.assert_allclose(ratio, [1.0, 3.0])


def test_a_group_that_is_too_small_changes_nothing_but_the_step():
    steps = LocalSteps(SquaredError(2), multi_optimal(8.0, 2), StepSchedule(5, 0.3, 0.5))
    model = steps.advance(steps.start(SeededRandom(1)), counted(steps, [0.5, 0.1]))
    after = steps.skip(model)
    assert after.step == model.step + 1
    assert after.used == model.used
    for name in ("weights", "average", "velocity"):
        assert getattr(after, name) is getattr(model, name)
    with pytest.raises(ValueError, match="no report"):
        steps.advance(model, np.zeros(steps.mechanism.codes, np.int64))


def test_a_run_that_leaves_all_bounds_is_given_up_and_stays_so():
    rows, targets = oracles_learning.linear_population(5000, 3, seed=1)
    objective, mechanism = SquaredError(4), multi_optimal(1.0, 4)
    schedule = StepSchedule(10, rate=200.0)
    models = list(
        simulate(LocalSteps(objective, mechanism, schedule), rows, targets, SeededRandom(1))
    )
    assert [model.step for model in models] == list(range(11))
    first = next(model for model in models if model.diverged)
    assert 1 <= first.diverged == first.step <= 3
    for model in models[first.step :]:
        assert model.diverged == first.diverged
        np.testing.assert_array_equal(model.weights, first.weights)
    steps = LocalSteps(objective, mechanism, schedule)
    assert steps.objective.diverged(np.array([math.nan, 0, 0, 0]))
    assert steps.objective.diverged(np.array([math.inf, 0, 0, 0]))
    assert not steps.objective.diverged(np.ones(4))


# ---- what is promised ----------------------------------------------------------------------


def test_a_run_costs_what_one_report_costs():
    steps = LocalSteps(SquaredError(4), multi_hm(1.5, 4), StepSchedule(40, 0.1))
    promise = steps.guarantee
    assert (promise.model, promise.epsilon, promise.delta) == ("local", 1.5, 0.0)
    assert "40 disjoint groups" in promise.how
    assert steps.mechanism.guarantee.how in promise.how
    published = LocalSteps(SquaredError(4), multi_hm(1.5, 4), StepSchedule(1, 0.1)).guarantee
    assert published.epsilon == promise.epsilon


# ---- how good it gets ----------------------------------------------------------------------


def test_regression_approaches_the_exact_fit_as_users_grow():
    """At epsilon 1; the targets' own noise is 0.01, and 0.0105 the variance to be explained."""
    objective, mechanism = SquaredError(11), gradient_mechanism(1.0, 11)
    found = []
    for n in (10_000, 100_000, 1_000_000):
        rows, targets = oracles_learning.linear_population(n, 10, seed=1)
        runs = [
            excess(objective, fitted(objective, mechanism, rows, targets, seed), rows, targets)
            for seed in range(2)
        ]
        found.append(float(np.mean(runs)))
    assert found[0] > 2 * found[1] > 4 * found[2]
    assert found[1] < 0.003
    assert found[2] < 0.0006


@pytest.mark.parametrize("build", [Logistic, Hinge])
def test_labels_are_learned(build):
    rows, scores = oracles_learning.linear_population(200_000, 10, seed=2, noise=0.05)
    labels = (scores > np.median(scores)).astype(int)
    objective = build(11)
    best = objective.errors(objective.fit_exactly(rows[:5000], labels[:5000]), rows, labels).mean()
    model = fitted(objective, gradient_mechanism(2.0, 11), rows, labels, seed=1)
    assert model.diverged == 0
    assert best < 0.2
    assert objective.errors(model.average, rows, labels).mean() < best + 0.05


def test_a_small_perceptron_learns_too():
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (400_000, 1))
    rows = np.column_stack([points, np.ones(len(points))]).astype(np.float32)
    targets = np.sin(3 * points[:, 0])
    objective = Perceptron(2, (6,))
    mechanism = gradient_mechanism(8.0, objective.parameters)
    model = fitted(objective, mechanism, rows, targets, seed=1)
    line = SquaredError(2)
    straight = line.errors(line.fit_exactly(rows, targets), rows, targets).mean()
    assert model.diverged == 0
    assert objective.errors(model.average, rows, targets).mean() < 0.2 * straight


@pytest.mark.parametrize("epsilon", [0.3, 0.6, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("rival", ["pm", "duchi", "hm", "optimal"])
def test_no_rival_reports_typical_gradients_with_less_noise(epsilon, rival):
    best = gradient_mechanism(epsilon, 40)
    assert best.guarantee.epsilon <= epsilon
    for sampled in (1, 2, 3, 4):
        each = catalog.build(rival, epsilon=equal_share(epsilon, sampled), cells=1024)
        other = SampledCoordinates(epsilon, 40, sampled, each)
        assert typical_variance(best) <= typical_variance(other) * (1 + 1e-5)


def test_less_noise_makes_a_better_model():
    """The default against Duchi's mechanism in the same scheme: a gap of several errors."""
    rows, targets = oracles_learning.linear_population(10_000, 10, seed=3)
    objective, gaps = SquaredError(11), []
    duchi = catalog.build("duchi", epsilon=4.0, cells=1024)
    rival = SampledCoordinates(4.0, 11, 1, duchi)
    for seed in range(20):
        default = fitted(objective, gradient_mechanism(4.0, 11), rows, targets, seed)
        other = fitted(objective, rival, rows, targets, 1000 + seed)
        gaps.append(
            excess(objective, other, rows, targets) - excess(objective, default, rows, targets)
        )
    assert np.mean(gaps) > SURE * np.std(gaps, ddof=1) / math.sqrt(len(gaps))


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (
            lambda: LocalSteps(SquaredError(3), multi_hm(1.0, 4), StepSchedule(1, 0.1)),
            "3 parameters",
        ),
        (
            lambda: LocalSteps(SquaredError(3), multi_hm(1.0, 3), StepSchedule(1, 0.1), math.nan),
            "clip",
        ),
        (
            lambda: LocalSteps(
                SquaredError(3), multi_hm(1.0, 3), StepSchedule(1, 0.1)
            ).predicted_noise(0),
            "group",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
