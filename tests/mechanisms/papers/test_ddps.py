"""DDPS against brute force, against its paper's bound, and against the truth that it estimates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.papers.ddps import Ddps, _met
from mechanisms.papers.published_bounds import boolean_sum_epsilon, unary_sum_bits
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.randomness import SeededRandom


def bits_law(ones: int, zeros: int, flip: float) -> np.ndarray:
    """The number of ones that is seen."""
    kept = stats.binom.pmf(np.arange(ones + 1), ones, 1 - flip)
    return np.convolve(kept, stats.binom.pmf(np.arange(zeros + 1), zeros, flip))


def worst(n: int, bits: int, flip: float, epsilon: float) -> float:
    """delta over all codes of one user and all numbers of ones of the others, either way."""
    others, deltas = (n - 1) * bits, []
    for true in range(others + 1):
        laws = [bits_law(true + k, others - true + bits - k, flip) for k in range(bits + 1)]
        for one in laws:
            deltas += [np.maximum(one - math.exp(epsilon) * other, 0).sum() for other in laws]
    return max(deltas)


@pytest.mark.parametrize(("n", "bits"), [(31, 2), (21, 5), (101, 1)])
def test_ranges_of_others_hold_the_worst_of_all_batches(n: int, bits: int) -> None:
    """Here a range holds two to four numbers; the contract suite has those that hold one."""
    mechanism = Ddps(0.8, 1e-3, n, bits, honest_share=1.0)
    for epsilon in (0.3, 0.8, 1.5):
        lower, upper = mechanism.batch_delta(n, epsilon)
        truth = worst(n, bits, mechanism.flip, epsilon)
        assert lower * (1 - 1e-9) <= truth <= upper * (1 + 1e-9)
        assert truth > 0.7 * upper
        assert lower > 0.9 * truth
    assert worst(n, bits, mechanism.flip, 0.8) <= 1e-3


def test_ranges_that_lead_a_search_do_not_end_it() -> None:
    """Were others worse than the two at the end, all of them would still meet the target."""
    for worse in (1.0, 1.7):

        def delta_at(x: float, some: slice, worse: float = worse) -> float:
            return math.exp(-x) * (worse if some == slice(None) else 1.0)

        met = _met(delta_at, 0.01, 50.0, 3.0)
        assert delta_at(met, slice(None)) <= 0.01 < delta_at(met * (1 - 1e-3), slice(None))


@pytest.mark.parametrize(("n", "bits"), [(100_000, 1), (100_000, 20), (30_000, 174)])
def test_the_papers_bound_holds_and_is_loose(n: int, bits: int) -> None:
    published = Ddps(1.0, 1e-6, n, bits, honest_share=1.0, bound="published")
    exact = Ddps(1.0, 1e-6, n, bits, honest_share=1.0)
    lower, upper = published.batch_epsilon(n, 1e-6)
    assert upper < (0.3 if bits == 1 else 0.05)
    assert lower > 0.95 * upper
    assert published.flip > 5 * exact.flip
    assert 0.96 < exact.batch_epsilon(n, 1e-6)[0] <= exact.batch_epsilon(n, 1e-6)[1] <= 1
    assert exact.batch_delta(n, 1.0)[1] <= 1e-6


def test_the_papers_closed_form() -> None:
    coins, delta, n = 2000.0, 1e-6, 10_000
    surely = coins - math.sqrt(2 * coins * math.log(2e6))
    printed = math.sqrt(32 * math.log(4e6) / surely) * (1 - surely / n)
    assert boolean_sum_epsilon(coins, delta, n) == pytest.approx(printed, rel=1e-12)
    # lambda = 64 ln(4 / delta) / epsilon^2, by which the paper goes where n is large, suffices.
    assert unary_sum_bits(1.0, delta, 10**6, 1) <= 64 * math.log(4e6)
    share = 1 / math.sqrt(8 * 50 * math.log(2e6))
    met = unary_sum_bits(1.0, delta, n := 50_000, 50)
    assert boolean_sum_epsilon(met, delta / 100, n) == pytest.approx(share, rel=1e-6)
    assert boolean_sum_epsilon(met, delta / 100, n) <= share


def test_outside_its_range_the_papers_bound_refuses() -> None:
    for wrong in (100.0, 10_001.0, math.nan):
        with pytest.raises(ValueError, match=r"proven for 212\.8 to n coins"):
            boolean_sum_epsilon(wrong, 1e-6, 10_000)
    with pytest.raises(ValueError, match="epsilon up to 1"):
        Ddps(1.5, 1e-6, 10_000, 1, bound="published")
    with pytest.raises(ValueError, match="n must be larger than 180"):
        Ddps(1.0, 1e-6, 200, 1, bound="published")
    with pytest.raises(ValueError, match="bound must be"):
        Ddps(1.0, 1e-6, 10_000, 1, bound="loose")
    with pytest.raises(ValueError, match=r"cells must lie in 1 \.\. 4096"):
        Ddps(1.0, 1e-6, 10_000, 4097)


def test_one_bit_is_the_shuffled_response_of_two_values() -> None:
    mechanism = Ddps(1.0, 1e-6, 5000, 1, honest_share=1.0)
    response = k_ary(mechanism.local.epsilon, 2)
    for epsilon in (0.3, 1.0):
        lower, upper = mechanism.batch_delta(5000, epsilon)
        other = shuffled_delta(response, 5000, epsilon)
        assert max(lower, other[0]) <= min(upper, other[1])


RUNS, BETA = 1000, 1e-3


def test_errors_are_predicted_and_within_the_papers_tail() -> None:
    """The ratio's standard deviation is 4.5 %, so 27 % are six of them; half the flips show.

    The tail is Bernstein's of the flips and Hoeffding's of the rounding: the paper's 1/epsilon
    log(1/delta) sqrt(log(1/beta)), with constants.
    """
    n, bits, rng = 1000, 32, SeededRandom(5)  # epsilon sqrt(n) bits, as in the paper
    mechanism = Ddps(1.0, 1e-6, n, bits, honest_share=1.0)
    values = rng.generator().uniform(0, 1, n)
    errors = np.empty(RUNS)
    for run in range(RUNS):
        counts = mechanism.count(mechanism.perturb(mechanism.encode(values, rng), rng))
        errors[run] = n / 2 * (float(mechanism.estimate(counts)) - values.mean())
    variance = float(mechanism.variance(values).sum()) / 4
    assert 0.73 < np.mean(errors**2) / variance < 1.27
    assert abs(errors.mean()) < 6.5 * math.sqrt(variance / RUNS)
    spread, log = n * bits * mechanism.flip * (1 - mechanism.flip), math.log(4 / BETA)
    flips = (math.sqrt(2 * spread * log) + log / 3) / (1 - 2 * mechanism.flip)
    tail = (flips + math.sqrt(n * log / 2)) / bits
    assert np.count_nonzero(np.abs(errors) > tail) <= 12  # of 1 expected
    assert tail < 6 * math.sqrt(variance)
