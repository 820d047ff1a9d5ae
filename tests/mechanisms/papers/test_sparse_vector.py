"""The sparse vector technique: exact audits, a refuted variant, the sampler, many passes."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest

from mechanisms.papers.sparse_vector import (
    BALANCED,
    PUBLISHED,
    EpsilonSplit,
    SparseVector,
    accounted,
    shifted_loss,
)
from mechanisms.randomness import SeededRandom
from tests.oracles.sparse_vector import (
    compared_law,
    hockey_stick,
    place_law,
    released_law,
    table,
)
from tests.oracles.statistics import follows, sample_size, tilted

SLACK = 1e-13  # of sums of a million doubles
REACH = 5  # beyond which noise values are counted together


def worst_delta(mechanism: SparseVector, threshold: int, epsilon: float) -> float:
    """The largest divergence over all pairs of inputs, everything shown."""
    grid = range(-mechanism.bound, mechanism.bound + 1)
    laws = [released_law(mechanism, list(v), threshold) for v in product(grid, repeat=2)]
    return max(hockey_stick(p, q, epsilon) for p, q in permutations(laws, 2))


@pytest.mark.parametrize("split", [BALANCED, PUBLISHED, EpsilonSplit(0.2, 0.2, 0.6)])
@pytest.mark.parametrize(("epsilon", "uploads", "threshold"), [(1.5, 1, 0), (4.0, 1, 2), (6, 2, 1)])
def test_two_values_reveal_no_more_than_is_claimed(epsilon, uploads, threshold, split):
    mechanism = SparseVector(epsilon, uploads, dimension=2, bound=1, split=split)
    claim = mechanism.guarantee
    assert worst_delta(mechanism, threshold, claim.epsilon) <= claim.delta + SLACK


def test_the_published_noise_costs_half_of_what_is_claimed_for_it():
    mechanism = SparseVector(9.0, uploads=1, dimension=2, bound=2, split=PUBLISHED)
    assert mechanism.guarantee.epsilon == pytest.approx(4.5, rel=1e-15)
    # Laplace noise of scale 4 c B / eps1, twice that, and 4 c B / eps2.
    decays = [
        noise.decay
        for noise in (mechanism.threshold_noise, mechanism.query_noise, mechanism.value_noise)
    ]
    assert decays == pytest.approx([8 / (4 * 2), 8 / (8 * 2), 2 / (4 * 2)], rel=1e-12)


@pytest.mark.parametrize("last", [0, -1])  # all of b and half of v are paid; or the reverse
@pytest.mark.parametrize("bound", [1, 2])
def test_long_passes_keep_the_claim_and_come_near_it(bound, last):
    def worst(mechanism):
        # What is passed over rises by the bound, what is shown falls: the worst that can happen.
        pair = ([0] * 9 + [bound], [bound] * 9 + [last * bound])
        law = [released_law(mechanism, values, 0) for values in pair]
        return max(hockey_stick(*law[::k], 2.0) for k in (1, -1))

    mechanism = SparseVector(2.0, uploads=1, dimension=10, bound=bound)
    assert worst(mechanism) <= mechanism.guarantee.delta + SLACK
    # Noise for 10 % more than is claimed would be caught.
    assert worst(SparseVector(2.0 * 1.1, uploads=1, dimension=10, bound=bound)) > 1e-4


def test_three_values_of_which_two_are_shown():
    mechanism = SparseVector(5.0, uploads=2, dimension=3, bound=1)
    inputs = [(1, 1, 1), (0, 0, 1), (0, 1, 0), (-1, 0, 0), (0, -1, 1), (1, 0, -1)]
    laws = [released_law(mechanism, list(values), 1) for values in inputs]
    claim = mechanism.guarantee
    worst = max(hockey_stick(p, q, claim.epsilon) for p, q in permutations(laws, 2))
    assert worst <= claim.delta + SLACK
    assert all(law.sum() == pytest.approx(1, abs=1e-12) for law in laws)


def test_showing_the_size_that_was_compared_would_be_caught():
    # Lyu, Su, Li 2017, Algorithm 3: with the same noise the loss knows no bound.
    mechanism = SparseVector(6.0, uploads=1, dimension=60, bound=1)
    low, high = [0] * 59 + [1], [1] * 59 + [0]
    wrong = [compared_law(mechanism, values, 0) for values in (low, high)]
    assert hockey_stick(*wrong, 6.0) > 0.01
    right = [released_law(mechanism, values, 0) for values in (low, high)]
    assert hockey_stick(*right, 6.0) <= mechanism.guarantee.delta + SLACK


def test_places_follow_their_law_and_values_theirs():
    mechanism = SparseVector(6.0, uploads=2, dimension=3, bound=2)
    values, threshold = [2, -1, 0], 2
    law: dict[tuple[int, ...], float] = {}
    for order in permutations(range(3)):
        for places, chance in place_law(mechanism, [values[i] for i in order], threshold).items():
            met = tuple(order[i] for i in places)
            law[met] = law.get(met, 0.0) + chance / 6
    outcomes, expected = list(law), np.array(list(law.values()))
    z, noise = table(mechanism.value_noise)
    grouped = np.bincount(np.clip(z, -REACH, REACH) + REACH, noise)
    n = max(sample_size(expected, tilted(expected)), sample_size(grouped, tilted(grouped)))
    rng = SeededRandom(3)
    shown = [mechanism.release(values, threshold, rng) for _ in range(n)]
    met = [outcomes.index(tuple(places.tolist())) for places, _ in shown]
    counts = np.bincount(met, minlength=len(outcomes))
    assert follows(counts, expected)
    assert not follows(counts, tilted(expected))

    errors = np.concatenate([noisy - np.take(values, places) for places, noisy in shown])
    assert errors.size >= n
    counts = np.bincount(np.clip(errors, -REACH, REACH) + REACH, minlength=grouped.size)
    assert follows(counts, grouped)
    assert not follows(counts, tilted(grouped))


def test_a_pass_ends_with_the_last_upload():
    mechanism = SparseVector(1e3, uploads=3, dimension=50, bound=4)
    places, values = mechanism.release(np.full(50, -4), 1, SeededRandom(4))
    assert len(set(places.tolist())) == 3
    assert (values == -4).all()
    nothing = mechanism.release(np.zeros(50, int), 4, SeededRandom(4))
    assert nothing.places.size == nothing.values.size == 0


def test_many_passes_add_up_or_less():
    mechanism = SparseVector(5.0, uploads=50, dimension=500, bound=4)
    total, accountant = mechanism.after(20, 1e-5)
    assert total.epsilon == pytest.approx(100.0)
    assert total.delta < 1e-10
    # 1,000 rounds of 0.1, half of it Laplace noise: far below the sum, above the values alone.
    values = accounted(
        mechanism.value_noise.guarantee, [shifted_loss(mechanism.value_noise)], 1000, 1e-5
    )
    assert values.epsilon < accountant.epsilon < 20 < total.epsilon
    assert accountant.delta == 1e-5
    more = mechanism.after(40, 1e-5)[1]
    assert accountant.epsilon < more.epsilon < 2 * accountant.epsilon


def test_the_accountant_is_never_below_the_exact_loss_of_one_pass():
    mechanism = SparseVector(2.0, uploads=1, dimension=60, bound=1)
    low, high = (released_law(mechanism, [b] * 59 + [1 - b], 3) for b in (0, 1))
    for delta in (1e-2, 1e-4, 1e-8):
        epsilon = mechanism.after(1, delta)[1].epsilon
        assert epsilon <= 2.0
        assert max(hockey_stick(low, high, epsilon), hockey_stick(high, low, epsilon)) <= delta


def test_hopeless_totals_are_bounded_without_the_numerical_accountant():
    mechanism = SparseVector(2000.0, uploads=1000, dimension=5000, bound=4)
    total, accountant = mechanism.after(10, 1e-5)
    assert 300 < accountant.epsilon < total.epsilon == pytest.approx(20_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1e-4}, "fewer steps"),
        ({"uploads": 0}, "uploads"),
        ({"uploads": 11}, "uploads"),
        ({"uploads": 1.5}, "uploads"),
        ({"dimension": math.nan}, "dimension"),
        ({"bound": 0}, "bound"),
        ({"split": EpsilonSplit(0.5, 0.5, 0.51)}, "parts"),
        ({"split": EpsilonSplit(0.5, 0.0, 0.5)}, "parts"),
        ({"split": EpsilonSplit(math.nan, 0.1, 0.5)}, "parts"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    good = {"epsilon": 1.0, "uploads": 2, "dimension": 10, "bound": 4}
    assert SparseVector(**good).uploads == 2
    with pytest.raises(ValueError, match=message):
        SparseVector(**(good | change))


@pytest.mark.parametrize("values", [[0.5, 0.0], [0, 5], [-5, 0], [0], [0, 0, 0], [[0, 0]]])
def test_bad_values_are_refused_without_being_told(values):
    with pytest.raises(ValueError, match="values must") as caught:
        SparseVector(1.0, 1, 2, 4).release(values, 1, SeededRandom(1))
    assert "5" not in str(caught.value)


def test_bad_questions_are_refused():
    mechanism = SparseVector(1.0, 1, 2, 4)
    with pytest.raises(ValueError, match="threshold"):
        mechanism.release([0, 0], 0.5, SeededRandom(1))
    for passes, delta in [(0, 1e-5), (1.5, 1e-5), (1, 0.0), (1, 1.0), (1, math.nan), (1, 1e-18)]:
        with pytest.raises(ValueError, match=r"passes|delta"):
            mechanism.after(passes, delta)
