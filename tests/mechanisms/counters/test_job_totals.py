"""Integers that the job adds: the price against enumeration, the law, and what travels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from mechanisms.channel import Neighbours
from mechanisms.counters.amounts import Amounts, Ends, SignedDigits
from mechanisms.counters.choose import least_error
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Layout, Level
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.exact_geometric import ExactGeometric

BESIDE = (Level(1, 1), Level(2, 2, 0.01))
AMOUNTS = {
    "units of one group": Amounts(1),
    "units of several": Amounts(3, 2, 2),
    "numbers": Amounts(2, 1, 5),
    "all groups": Amounts(2, 2, 3),
    "numbers with signs": SignedDigits(2, 1, 3, least=-2),
    "a total with a sign": SignedDigits(1, 1, 2, least=-3 + 1),
    "both ends": Ends(2, 1, 3),
    "both ends of all": Ends(2, 2, 3),
}
Totals = Sequence[tuple[int, ExactGeometric]]

NEIGHBOURS: tuple[Neighbours, ...] = ("add or remove", "replace")


def contributions(amounts: Amounts) -> Iterator[np.ndarray]:
    """(codes,) what each unit there may be raises, whatever it has and whatever was cut."""
    layout = Layout((*amounts.levels, *BESIDE))
    low = getattr(amounts, "least", 0)
    for k in range(amounts.most_groups + 1):
        for groups in combinations(range(amounts.groups), k):
            for numbers in product(range(low, amounts.most + 1), repeat=k):
                for marks in product((-1, 0), (-1, 0), (-1, 1)):
                    yield counted(amounts, layout, groups, numbers, marks)
    yield np.zeros(layout.codes, np.int64)


def counted(
    amounts: Amounts, layout: Layout, groups: Any, numbers: Any, marks: tuple[int, int, int]
) -> np.ndarray:
    room = amounts.most_groups - len(groups)
    places = np.array([[*groups, *[-1] * room]], np.int64)
    sets = amounts.encode(places, np.array([[*numbers, *[0] * room]], np.int64))
    words = layout.reports([*sets, np.array([marks[:1]]), np.array([marks[1:]])])
    return layout.count(words.ravel(), layout.types)


def totals(design: JobTotals, counts: np.ndarray) -> Totals:
    """Each number that is published of some counts, and its noise; worked out by hand."""
    rows = [row.astype(int) for row in design.layout.split(counts)]
    digits = len(rows) - design.beside
    weights = np.array([int(level.weight) for level in design.levels[:digits]])
    made = [(int(x), design.laws[0]) for x in weights @ np.array(rows[:digits])]
    for row, noise in zip(rows[digits:], design.laws[1:], strict=True):
        made += [(int(x), noise) for x in row]
    return made


@lru_cache(maxsize=4096)
def apart(decay: Fraction, x: int, y: int) -> float:
    """The largest log ratio of the laws of two totals, over all outcomes that can differ."""
    # Beyond these the ratio stays as it is.
    outcomes = range(min(x, y) - 2, max(x, y) + 3)
    return float(max(decay * (abs(z - y) - abs(z - x)) for z in outcomes))


def worst(one: Totals, other: Totals) -> float:
    """The same of all totals together, whose laws are independent."""
    return sum(apart(noise.decay, x, y) for (x, noise), (y, _) in zip(one, other, strict=True))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("name", AMOUNTS)
def test_the_price_is_that_of_enumeration(name: str, neighbours: Neighbours) -> None:
    amounts, epsilon = AMOUNTS[name], 1.3
    design = JobTotals.meeting(amounts.levels, neighbours, epsilon, 0.0, BESIDE, share=0.2)
    units = {tuple(totals(design, counts)) for counts in contributions(amounts)}
    nobody = tuple((0, noise) for _, noise in next(iter(units)))
    others = [nobody] if neighbours == "add or remove" else units
    most = max(max(worst(a, b), worst(b, a)) for a in units for b in others)
    assert most <= float(sum(design.losses)) * (1 + 1e-12)
    assert sum(design.losses) <= Fraction(epsilon)
    assert design.guarantee.epsilon == epsilon
    assert design.guarantee.delta == 0.0
    assert design.guarantee.model == "central"
    if neighbours == "add or remove":  # nothing is paid that nobody can lose
        assert most == pytest.approx(epsilon, rel=1e-5)


def stick(decay: Fraction, moves: tuple[int, ...], epsilon: float) -> float:
    """The hockey-stick divergence of totals that move by so much, by adding up all outcomes."""
    a, reach = math.exp(-float(decay)), math.ceil(24 / float(decay))
    z = np.arange(-reach, reach + 1)
    first, second = np.ones(1), np.ones(1)
    for move in moves:
        law = (1 - a) / (1 + a) * a ** np.abs(z).astype(float)
        moved = (1 - a) / (1 + a) * a ** np.abs(z - move).astype(float)
        first, second = np.outer(first, law).ravel(), np.outer(second, moved).ravel()
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("most", [1, 4, 9])
def test_the_profile_is_that_of_all_ways_to_move_totals(most: int, epsilon: float) -> None:
    design = JobTotals.meeting(Amounts(2, 1, most).levels, "add or remove", epsilon, 0.0)
    profile, decay = design.profile(), design.laws[0].decay
    for at in np.linspace(0, epsilon, 7).tolist():
        exact = stick(decay, (most,), at)
        assert exact - 1e-8 <= profile.delta(at) <= exact + 2e-3
        assert all(stick(decay, (most - i, i), at) <= exact + 1e-8 for i in range(most))
        twice = stick(decay, (2 * most,), at)
        assert twice - 1e-8 <= profile.replaced.delta(at) <= twice + 3e-3
    assert profile.delta(epsilon) == 0.0
    assert profile.epsilon(0.0) <= epsilon


def test_the_profile_with_what_was_cut_is_no_less_than_theirs_together() -> None:
    design = JobTotals.meeting(
        Amounts(1, 1, 3).levels, "add or remove", 1.0, 0.0, (Level(1, 1),), 0.2
    )
    total, side = (noise.decay for noise in design.laws)
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


def test_digits_of_a_total_travel_as_one_noisy_number() -> None:
    amounts = Amounts(2, 1, 5)
    design = JobTotals.meeting(amounts.levels, "add or remove", 1.0, 0.0, BESIDE)
    counts = np.arange(design.codes) * 100
    drawn = [design.centred(design.noisy(counts, SeededRandom(seed))) for seed in range(4000)]
    estimates = np.array([amounts.estimate(rows[: len(amounts.levels)]) for rows in drawn])
    exact = amounts.estimate(design.layout.split(counts)[: len(amounts.levels)])
    error = math.sqrt(design.column_variance)
    assert np.abs(estimates.mean(0) - exact).max() < 6 * error / math.sqrt(4000)
    assert np.std(estimates - exact) == pytest.approx(error, rel=0.1)
    assert abs(np.corrcoef(estimates.T)[0, 1]) < 0.1  # every total has noise of its own
    assert all(not row.any() for rows in drawn for row in rows[1 : len(amounts.levels)])


def test_what_was_cut_has_noise_of_its_own() -> None:
    """Misses in fewer than 1e-9 of the runs: a variance's estimate errs by 2.3 / sqrt(n) of it."""
    design = JobTotals.meeting(
        Amounts(2, 1, 5).levels, "add or remove", 1.0, 0.0, BESIDE, share=0.2
    )
    n, rng = 4000, SeededRandom(3)
    zeros = np.zeros(design.codes, np.int64)
    drawn = np.array([design.noisy(zeros, rng) for _ in range(n)])
    starts = design.layout.starts
    marks = drawn[:, starts[-1 - len(BESIDE)] : starts[-1]]
    laws = [noise.var() for noise, level in zip(design.laws[1:], BESIDE, strict=True)
            for _ in range(level.counters)]  # fmt: skip
    assert len(laws) == 3
    assert (np.abs(marks.mean(0)) < 7 * np.sqrt(np.array(laws) / n)).all()
    assert marks.var(0).tolist() == pytest.approx(laws, rel=7 * 2.3 / math.sqrt(n))
    between = np.corrcoef(np.column_stack([drawn[:, 0], marks]).T)
    assert np.abs(between - np.eye(4)).max() < 7 / math.sqrt(n)


def test_one_count_errs_as_discrete_laplace_noise_does() -> None:
    design = least_error([Level(1, 1)], "add or remove", 1.0, 1e-6, drawers=("job",))
    assert isinstance(design, JobTotals)
    assert design.column_variance == pytest.approx(2 * math.exp(-1) / math.expm1(-1) ** 2, rel=1e-6)


def test_noise_that_is_too_small_makes_no_promise() -> None:
    design = JobTotals((Level(1, 1),), (ExactGeometric(2, 1),), "add or remove", 1.0)
    with pytest.raises(ValueError, match="does not meet epsilon 1"):
        _ = design.guarantee
