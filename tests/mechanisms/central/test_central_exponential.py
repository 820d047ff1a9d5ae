"""The exponential mechanism: its weights, their exact privacy, the choices, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.central.exponential import ExponentialMechanism
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted


@pytest.mark.parametrize(
    ("scores", "epsilon", "pmf"),
    [
        (
            [3, 2, 1, 0],
            1.0,
            [0.45505423392341127, 0.27600434470659363, 0.16740509727844333, 0.1015363240915518],
        ),
        ([0, 0, 5], 2.0, [0.006648354478866004, 0.006648354478866004, 0.986703291042268]),
    ],
)
def test_probabilities_are_those_of_the_formula(scores, epsilon, pmf):
    mechanism = ExponentialMechanism(epsilon, sensitivity=1)
    np.testing.assert_allclose(mechanism.probabilities(scores), pmf, rtol=1e-9)


@pytest.mark.parametrize(("options", "tight"), [(2, 0.5), (3, 0.664), (10, 0.897), (1000, 0.999)])
def test_tight_epsilon_of_few_options(options, tight):
    assert ExponentialMechanism(1.0).tight_epsilon(options) == pytest.approx(tight, abs=5e-4)


def largest_ratio(mechanism: ExponentialMechanism, before, after) -> Fraction:
    """The largest probability ratio between two score vectors, either way, exactly."""
    (p, p_total), (q, q_total) = mechanism.weights(before), mechanism.weights(after)
    pairs = [(int(a) * q_total, int(b) * p_total) for a, b in zip(p, q, strict=True)]
    return max(Fraction(max(pair), min(pair)) for pair in pairs)


@given(
    st.sampled_from([0.01, 0.3, 1.0, 4.0, 60.0]),
    st.sampled_from([1, 0.37, 12.5]),
    st.lists(st.tuples(st.floats(-300, 300), st.floats(-1, 1)), min_size=1, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_no_pair_of_neighbours_exceeds_epsilon(epsilon, sensitivity, moves):
    mechanism = ExponentialMechanism(epsilon, sensitivity)
    # On a grid finer than the mechanism's, so that sums are exact and rounding down is tested.
    unit = Fraction(sensitivity) / 4096
    before = [float(math.floor(score * 4096) * unit) for score, _ in moves]
    after = [
        b + float(round(move * 4096) * unit) for b, (_, move) in zip(before, moves, strict=True)
    ]
    exact = all(
        abs(Fraction(a) - Fraction(b)) <= Fraction(sensitivity)
        for a, b in zip(after, before, strict=True)
    )
    if exact:
        assert largest_ratio(mechanism, before, after) <= exponential_bounds(epsilon)[0]


@pytest.mark.parametrize("gap", [0, 1, 40, 44, 45, 46, 50, 80, 88, 90, 1000])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_unlikely_options_keep_the_claim(epsilon, gap):
    """Around a weight of one unit plain rounding breaks the bound; try every parting of steps."""
    mechanism = ExponentialMechanism(epsilon, resolution=4)
    for fraction in np.arange(8) / 8:
        low = -2 * gap / epsilon + fraction
        before, after = [low, 0.0, 0.0], [low + 1, -1.0, -1.0]
        assert largest_ratio(mechanism, before, after) <= exponential_bounds(epsilon)[0]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize(("options", "spread"), [(2, 1.0), (3, 2.5), (40, 1.0), (5, 6.0)])
def test_tight_epsilon_is_attained(epsilon, options, spread):
    mechanism = ExponentialMechanism(epsilon)
    before = [0.0] + [spread] * (options - 1)
    after = [1.0] + [spread - 1] * (options - 1)
    attained = math.log(largest_ratio(mechanism, before, after))
    tight = mechanism.tight_epsilon(options, spread)
    assert attained <= tight <= attained + 1e-7
    assert tight <= epsilon


@given(
    st.sampled_from([0.3, 2.0, 9.0]),
    st.sampled_from([1, 4, 40]),
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), min_size=2, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_no_neighbours_within_the_range_exceed_tight_epsilon(epsilon, spread, moves):
    mechanism = ExponentialMechanism(epsilon)
    before = [math.floor(4096 * spread * score) / 4096 for score, _ in moves]
    moved = [b + round(4096 * move) / 4096 for b, (_, move) in zip(before, moves, strict=True)]
    after = [min(max(score, 0.0), float(spread)) for score in moved]
    tight = mechanism.tight_epsilon(len(moves), spread)
    assert largest_ratio(mechanism, before, after) <= exponential_bounds(tight)[0]


@given(st.integers(2, 200), st.floats(1, 50), st.sampled_from([0.1, 1.0, 5.0]))
@settings(max_examples=40, deadline=None)
def test_tight_epsilon_grows_up_to_the_claim(options, spread, epsilon):
    mechanism = ExponentialMechanism(epsilon)
    tight = mechanism.tight_epsilon(options, spread)
    assert tight * (1 - 1e-12) <= mechanism.tight_epsilon(options + 1, spread) <= epsilon
    assert tight * (1 - 1e-12) <= mechanism.tight_epsilon(options, spread + 1) <= epsilon


def test_choices_follow_the_probabilities():
    mechanism, scores = ExponentialMechanism(1.0), [3.0, 2.0, 2.5, 0.0, -1.0]
    law = mechanism.probabilities(scores)
    n = sample_size(law, tilted(law))
    counts = np.bincount(mechanism.select(scores, SeededRandom(5), times=n), minlength=5)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


def test_scores_far_apart_are_no_trouble():
    mechanism = ExponentialMechanism(1.0)
    assert mechanism.select([1e300, -1e300, 0.0], SeededRandom(1)).tolist() == [0]
    assert int(mechanism.weights([1e300, -1e300])[0][1]) > 0


@pytest.mark.parametrize("epsilon", [math.nan, 0.0, -1.0, math.inf])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        ExponentialMechanism(epsilon)


@pytest.mark.parametrize("sensitivity", [math.nan, 0.0, -1.0, math.inf])
def test_bad_sensitivities_are_refused(sensitivity):
    with pytest.raises(ValueError, match="sensitivity"):
        ExponentialMechanism(1.0, sensitivity)


@pytest.mark.parametrize("resolution", [math.nan, 0, -1, math.inf, 1.5, 1 << 21])
def test_bad_resolutions_are_refused(resolution):
    with pytest.raises(ValueError, match="resolution"):
        ExponentialMechanism(1.0, 1.0, resolution)


@pytest.mark.parametrize("scores", [[], [math.nan, 1.0], [math.inf], [[1.0]]])
def test_bad_scores_are_refused(scores):
    with pytest.raises(ValueError, match="scores"):
        ExponentialMechanism(1.0).weights(scores)


def test_what_does_not_fit_into_64_bits_is_refused():
    with pytest.raises(ValueError, match="64 bits"):
        ExponentialMechanism(1e-9).weights(np.zeros(1000))


@pytest.mark.parametrize(("options", "spread"), [(1, 1), (math.nan, 1), (2, 0.5), (2, math.nan)])
def test_bad_ranges_are_refused(options, spread):
    with pytest.raises(ValueError, match="must be at least"):
        ExponentialMechanism(1.0).tight_epsilon(options, spread)
