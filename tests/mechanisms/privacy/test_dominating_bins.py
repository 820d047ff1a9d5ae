"""A bin that dominates others: at every odds, in two bins, and by no more than it must."""

from __future__ import annotations

import math
from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.channel import Floats
from mechanisms.privacy.bernoulli_bins import Bin
from mechanisms.privacy.binomial_edges import Edges, binomial_edges
from mechanisms.privacy.dominating_bins import Profile, dominating
from mechanisms.privacy.dummy_laws import DummyLaw, binomial, poisson
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta
from tests.oracles.binomial import ONE, binomial_chance, relative_run

weights = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)
ODDS = np.concatenate([np.linspace(0, 3, 61), [10.0, 1e3]])


def law(occupied: list[int], free: list[int]) -> BinLaw:
    return BinLaw(np.array(occupied) / sum(occupied), np.array(free) / sum(free))


def divergence(one: BinLaw) -> Floats:
    gap = one.occupied - np.multiply.outer(ODDS, one.free)
    return np.asarray(np.maximum(gap, 0).sum(axis=1))


@given(st.lists(st.tuples(weights, weights), min_size=1, max_size=4))
def test_no_odds_tell_more_apart(laws: list[tuple[list[int], list[int]]]) -> None:
    given_laws = [law(*one) for one in laws]
    ours = dominating([[(1.0, Profile.of_law(one))] for one in given_laws])
    assert ours.occupied.sum() == pytest.approx(1, abs=1e-9)
    assert ours.free.sum() == pytest.approx(1, abs=1e-9)
    for one in given_laws:
        assert np.all(divergence(ours) >= divergence(one) - 1e-13)
        for other in given_laws:
            for epsilon in (0.0, 0.7):
                lower = two_bins_delta(one, other, epsilon)[0]
                assert two_bins_delta(ours, ours, epsilon)[1] >= lower


@given(weights, weights, weights, weights, st.floats(0, 1))
def test_a_mixture_is_as_telling_as_its_parts_on_average(
    a: list[int], b: list[int], c: list[int], d: list[int], share: float
) -> None:
    one, other = law(a, b), law(c, d)
    mixture = [(share, Profile.of_law(one)), (1 - share, Profile.of_law(other))]
    mean = share * divergence(one) + (1 - share) * divergence(other)
    ours = divergence(dominating([mixture]))
    assert np.all(ours >= mean - 1e-13)
    np.testing.assert_allclose(ours, mean, atol=5e-3)  # what the levels of divergence leave out


@pytest.mark.parametrize("dummies", [poisson(40.0), binomial(10_000, 0.3), poisson(3e5)])
@pytest.mark.parametrize("deviations", [2.0, 5.0, 7.0])
def test_one_law_dominates_itself_closely(dummies: DummyLaw, deviations: float) -> None:
    """To delta of 10^-13 and less: a bin's rarest outcomes keep their digits at either end."""
    bin_law = dummies.bin_law
    epsilon = deviations * float(np.sqrt(2 / dummies.variance))
    lower, upper = two_bins_delta(bin_law, bin_law, epsilon)
    ours = dominating([[(1.0, Profile.of_law(bin_law))]])
    assert lower <= two_bins_delta(ours, ours, epsilon)[1] <= upper * (1 + 2e-3)


@pytest.mark.parametrize(
    "bits",
    [
        (39, 1 - 3.516e-8, 9.297e-9),
        (39, 1 - 1e-9, 1e-3),
        (999, 0.24478328358306858, 0.24478328323120246),
        (50, 0.7, 0.3),
    ],
)
def test_odds_that_all_but_coincide_make_no_chord_steep(bits: tuple[int, float, float]) -> None:
    """Where gains of several holders differ by 10^-9, rounding lies between them."""
    (ours,) = Bin(*bits).dominating(1e-12)
    assert ours.occupied.sum() == pytest.approx(1, abs=1e-14)
    assert ours.free.sum() == pytest.approx(1, abs=1e-14)


class ExactBit:
    """A user's bit among n others', each 1 with the chance of `other`, by every count.

    The law is cut off beyond some 20 deviations, and its sums are rounded once.
    """

    def __init__(self, n: int, keep: float, other: float) -> None:
        self.keep, self.other = keep, other
        deviation = math.sqrt(n * other * (1 - other))
        self.first = max(0, int(n * other - 20 * deviation))
        run = relative_run(n, other, self.first, math.ceil(40 * deviation))
        scale = float(binomial_chance(n, other, self.first)) / ONE
        self.pmf = np.array([float(weight) for weight in run]) * scale
        self.tail, self.head = (
            np.array([float(total) for total in accumulate(way)]) * scale
            for way in (reversed(run), run)
        )
        self.tail = self.tail[::-1]

    def excess(self, odds: float) -> float:
        """D(odds) - max(0, 1 - odds): of all tests that begin at some count the best."""
        bit = self.other * self.pmf[:-1]
        seldom = self.tail[1:] + bit if odds > 1 else self.head[:-1] - bit
        return float(((self.keep - self.other) * self.pmf[:-1] - abs(odds - 1) * seldom).max())

    def edges(self, step: int) -> Edges:
        """Without an error."""
        at = np.arange(1, self.pmf.size - step, step)
        cell = self.tail[at] - self.tail[at + step]
        near = self.head[at + step - 1] - self.head[at - 1]
        cell = np.where(self.tail[at] < 0.5, cell, near)
        below, here = self.pmf[at - 1], self.pmf[at]
        return Edges(self.first + 1, step, below, cell, below / here - 1, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("n", "keep", "other"),
    [(20_000, 0.75, 0.5), (50_000, 0.9, 0.11), (1 << 15, 0.51, 0.5), (1 << 24, 0.73, 0.27)],
)
def test_edges_show_what_all_counts_show(n: int, keep: float, other: float) -> None:
    exact, edges = ExactBit(n, keep, other), binomial_edges((n, other))
    profile = Profile.of_edges(edges, keep, other)
    truth = np.array([exact.excess(one) for one in profile.odds[:: profile.odds.size // 97]])
    ours = profile.excess[:: profile.odds.size // 97]
    assert np.all(ours >= truth * (1 - 1e-13))
    shown = truth > 1e-25
    np.testing.assert_allclose(ours[shown], truth[shown], rtol=1e-5)


@pytest.mark.parametrize("drop_error", [1e-5, 5e-3])
@pytest.mark.parametrize(("n", "other"), [(10_000, 0.1), (4_000, 0.5), (3_000_000, 0.999)])
def test_edges_that_are_off_by_what_they_say(n: int, other: float, drop_error: float) -> None:
    """All three columns too small or too large; the second error is of some counts."""
    exact = ExactBit(n, other + (1 - other) / 2, other)
    truth, relative = exact.edges(step=1), 1e-3
    odds = 1 + np.linspace(-1, 1, 201) * 0.1 * (exact.keep - exact.other)
    excess = np.array([exact.excess(one) for one in odds])
    rng = np.random.default_rng(18)
    ways = [
        *product((-1, 1), repeat=3),
        *(rng.choice((-1, 1), (3, truth.drop.size)) for _ in "abc"),
    ]
    for way in ways:
        below, cell = (
            law * (1 + relative * side) for law, side in zip(truth[2:4], way[:2], strict=True)
        )
        drop = truth.drop + drop_error * way[2]
        # The bounds are of what is true, which a little more than that of what is seen covers.
        edges = Edges(truth.first, truth.step, below, cell, drop, 0.0, relative * 1.002, drop_error)
        profile = Profile.of_edges(edges, exact.keep, exact.other)
        assert np.all(profile.at(odds) >= excess * (1 - 1e-12))


def test_what_is_missing_is_handed_on() -> None:
    pmf = np.array([0.5, 0.5])
    profile = Profile.of_law(BinLaw(pmf, pmf[::-1] * [1.2, 0.8], missing=1e-3, distance=2e-3))
    ours = dominating([[(1.0, profile)]], missing=1e-2)
    assert ours.missing == pytest.approx(1.1e-2)
    assert ours.distance == 2e-3


def test_merged_outcomes_have_no_profile() -> None:
    with pytest.raises(ValueError, match="put together"):
        Profile.of_law(poisson(40.0).bin_law.merged(0.1))
