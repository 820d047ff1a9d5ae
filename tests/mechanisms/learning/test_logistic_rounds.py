"""Rounds of sums for logistic regression: exact, unbiased, one footprint; steps; the judgement."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import special

from mechanisms.channel import Floats
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.learning.features import Features
from mechanisms.learning.logistic_rounds import (
    SHARES,
    Gradients,
    Judgement,
    NoisyProducts,
    Present,
    _scores,
    logistic_for,
    newton_step,
    opened,
    signs,
)
from mechanisms.learning.objectives import Logistic
from mechanisms.learning.products import Products
from mechanisms.learning.row_sums import Rounds
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.exact_geometric import ExactGeometric

FEATURES = Features(
    (("a", -1.0, 1.0), ("b", 0.0, 2.0)), (("k", ("x", "y", "z")), ("one", ("only",)))
)
WEIGHTS = np.array([1.5, -1.0, 1.0, -0.5, 0.3])
DELTA = 1e-6


def population(n: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Rows and classes, -1 or 1, that follow from scores."""
    rng = np.random.default_rng(seed)
    numbers = rng.uniform(-1, 1, (n, 2))
    rows = FEATURES.rows(numbers, np.column_stack([rng.integers(0, 3, n), np.zeros(n, int)]))
    return rows, np.where(rng.random(n) < special.expit(rows @ WEIGHTS), 1.0, -1.0)


def gradient(rows: Floats, targets: Floats, weights: Floats) -> Floats:
    """(inputs,) with the opposite sign, as an objective knows it."""
    model, classes = Logistic(rows.shape[1]), (targets > 0).astype(int)
    return -len(rows) * model.mean_gradient(weights, rows, classes)


def test_signs_of_classes() -> None:
    assert signs(np.array([0, 1, 1])).tolist() == [-1.0, 1.0, 1.0]
    assert np.isnan(signs(np.array([-1]))).all()


def test_gradients_are_unbiased_with_the_variance_that_is_said() -> None:
    n, runs, weights = 400, 400, np.array([0.7, 0.2, -0.4, 0.1, 0.2])
    _, rounds, design = logistic_for(FEATURES, n, "add or remove", 1.0, DELTA)
    sums, part = rounds.sums[2], rounds.designs(design)[2]
    rows, targets = population(n)
    drawn = []
    for run in range(runs):
        totals = sums.totals(rows, targets, SeededRandom(run), weights)
        drawn.append(sums.sums(part, part.noisy(totals, SeededRandom(runs + run))))
    scaled = (np.array(drawn) - gradient(rows, targets, weights)) / np.sqrt(sums.variances(part, n))
    # 6.5 standard deviations: over five sums, a false alarm in 10^9. Rounding is counted at most.
    assert (np.abs(scaled.mean(axis=0)) < 6.5 / np.sqrt(runs)).all()
    assert (np.abs((scaled**2).mean(axis=0) - 1) < 6.5 * np.sqrt(2 / runs) + 0.01).all()


def test_a_row_raises_its_footprint_and_no_more() -> None:
    rows, targets = population(200)
    products = Products(FEATURES, 1)
    for sums in (Gradients(products, 7), Judgement()):
        for row, target in zip(rows[:50, None], targets[:50, None], strict=True):
            totals = sums.totals(row, target, SeededRandom(1), 3 * WEIGHTS)
            assert np.count_nonzero(totals) <= sums.changes
            assert np.abs(totals).max() <= sums.parts[0].most
    assert Gradients(products, 7).changes == 2 + 1 + 1
    # At an endless score of the wrong sign a slope is 1, and a number at its bound tells all of it.
    corner = FEATURES.rows(np.ones((1, 2)), np.array([[1, 0]]))
    totals = Gradients(products, 1).totals(corner, [-1.0], SeededRandom(1), 1e3 * np.ones(5))
    assert totals.tolist() == [-1, -1, -1, 0, -1, 0]  # all but `k=z`


def test_rows_without_a_class_raise_nothing() -> None:
    rows, _ = population(20)
    for sums in (Gradients(Products(FEATURES, 1), 3), Judgement(), Products(FEATURES, 3)):
        assert not sums.totals(rows, signs(np.full(20, -1)), SeededRandom(1), WEIGHTS).any()


@pytest.mark.parametrize("start", [0, 1, 150, 299])
def test_scores_of_a_row_do_not_move_with_other_rows(start: int) -> None:
    """To the last bit: else what one row changes would exceed its footprint."""
    rows = np.random.default_rng(6).normal(size=(300, 47))
    weights = np.random.default_rng(7).normal(size=47)
    own = slice(start, start + 1)
    assert (_scores(rows, weights)[own] == _scores(rows[own], weights)).all()


def test_shares_are_what_noise_goes_by() -> None:
    _, rounds, design = logistic_for(FEATURES, 10_000, "add or remove", 1.0, DELTA)
    assert sum(SHARES) == pytest.approx(1)
    mu = gaussian_mu(1.0, DELTA)
    both = zip(rounds.sums, rounds.designs(design), SHARES, strict=True)
    for sums, part, share in both:
        least = min(sums.variances(part, 0.0))
        # As a curator's Gaussian noise on these sums at this share of the budget.
        assert least == pytest.approx(sums.changes / share / mu**2, rel=5e-3)
    assert (design.guarantee.epsilon, design.guarantee.delta) == (1.0, DELTA)
    # The parts are the whole: the same moves and laws, in the same order.
    parts = rounds.designs(design)
    assert [move for part in parts for move in part.moves] == design.moves
    assert [law for part in parts for law in part.laws] == list(design.laws)


def test_adaptive_rounds_cost_what_fixed_ones_do() -> None:
    """By enumeration: which total a row adds to in a second round follows from the first."""
    epsilon = 1.0
    design = JobTotals.meeting([Level(1, 1), Level(1, 2)], "add or remove", epsilon, 0.0)
    first, second = (part.laws[0] for part in (design.part(0, 1), design.part(1, 2)))
    reach = range(-12, 13)  # beyond what totals of 0 and 1 differ by, ratios stay as they are

    def log(law: ExactGeometric, seen: int, total: int) -> float:
        return -float(law.decay) * abs(seen - total)

    def ratio(seen: int, later: tuple[int, int]) -> float:
        chosen = int(seen > 0)  # a model, public by then
        totals = [int(place == chosen) for place in (0, 1)]
        more = sum(
            log(second, z, x) - log(second, z, 0) for z, x in zip(later, totals, strict=True)
        )
        return log(first, seen, 1) - log(first, seen, 0) + more

    ratios = [ratio(seen, later) for seen in reach for later in product(reach, repeat=2)]
    assert max(map(abs, ratios)) <= epsilon
    assert max(ratios) > 0.99 * epsilon  # what is promised is what is needed


def test_rounds_must_have_shares() -> None:
    for shares in ((), (1.0, 1.0), (0.0,), (float("nan"),)):
        with pytest.raises(ValueError, match="a positive share"):
            Rounds((Judgement(),), shares)


# ---- steps -----------------------------------------------------------------------------------


def test_the_hessian_of_normal_rows_follows_from_products() -> None:
    rng = np.random.default_rng(2)
    n, weights = 400_000, np.array([1.2, -0.8, 0.5, 0.4])
    mixed = rng.normal(size=(n, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]]) + 0.3
    rows = np.column_stack([mixed, np.ones(n)])
    slopes = special.expit(rows @ weights)
    exact = (rows.T * (slopes * (1 - slopes))) @ rows
    found = NoisyProducts(rows.T @ rows, 0.0, 0.0).at(weights).products
    # Sums of n numbers whose spread is below 1: some 600 of 40,000; a quarter of X'X is far off.
    assert np.abs(found - exact).max() < 0.01 * exact[-1, -1]
    assert np.abs(rows.T @ rows / 4 - exact).max() > 0.5 * exact[-1, -1]
    at_zero = NoisyProducts(rows.T @ rows, 8.0, 2.0).at(np.zeros(4))
    np.testing.assert_allclose(at_zero.products, rows.T @ rows / 4)
    assert (at_zero.variance, at_zero.largest) == (0.5, 0.5)


def test_exact_steps_come_to_the_exact_fit() -> None:
    rows, targets = population(5_000)
    best = Logistic(5).fit_exactly(rows, (targets > 0).astype(int))
    products = Products(FEATURES, 1)
    whole = np.column_stack([rows, targets])
    sums = (whole.T @ whole)[tuple(products.pairs.T)]
    present = opened(products.equations(sums, np.zeros(len(sums))))
    for _ in range(3):
        assert present.step is not None
        assert not present.step.covariance.any()
        present = present.stepped(gradient(rows, targets, present.weights), np.zeros(5), 0.0)
    np.testing.assert_allclose(present.weights, best, atol=0.01)
    for _ in range(10):
        present = present.stepped(gradient(rows, targets, present.weights), np.zeros(5), 0.0)
    np.testing.assert_allclose(present.weights, best, atol=2e-5)


def test_a_penalty_is_that_of_the_objective() -> None:
    rows, targets = population(5_000)
    best = Logistic(5, 0.1).fit_exactly(rows, (targets > 0).astype(int))
    products = Products(FEATURES, 1)
    whole = np.column_stack([rows, targets])
    sums = (whole.T @ whole)[tuple(products.pairs.T)]
    present = opened(products.equations(sums, np.zeros(len(sums))), 0.1)
    for _ in range(10):
        present = present.stepped(gradient(rows, targets, present.weights), np.zeros(5), 0.1)
    np.testing.assert_allclose(present.weights, best, atol=1e-5)


def test_noise_alone_is_hardly_followed() -> None:
    rng = np.random.default_rng(4)
    rows, _ = population(2_000)
    hessian = NoisyProducts((rows.T @ rows) / 4, 0.0, 0.0)
    spread, losses, naive = 30.0, [], []
    for _ in range(200):
        noise = rng.normal(0, spread, 5)
        change = newton_step(hessian, noise, np.full(5, spread**2)).change
        straight = np.linalg.solve(hessian.products, noise)
        losses.append(change @ hessian.products @ change / 2)
        naive.append(straight @ hessian.products @ straight / 2)
    assert np.mean(losses) < 0.6 * np.mean(naive)


# ---- all of a run, by sums -------------------------------------------------------------------


def fitted(
    rows: Floats, targets: Floats, made: tuple[Products, Rounds, JobTotals], seed: int
) -> tuple[Present, Floats, Floats]:
    """The model of a run, and its judgement with variances."""
    (_, rounds, design), rng = made, SeededRandom(seed)
    present: Present | None = None
    for sums, part in zip(rounds.sums, rounds.designs(design), strict=True):
        weights = None if present is None else present.weights
        counts = part.noisy(sums.totals(rows, targets, rng, weights), rng)
        if isinstance(sums, Products):
            present = opened(sums.solve(part, counts))
        elif isinstance(sums, Gradients) and present is not None:
            present = present.after(sums, part, counts)
    assert present is not None
    return present, sums.sums(part, counts), sums.variances(part, 0.0)


def loss(rows: Floats, targets: Floats, weights: Floats) -> float:
    return float(np.mean(np.logaddexp(0, -(rows @ weights) * targets)))


def test_a_run_comes_near_the_exact_fit() -> None:
    rows, targets = population(20_000)
    best = Logistic(5).fit_exactly(rows, (targets > 0).astype(int))
    made = logistic_for(FEATURES, 20_000, "add or remove", 1.0, DELTA)
    least, nothing = loss(rows, targets, best), loss(rows, targets, np.zeros(5))
    runs = [fitted(rows, targets, made, seed)[0].weights for seed in range(5)]
    lost = np.mean([loss(rows, targets, weights) for weights in runs]) - least
    assert lost < 0.01 * (nothing - least)


@pytest.mark.verify
def test_the_judgement_is_unbiased_with_the_error_that_is_said() -> None:
    rows, targets = population(5_000)
    made, runs = logistic_for(FEATURES, 5_000, "add or remove", 1.0, DELTA), 60
    scores = []
    for seed in range(runs):
        present, counts, variances = fitted(rows, targets, made, seed)
        comparison, share, error = Judgement().compared(counts, variances, 0.95)
        wrong = np.mean((rows @ present.weights > 0) != (targets > 0))
        scores.append((share - wrong) / error)
        assert comparison is not None
        assert comparison.constant == pytest.approx(np.mean(targets < 0), abs=0.2)
    # 6.5 standard deviations of a mean and of a mean square.
    assert abs(np.mean(scores)) < 6.5 / np.sqrt(runs)
    assert abs(np.mean(np.square(scores)) - 1) < 6.5 * np.sqrt(2 / runs)


def test_nobody_moves_nothing() -> None:
    rows, targets = population(3)
    made = logistic_for(FEATURES, 1_000, "add or remove", 0.5, DELTA)
    present, _, _ = fitted(rows, targets, made, 5)
    assert present.equations.drowned
    assert present.step is None
    assert not present.weights.any()
