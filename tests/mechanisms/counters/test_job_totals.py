"""Integers that the job adds: the price against enumeration, the law, and what travels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from mechanisms.channel import Neighbours
from mechanisms.counters.amounts import WholeAmounts, WholeEnds
from mechanisms.counters.choose import least_error
from mechanisms.counters.job_noise import Law, moved
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level, Portion
from mechanisms.counters.rows import SummedRows
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_delta
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.rounded_gaussian import RoundedGaussian

BESIDE = (Level(1, 1), Level(2, 2, 0.01))
AMOUNTS = {
    "units of one group": WholeAmounts(1),
    "units of several": WholeAmounts(3, 2, 2),
    "numbers": WholeAmounts(2, 1, 5),
    "all groups": WholeAmounts(2, 2, 3),
    "numbers with signs": WholeAmounts(2, 1, 3, least=-2),
    "a total with a sign": WholeAmounts(1, 1, 2, least=-2),
    "both ends": WholeEnds(2, 1, 3),
    "both ends of all": WholeEnds(2, 2, 3),
}
NEIGHBOURS: tuple[Neighbours, ...] = ("add or remove", "replace")


def contributions(amounts: WholeAmounts) -> Iterator[np.ndarray]:
    """(codes,) what each unit there may be adds, whatever it has and whatever was cut."""
    levels = (*amounts.levels, *BESIDE)
    for k in range(amounts.most_groups + 1):
        for groups in combinations(range(amounts.groups), k):
            for numbers in product(range(amounts.least, amounts.most + 1), repeat=k):
                for marks in product((0, 1), repeat=3):
                    rows = [np.zeros(level.counters, np.int64) for level in levels]
                    places, own = np.array([[*groups]], np.int64), np.array([[*numbers]], np.int64)
                    sets, added = amounts.encode(places, own), amounts.added(own)
                    for row, place, number in zip(rows, sets, added, strict=False):
                        np.add.at(row, place[0], number[0])
                    rows[-2] += marks[0]
                    rows[-1] += marks[1:]
                    yield np.concatenate(rows)


def laws_of(design: JobTotals) -> list[Law]:
    """The noise of each counter, nulls left out."""
    sizes = [level.counters for level in design.levels]
    return [law for i, size in enumerate(sizes) for law in [design.level_law(i)] * size]


def pairs(amounts: WholeAmounts, neighbours: Neighbours) -> Iterator[np.ndarray]:
    """(codes,) by how much totals of neighbours may differ."""
    units = {tuple(unit.tolist()) for unit in contributions(amounts)}
    others = {tuple(np.zeros(len(next(iter(units))), int).tolist())}
    for one in units:
        for other in others if neighbours == "add or remove" else units:
            yield np.array(one) - np.array(other)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("name", AMOUNTS)
def test_the_price_of_geometric_noise_is_that_of_enumeration(
    name: str, neighbours: Neighbours
) -> None:
    amounts, epsilon = AMOUNTS[name], 1.3
    design = JobTotals.meeting(
        amounts.levels, neighbours, epsilon, 0.0, BESIDE, share=0.2, parts=amounts.parts
    )
    # The largest log ratio of two-sided geometric laws that are so far apart.
    decays = np.array([float(law.decay) for law in laws_of(design)])  # type: ignore[union-attr]
    most = max(float(decays @ np.abs(apart)) for apart in pairs(amounts, neighbours))
    assert most <= float(sum(design.losses)) * (1 + 1e-12)
    assert sum(design.losses) <= Fraction(epsilon)
    assert (design.guarantee.epsilon, design.guarantee.delta) == (epsilon, 0.0)
    assert design.guarantee.model == "central"
    if neighbours == "add or remove":  # nothing is paid that nobody can lose
        assert most == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("name", AMOUNTS)
def test_no_unit_moves_gaussian_totals_further_than_is_paid_for(
    name: str, neighbours: Neighbours
) -> None:
    amounts, delta = AMOUNTS[name], 0.01
    design = gaussian(amounts, neighbours, delta)
    sigmas = np.array([law.sigma for law in laws_of(design)])  # type: ignore[union-attr]
    most = max(math.sqrt(((apart / sigmas) ** 2).sum()) for apart in pairs(amounts, neighbours))
    assert gaussian_delta(most, 1.3) <= delta
    if neighbours == "add or remove":
        assert gaussian_delta(most * 1.001, 1.3) > delta


def gaussian(amounts: WholeAmounts, neighbours: Neighbours, delta: float) -> JobTotals:
    """Totals with Gaussian noise, though other noise may err less."""
    from mechanisms.counters import job_totals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_totals, "geometric", _refused)
        return JobTotals.meeting(
            amounts.levels, neighbours, 1.3, delta, BESIDE, share=0.2, parts=amounts.parts
        )


def _refused(*_: object) -> None:
    raise ValueError("not asked for")


@lru_cache(maxsize=64)
def table(law: Law, shift: int) -> np.ndarray:
    """The law of a total of so many, on a window that all share."""
    padded = np.pad(law.pmf, 40)
    return np.roll(padded, shift)


@pytest.mark.parametrize("name", ["numbers", "all groups", "both ends", "numbers with signs"])
def test_the_delta_of_gaussian_noise_is_that_of_its_table(name: str) -> None:
    """By adding up all outcomes of the two totals that a unit moves, what was cut left out."""
    amounts, delta, epsilon = AMOUNTS[name], 0.01, 1.3
    design = JobTotals.meeting(amounts.levels, "add or remove", epsilon, 0.0, parts=amounts.parts)
    sigma = gaussian(amounts, "add or remove", delta).laws[0].sigma  # type: ignore[union-attr]
    law = RoundedGaussian(sigma * math.sqrt(0.8))  # all of mu, for there is nothing beside
    design = JobTotals(
        design.levels, (law,) * len(design.laws), "add or remove", epsilon, delta, 0, amounts.parts
    )
    assert design.guarantee.delta == delta
    shown = 0.0
    for apart in pairs(amounts, "add or remove"):
        moves = [int(x) for x in apart[: -sum(level.counters for level in BESIDE)] if x]
        if len(moves) <= 2:
            one = reduce(np.multiply.outer, [table(law, x) for x in moves], np.ones(1))
            other = reduce(np.multiply.outer, [table(law, 0) for _ in moves], np.ones(1))
            shown = max(shown, float(np.maximum(one - math.exp(epsilon) * other, 0).sum()))
    assert 0.7 * delta < shown <= delta


def test_gaussian_noise_serves_where_a_unit_moves_many_totals() -> None:
    for slots, kind in ((8, ExactGeometric), (12, RoundedGaussian)):
        design = JobTotals.meeting([Level(slots, 50)], "add or remove", 1.0, 1e-6)
        assert isinstance(design.laws[0], kind)
        assert design.guarantee.delta == (0.0 if kind is ExactGeometric else 1e-6)
    pure = JobTotals.meeting([Level(50, 50)], "add or remove", 1.0, 0.0)
    assert isinstance(pure.laws[0], ExactGeometric)
    # At the price of many releases together Gaussian noise serves sooner.
    often = JobTotals.meeting([Level(1, 4)] * 2, "add or remove", 1.0, 1e-6, releases=100)
    assert isinstance(often.laws[0], RoundedGaussian)


def test_the_profile_of_gaussian_noise_is_the_gaussian_mechanisms() -> None:
    design = JobTotals.meeting([Level(20, 50)], "add or remove", 1.0, 1e-6)
    law = design.laws[0]
    assert isinstance(law, RoundedGaussian)
    profile, mu = design.profile(), math.sqrt(20) / law.sigma
    for epsilon in (0.0, 0.3, 1.0, 1.7):
        exact = gaussian_delta(mu, epsilon)
        assert exact <= profile.delta(epsilon) <= 1.05 * exact
        twice = gaussian_delta(math.sqrt(2) * mu, epsilon)  # 20 others in the place of 20
        assert twice <= profile.replaced.delta(epsilon) <= 1.05 * twice
    assert profile.epsilon(1e-6) <= 1.001


def stick(decay: Fraction, moves: Sequence[int], epsilon: float) -> float:
    """The hockey-stick divergence of totals that move by so much, by adding up all outcomes."""
    a, reach = math.exp(-float(decay)), math.ceil(24 / float(decay))
    z = np.arange(-reach, reach + 1)
    first, second = np.ones(1), np.ones(1)
    for move in moves:
        law = (1 - a) / (1 + a) * a ** np.abs(z).astype(float)
        shifted = (1 - a) / (1 + a) * a ** np.abs(z - move).astype(float)
        first, second = np.outer(first, law).ravel(), np.outer(second, shifted).ravel()
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("most", [1, 4, 9])
def test_the_profile_is_that_of_all_ways_to_move_totals(most: int, epsilon: float) -> None:
    amounts = WholeAmounts(2, 1, most)
    design = JobTotals.meeting(amounts.levels, "add or remove", epsilon, 0.0, parts=amounts.parts)
    profile, decay = design.profile(), design.laws[0].decay  # type: ignore[union-attr]
    for at in np.linspace(0, epsilon, 7).tolist():
        exact = stick(decay, (most,), at)
        assert exact - 1e-8 <= profile.delta(at) <= exact + 2e-3
        assert all(stick(decay, (most - i, i), at) <= exact + 1e-8 for i in range(most))
        twice = stick(decay, (most, most), at)  # of another value in the place of one
        assert twice - 1e-8 <= profile.replaced.delta(at) <= twice + 3e-3
    assert profile.delta(epsilon) == 0.0
    assert profile.epsilon(0.0) <= epsilon


def test_the_profile_of_several_levels_is_that_of_all_of_them() -> None:
    design = JobTotals.meeting([Level(1, 3), Level(1, 9), Level(1, 27)], "add or remove", 1.5, 0.0)
    decay, profile = design.laws[0].decay, design.profile()  # type: ignore[union-attr]
    assert len({*design.laws}) == 1
    for at in (0.0, 0.4, 0.8, 1.2):
        exact = stick(decay, (1, 1, 1), at)
        assert exact - 1e-8 <= profile.delta(at) <= exact + 2e-3
    assert profile.delta(1.5) == 0.0


def test_the_profile_with_what_was_cut_is_no_less_than_theirs_together() -> None:
    amounts = WholeAmounts(1, 1, 3)
    design = JobTotals.meeting(
        amounts.levels, "add or remove", 1.0, 0.0, (Level(1, 1),), 0.2, amounts.parts
    )
    total, side = (law.decay for law in design.laws)  # type: ignore[union-attr]
    parts = [
        PrivacyLoss.from_pair(*(_table(decay, shift, move) for shift in (0, move)))
        for decay, move in ((total, 3), (side, 1))
    ]
    profile = design.profile()
    for at in (0.0, 0.1, 0.3, 0.7, 0.95):
        # Both move: a loss of the one is added to what the other may show at the most.
        assert profile.delta(at) >= parts[0].delta(at) - 1e-9
        assert profile.delta(at) >= _both(total, 3, side, 1, at) - 1e-9
    assert profile.delta(1.0) == 0.0


def _table(decay: Fraction, shift: int, reach: int) -> np.ndarray:
    """The law of a total that moved, its ends put together."""
    a, far = math.exp(-float(decay)), math.ceil(40 / float(decay))
    z = np.arange(-far, far + 1)
    law = a ** np.abs(z - shift).astype(float)
    law /= law.sum()
    inner = law[(z > 0) & (z < reach)]
    return np.array([law[z <= 0].sum(), *inner, law[z >= reach].sum()])


def _both(one: Fraction, move: int, other: Fraction, side: int, epsilon: float) -> float:
    first = np.outer(_table(one, 0, move), _table(other, 0, side))
    second = np.outer(_table(one, move, move), _table(other, side, side))
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_total_has_noise_of_its_own_law(delta: float) -> None:
    """Misses in fewer than 1e-9 of the runs: a variance's estimate errs by 2.3 / sqrt(n) of it.

    Prices do not know how many counters a level has: n times as many stand for n releases.
    """
    n, rng = 4000, SeededRandom(3)
    levels, beside = (
        [level._replace(counters=n * level.counters) for level in some]
        for some in ([Level(1, 2), Level(9, 9)], BESIDE)
    )
    design = JobTotals.meeting(levels, "add or remove", 1.0, delta, beside, share=0.2)
    counts = np.arange(design.codes) * 100
    noise = design.noisy(counts, rng) - counts
    drawn = np.split(noise, np.cumsum([level.counters for level in design.levels]))
    off = np.concatenate([one.reshape(n, -1) for one in drawn[: len(design.levels)]], axis=1)
    laws = np.array([law.var() for law in laws_of(design)])[::n]
    assert laws.size == off.shape[1] == 14
    assert len({*laws.round(6)}) == 4  # nobody's noise stands for another's
    assert (np.abs(off.mean(0)) < 7 * np.sqrt(laws / n)).all()
    assert off.var(0).tolist() == pytest.approx(laws.tolist(), rel=7 * 2.3 / math.sqrt(n))
    assert np.abs(np.corrcoef(off.T) - np.eye(14)).max() < 7 / math.sqrt(n)
    assert design.variances[0] == laws[0]


def test_one_count_errs_as_discrete_laplace_noise_does() -> None:
    design = least_error([Level(1, 1)], "add or remove", 1.0, 1e-6, drawers=("job",))
    assert isinstance(design, JobTotals)
    assert design.column_variance == pytest.approx(2 * math.exp(-1) / math.expm1(-1) ** 2, rel=1e-6)


def test_the_error_of_two_totals_is_that_of_all_pairs_of_noises() -> None:
    """Remembered, also where one is taken away: the law of a noise has no sign."""
    design = JobTotals.meeting([Level(1, 4)], "add or remove", 1.0, 0.0)
    law, together = design.error_law(), design.error_law(2)
    assert np.abs(together.pmf - np.convolve(law.pmf, law.pmf)).max() < 1e-15
    assert together.ppf(0.5) == 0
    assert design.error_law(2, 1) is together


@pytest.mark.parametrize("law", [ExactGeometric(2, 1), RoundedGaussian(4.2)])
def test_noise_that_is_too_small_makes_no_promise(law: Law) -> None:
    design = JobTotals((Level(1, 1),), (law,), "add or remove", 1.0, 1e-6)
    with pytest.raises(ValueError, match="does not meet epsilon 1"):
        _ = design.guarantee


def test_what_draws_are_off_by_is_paid_for() -> None:
    """Of many coordinates in fine units noise is more than that of the Gaussian mechanism."""
    level, part = Level(100_000, 100_000), Portion(1, -1024, 1024)
    design = JobTotals.meeting([level], "add or remove", 1.0, 1e-6, parts=[part])
    law, moves = design.laws[0], moved([level], part, "add or remove")
    assert isinstance(law, RoundedGaussian)
    slack = moves.totals * law.slack
    assert slack > 1e-3
    mu = math.sqrt(moves.squares) / law.sigma
    assert math.exp(slack) * gaussian_delta(mu, 1.0 - slack) <= 1e-6
    assert gaussian_delta(mu, 1.0 - slack) > 0.9e-6


def test_rows_move_totals_by_no_more_than_is_paid_for() -> None:
    rng = SeededRandom(5)
    numbers = np.array([[1.0, -1.0, 1.0], [np.nan, 0.5, -0.25], [np.nan] * 3])
    categories = np.array([[1], [2], [0]])
    for each in (False, True):
        rows = SummedRows(3, 7, (2,), each)
        sets, added = rows.summed(numbers, categories, rng)
        squares = [np.where(s >= 0, a, 0) ** 2 for s, a in zip(sets, added, strict=False)]
        paid = moved(rows.levels[: len(added)], rows.parts[0], "add or remove").squares
        assert sum(square.sum(axis=1) for square in squares).max() == paid  # type: ignore[union-attr]
        assert all((np.sort(s, axis=1)[:, 1:] > np.sort(s, axis=1)[:, :-1])[s[:, 1:] >= 0].all()
                   for s in sets)  # fmt: skip
        counts = [np.zeros(level.counters) for level in rows.levels]
        for i, places in enumerate(sets):
            number = added[i] if i < len(added) else np.ones_like(places)
            np.add.at(counts[i], places[places >= 0], number[places >= 0])
        told = rows.sums(counts)
        assert told.rows == 3
        assert told.counts.tolist() == ([1.0, 2.0, 2.0] if each else [3.0, 3.0, 3.0])
        assert told.sums[0] == 1.0  # what is missing counts as the middle
        assert [v.tolist() for v in told.values] == [[1.0, 1.0, 1.0]]


def unlikely(counts: np.ndarray, chances: np.ndarray) -> float:
    """How likely as unlikely counts are, by those that are expected at least 20 times."""
    often = chances * counts.sum() >= 20
    expected = chances[often] * counts.sum()
    square = ((counts[often] - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(square, int(often.sum()) - 1))


def test_a_rounded_gaussian_is_a_gaussian_that_is_rounded() -> None:
    """A false alarm in 10^9: sizes are of 200,000 draws, of which each bin has at least 20."""
    for sigma in (0.4, 1.0, 3.3, 40.0):
        law, n = RoundedGaussian(sigma), 200_000
        exact = np.diff(stats.norm.cdf((np.arange(law.first, 2 - law.first) - 0.5) / sigma))
        assert law.pmf == pytest.approx(exact, abs=1e-15)
        assert law.var() == pytest.approx(
            float(exact @ np.arange(law.first, 1.0 - law.first) ** 2), rel=1e-9
        )
        drawn = law.draw(n, SeededRandom(7))
        counts = np.bincount(drawn - law.first, minlength=law.pmf.size)

        assert unlikely(counts, law.pmf) > 1e-9
        wider = np.diff(stats.norm.cdf((np.arange(law.first, 2 - law.first) - 0.5) / sigma / 1.05))
        assert (
            unlikely(counts, wider) < 1e-9 or sigma < 1
        )  # the same test rejects one that is 5 % wider
        for q in (0.4, 0.1, 1e-3):
            place = int(law.isf(q))
            assert law.pmf[place - law.first + 1 :].sum() <= q * (1 + 1e-9)
            assert place == 0 or law.pmf[place - law.first :].sum() > q


def test_large_gaussian_noise_is_drawn_in_full() -> None:
    """Its last digits are even: of 2^40 all low bits come, whatever bits a fraction has."""
    drawn = RoundedGaussian(2.0**38).draw(40_000, SeededRandom(2))
    assert np.std(drawn / 2.0**38) == pytest.approx(1, abs=7 / math.sqrt(80_000))
    for sigma in (0.0, -1.0, math.nan, 2.0**41):
        with pytest.raises(ValueError, match="sigma must lie"):
            RoundedGaussian(sigma)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("part", [Portion(), Portion(high=3), Portion(low=-2, high=3)])
def test_rows_that_count_each_for_itself_cost_what_all_of_them_may_move(
    part: Portion, neighbours: Neighbours
) -> None:
    """Also where all of a unit's rows are of one group, whose totals they move again."""
    rows, groups, epsilon = 2, 3, 1.3
    level = Level(1, groups)
    for delta in (0.0, 1e-6):
        design = JobTotals.meeting(
            [level], neighbours, epsilon, delta, BESIDE, 0.2, [part], 1, rows
        )
        one = [np.zeros(groups, np.int64)]
        for group in range(groups):
            one += [
                np.eye(groups, dtype=np.int64)[group] * x for x in range(part.low, part.high + 1)
            ]
        units = {tuple(sum(some)) for some in product(one, repeat=rows)}
        others = {(0,) * groups} if neighbours == "add or remove" else units
        moves = [np.subtract(a, b) for a in units for b in others]
        assert max(np.abs(move).sum() for move in moves) == design.moves[0].all
        assert max((move**2).sum() for move in moves) <= design.moves[0].squares
        assert design.moves[1:] == JobTotals.meeting(
            [level], neighbours, epsilon, delta, BESIDE, 0.2, [part]
        ).moves[1:]  # fmt: skip
        assert design.guarantee.epsilon == epsilon
        assert sum(design.losses) <= Fraction(epsilon)
        assert design.profile().epsilon(1e-3) <= epsilon
        assert design.lifts[0] == rows * max(part.high, -part.low)
    alone = JobTotals.meeting([level], "add or remove", epsilon, 0.0, parts=[part], rows=rows)
    law = alone.laws[0]
    assert isinstance(law, ExactGeometric)
    for at in (0.0, 0.3, 0.7, 1.2):  # all rows in one total, and each in its own
        exact = stick(law.decay, (rows * max(part.high, -part.low),), at)
        assert alone.profile().delta(at) >= exact - 1e-8
        assert stick(law.decay, (max(part.high, -part.low),) * rows, at) <= exact + 1e-8
