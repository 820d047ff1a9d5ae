"""The error of a mean: the plugged-in variance, what it bounds, and how often intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.mean.intervals import estimate_mean, half_width, plugged_in_variance
from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import piecewise
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SeededRandom
from tests.fakes.few import ends

# Of whose reports a mean is all that can be known.
_TWO_POINT = ("1bitmean", "duchi", "ndm", "hm")


def build(name: str, epsilon: float, cells: int = 256):
    more = {"delta": 1e-4} if name.startswith("gaussian") else {}
    return catalog.build(name, epsilon=epsilon, cells=cells, **more)


def values(n: int, seed: int = 2) -> np.ndarray:
    """Numbers like ages: most below the middle of the bounds, a few at the ends."""
    place = (SeededRandom(seed).words(n) >> np.uint64(11)) * 2.0**-53
    return np.clip(2.2 * place**1.7 - 1.1, -1, 1)


def expected_counts(mechanism, held: np.ndarray, n: float) -> np.ndarray:
    """The mean of `count` over the randomness of reports."""
    position = (held + 1) * (mechanism.cells / 2)
    below = np.minimum(np.floor(position), mechanism.cells - 1).astype(int)
    share = position - below
    weight = np.bincount(below, 1 - share, mechanism.inputs)
    weight += np.bincount(below + 1, share, mechanism.inputs)
    laws = np.stack([mechanism.channel(cell) for cell in range(mechanism.inputs)])
    return weight @ laws * (n / held.size)


@pytest.mark.parametrize("epsilon", [0.7, 5.0])
@pytest.mark.parametrize("name", list(catalog.of_task("mean")))
def test_the_plugged_in_variance_is_that_of_the_values(name, epsilon):
    """At the expected counts, for smooth data, for one value, and for the two ends."""
    mechanism = build(name, epsilon, cells=24)
    for held in (values(300), np.full(9, 0.1), np.array([-1.0, 1.0]), np.full(9, -1.0)):
        counts = expected_counts(mechanism, held, 1e6)
        true = float(mechanism.variance(held).mean())
        found = plugged_in_variance(mechanism, counts)
        spread = float(held.var())
        assert found >= true * (1 - 1e-6)
        # Two points tell nothing of the values' spread, which then counts as noise. Elsewhere
        # only what rounding may add is unknown.
        loose = spread if name in _TWO_POINT else 1 / 24**2
        assert found <= true + loose + 0.03 * true
        assert found <= mechanism.worst_variance * (1 + 1e-12)


def covers(mechanism, held: np.ndarray, runs: int, **asked) -> float:
    """How often 95 % intervals cover, by simulation."""
    rng, truth = SeededRandom(77), held.mean()
    codes = mechanism.perturb(mechanism.encode(np.tile(held, runs), rng), rng)
    hits = 0
    for batch in codes.reshape(runs, held.size):
        found = estimate_mean(mechanism, mechanism.count(batch), 0.95, **asked)
        hits += found.lower <= truth <= found.upper
    return hits / runs


@pytest.mark.parametrize("epsilon", [1.0, pytest.param(5.0, marks=pytest.mark.verify)])
@pytest.mark.parametrize("name", list(catalog.of_task("mean")))
def test_intervals_cover_as_often_as_they_say(name, epsilon):
    """300 batches: 0.95 has a standard deviation of 0.0126, so 0.88 is out of reach by chance."""
    cells = 32 if name.startswith("gaussian") else 256  # whose noise has thousands of codes
    mechanism, held = build(name, epsilon, cells), values(3000)
    share = covers(mechanism, held, 300)
    assert share > 0.90
    if name not in _TWO_POINT and not estimate_mean_is_sure(mechanism, held):
        assert share < 0.99


def estimate_mean_is_sure(mechanism, held: np.ndarray) -> bool:
    """Whether Bernstein's limits are drawn, which cover more often."""
    counts = expected_counts(mechanism, held, held.size)
    reach = 1 + np.abs(mechanism.decoded).max()
    return bool(held.size * plugged_in_variance(mechanism, counts) < 12 * reach**2)


@pytest.mark.parametrize("n", [1, 2, 7, 60])
@pytest.mark.parametrize("name", ends(["pm", "duchi", "laplace", "optimal", "hybrid_optimal"]))
def test_a_handful_of_reports_is_covered_too(name, n):
    for held in (np.full(n, -1.0), np.linspace(-1, 1, n) if n > 1 else np.zeros(1)):
        assert covers(build(name, 6.0, 64), held, 300) > 0.90


def test_the_worst_case_covers_and_is_no_narrower():
    mechanism, held = piecewise(3.0, 64), np.zeros(2000)
    rng = SeededRandom(1)
    counts = mechanism.count(mechanism.perturb(mechanism.encode(held, rng), rng))
    plain, worst = (estimate_mean(mechanism, counts, 0.95, worst=w) for w in (False, True))
    assert worst.standard_error == pytest.approx(math.sqrt(mechanism.worst_variance / 2000))
    assert plain.standard_error < 0.8 * worst.standard_error
    assert plain.unbiased == worst.unbiased
    assert covers(mechanism, held, 300, worst=True) > 0.97


def test_an_interval_lies_within_the_bounds_and_holds_what_is_published():
    mechanism = duchi(0.5)
    for high in (0, 3, 500, 997, 1000):
        found = estimate_mean(mechanism, np.array([1000 - high, high]), 0.95)
        assert -1 <= found.lower <= min(max(found.unbiased, -1), 1) <= found.upper <= 1
        assert found.n == 1000


def test_limits_are_normal_where_reports_are_many():
    one = np.array(1.0)
    many, few = (float(half_width(one, one, one, n, 0.95)) for n in (10, 9))
    assert many == pytest.approx(normal_quantile(0.95) / math.sqrt(10))
    assert few > 1.3 * many


def test_nothing_to_estimate_from_is_refused():
    with pytest.raises(ValueError, match="no report"):
        estimate_mean(duchi(1.0), np.zeros(2, np.int64), 0.95)
    with pytest.raises(ValueError, match="confidence"):
        estimate_mean(duchi(1.0), np.ones(2, np.int64), 1.0)
