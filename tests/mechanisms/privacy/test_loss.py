"""Privacy profiles: exact for finite channels, safe where they are bounds, refusals."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Guarantee
from mechanisms.frequency.hashed_responses import k_ary, optimal_local
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss


def hockey_stick(p, q, epsilon: float) -> float:
    """The definition, in the worse direction."""
    p, q = np.asarray(p), np.asarray(q)
    return max(
        float(np.maximum(p - math.exp(epsilon) * q, 0).sum()),
        float(np.maximum(q - math.exp(epsilon) * p, 0).sum()),
    )


def laws(size: int):
    weight = st.one_of(st.just(0.0), st.floats(1e-6, 1))
    return (
        st.lists(weight, min_size=size, max_size=size)
        .filter(any)
        .map(lambda w: np.array(w) / np.sum(w))
    )


@given(laws(6), laws(6), st.floats(0, 20))
@settings(max_examples=200, deadline=None)
def test_a_pair_has_the_profile_of_the_definition(p, q, epsilon):
    loss = PrivacyLoss.from_pair(p, q)
    exact = hockey_stick(p, q, epsilon)
    assert exact * (1 - 1e-9) - 1e-14 <= loss.delta(epsilon)
    for corner, delta in zip(loss.epsilons, loss.deltas, strict=True):
        assert delta == pytest.approx(hockey_stick(p, q, corner), rel=1e-9, abs=1e-13)


@given(laws(4), laws(4), st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_epsilon_and_delta_are_inverse(p, q, delta):
    loss = PrivacyLoss.from_pair(p, q)
    epsilon = loss.epsilon(delta)
    if epsilon < math.inf:
        assert hockey_stick(p, q, epsilon) <= delta * (1 + 1e-9) + 1e-13
        assert loss.delta(epsilon) <= delta * (1 + 1e-9) + 1e-13
        if epsilon > 1e-6:
            assert loss.delta(epsilon * (1 - 1e-6)) >= delta * (1 - 1e-9)
    else:
        assert loss.deltas[-1] > delta


def test_a_channel_has_the_profile_of_its_closed_form():
    for epsilon, d in [(0.5, 2), (1.0, 5), (4.0, 100)]:
        loss = PrivacyLoss.from_channel(k_ary(epsilon, d))
        # p - e^x q for the true symbol, and nothing else
        for x in (0.0, epsilon / 3, 0.9 * epsilon):
            exact = (math.exp(epsilon) - math.exp(x)) / (math.exp(epsilon) + d - 1)
            assert loss.delta(x) == pytest.approx(exact, rel=1e-9)
        assert loss.epsilon(0.0) == pytest.approx(epsilon, rel=1e-12)


def test_all_pairs_of_a_channel_count():
    """An asymmetric channel, whose first pair is not the worst."""

    class Asymmetric:
        rows = np.array([[0.5, 0.3, 0.2], [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])

        def pairs(self):
            return [(a, b) for a in range(3) for b in range(3) if a != b]

        def channel(self, cell):
            return self.rows[cell]

    channel = Asymmetric()
    loss = PrivacyLoss.from_channel(channel)  # type: ignore[arg-type]
    for x in np.linspace(0, 1.2, 25):
        worst = max(hockey_stick(channel.rows[a], channel.rows[b], x) for a, b in channel.pairs())
        assert worst - 1e-14 <= loss.delta(x) <= worst + 5e-3
    assert loss.epsilon(0.0) == pytest.approx(math.log(3), rel=1e-12)


def test_a_long_chain_is_thinned_from_above():
    noise, total = DiscreteLaplace(0.001).weights
    p = np.append(noise / total, 0.0)
    q = p[::-1]
    loss = PrivacyLoss.from_pair(p, q)
    assert len(loss.epsilons) <= 4097
    gaussian = np.exp(-(np.arange(-20000, 20001) ** 2) / (2 * 2000.0**2))
    p, q = np.append(gaussian, np.zeros(1000)), np.append(np.zeros(1000), gaussian)
    p, q = p / p.sum(), q / q.sum()
    loss = PrivacyLoss.from_pair(p, q)
    assert len(loss.epsilons) <= 4097
    for x in (0.01, 0.5, 1.0, 2.0, 3.0):
        exact = hockey_stick(p, q, x)
        assert exact * (1 - 1e-9) <= loss.delta(x) <= exact * (1 + 1e-4)


def test_a_guarantee_becomes_the_worst_profile_that_it_allows():
    loss = PrivacyLoss.from_guarantee(Guarantee("shuffle", 0.5, 1e-6, "user", "bound"))
    assert loss.epsilon(1e-6) == pytest.approx(0.5)
    assert loss.epsilon(1e-7) == math.inf
    assert loss.delta(0.0) == pytest.approx(1e-6 + (1 - 1e-6) * math.tanh(0.25))
    with pytest.raises(ValueError, match="finite epsilon"):
        PrivacyLoss.from_guarantee(Guarantee.none("published claim refuted"))


def test_upper_bounds_are_replaced_by_their_hull():
    """A point that a convex profile cannot reach does no harm."""
    p = [math.e / (1 + math.e), 1 / (1 + math.e)]
    true = PrivacyLoss.from_pair(p, p[::-1])
    grid = np.linspace(0, 1, 21)
    bounds = np.array([true.delta(x) for x in grid])
    bounds[10] *= 1.5
    loss = PrivacyLoss.from_profile(grid, np.minimum.accumulate(bounds))
    for x in np.linspace(0, 1.1, 99):
        assert true.delta(x) - 1e-12 <= loss.delta(x) <= true.delta(x) + 1e-9


def test_a_loss_is_a_value():
    one, other = (PrivacyLoss.from_channel(optimal_local(1.0, 50)) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


def test_equal_laws_reveal_nothing():
    loss = PrivacyLoss.from_pair([0.5, 0.5], [0.5, 0.5])
    assert loss.delta(0.0) == loss.epsilon(0.0) == 0


@pytest.mark.parametrize("p", [[0.5, 0.6], [-0.1, 1.1], [math.nan, 1.0], [[1.0]], []])
def test_what_is_no_distribution_is_refused(p):
    with pytest.raises(ValueError, match="distribution"):
        PrivacyLoss.from_pair(p, p)


def test_laws_over_different_codes_are_refused():
    with pytest.raises(ValueError, match="codes"):
        PrivacyLoss.from_pair([1.0], [0.5, 0.5])


@pytest.mark.parametrize(
    ("epsilons", "deltas"),
    [
        ([], []),
        ([0.0, 1.0], [0.1]),
        ([-1.0], [0.1]),
        ([1.0, 0.5], [0.2, 0.1]),
        ([0.0, math.inf], [0.2, 0.1]),
        ([0.0, math.nan], [0.2, 0.1]),
        ([0.0], [math.nan]),
        ([0.0], [-0.1]),
    ],
)
def test_what_is_no_profile_is_refused(epsilons, deltas):
    with pytest.raises(ValueError, match=r"profile|epsilons"):
        PrivacyLoss.from_profile(epsilons, deltas)


@pytest.mark.parametrize(
    ("epsilons", "deltas"),
    [
        ((0.5,), (0.1,)),
        ((0.0, 1.0), (0.1, 0.2)),
        ((0.0,), (1.5,)),
        ((0.0, 0.0), (0.2, 0.1)),
        ((), ()),
    ],
)
def test_a_malformed_chain_is_refused(epsilons, deltas):
    with pytest.raises(ValueError, match="profile"):
        PrivacyLoss(epsilons, deltas)


@pytest.mark.parametrize("bad", [math.nan, -1e-9])
def test_meaningless_questions_are_refused(bad):
    loss = PrivacyLoss.from_pair([0.5, 0.5], [0.4, 0.6])
    with pytest.raises(ValueError, match="delta must lie"):
        loss.epsilon(bad)
    with pytest.raises(ValueError, match="epsilon must be"):
        loss.delta(bad)


@pytest.mark.parametrize(
    ("epsilons", "deltas"),
    [([0.0, 0.1], [1.0, 1e-6]), ([0.0, 0.05, 0.1], [0.5, 0.4, 1e-6]), ([0.0, 0.5], [0.9, 0.0])],
)
def test_a_loose_bound_at_a_small_epsilon_is_tightened_by_later_ones(epsilons, deltas):
    """No pair of distributions falls from delta 1 at 0 to 10^-6 at 0.1, so the bound is loose."""
    loss = PrivacyLoss.from_profile(epsilons, deltas)
    last, least = epsilons[-1], deltas[-1]
    assert loss.delta(0.0) <= least + (1 - least) * math.tanh(last / 2) * (1 + 1e-12)
    assert loss.delta(last) == pytest.approx(least, rel=1e-9)
    assert compose({loss: 10}).epsilon(1e-3) < 10 * last


def test_a_profile_below_bounds_is_the_hull_of_all_that_each_implies():
    """Against the definition, pair by pair: every bound's own worst profile, then their hull."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        e = np.unique(rng.uniform(0, rng.choice([0.5, 5.0, 50.0]), rng.integers(1, 30)))
        d = np.sort(10 ** rng.uniform(-12, 0, e.size))[::-1]
        each = [PrivacyLoss.from_profile([a], [b]) for a, b in zip(e, d, strict=True)]
        loss = PrivacyLoss.from_profile(e, d)
        x = np.linspace(0, e[-1] * 1.2, 200)
        least = np.min([one.at(x) for one in each], axis=0)
        assert (loss.at(x) <= least * (1 + 1e-9) + 1e-18).all()
        corners = np.array(loss.epsilons)
        attained = np.min([one.at(corners) for one in each], axis=0)
        np.testing.assert_allclose(loss.deltas, attained, rtol=1e-9)
