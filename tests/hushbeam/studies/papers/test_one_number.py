"""Published reports of one number are exact channels, and estimates are what their papers say."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from hushbeam.studies.papers.one_number import CurrentStatus, NearestValues
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom

MADE = [NearestValues.piecewise, NearestValues.bipartite, CurrentStatus]


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("values", [2, 5, 12])
def test_no_pair_of_inputs_is_told_apart_better_than_promised(make, epsilon, values) -> None:
    """Every pair and code in integers, in place of the one pair that stands for all."""
    mechanism = make(epsilon, values)
    rows = [[int(w) for w in mechanism.weights(cell)[0]] for cell in range(values)]
    totals = {mechanism.weights(cell)[1] for cell in range(values)}
    assert {sum(row) for row in rows} == totals
    paired = [list(zip(*pair, strict=True)) for pair in permutations(rows, 2)]
    largest = max(a / b for pair in paired for a, b in pair)
    assert 0.999 * epsilon < math.log(largest) <= epsilon * (1 + 1e-15)
    assert tight_epsilon(mechanism) == pytest.approx(math.log(largest), rel=1e-12)
    for half in (0.0, epsilon / 2):
        surplus = max(math.fsum(max(a - math.exp(half) * b, 0) for a, b in pair) for pair in paired)
        surplus /= sum(rows[0])
        assert tight_delta(mechanism, half) == pytest.approx(surplus, rel=1e-9)
    least = np.min([mechanism.channel(cell) for cell in range(values)], axis=0)
    assert mechanism.blanket() == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("cell", [0, 2, 8])
def test_clients_follow_their_channel_and_not_one_that_is_30_percent_off(make, cell) -> None:
    mechanism, n = make(1.5, 9), 200_000
    counts = mechanism.count(mechanism.perturb(np.full(n, cell), SeededRandom(3)))
    law = mechanism.channel(cell)
    assert stats.chisquare(counts, n * law).pvalue > 1e-9
    off = law.copy()
    off[law.argmax()] *= 1.3
    assert stats.chisquare(counts, n * off / off.sum()).pvalue < 1e-9


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0, 5.0])
def test_the_optimal_window_has_the_least_worst_error(epsilon: float) -> None:
    """By trying widths and inputs, and by the closed form as it is published."""
    published = (math.exp(epsilon / 2) - 1) / 2 / (math.exp(epsilon) - 1)
    size = 400
    made = NearestValues.piecewise(epsilon, size)
    assert made.likely == round(2 * published * size)
    inner = made.channel(0)[0] * size
    assert inner == pytest.approx(math.exp(epsilon / 2), rel=0.02)
    place = np.arange(size)

    def worst(likely: int) -> float:
        mechanism = NearestValues(epsilon, size, likely)
        inputs = (0, size // 4, size // 2)
        return max(float(mechanism.channel(x) @ np.abs(place - x)) for x in inputs)

    tried = {likely: worst(likely) for likely in range(5, size - 5, 5)}
    best = min(tried, key=tried.__getitem__)
    assert worst(made.likely) <= tried[best] * (1 + 1e-4)
    assert max(tried.values()) > 1.03 * tried[best]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_bipartite_number_is_the_least_of_the_locally_best(epsilon: float) -> None:
    """By the definition, input by input; on a fine grid it is the optimal window's."""
    for size in (2, 7, 16):
        best = []
        for x in range(size):
            near = sorted(abs(x - y) for y in range(size))
            errors = [
                (math.exp(epsilon) * sum(near[:m]) + sum(near[m:]))
                / (m * math.exp(epsilon) + size - m)
                for m in range(1, size + 1)
            ]
            best.append(1 + int(np.argmin(errors)))
        assert NearestValues.bipartite(epsilon, size).likely == min(*best, size - 1)
    fine = NearestValues.bipartite(epsilon, 1024).likely
    assert abs(fine - NearestValues.piecewise(epsilon, 1024).likely) <= 1


def test_status_bits_have_no_bias() -> None:
    status = CurrentStatus(1.0, 6)
    shares = np.array([0.1, 0.3, 0.0, 0.2, 0.25, 0.15])
    law = shares @ np.stack([status.channel(cell) for cell in range(6)])
    assert status.estimate(law) == pytest.approx(np.cumsum(shares)[:-1], abs=1e-12)
    assert status.likeliest(law) == pytest.approx(np.append(0, np.cumsum(shares)), abs=1e-12)


def test_rising_shares_are_the_likeliest() -> None:
    """Against 20,000 other rising curves, and against each moved by a little."""
    status = CurrentStatus(0.7, 7)
    rng = np.random.default_rng(1)
    for seed in range(5):
        cells = rng.integers(0, 7, 60)
        counts = status.count(status.perturb(cells, SeededRandom(seed)))
        bits = counts.reshape(-1, 2)
        lie = 1 / (1 + math.exp(0.7))

        def likelihood(below: np.ndarray, bits=bits, lie=lie) -> np.ndarray:
            told = lie + (1 - 2 * lie) * below
            return bits[:, 1] @ np.log(told) + bits[:, 0] @ np.log(1 - told)

        found = status.likeliest(counts)
        assert found[0] == 0
        assert found[-1] == 1
        assert np.all(np.diff(found) >= 0)
        own = likelihood(found[1:-1, None])[0]
        others = np.sort(rng.random((6, 20_000)), axis=0)
        near = np.sort(np.clip(found[1:-1, None] + rng.normal(0, 0.02, (6, 20_000)), 0, 1), axis=0)
        assert max(likelihood(others).max(), likelihood(near).max()) <= own + 1e-9


def test_thresholds_that_nobody_was_asked_lie_between_their_neighbours() -> None:
    status = CurrentStatus(1.0, 4)
    counts = np.array([100, 0, 0, 0, 0, 100])
    assert status.likeliest(counts).tolist() == [0, 0, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: NearestValues(1.0, 8, 8), "likely"),
        (lambda: NearestValues(math.nan, 8, 2), "epsilon"),
        (lambda: CurrentStatus(1.0, 1), "values"),
        (lambda: CurrentStatus(math.nan, 8), "epsilon"),
        (lambda: CurrentStatus(1e-19, 8), "too small"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(make, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        make()
