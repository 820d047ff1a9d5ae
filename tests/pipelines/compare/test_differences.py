"""Bands and differences hold for every law of noise that is published."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from mechanisms.counters.noise import published_law
from pipelines.compare.differences import FigureChange, Reach, Side, change

MISS = 0.05
LABELS = 1000
LAWS = {
    "normal": stats.norm(scale=3),
    "Laplace": stats.laplace(scale=2),
    "binomial": stats.binom(10_000, 0.01),
    "two-sided geometric": stats.dlaplace(0.7),
}
DRAWN = {
    "normal": lambda rng, shape: rng.normal(scale=3, size=shape),
    "Laplace": lambda rng, shape: rng.laplace(scale=2, size=shape),
    "binomial": lambda rng, shape: rng.binomial(10_000, 0.01, shape).astype(float),
    "two-sided geometric": lambda rng, shape: np.subtract(
        *rng.geometric(1 - math.exp(-0.7), (2, *shape)).astype(float)
    ),
}
every_law = pytest.mark.parametrize("name", LAWS)


def half(law, tail: float) -> float:
    """The half-length that misses with this probability."""
    return max(law.isf(tail / 2) - law.mean(), law.mean() - law.ppf(tail / 2))


@cache
def reach_of(law, figures: int) -> Reach:
    """What a release with so many figures says of noise."""
    return Reach(*(np.full(figures, half(law, MISS / many)) for many in (1, figures)),
                 miss=MISS, figures=figures)  # fmt: skip


def side(law, centre: np.ndarray, comparisons: float = LABELS) -> Side:
    reach = reach_of(law, centre.size)
    known = {"centre": centre, "standard_error": np.full(centre.size, law.std())}
    return Side.of(known, reach, comparisons)


def compared(law, before: np.ndarray, now: np.ndarray, independent: bool = True) -> FigureChange:
    """A day beside another, each difference with an interval that covers with all others."""
    each = LABELS if independent else 2 * LABELS
    return change(side(law, before, each), side(law, now, each), MISS / LABELS, independent)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("figures", [1, 10, 1000])
def test_bands_of_more_figures_are_never_too_short(law, figures: int) -> None:
    reach = reach_of(law, figures)
    for comparisons in (1, 3, figures, 10 * figures, 1000 * figures):
        assert np.all(reach.half(comparisons) >= half(law, MISS / comparisons) - 1e-9)
        assert np.all(reach.compared(comparisons) >= half(law, MISS / figures) - 1e-9)
    if figures > 1:
        assert reach.half(figures) == pytest.approx(reach.together)
        assert reach.half(1) == pytest.approx(reach.alone)


def test_bands_of_normal_noise_are_not_much_too_long() -> None:
    law = LAWS["normal"]
    assert np.all(reach_of(law, 1000).half(365_000) < 1.15 * half(law, MISS / 365_000))


@every_law
def test_equal_releases_show_a_change_as_rarely_as_is_said(name: str) -> None:
    """False alarms of 1,000 values together: of 2,000 pairs at most 5 % and 6.2 standard errors,
    beyond which they are found with a probability of 3e-10. Intervals half as long are never
    enough: of those hardly a pair shows no change."""
    law, pairs = LAWS[name], 2000
    rng = np.random.default_rng(7)
    found = halved = 0
    for _ in range(pairs):
        made = compared(law, *DRAWN[name](rng, (2, LABELS)))
        found += bool(made.beyond.any())
        halved += bool((made.clearness > 0.5).any())
    assert found / pairs < MISS + 6.2 * (MISS * (1 - MISS) / pairs) ** 0.5
    assert halved / pairs > 0.5


@pytest.mark.parametrize("labels", [1, 2, 10, 50, 1000])
def test_whole_noise_of_a_few_units_shows_a_change_as_rarely(labels: int) -> None:
    """Exactly, by the law of a difference: between whole numbers there is no room to scale."""
    reached = np.arange(-200, 201)
    for slope in np.arange(0.3, 8, 0.05):
        law = stats.dlaplace(slope)
        reach = reach_of(law, labels)
        known = {"centre": np.zeros(labels), "standard_error": np.full(labels, law.std())}
        each = Side.of(known, reach, labels)
        made = change(each, each, MISS / labels)
        of_difference = np.convolve(law.pmf(reached), law.pmf(reached))
        outside = np.abs(np.arange(-400, 401)) > made.half[0]
        alarm = float(of_difference[outside].sum())
        assert -math.expm1(labels * math.log1p(-alarm)) <= MISS, slope


@every_law
def test_a_change_of_the_size_that_is_stated_is_found_nine_times_in_ten(name: str) -> None:
    """Of 10,000, each among 1,000 values: fewer than 90 % and 6.2 standard errors with a
    probability of 3e-10."""
    law, draws = LAWS[name], 10_000
    rng = np.random.default_rng(8)
    made = compared(law, np.zeros(LABELS), np.zeros(LABELS))
    size = float(made.detectable[0])
    noise = np.subtract(*DRAWN[name](rng, (2, draws)))
    if np.all(noise == np.round(noise)):
        size = math.ceil(size)  # of whole numbers, differences are whole
    assert np.mean(size + noise > made.half[0]) > 0.9 - 6.2 * (0.09 / draws) ** 0.5
    # And it is no boast of weakness: half of it beyond the interval is found less often.
    short = (size + made.half[0]) / 2
    assert np.mean(short + noise > made.half[0]) < 0.9


def test_noise_that_is_shared_is_no_difference() -> None:
    """Of one release, noise of two groups may be opposite: half-lengths then add up."""
    law, rng = LAWS["normal"], np.random.default_rng(9)
    found = 0
    for _ in range(1000):
        noise = DRAWN["normal"](rng, (LABELS,))
        found += bool(compared(law, -noise, noise, independent=False).beyond.any())
    assert found / 1000 < MISS + 6.2 * (MISS * (1 - MISS) / 1000) ** 0.5
    naive = sum(
        bool(compared(law, -noise, noise).beyond.any())
        for noise in DRAWN["normal"](rng, (100, LABELS))
    )
    assert naive > 90  # what independence would claim


def test_a_change_of_two_half_lengths_is_seen_and_the_clearest_is_first() -> None:
    error, reach = np.ones(4), np.full(4, 3.0)
    now = np.array([0.0, 9.0, -12.0, np.nan])
    made = change(Side(np.zeros(4), error, reach), Side(now, error, reach), MISS)
    assert made.beyond.tolist() == [False, True, True, False]
    assert made.half == pytest.approx(3 * 2**0.5)
    assert made.order.tolist() == [2, 1, 0]


def test_an_interval_that_ends_where_figures_do_is_taken_for_no_less_than_normal_noise() -> None:
    """A mean whose noise is wider than its bounds: its interval says nothing of how far it is."""
    cut = Side(np.array([5.0]), np.array([3.0]), np.array([0.1]))
    made = change(cut, cut, MISS)
    assert made.half == pytest.approx(1.96 * 3 * 2**0.5, rel=1e-3)


def test_where_nothing_is_known_nothing_has_changed() -> None:
    error, nothing = np.array([1.0]), np.array([np.nan])
    made = change(Side(nothing, error, nothing), Side(np.array([5.0]), error, error), MISS)
    assert not made.beyond.any()
    assert not made.known.any()


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_known_exactly_has_changed_if_it_is_another(whole: bool) -> None:
    none, reach = np.zeros(3), np.array([0.0, 0.0, 4.0])
    exact = Side(np.array([7.0, 7.0, 7.0]), none, none, whole)
    made = change(exact, Side(np.array([7.0, 8.0, 8.0]), reach / 2, reach, whole), MISS)
    assert made.known.all()
    assert made.beyond.tolist() == [False, True, False]
    assert made.half[2] == pytest.approx(4.0)


@pytest.mark.parametrize("labels", [1, 4, 200])
@pytest.mark.parametrize("falls", [(1.0, 0.0), (0.25, 0.0), (0.02, 0.04)], ids=str)
def test_what_is_detectable_follows_from_a_law_that_is_known(
    labels: int, falls: tuple[float, float]
) -> None:
    """The least whole difference that is found nine times in ten, by enumeration of both noises."""
    law = published_law(200, falls)
    known = {"centre": np.zeros(1), "standard_error": np.full(1, law.var() ** 0.5)}
    each = Side.of(known, Reach(np.full(1, 9.0), np.full(1, 9.0), MISS, 1), labels, law)
    made = change(each, each, MISS / labels)
    half, size = int(made.half[0]), int(made.detectable[0])
    one = np.arange(-200, 201)
    noise = one[:, None] - one
    chance = np.outer(law.pmf, law.pmf)

    def beyond(true: int, reach: int) -> float:
        return float(chance[np.abs(true + noise) > reach].sum())

    assert beyond(0, half) <= MISS / labels < beyond(0, half - 1)
    assert beyond(size - 1, half) < 0.9 <= beyond(size, half)


def test_a_known_law_detects_less_than_what_intervals_allow() -> None:
    """200 counts at epsilon 1: 13, where tails of the two intervals and Gauss said 15.4."""
    law = published_law(14, (1.0, 0.0))
    halves = (np.full(200, law.isf(MISS / many / 2)) for many in (1, 200))
    reach = Reach(*halves, miss=MISS, figures=200)
    known = {"centre": np.zeros(200), "standard_error": np.full(200, law.var() ** 0.5)}
    stated = [
        float(change(each, each, MISS / 200).detectable[0])
        for each in (Side.of(known, reach, 200, own) for own in (None, law))
    ]
    assert stated == [pytest.approx(15.4, abs=0.05), 13]


def test_figures_of_one_release_keep_the_intervals_of_all_that_could_be_picked() -> None:
    """Whoever looks at 200 counts picks the two with the kindest noise: half-lengths add up."""
    law = published_law(14, (1.0, 0.0))
    alone, together = (np.full(200, law.isf(MISS / many / 2)) for many in (1, 200))
    known = {"centre": np.zeros(200), "standard_error": np.full(200, law.var() ** 0.5)}
    each = Side.of(known, Reach(alone, together, MISS, 200), 2, law)
    made = change(each, each, MISS, independent=False)
    rng = np.random.default_rng(11)
    values, runs = rng.choice(np.arange(-14, 15), (2000, 200), p=law.pmf / law.pmf.sum()), 2000
    missed = int((np.ptp(values, axis=1) > made.half[0]).sum())
    assert missed <= stats.binom.isf(1e-9, runs, MISS)
    assert int((np.ptp(values, axis=1) > 8).sum()) > runs / 2  # an interval for two of its own
    assert made.detectable[0] < made.half[0] + 4
