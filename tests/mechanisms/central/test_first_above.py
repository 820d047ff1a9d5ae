"""The sparse vector over counts: its losses by enumeration, its sampler by its law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from mechanisms.central.exponential import ExponentialMechanism, FirstAbove
from mechanisms.privacy.gaussian_filter import gaussian_of_range
from mechanisms.randomness import SeededRandom

SMALL = list(itertools.product(range(4), repeat=3))
# Where losses reach their ends: far below the threshold first and last, and between them so many
# far above it that a threshold above them all is the likeliest way to pass them over.
FAR = np.array([-1, 1, 1, 1, -1])


def raised(counts: tuple[int, ...], by: int) -> list[tuple[int, ...]]:
    """What counts may be with one more unit."""
    more = itertools.product(range(by + 1), repeat=len(counts))
    return [tuple(np.add(counts, step).tolist()) for step in more]


def spans(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    losses = np.log(first) - np.log(second)
    return float(losses.min()), float(losses.max())


def gaussian_enough(first: np.ndarray, second: np.ndarray, mu: float) -> bool:
    """Whether no test tells two laws apart better than N(0, 1) and N(mu, 1), either way."""
    for p, q in ((first, second), (second, first)):
        order = np.argsort(q / p)[::-1]
        alarms, power = p[order].cumsum()[:-1], q[order].cumsum()[:-1]
        if not (power <= ndtr(ndtri(alarms) + mu) * (1 + 1e-9)).all():
            return False
    return True


@pytest.mark.parametrize(("span", "sensitivity"), [(0.8, 1), (3.0, 1), (2.0, 2)])
def test_losses_span_what_is_paid_for(span: float, sensitivity: int) -> None:
    mechanism, mu = FirstAbove(span, sensitivity), gaussian_of_range(span)
    a, b = mechanism.threshold_noise.epsilon, mechanism.query_noise.epsilon
    assert a + 2 * b <= span
    reached = 0.0
    # Not so far that the tables end.
    for counts in [*SMALL[::7], tuple((FAR * int(20 * sensitivity / span)).tolist())]:
        fewer = mechanism.probabilities(counts, 2)
        for neighbour in raised(counts, sensitivity):
            more = mechanism.probabilities(neighbour, 2)
            low, high = spans(fewer, more)
            assert -b - 1e-9 <= low
            assert high <= a + b + 1e-9
            assert gaussian_enough(fewer, more, mu)
            reached = max(reached, high - low)
    # So near that noise which is 10 % too small would be convicted.
    assert 0.9 * span < reached <= span


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_exponential_mechanism_spans_half_its_epsilon_where_scores_move_one_way(
    epsilon: float,
) -> None:
    mechanism, mu = ExponentialMechanism(epsilon, resolution=1), gaussian_of_range(epsilon / 2)
    for counts in SMALL:
        first, total = mechanism.weights(counts)
        for neighbour in raised(counts, 1):
            second, other = mechanism.weights(neighbour)
            # In rationals, so that nothing is rounded.
            ratios = [
                Fraction(int(x) * other, int(y) * total) for x, y in zip(first, second, strict=True)
            ]
            assert math.log(max(ratios) / min(ratios)) <= epsilon / 2 + 1e-15
            assert gaussian_enough(first / total, second / other, mu)


def test_the_sampler_follows_its_law_and_not_one_that_is_30_percent_off() -> None:
    """A chi-square test of 20,000 draws: the false alarm rate is 1e-10, of both."""
    counts, threshold, draws = [1, 4, 2, 6], 5, 20_000
    mechanism, rng = FirstAbove(span=2.0), SeededRandom(17)
    found = [mechanism.choose(counts, threshold, rng) for _ in range(draws)]
    seen = np.bincount([len(counts) if place is None else place for place in found], minlength=5)
    limit = chi2.isf(1e-10, len(counts))

    def distance(span: float) -> float:
        expected = draws * FirstAbove(span).probabilities(counts, threshold)
        return float(((seen - expected) ** 2 / expected).sum())

    assert distance(2.0) < limit
    assert distance(2.0 * 1.3) > limit


def test_tables_that_end_are_close_to_those_that_do_not() -> None:
    mechanism = FirstAbove(span=0.05)
    assert 0 < mechanism.distance(100) < 1e-11
    assert mechanism.distance(200) > mechanism.distance(100)
    # The next table is twice as long in effect: what is cut off is what it says.
    noise = mechanism.query_noise
    last, decay = noise.half_table[-1], noise.decay
    cut = sum(last * math.exp(-decay * k) for k in range(1, 20_000))
    own = mechanism.distance(2) - mechanism.distance(1)
    assert own == pytest.approx(2 * cut / noise.weights[1], rel=1e-3)


def test_what_cannot_be_is_refused() -> None:
    for span in (0.0, math.nan, math.inf, -1.0, 1e-7):
        with pytest.raises(ValueError, match=r"span|noise table"):
            FirstAbove(span)
    with pytest.raises(ValueError, match="threshold"):
        FirstAbove(1.0).choose([1], 0.5, SeededRandom(1))  # type: ignore[arg-type]
    assert FirstAbove(40.0).choose([1, 2], 90, SeededRandom(1)) is None
