"""A test of two kinds of reports: below the truth, and near it where a walk's roundings show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.blanket import thinned_delta
from mechanisms.privacy.pair_law import PairLaw


def three_kinds(keep: float, lie: float) -> PairLaw:
    """k-ary response: the pair's two symbols, and all others; other users hold a third value."""
    rest = 1 - keep - lie
    rows = (keep, lie, rest), (lie, keep, rest), (lie, lie, 1 - 2 * lie)
    return PairLaw(*(np.array(row) for row in rows))


def enumerated_delta(law: PairLaw, n: int, epsilon: float) -> float:
    """The divergence of the batches, summed over all numbers of reports of the first two kinds."""
    one, two = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")

    def others(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """P(a and b reports of the two kinds) among n - 1."""
        left = n - 1 - a - b
        possible = (a >= 0) & (b >= 0) & (left >= 0)
        a, b, left = (np.where(possible, x, 0) for x in (a, b, left))
        log = gammaln(n) - gammaln(a + 1) - gammaln(b + 1) - gammaln(left + 1)
        log = log + a * math.log(law.others[0]) + b * math.log(law.others[1])
        return np.exp(np.where(possible, log + left * math.log(law.others[2]), -np.inf))

    seen = [others(one - 1, two), others(one, two - 1), others(one, two)]
    first, second = (
        sum(p * x for p, x in zip(q, seen, strict=True)) for q in (law.first, law.second)
    )
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize("lie", [0.22, 0.4])
def test_the_advantage_is_below_the_enumerated_divergence(lie: float, epsilon: float) -> None:
    n, law = 1500, three_kinds(0.45, lie)
    exact = enumerated_delta(law, n, epsilon)
    assert 0 < exact
    assert thinned_delta(law, n, epsilon) <= exact * (1 + 1e-9)
    if epsilon == 0:  # of so few reports a quarter is thrown away
        assert thinned_delta(law, n, epsilon) > 0.6 * exact


def test_a_walk_of_a_hundred_million_users_agrees() -> None:
    lower, upper = shuffled_epsilon(k_ary(4.0, 100), 30_000_000, 1e-9)  # by the walk alone
    law = k_ary(4.0, 100).shuffle_laws().attained[0]
    assert (
        thinned_delta(law, 30_000_000, 0.985 * lower)
        >= 1e-9
        >= thinned_delta(law, 30_000_000, upper)
    )


@pytest.mark.parametrize("n", [10**9, 10**12])
@pytest.mark.parametrize(("local", "d"), [(1.0, 10), (8.0, 915)])
def test_brackets_of_very_many_reports_are_narrow(local: float, d: int, n: int) -> None:
    lower, upper = shuffled_epsilon(k_ary(local, d), n, 1e-12)
    assert 0.99 * upper < lower < upper


def test_kinds_that_are_not_mirror_images_are_left_to_the_walk() -> None:
    law = three_kinds(0.45, 0.22)
    lopsided = PairLaw(law.first, law.second, np.array([0.2, 0.3, 0.5]))
    assert thinned_delta(lopsided, 10**9, 0.0) == 0.0
    assert thinned_delta(law, 20, 0.0) == 0.0  # nor are a few reports thinned
