"""Groups and their means: the joint response, its audit, its estimates and their errors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.mean.group_means import group_means
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import piecewise
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles import mean as oracle

CASES = [
    KeyValue(0.5, groups=2),
    KeyValue(1.0, groups=3),
    KeyValue(2.0, groups=4, cells=2),
    KeyValue(5.0, groups=3, cells=4),
]
Z = 6.2  # normal quantile of a two-sided false alarm of 1e-9


@pytest.fixture(params=CASES, ids=lambda m: f"{m.epsilon}-{m.groups}-{m.cells}")
def mechanism(request):
    return request.param


# ---- estimates -----------------------------------------------------------------------------------


def expected_counts(mechanism, shares, means, n):
    """The mean of `count` for groups of some shares whose values are all their group's mean."""
    total = np.zeros(mechanism.codes)
    for group, (share, mean) in enumerate(zip(shares, means, strict=True)):
        for cell, chance in oracle.rounding(mechanism.cells, Fraction(mean)).items():
            law = mechanism.channel(group * mechanism.points + cell)
            total += n * share * float(chance) * law
    return total


def test_shares_and_sums_are_unbiased(mechanism):
    """From the channel, not from samples."""
    shares = np.arange(1, mechanism.groups + 1) / sum(range(1, mechanism.groups + 1))
    means = [Fraction(2 * g, mechanism.groups) - Fraction(3, 4) for g in range(mechanism.groups)]
    counts = expected_counts(mechanism, shares, means, 1000.0)
    np.testing.assert_allclose(mechanism.estimate(counts, 1000), shares, atol=1e-12)
    wanted = shares * np.array(means, float)
    np.testing.assert_allclose(mechanism.sums(counts), wanted, atol=1e-12)


def test_the_variance_of_a_part_is_that_of_the_channel(mechanism):
    """sum - mean * share of group 0, per user in and outside of it, by enumeration."""
    points, codes = mechanism.points, np.arange(mechanism.codes)
    inside = codes < points
    lie, contrast = mechanism.lie, mechanism.contrast
    for mean in (-1.0, -0.25, 0.5):
        values = np.where(inside, mechanism.grid[codes % points], 0.0)
        parts = values / contrast - mean * (inside - points * lie) / contrast
        outside = mechanism.channel(mechanism.codes - 1)
        np.testing.assert_allclose(outside @ parts, 0, atol=1e-9)
        lies = mechanism.variance(np.array(0.0), np.array(mean))
        np.testing.assert_allclose(outside @ parts**2, lies, rtol=1e-9)
        # Users of group 0 on the two ends of the grid, in the mixture that has this mean.
        laws = np.stack([mechanism.channel(0), mechanism.channel(points - 1)])
        own = np.array([(1 - mean) / 2, (1 + mean) / 2])
        first = laws @ parts
        np.testing.assert_allclose(first, np.array([-1, 1]) - mean, atol=1e-9)
        true = own @ (laws @ parts**2 - first**2)
        stated = mechanism.variance(np.array(1.0), np.array(mean))
        # Between values at the ends and rounding to the ends nothing tells, if there is one cell.
        allowance = 1 - mean**2 if mechanism.cells == 1 else 1 / mechanism.cells**2
        assert true * (1 - 1e-9) <= stated <= true + allowance + 1e-9


def sample(mechanism, shares, low, high, n, rng):
    """Messages of n users with values that are uniform in each group's own range, and its means."""
    groups = np.repeat(np.arange(len(shares)), np.rint(np.array(shares) * n).astype(int))
    place = (rng.words(groups.size) >> np.uint64(11)) * 2.0**-53
    values = np.array(low)[groups] + place * (np.array(high) - np.array(low))[groups]
    means = np.bincount(groups, values) / np.bincount(groups)
    return groups, values, means


@pytest.mark.verify
@pytest.mark.parametrize(("epsilon", "cells"), [(1.0, 1), (3.0, 2), (7.0, 8)])
def test_intervals_cover_as_often_as_they_say(epsilon, cells):
    """400 batches: where 95 % cover, 0.91 of the 1,200 intervals or fewer do once in 1e9 times.

    Coarse grids cover more often, for what rounding adds is taken at its largest.
    """
    mechanism, rng, n, runs = KeyValue(epsilon, groups=3, cells=cells), SeededRandom(8), 4000, 400
    groups, values, means = sample(
        mechanism, [0.6, 0.3, 0.1], [-1, -0.5, 0.2], [0.5, 1, 0.9], n, rng
    )
    covered, off = 0, []
    for _ in range(runs):
        cell = groups * mechanism.points + mechanism.rounding.encode(values, rng)
        found = group_means(mechanism, mechanism.count(mechanism.perturb(cell, rng)), 0.95)
        covered += int(((found.lower <= means) & (means <= found.upper)).sum())
        off.append((found.share - [0.6, 0.3, 0.1]) / found.share_error)
    assert 0.93 < covered / (3 * runs) < 0.992
    # Standard errors of shares: the ratio of variances within 6 of its own standard deviations.
    assert abs(np.mean(np.square(off)) - 1) < Z * math.sqrt(2 / (3 * runs)) * 1.5


def test_a_group_that_may_be_empty_can_have_any_mean():
    mechanism, rng = KeyValue(1.0, groups=3), SeededRandom(4)
    cells = mechanism.rounding.encode(np.full(2000, 0.5), rng)  # all in group 0
    found = group_means(mechanism, mechanism.count(mechanism.perturb(cells, rng)), 1 - 1e-9)
    assert found.lower[0] < 0.5 < found.upper[0]
    assert found.lower[1:].tolist() == [-1, -1]
    assert found.upper[1:].tolist() == [1, 1]
    empty = found.share <= 0
    assert np.isnan(found.ratio[empty]).all()
    assert np.isnan(found.standard_error[empty]).all()


@pytest.mark.verify
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_a_handful_of_reports_is_no_reason_to_be_sure(n):
    """Bernstein's limits: 300 batches of 95 % intervals miss more than 40 times never."""
    mechanism, rng = KeyValue(6.0, groups=2, cells=4), SeededRandom(n)
    values, missed = np.full(n, 0.3), 0
    for _ in range(300):
        cells = mechanism.rounding.encode(values, rng)
        found = group_means(mechanism, mechanism.count(mechanism.perturb(cells, rng)), 0.95)
        missed += int(not found.lower[0] <= 0.3 <= found.upper[0])
    assert missed <= 40


def test_the_worst_case_is_wider():
    mechanism, rng = KeyValue(6.0, groups=2, cells=16), SeededRandom(4)
    cells = mechanism.rounding.encode(np.full(5000, 0.1), rng)
    counts = mechanism.count(mechanism.perturb(cells, rng))
    plain, worst = (group_means(mechanism, counts, 0.95, worst=w) for w in (False, True))
    assert worst.standard_error[0] > 1.2 * plain.standard_error[0]
    assert worst.upper[0] - worst.lower[0] > plain.upper[0] - plain.lower[0]


def test_finer_grids_pay_where_reports_mostly_tell_the_truth():
    def error(epsilon, cells):
        return KeyValue(epsilon, 4, cells).worst_variance(0.25)

    assert error(1.0, 1) < error(1.0, 4)
    assert error(8.0, 8) < error(8.0, 1)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"groups": 1}, "groups must be at least 2"),
        ({"groups": 2.5}, "groups must be an integer"),
        ({"groups": 3, "cells": 0}, "cells"),
        ({"groups": 1 << 24}, "groups must be at most"),
        ({"groups": 3, "epsilon": math.nan}, "epsilon"),
        ({"groups": 3, "epsilon": 0}, "epsilon"),
    ],
)
def test_what_means_nothing_is_refused(parameters, match):
    with pytest.raises(ValueError, match=match):
        KeyValue(**({"epsilon": 1.0} | parameters))
    with pytest.raises(ValueError, match="no report"):
        KeyValue(1.0, 2).estimate(np.zeros(4, np.int64))


# ---- public groups -------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [duchi(1.0, cells=4), piecewise(2.0, cells=5)])
def test_public_groups_are_the_inner_channel_in_a_place_of_its_own(inner):
    mechanism = PublicGroups(inner, 3)
    assert tight_epsilon(mechanism) == tight_epsilon(inner)
    for cell in range(mechanism.inputs):
        group, own = divmod(cell, inner.inputs)
        expected = np.zeros((3, inner.codes))
        expected[group] = inner.channel(own)
        np.testing.assert_array_equal(mechanism.channel(cell), expected.ravel())
    rng = SeededRandom(5)
    for cell in (0, inner.inputs + 1, mechanism.inputs - 1):

        def draw(size, cell=cell):
            return mechanism.perturb(np.full(size, cell), rng).astype(np.int64)

        oracle.sampler_follows(draw, mechanism.channel(cell))


def test_public_groups_are_estimated_one_by_one():
    inner = piecewise(2.0, cells=5)
    mechanism, rng = PublicGroups(inner, 4), SeededRandom(9)
    cells = np.concatenate([group * inner.inputs + np.arange(6) for group in (0, 1, 3)])
    counts = mechanism.count(mechanism.perturb(np.tile(cells, 50), rng))
    parts = mechanism.parts(counts)
    assert parts.sum(axis=1).tolist() == [300, 300, 0, 300]
    found = mechanism.estimate(counts)
    assert np.isnan(found[2])
    for group in (0, 1, 3):
        assert found[group] == pytest.approx(float(inner.estimate(parts[group])))


def test_public_groups_refuse_what_means_nothing():
    for groups, match in ((0, "at least 1"), (1.5, "integer"), (1 << 24, "codes are more than")):
        with pytest.raises(ValueError, match=match):
            PublicGroups(duchi(1.0), groups)
