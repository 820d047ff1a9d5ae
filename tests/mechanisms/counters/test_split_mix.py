"""Split and mix: shuffled shares by brute force, exact sums, prices, what is withheld."""

from __future__ import annotations

import doctest
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import comb, factorial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mechanisms.counters import shares, split_mix
from mechanisms.counters.noise import Laplace
from mechanisms.counters.price import Neighbours
from mechanisms.counters.shares import distance, least_shares, split, total
from mechanisms.counters.split_mix import SplitMix
from mechanisms.counters.trials import split_mix_trial
from mechanisms.privacy.rejection import measure
from mechanisms.privacy.trial import Trial
from mechanisms.randomness import SeededRandom

Law = dict[tuple[int, ...], Fraction]
SMALL = [(2, 2, 2), (2, 3, 2), (2, 4, 3), (3, 2, 2), (3, 3, 2), (3, 3, 3), (4, 3, 2), (5, 2, 3)]


def shuffled(inputs: Iterable[int], q: int, m: int) -> Law:
    """The exact law of the multiset of all shares, as the counts of 0 .. q - 1."""
    law: Law = {(0,) * q: Fraction(1)}
    for value in inputs:
        one: Counter[tuple[int, ...]] = Counter()
        for free in itertools.product(range(q), repeat=m - 1):
            words = (*free, (value - sum(free)) % q)
            one[tuple(words.count(w) for w in range(q))] += 1
        after: Counter[tuple[int, ...]] = Counter()
        for (have, chance), (more, times) in itertools.product(law.items(), one.items()):
            seen = tuple(a + b for a, b in zip(have, more, strict=True))
            after[seen] += chance * Fraction(times, q ** (m - 1))  # type: ignore[assignment]
        law = dict(after)  # type: ignore[arg-type]
    return law


def apart(one: Law, other: Law) -> float:
    keys = one.keys() | other.keys()
    gaps = (abs(one.get(k, Fraction(0)) - other.get(k, Fraction(0))) for k in keys)
    return float(sum(gaps, Fraction(0)) / 2)


def inputs(q: int, n: int, summed: int) -> list[tuple[int, ...]]:
    return [x for x in itertools.product(range(q), repeat=n) if sum(x) % q == summed]


def components(q: int, n: int, k: int) -> Fraction:
    """E[q^(C - 1)], by adding up all ways in which n parties fall into q closed groups."""
    ways = Fraction(0)
    for sizes in itertools.product(range(n + 1), repeat=q):
        if sum(sizes) == n:
            parties, stubs, left = 1, 1, n
            for s in sizes:
                parties, stubs = parties * comb(left, s), stubs * comb(k * left, k * s)
                left -= s
            ways += Fraction(parties, stubs)
    return ways / q


@pytest.mark.parametrize(("q", "n", "k"), SMALL)
def test_the_average_chi_square_is_that_of_the_graph(q: int, n: int, k: int) -> None:
    """The step on which the bound rests, with equality, by exact enumeration."""
    every = {s: [shuffled(x, q, k) for x in inputs(q, n, s)] for s in range(q)}
    found = Fraction(0)
    for laws in every.values():
        for law in laws:
            for seen, chance in law.items():
                mean = sum((other.get(seen, Fraction(0)) for other in laws), Fraction(0)) / len(
                    laws
                )
                found += chance * chance / mean
    assert found / q**n == components(q, n, k)
    bound = shares._excess(n, q, k)[n]
    exact = float(components(q, n, k) - 1)
    assert math.exp(bound) >= exact * (1 - 1e-9)
    if q + 1 >= n:
        assert math.exp(bound) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("q", "n", "m"), [(2, 3, 3), (2, 4, 3), (2, 4, 4), (2, 8, 3), (3, 3, 4), (3, 4, 3), (4, 3, 4)]
)
def test_no_two_inputs_of_one_total_are_farther_apart_than_the_bound(
    q: int, n: int, m: int
) -> None:
    most = 0.0
    for s in range(q):
        kinds = {tuple(sorted(x)) for x in inputs(q, n, s)}
        laws = [shuffled(x, q, m) for x in kinds]
        most = max([most, *(apart(a, b) for a, b in itertools.combinations(laws, 2))])
    assert 0 < most <= distance(n, q, m) < 1


def test_bounds_for_many_parties_follow_the_recurrence() -> None:
    """The closed form against the recurrence carried on, and falling where the two meet."""
    q, k = 1 << 20, 7
    for n in (1025, 1100, 1300):
        exact = math.exp(shares._excess(n, q, k)[n] / 2)
        assert exact <= distance(n, q, k + 1) <= 1.01 * exact
    leading = math.sqrt((1 << 32) * 1e6 * factorial(7) / 7e6**7)
    assert distance(10**6, 1 << 32, 8) == pytest.approx(leading, rel=1e-3)
    assert distance(10**6, 1 << 32, 8) > distance(2 * 10**6, 1 << 32, 8)


def test_the_published_number_of_shares_is_enough() -> None:
    """m = ceil(2 + (2 sigma + log2 q) / (log2 n - log2 e)), n >= 19."""

    def published(n: int, bits: int, sigma: int) -> int:
        return math.ceil(2 + (2 * sigma + bits) / math.log2(n / math.e))

    assert published(10**4, 32, 40) == 12
    assert (published(10**6, 32, 40), published(10**6, 32, 30)) == (9, 7)
    for n, bits, sigma in itertools.product((19, 100, 10**4, 10**6), (10, 32), (30, 40)):
        m = published(n, bits, sigma)
        assert distance(n, 1 << bits, m) <= 2.0**-sigma, (n, bits, sigma)
    least = least_shares(10**6, 1 << 32, 40)
    assert least == 8
    assert distance(10**6, 1 << 32, least - 1) > 2.0**-40


def test_shares_are_uniform_and_add_up() -> None:
    rng = SeededRandom(1)
    numbers = np.full(60_000, -3)
    rows = split(numbers, 16, 3, rng)
    assert rows.dtype == np.uint64
    assert rows.shape == (60_000, 3)
    assert (rows.sum(axis=1) % 16 == 13).all()
    for column in rows.T:
        seen = np.bincount(column.astype(np.int64), minlength=16)
        assert seen.size == 16
        assert stats.chisquare(seen).pvalue > 1e-6
    pairs = np.bincount((rows[:, 0] * 16 + rows[:, 2]).astype(np.int64), minlength=256)
    assert stats.chisquare(pairs).pvalue > 1e-6
    wide = split(np.array([-5, 1 << 40]), 1 << 62, 9, rng)
    assert total(wide, 1 << 62) == (1 << 40) - 5


@pytest.mark.parametrize("neighbours", ["replace", "add or remove"])
def test_sums_are_exact_but_for_the_noise(neighbours: Neighbours) -> None:
    design = SplitMix.meeting(-20, 30, 4_000, 3_000, neighbours, 1.0, 1e-6)
    rng = SeededRandom(2)
    numbers = np.arange(3_500) % 51 - 20
    reports = design.reports(numbers, rng)
    assert total(reports, design.modulus) == int(numbers.sum()) % design.modulus
    errors, people = [], []
    for _ in range(60):
        words, number = design.mix(reports, rng)
        errors.append(design.estimate(words, number) - int(numbers.sum()))
        people.append(design.people(number) - 3_500)
    sigma = math.sqrt(design.variance)
    assert abs(np.mean(errors)) < 5 * sigma / math.sqrt(60)
    assert 0.5 < np.std(errors) / sigma < 1.7
    if neighbours == "replace":
        assert set(people) == {0}
    else:
        assert 20 < np.std(people) < 200
    lows = design.reports(np.full(4_000, -20), rng)
    words, number = design.mix(lows, rng)
    assert design.estimate(words, number) < -70_000


def test_nothing_in_the_mixed_words_says_where_they_are_from() -> None:
    design = SplitMix.meeting(0, 5, 100, 100, "replace", 1.0, 1e-6)
    rng = SeededRandom(3)
    reports = design.reports(np.zeros(100, np.int64), rng)
    words, number = design.mix(reports, rng)
    assert number == 101
    assert words.shape == (101 * design.shares,)
    places = np.flatnonzero(np.isin(words, reports[0]))
    assert places.size >= design.shares
    assert np.ptp(places) > design.shares


@pytest.mark.parametrize(("neighbours", "ranges"), [("replace", 1.4143), ("add or remove", 1.45)])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_the_error_is_that_of_the_central_mechanism(
    neighbours: Neighbours, ranges: float, epsilon: float
) -> None:
    design = SplitMix.meeting(0, 1023, 10**6, 10**6, neighbours, epsilon, 1e-6)
    assert design.shares <= 9
    assert math.sqrt(design.variance) / 1023 * epsilon <= ranges
    guarantee = design.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, 1e-6)
    assert "1,000,000 people" in guarantee.how
    assert neighbours in guarantee.how
    lower, upper = design.price.delta(epsilon)
    assert 0.9e-6 < lower <= upper < 1e-6
    profile = design.profile()
    near = (1 + math.exp(epsilon)) * 2.0**-40
    assert upper + near == pytest.approx(profile.delta(epsilon), rel=1e-3)
    assert profile.delta(epsilon) <= 1e-6 < profile.delta(0.9 * epsilon)


def test_whole_batches_keep_what_is_claimed() -> None:
    """Two people and the noise, q = 8: all multisets of shares, for both neighbours."""
    q, m, epsilon = 8, 4, 1.0
    noise = Laplace(1, slope=1.0)
    design = SplitMix(0, 1, 2, 2, q, m, noise, None, "replace", epsilon, 0.9, sigma=0.9)
    laws = []
    for person in (0, 1):
        keys, chances = [], []
        for z, weight in zip((-1, 0, 1), noise.pmf, strict=True):
            seen, law = np.array([0]), np.array([1.0])
            for value in (1, person, z):
                one = shuffled((value,), q, m)
                added = [sum(c * 13**i for i, c in enumerate(counts)) for counts in one]
                every = np.add.outer(seen, added).ravel()
                joint = np.outer(law, [float(chance) for chance in one.values()]).ravel()
                seen, place = np.unique(every, return_inverse=True)
                law = np.bincount(place, joint)
            keys.append(seen)
            chances.append(weight * law)
        laws.append((np.concatenate(keys), np.concatenate(chances)))
    _, place = np.unique(np.concatenate([keys for keys, _ in laws]), return_inverse=True)
    first, second = (
        np.bincount(part, law, place.max() + 1)
        for part, (_, law) in zip(np.split(place, [laws[0][0].size]), laws, strict=True)
    )
    alone, near = design.price.upper(epsilon), distance(3, q, m)
    assert near < 0.6
    for one_way, other in ((first, second), (second, first)):
        delta = np.maximum(one_way - math.exp(epsilon) * other, 0).sum()
        # The total is in the shares, so they tell no less than it does.
        assert alone - 1e-9 < delta < alone + near


def test_lost_doubled_and_wrapped_words_withhold() -> None:
    design = SplitMix.meeting(0, 100, 50, 50, "replace", 1.0, 1e-6)
    rng = SeededRandom(4)
    words, number = design.mix(design.reports(np.full(50, 7), rng), rng)
    for bad in (words[1:], np.append(words, words[:1])):
        with pytest.raises(ValueError, match="words came, not"):
            design.estimate(bad, number)
    with pytest.raises(ValueError, match="withheld: words must be below"):
        design.estimate(words + np.uint64(design.modulus), number)
    shifted = words.copy()
    past = design.totals[1] + 1 - design.estimate(words, number)
    shifted[0] = (int(shifted[0]) + past) % design.modulus
    with pytest.raises(ValueError, match="withheld: the sum lies beyond"):
        design.estimate(shifted, number)
    # What is said of liars is so: within the range nothing shows.
    shifted[0] = (int(words[0]) + 1000) % design.modulus
    assert design.estimate(shifted, number) == design.estimate(words, number) + 1000
    assert "any amount" in split_mix.ONE_LIAR
    assert "lost" in split_mix.LOST_SHARE


MEETING: dict[str, Any] = {
    "low": 0,
    "high": 10,
    "most": 1000,
    "honest": 900,
    "neighbours": "replace",
    "epsilon": 1.0,
    "delta": 1e-6,
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"low": 10, "high": 0}, "a range that holds 0"),
        ({"high": 0}, "a range that holds 0"),
        ({"honest": 1001}, "honest must lie in 1 .. 1,000"),
        ({"honest": 0}, "honest must lie in"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": 1e-12}, "choose a larger sigma"),
        ({"sigma": math.nan}, "larger sigma"),
        ({"epsilon": 800.0}, "larger sigma"),
        ({"honest": 2, "sigma": 300.0}, "more than 64 messages"),
        ({"high": 1 << 30}, "fewer units"),
        ({"most": 1 << 60}, "62 bits"),
        ({"neighbours": "swap"}, "neighbours"),
    ],
)
def test_what_cannot_hold_is_refused_in_one_line(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told) as error:
        SplitMix.meeting(**MEETING | change)
    assert "\n" not in str(error.value)


def test_designs_that_do_not_hold_are_refused() -> None:
    design = SplitMix.meeting(**MEETING)
    with pytest.raises(ValueError, match="would wrap around"):
        replace(design, modulus=design.modulus >> 1)
    with pytest.raises(ValueError, match="power of two"):
        replace(design, modulus=design.modulus + 1)
    with pytest.raises(ValueError, match="reports of zero"):
        replace(design, zeros=design.noise)
    for weaker in (replace(design, shares=design.shares - 1), replace(design, epsilon=0.99)):
        with pytest.raises(ValueError, match="do not meet epsilon"):
            _ = weaker.guarantee
    for numbers in ([11], [-1], [0.5]):
        with pytest.raises(ValueError, match="numbers must be integers"):
            design.reports(numbers, SeededRandom(5))
    with pytest.raises(ValueError, match="every report must have"):
        design.mix(np.zeros((3, 2), np.uint64), SeededRandom(5))
    with pytest.raises(ValueError, match="withheld: 3 reports came"):
        design.mix(np.zeros((3, design.shares), np.uint64), SeededRandom(5))
    with pytest.raises(ValueError, match="withheld: more reports came"):
        design.estimate(np.zeros(1002 * design.shares, np.uint64), 1002)


@pytest.mark.parametrize("module", [shares, split_mix])
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.verify
def test_too_little_noise_and_words_in_their_order_are_found_by_attack(monkeypatch: Any) -> None:
    design = SplitMix.meeting(0, 3, 5, 4, "replace", 1.0, 0.05)
    pairs = [([3, 0, 0, 0, 0], [0] * 5)]
    assert measure(split_mix_trial(design, pairs), SeededRandom(3), 4000).epsilon <= 1.0
    loose = SplitMix.meeting(0, 3, 5, 4, "replace", 3.0, 0.05)
    wrong = Trial("", design.guarantee, pairs, split_mix_trial(loose, pairs).draw)
    assert measure(wrong, SeededRandom(3), 4000).epsilon > 1.3
    # The first report's words side by side add up to its number, whatever the noise.
    monkeypatch.setattr(SeededRandom, "permutation", lambda self, size: np.arange(size))
    assert measure(split_mix_trial(design, pairs), SeededRandom(3), 4000).epsilon > 4


def test_where_more_come_than_report_a_replacement_is_paid_for() -> None:
    """By brute force over the noise: met by what is said, which says no hundredth too much."""
    design = SplitMix.meeting(-3, 5, 100, 90, "add or remove", 1.0, 1e-6, everybody=True)
    pmf, moved = design.noise.pmf, 8
    pair = [np.pad(pmf, side) for side in ((0, moved), (moved, 0))]
    epsilon, delta = design.crowded
    ways = (one - math.exp(epsilon) * other for one, other in (pair, pair[::-1]))
    lost = max(np.maximum(way, 0).sum() for way in ways)
    lost += 2.0**-design.sigma * (1 + math.exp(epsilon))
    assert lost <= delta <= 1.01 * lost
    assert epsilon == 2.0
    same = SplitMix.meeting(0, 5, 100, 90, "add or remove", 1.0, 1e-6, everybody=True)
    assert same.crowded == (same.epsilon, same.delta)
