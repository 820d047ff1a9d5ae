"""Correlated noise: batches by convolution, the sampler's law, errors and the numbers to reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mechanisms.frequency.correlated_noise import CorrelatedNoise
from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows

TINY = CorrelatedNoise(4.0, 0.2, n=3, domain_size=2, honest_share=0.7)
SMALL = CorrelatedNoise(3.0, 1e-3, n=20_000, domain_size=20_000)
LARGE = CorrelatedNoise(0.5, 1e-6, n=600_000, domain_size=600)


# ---- privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [TINY, SMALL, LARGE])
def test_claims_are_met_and_nothing_is_given_away(mechanism: CorrelatedNoise) -> None:
    claim = mechanism.guarantee
    assert (claim.model, claim.epsilon) == ("shuffle", mechanism.epsilon)
    assert mechanism.local.model == "none"
    lower, upper = mechanism.batch_delta(mechanism.n, mechanism.epsilon)
    assert lower <= upper <= mechanism.delta <= upper * (1 + 1e-4)
    low, high = mechanism.batch_epsilon(mechanism.n, mechanism.delta)
    assert low <= high <= mechanism.epsilon
    assert shuffled_delta(mechanism, mechanism.n, 0.4) == mechanism.batch_delta(mechanism.n, 0.4)
    assert shuffled_epsilon(mechanism, mechanism.n, mechanism.delta) == (low, high)


def test_more_users_are_more_private() -> None:
    losses = [LARGE.batch_epsilon(n, 1e-6) for n in (500_000, 600_000, 900_000)]
    assert [loss[1] for loss in losses] == sorted((loss[1] for loss in losses), reverse=True)
    assert all(low < high for low, high in losses)
    assert (
        0.9999 < LARGE.batch_delta(1, 1.0)[1] < 1
    )  # one's own share of noise hides next to nothing
    assert LARGE.batch_epsilon(1, 1e-6)[1] == math.inf


def test_bounds_where_the_law_is_too_large() -> None:
    """At small epsilons other batches than the planned one are bounded, not computed."""
    mechanism = CorrelatedNoise(0.01, 1e-6, n=10_000, domain_size=50)
    lower, upper = mechanism.batch_delta(10_000, 0.01)
    assert 0 == lower < upper <= 1e-6  # the difference alone keeps four fifths of epsilon
    assert mechanism.batch_delta(10_000, 0.004)[0] > 1e-4
    assert mechanism.batch_delta(12_000, 0.01)[1] == pytest.approx(upper)
    assert mechanism.batch_delta(9_000, 0.01)[1] == 1.0
    with pytest.raises(ValueError, match="known for 9,000"):
        mechanism.bin_law(8_000)


# ---- client --------------------------------------------------------------------------------------


def test_shares_of_two_bins_are_independent() -> None:
    n = 400_000
    messages, senders = TINY.send(np.zeros(n, int), SeededRandom(9))
    first, second = (
        np.minimum(np.bincount(senders[messages == code], minlength=n), 2) for code in (2, 3)
    )
    joint = np.bincount(3 * first + second, minlength=9)
    one, two = (np.bincount(part, minlength=3) / n for part in (first, second))
    assert follows(joint, np.outer(one, two).ravel())
    same = np.bincount(3 * first + first, minlength=9)
    assert not follows(same, np.outer(one, two).ravel())


def test_messages_are_ordered_and_come_from_who_they_name() -> None:
    cells = SeededRandom(1).integers(600, 2000)
    messages, senders = LARGE.send(cells, SeededRandom(2))
    np.testing.assert_array_equal(messages, LARGE.perturb(cells, SeededRandom(2)))
    assert np.all(np.diff(senders * 1200 + messages.astype(np.int64)) >= 0)
    keys = senders * 1200 + messages.astype(np.int64)
    assert np.isin(np.arange(2000) * 1200 + cells.astype(np.int64), keys).all()
    whole = LARGE.count(messages)
    np.testing.assert_array_equal(sum(map(LARGE.count, np.array_split(messages, 5))), whole)
    np.testing.assert_array_equal(LARGE.support(whole), whole[:600] - whole[600:])


# ---- collector -----------------------------------------------------------------------------------


@pytest.mark.parametrize("road", ["perturb", "simulate"])
def test_counters_have_the_predicted_moments(road: str) -> None:
    """20,000 bins: five standard deviations of a variance are 15 % at an excess kurtosis of 6."""
    n, d, noise = 20_000, SMALL.domain_size, SMALL.noise
    rng = SeededRandom(3)
    histogram = np.ones(d, np.int64)
    if road == "perturb":
        counts = SMALL.count(SMALL.perturb(np.arange(d), rng))
    else:
        counts = SMALL.simulate(histogram, rng)
    adding, taking = counts.reshape(2, d)
    part = n / SMALL.honest(n)
    mask = part * noise.shape * noise.ratio / (1 - noise.ratio)
    alone = part * noise.decay / (1 - noise.decay)
    mean, spread = alone + mask, alone / (1 - noise.decay) + mask / (1 - noise.ratio)
    for counter, extra in ((adding, 1), (taking, 0)):
        assert counter.mean() == pytest.approx(mean + extra, abs=7 * math.sqrt(spread / d))
        assert counter.var() == pytest.approx(spread, rel=0.15)
    assert np.cov(adding, taking)[0, 1] == pytest.approx(mask / (1 - noise.ratio), rel=0.15)
    error = SMALL.estimate(counts, n) - 1 / n
    predicted = SMALL.average_variance(n)
    assert np.mean(error**2) == pytest.approx(predicted, rel=0.2)
    assert abs(error.mean()) < 7 * math.sqrt(predicted / d)


def test_added_noise_is_laplace_where_as_many_report_as_planned() -> None:
    mechanism = replace(LARGE, honest_share=1.0)
    noise, decay = mechanism.added(600_000), mechanism.noise.decay
    assert noise.mean() == pytest.approx(0, abs=1e-9)
    for reach in (3, 10, 40):
        tail = decay ** (reach + 1) / (1 + decay)  # P(noise > reach)
        assert noise.isf(tail * 1.001) == reach
        assert noise.ppf(tail * 0.999) == -reach - 1
    wider = LARGE.added(600_000)  # more than the honest share: more noise
    assert wider.isf(1e-6) > noise.isf(1e-6)


# ---- numbers to reach ----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d", "error"), [(602_325, 915, 1.4e-10), (10**6, 42_178, 5.0e-11)])
def test_errors_reach_their_numbers(n: int, d: int, error: float) -> None:
    mechanism = CorrelatedNoise(0.5, 1e-6, n, d, honest_share=1.0)
    assert mechanism.average_variance(n) == pytest.approx(error, rel=0.03)
    poisson = PoissonDummies(0.5, 1e-6, n, d, honest_share=1.0)
    assert mechanism.average_variance(n) < 0.4 * poisson.average_variance(n)


def test_a_budget_of_messages_is_kept_and_used() -> None:
    variances = []
    for budget in (1.5, 2.0, 3.0):
        mechanism = CorrelatedNoise(0.5, 1e-6, 602_325, 915, max_messages=budget)
        assert budget * 0.98 < mechanism.messages <= budget
        variances.append(mechanism.average_variance(602_325))
    assert variances == sorted(variances, reverse=True)


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("epsilon must be at least 0.005", lambda: CorrelatedNoise(1e-30, 1e-6, 1000, 10)),
    ("delta must be at least", lambda: CorrelatedNoise(0.5, 1e-22, 10**6, 10)),
    ("at least 1,9", lambda: CorrelatedNoise(0.5, 1e-6, 10, 20_000_000)),
    ("domain_size", lambda: CorrelatedNoise(0.5, 1e-6, 1000, 1)),
    ("bound must be exact", lambda: CorrelatedNoise(0.5, 1e-6, 1000, 10, bound="published")),
    ("at least 1.3", lambda: CorrelatedNoise(0.5, 1e-6, 602_325, 915, max_messages=1.2)),
    ("max_messages", lambda: CorrelatedNoise(0.5, 1e-6, 602_325, 915, max_messages=math.nan)),
    ("too many reports", lambda: TINY.report_law(0)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
