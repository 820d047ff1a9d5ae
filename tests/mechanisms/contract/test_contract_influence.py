"""What one report can do to an estimate: what mechanisms say of it, against all their reports."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mechanisms.mean.intervals import HONEST, NOBODY, quotient_reach
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import noise
from mechanisms.mean.with_unusable import WithUnusable
from tests.mechanisms.contract.cases import Case, over
from tests.mechanisms.contract.test_contract_estimates import LINEAR, decoded

SIMPLE = [case for case in LINEAR if case.facts.task in ("frequency", "mean")]
ROWS = [case for case in LINEAR if case.facts.task == "vector"]


def ranges(case: Case):
    """(coordinates,) how far apart the estimates of any two reports are."""
    estimates = decoded(case.mechanism)
    return np.ptp(estimates.reshape(len(estimates), -1), axis=0)


@over(SIMPLE)
def test_influence_is_the_largest_difference_between_two_reports(case):
    np.testing.assert_allclose(case.mechanism.influence, ranges(case).max(), rtol=1e-9)


@over(ROWS)
def test_influence_on_a_coordinate_is_never_exceeded(case):
    assert np.all(ranges(case) <= np.asarray(case.mechanism.influence) * (1 + 1e-9))


QUOTIENTS = [
    noise(1.0, cells=3),
    WithUnusable(duchi(1.0, cells=2)),
    WithUnusable(noise(1.5, cells=3)),
    PublicGroups(duchi(1.0, cells=2), groups=2),
    PublicGroups(WithUnusable(duchi(2.0, cells=2)), groups=2),
    KeyValue(3.0, groups=3, cells=1),
]


def means(mechanism, counts):
    above, below = mechanism.averages(counts)
    return np.atleast_1d(above / below)


@pytest.mark.parametrize("mechanism", QUOTIENTS, ids=lambda mechanism: type(mechanism).__name__)
def test_a_quotient_moves_as_far_as_the_worst_of_all_reports_and_no_farther(mechanism):
    """Ten of a thousand reports become any others, all alike: every pair of codes is tried."""
    laws = [mechanism.channel(cell) for cell in range(mechanism.inputs)]
    counts = np.rint(np.mean(laws, axis=0) * 1000).astype(np.int64) + 10
    liars = 50
    counts[:] += liars  # so that there are as many of each as may be taken away
    published, worst = means(mechanism, counts), 0.0
    for gone, instead in product(range(mechanism.codes), repeat=2):
        other = counts.copy()
        other[gone] -= liars
        other[instead] += liars
        worst = np.maximum(worst, np.abs(means(mechanism, other) - published))
    share = liars / counts.sum()
    bound = quotient_reach(mechanism.averages(counts), mechanism.extreme_reports, share)
    np.testing.assert_allclose(np.atleast_1d(bound), worst, rtol=1e-9)


def test_enough_liars_can_make_a_quotient_anything():
    everybody = np.concatenate([HONEST, NOBODY])
    reach = quotient_reach((np.array([0.001, 0.2]), np.array([0.005, 0.5])), everybody, 0.01)
    assert np.isinf(reach[0])
    assert reach[1] < 0.05
