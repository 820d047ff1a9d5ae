"""Counters from end to end: batches by brute force, draws, slots, simulation, liars."""

from __future__ import annotations

import doctest
import itertools
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mechanisms.counters import solve
from mechanisms.counters.activity import Activity
from mechanisms.counters.amounts import Amounts, Ends, SignedDigits
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Beside, Correlated, Dummies, Independent, complete, telling
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian, Laplace
from mechanisms.counters.price import Neighbours, Price
from mechanisms.counters.rows import RowCounters
from mechanisms.counters.solve import alike
from mechanisms.counters.tree import Tree
from mechanisms.randomness import SeededRandom
from tests.oracles.joint_law import joint

SMALL, WIDE = Gaussian(1, 0.9), Laplace(2, 0.7)


def raised(levels: Sequence[Level], sets: Sequence[np.ndarray]) -> set[tuple[int, ...]]:
    """What each user's report adds to the counts, nulls included."""
    design = Counters(tuple(levels), Independent((SMALL,) * len(levels)), "replace", 1.0, 0.5)
    reports = design.layout.reports(sets)
    types = design.layout.types
    return {tuple(design.layout.count(row, types).tolist()) for row in reports}


def amounts(encoder: Amounts) -> set[tuple[int, ...]]:
    """Every user that there may be."""
    low = -encoder.most if encoder.signed and not isinstance(encoder, Ends) else 0
    low = getattr(encoder, "least", low)
    users = []
    for k in range(encoder.most_groups + 1):
        for groups in itertools.combinations(range(encoder.groups), k):
            for have in itertools.product(range(low, encoder.most + 1), repeat=k):
                rest = encoder.most_groups - k
                users.append(((*groups, *[-1] * rest), (*have, *[0] * rest)))
    groups, have = (np.array(column) for column in zip(*users, strict=True))
    return raised(encoder.levels, encoder.encode(groups, have))


def paths(tree: Tree) -> set[tuple[int, ...]]:
    return raised(tree.levels, tree.encode(np.arange(-1, tree.cells)))


LAPLACE, GAUSSIAN, SIGNED = Independent((WIDE,)), Independent((SMALL,)), Amounts(1, 1, 2, True)
DIGITS, SEVERAL = SignedDigits(1, 1, 1, least=-1), SignedDigits(2, 1, 1, least=-1)
ENDS, UNEVEN = Ends(1, 1, 2), SignedDigits(1, 1, 3, least=-1)
NUMBER, EVENTS, TREE = Amounts(1, 1, 3), Amounts(2, 1, 2), Tree.uniform(4, 2)
CUT = (*NUMBER.levels, Level(1, 1))  # a number, and whether something was cut


def cut_numbers() -> set[tuple[int, ...]]:
    have = np.array([*range(4), *range(4)])[:, None]
    cut = np.repeat([-1, 0], 4)[:, None]
    return raised(CUT, [*NUMBER.encode(np.zeros_like(have), have), cut])


def days(activity: Activity) -> set[tuple[int, ...]]:
    """Every history, and nobody's."""
    return raised(activity.levels, activity.encode(np.arange(1 << activity.days)))


def rows(encoder: RowCounters) -> set[tuple[int, ...]]:
    """Every row of one number and one category, and nobody's."""
    numbers = np.array([-1.0, 1.0, np.nan] * 2)[:, None]
    sets = encoder.encode(numbers, np.repeat([0, 1], 3)[:, None], SeededRandom(1))
    return raised(encoder.levels, [np.vstack([own, -np.ones_like(own[:1])]) for own in sets])


ROW, DAYS = RowCounters(1, 1, (1,)), Activity(1, 2, 0, (1, 2))
COHORTS = Activity(1, 2, 1, (1,))
ENCODERS = [
    ("count", Amounts(1).levels, amounts(Amounts(1)), LAPLACE),
    ("values", Amounts(3, 2).levels, amounts(Amounts(3, 2)), GAUSSIAN),
    ("one of two", Amounts(2, 1).levels, amounts(Amounts(2, 1)), LAPLACE),
    ("number", NUMBER.levels, amounts(NUMBER), Independent((WIDE, SMALL))),
    ("events", EVENTS.levels, amounts(EVENTS), Independent((SMALL, WIDE))),
    ("signed", SIGNED.levels, amounts(SIGNED), Independent((SMALL, SMALL))),
    ("tree", TREE.levels, paths(TREE), Independent((SMALL, SMALL))),
    ("row", ROW.levels, rows(ROW), Independent((SMALL, SMALL, SMALL))),
    ("active", DAYS.levels, days(DAYS), LAPLACE),
    ("cohorts", COHORTS.levels, days(COHORTS), Independent((SMALL, WIDE))),
    ("sum", NUMBER.levels, amounts(NUMBER), Correlated((1, 2), Laplace(9, 0.4), SMALL)),
    ("sums", EVENTS.levels, amounts(EVENTS), Correlated((1, 1), Laplace(3, 0.6), SMALL)),
    ("signed digits", DIGITS.levels, amounts(DIGITS), Correlated((1, -1), WIDE, SMALL)),
    ("uneven", UNEVEN.levels, amounts(UNEVEN), Correlated((1, 2, -1), Laplace(5, 0.4), SMALL)),
    ("signed sums", SEVERAL.levels, amounts(SEVERAL), Correlated((1, -1), Laplace(3, 0.6), SMALL)),
    ("ends", ENDS.levels, amounts(ENDS), Correlated((1, 1), Laplace(3, 0.6), SMALL)),
    ("cut", CUT, cut_numbers(), Beside((Independent((SMALL, SMALL)), LAPLACE))),
    ("cut sum", CUT, cut_numbers(), Beside((Correlated((1, 2), WIDE, SMALL), LAPLACE))),
]


def title(value: object) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize(("name", "levels", "users", "dummies"), ENCODERS, ids=title)
def test_no_batch_shows_more_than_claimed(
    name: str,
    levels: tuple[Level, ...],
    users: set[tuple[int, ...]],
    dummies: Dummies,
    neighbours: Neighbours,
) -> None:
    design = Counters(levels, dummies, neighbours, 1.0, 0.5)
    nobody = (0,) * design.layout.codes
    law = joint(design, nobody)
    assert sum(law.values()) == 1
    assert min(min(seen) for seen in law) >= 0  # no negative number of dummies
    chances = {seen: float(chance) for seen, chance in law.items()}

    def batch(user: tuple[int, ...]) -> dict:
        return {tuple(a + b for a, b in zip(s, user, strict=True)): c for s, c in chances.items()}

    laws = {user: batch(user) for user in users}
    if neighbours == "replace":
        pairs = list(itertools.permutations(laws.values(), 2))
    else:
        pairs = [(one, chances) for one in laws.values()]
        pairs += [(other, one) for one, other in pairs]
    for epsilon in (0.2, 1.0, 2.0):
        odds = math.exp(epsilon)
        truth = max(sum(max(c - odds * q.get(s, 0.0), 0.0) for s, c in p.items()) for p, q in pairs)
        claimed = design.price.upper(epsilon)
        assert truth <= claimed + 1e-12
        # And no more is claimed than needed, where sums are not priced with masks of their own.
        assert claimed <= truth * 1.001 + 1e-7 or len(dummies.groups) < len(levels)


def drawn_otherwise() -> list[tuple[str, tuple[Level, ...], Dummies, Neighbours]]:
    """Each design once, and again where other neighbours have other dummies drawn."""
    return [
        (name, levels, dummies, neighbours)
        for name, levels, _, dummies in ENCODERS
        for neighbours in ("add or remove", "replace")
        if neighbours == "add or remove" or any(complete(level, neighbours) for level in levels)
    ]


@pytest.mark.verify
@pytest.mark.parametrize(("name", "levels", "dummies", "neighbours"), drawn_otherwise(), ids=title)
def test_draws_follow_the_joint_law(name, levels, dummies, neighbours) -> None:
    design = Counters(levels, dummies, neighbours, 1.0, 0.5)
    nobody = np.zeros(design.layout.codes, np.int64)
    law, size = joint(design, nobody), 2500
    rng = SeededRandom(11)
    drawn = np.array([design.simulate(nobody, rng) for _ in range(size)])
    assert {tuple(row) for row in drawn.tolist()} <= set(law)
    outcomes, chances = np.array(list(law)), np.array([float(c) for c in law.values()])
    mean = chances @ outcomes
    covariance = (outcomes - mean).T @ ((outcomes - mean) * chances[:, None])
    # Six standard errors, and more where tails are heavy.
    error = np.sqrt(np.diag(covariance) / size)
    assert (np.abs(drawn.mean(axis=0) - mean) <= 6.5 * error + 1e-9).all()
    close = np.abs(np.cov(drawn.T, bias=True).reshape(covariance.shape) - covariance)
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert (close <= 10 * spread / math.sqrt(size) + 1e-9).all()
    expected = np.concatenate([*(r for r in design.layout.split(mean))])
    means = [
        m for m, level in zip(dummies.means, levels, strict=True) for _ in range(level.counters)
    ]
    assert expected == pytest.approx(means, abs=1e-9)


def test_ranges_cover_each_counter_once() -> None:
    levels = Amounts(10, 3, 3).levels
    for dummies in (Independent((WIDE, SMALL)), Correlated((1, 2), WIDE, SMALL)):
        for neighbours in ("add or remove", "replace"):
            design = Counters(levels, dummies, neighbours, 1.0, 0.5)
            rng = SeededRandom(3)
            drawn = [design.draw(range_, rng)[0] for range_ in design.ranges(4)]
            codes, times = np.unique(np.concatenate(drawn), return_counts=True)
            assert codes.tolist() == list(range(design.layout.codes))
            assert (times[:20] == 1).all()
    both = Beside((Correlated((1, 2), WIDE, SMALL), Independent((WIDE,))))
    ranges = Counters(CUT, both, "replace", 1.0, 0.5).ranges(4)
    assert ranges == [((0, 1), 0, 1), ((2,), 0, 1)]
    assert both.draw([2], 3, SeededRandom(1)).shape == (1, 3)
    with pytest.raises(ValueError, match="for all levels at once"):
        both.draw([1, 2], 3, SeededRandom(1))
    with pytest.raises(ValueError, match="for all levels at once"):
        Correlated((1, 2), WIDE, SMALL).draw([0], 3, SeededRandom(1))


@pytest.mark.parametrize(
    "dummies",
    [Independent((WIDE, Gaussian(9, 2.0))), Correlated((1, 2), Laplace(30, 0.3), Gaussian(9, 2.0))],
    ids=["independent", "correlated"],
)
@pytest.mark.parametrize("signed", [False, True])
def test_estimates_are_unbiased_with_the_variance_stated(dummies: Dummies, signed: bool) -> None:
    encoder, n, size = Amounts(3, 2, 3, signed), 40, 3000
    have = np.array([[i % 4, 3 - 6 * (signed and i % 3 == 0)] for i in range(n)])
    truth = np.array([have[:, 0].sum(), 0, have[:, 1].sum()])
    design = Counters(encoder.levels, dummies, "add or remove", 2.0, 1e-3)
    reports = design.layout.reports(encoder.encode(np.array([[0, 2]] * n), have))
    sums = design.layout.count(reports.ravel(), np.tile(design.layout.types, n))
    rng = SeededRandom(4)
    estimates = np.array(
        [encoder.estimate(design.centred(design.simulate(sums, rng))) for _ in range(size)]
    )
    variance = encoder.variance(design.column_variance)
    # Six standard errors; a variance that is 30 % off is told apart by as many.
    assert (np.abs(estimates.mean(axis=0) - truth) < 6 * math.sqrt(variance / size)).all()
    assert estimates.var(axis=0) == pytest.approx(np.full(3, variance), rel=0.2)


@pytest.mark.parametrize("weights", [(1, 2), (1, 3), (0, 1)])
@pytest.mark.parametrize("columns", [1, 2])
def test_error_laws_by_enumeration(weights: tuple[int, ...], columns: int) -> None:
    for dummies in (Independent((WIDE, SMALL)), Correlated((1, 2), WIDE, SMALL)):
        truth = {0: 1.0}
        for _ in range(columns):
            for law, effect in dummies.parts:
                step = int(effect @ np.array(weights))
                after: dict[int, float] = {}
                for error, chance in truth.items():
                    for z, p in enumerate(law.pmf.tolist(), -law.mu):
                        after[error + step * z] = after.get(error + step * z, 0.0) + chance * p
                truth = after
        noise = dummies.error_law(weights, columns)
        assert noise.mean() == pytest.approx(0, abs=1e-9)
        assert noise.var() == pytest.approx(columns * dummies.variance(weights))
        for error, chance in truth.items():
            assert noise.pmf[error - noise.first] == pytest.approx(chance, abs=1e-14)
        assert noise.pmf.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="a law may have"):
        dummies.error_law((1 << 23, 1))


def test_the_sum_of_correlated_digits_carries_one_noise() -> None:
    dummies = Correlated((1, 2, 1), WIDE, SMALL)
    assert dummies.variance((1, 2, 1)) == WIDE.variance
    assert dummies.variance((0, 1, 0)) == SMALL.variance
    assert dummies.variance((1, 0, 0)) == pytest.approx(WIDE.variance + 5 * SMALL.variance)


def test_intervals_of_a_sum_cover() -> None:
    design = Counters.meeting(Amounts(1, 1, 1023).levels, "replace", 1.0, 1e-6, correlated=True)
    weights = [int(level.weight) for level in design.levels]
    noise = design.dummies.error_law(weights)
    assert noise.var() == pytest.approx(design.column_variance)
    low, high = noise.ppf(0.025), noise.isf(0.025)
    drawn = design.dummies.draw(range(len(weights)), 20_000, SeededRandom(2))
    errors = np.array(weights) @ (drawn - np.array(design.dummies.means)[:, None])
    covered = ((errors >= low) & (errors <= high)).mean()
    assert covered == pytest.approx(0.95, abs=6.5 * math.sqrt(0.95 * 0.05 / 20_000))


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize(("k", "most", "correlated"), [(1, 1, 0), (10, 8, 0), (1, 255, 1)])
def test_what_was_cut_costs_a_hundredth_and_is_priced_jointly(
    neighbours: Neighbours, k: int, most: int, correlated: bool
) -> None:
    levels, cut = Amounts(20, k, most).levels, [Level(1, 1), Level(1, 2)]
    alone = Counters.meeting(levels, neighbours, 1.0, 1e-6, correlated=correlated)
    both = Counters.meeting(levels, neighbours, 1.0, 1e-6, beside=cut, correlated=correlated)
    assert both.levels == (*levels, *cut)
    assert both.guarantee.delta == 1e-6
    lower, upper = both.price.delta(1.0)
    assert lower <= upper <= 1e-6 < both.price.upper(0.97)
    assert 1 <= both.column_variance / alone.column_variance < 1.03
    assert both.error_law().var() == pytest.approx(both.column_variance)
    first, second = both.dummies.blocks  # type: ignore[attr-defined]
    beside = Price(second.charges(cut, neighbours), neighbours)
    assert beside.upper(0.01) <= 1e-8
    assert both.variances[len(levels)] == second.variance([1])
    assert first.groups == alone.dummies.groups
    # Either by itself shows less than both together.
    assert Price(first.charges(levels, neighbours), neighbours).upper(1.0) < upper
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="share must lie in"):
            Counters.meeting(levels, neighbours, 1.0, 1e-6, beside=cut, share=share)


def test_a_liar_moves_a_counter_by_its_slots_and_no_more() -> None:
    design = Counters.meeting(Amounts(4, 3, 7).levels, "replace", 1.0, 1e-6)
    layout = design.layout
    assert layout.types.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for code in range(layout.codes + 3):
        flood = np.full(layout.types.size, code, np.uint64)
        assert layout.count(flood, layout.types).sum() == (3 if code < layout.codes else 0)
    worst = np.concatenate([np.full(3, start) for start in layout.starts[:3]])
    sums = layout.count(worst, layout.types)
    moved = Amounts(4, 3, 7).estimate(layout.split(sums))
    assert moved.tolist() == [Amounts(4, 3, 7).poisoning, 0, 0, 0]
    assert layout.poisoning == [3, 3, 3]
    far = np.array([1 << 63, (1 << 64) - 1], np.uint64)
    assert layout.count(far, [0, 1]).sum() == 0


def test_messages_of_users_and_dummies_are_counted_alike() -> None:
    encoder, rng, n = Amounts(4, 2, 3), SeededRandom(9), 25
    design = Counters.meeting(encoder.levels, "add or remove", 1.0, 1e-6)
    layout = design.layout
    reports = layout.reports(encoder.encode(np.array([[0, 3]] * n), np.array([[1, 3]] * n)))
    words, types = [reports.ravel()], [np.tile(layout.types, n)]
    expected = layout.count(words[0], types[0])
    for range_ in design.ranges(3):
        codes, times = design.draw(range_, rng)
        np.add.at(expected, codes, times)
        words.append(np.repeat(codes, times).astype(np.uint64))
        types.append(layout.level_of(np.repeat(codes, times)))
    counts = layout.count(np.concatenate(words), np.concatenate(types))
    assert counts.tolist() == expected.tolist()
    assert counts.sum() == sum(map(len, words))  # no dummy is dropped


def test_a_design_says_what_holds_and_travels_small() -> None:
    design = Counters.meeting(Amounts(915, 10).levels, "add or remove", 1.0, 1e-6)
    claim = design.guarantee
    assert (claim.model, claim.epsilon, claim.delta, claim.unit) == ("shuffle", 1.0, 1e-6, "user")
    assert "add or remove" in claim.how
    _ = design.variances
    assert pickle.loads(pickle.dumps(design)) == design
    assert len(pickle.dumps(design)) < 1000
    profile = design.profile()
    assert profile.delta(1.0) <= 1e-6
    assert profile.delta(0.5) > 1e-6


@pytest.mark.parametrize("share", [0.95, 0.7])
def test_noise_that_is_too_small_is_refused(share: float) -> None:
    levels = Amounts(20, 10).levels
    (law,) = Counters.meeting(levels, "replace", 1.0, 1e-6).dummies.laws  # type: ignore[attr-defined]
    less = Counters(
        levels, Independent((Gaussian(law.mu, law.sigma * share),)), "replace", 1.0, 1e-6
    )
    with pytest.raises(ValueError, match="this noise does not meet"):
        _ = less.guarantee
    short = Counters(levels, Independent((Gaussian(law.mu // 2, law.sigma),)), "replace", 1.0, 1e-6)
    with pytest.raises(ValueError, match="does not meet"):
        _ = short.guarantee  # a table that was cut too early


def test_bad_designs_are_refused() -> None:
    for slots, counters in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="a user must raise 1 to all"):
            Counters.meeting([Level(slots, counters)], "replace", 1.0, 1e-6)
    with pytest.raises(ValueError, match="at least one level"):
        Counters.meeting([], "replace", 1.0, 1e-6)
    with pytest.raises(ValueError, match="a law of dummies for each level"):
        Counters((Level(1, 1),), Independent((SMALL, SMALL)), "replace", 1.0, 1e-6)
    with pytest.raises(ValueError, match="must leave levels"):
        Counters((Level(1, 1),), Independent((SMALL,)), "replace", 1.0, 0.5, beside=1)
    layout = Counters.meeting([Level(2, 3)], "replace", 1.0, 1e-6).layout
    for bad in ([[3, 0]], [[-2, 0]]):
        with pytest.raises(ValueError, match="a place of level 0 lies outside"):
            layout.reports([np.array(bad)])
    with pytest.raises(ValueError, match="twice"):
        layout.reports([np.array([[1, 1]])])
    with pytest.raises(ValueError, match="2 slots"):
        layout.reports([np.array([[1]])])


def test_the_page_shows_what_is_made() -> None:
    page = Path(__file__).parents[3] / "docs" / "appendix" / "counters.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0


DIGITS = [Level(1, 40, 2.0**i) for i in range(3)]
LAWS = (Laplace(30, 0.4), Gaussian(20, 4.0))


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize(
    ("dummies", "levels"),
    [
        (Independent(LAWS[:1]), [Level(1, 500)]),
        (Independent(LAWS), [Level(2, 500), Level(3, 5)]),
        (Correlated((1, 2, 4), *LAWS), DIGITS),
        (Beside((Correlated((1, 2, 4), *LAWS), Independent(LAWS[:1]))), [*DIGITS, Level(1, 1)]),
    ],
)
def test_a_price_is_that_of_as_many_counters_as_two_inputs_raise(
    dummies: Dummies, levels: list[Level], neighbours: Neighbours
) -> None:
    fewer = telling(levels)
    assert max(level.counters for level in fewer) <= 6
    whole, told = (Price(dummies.charges(some, neighbours), neighbours) for some in (levels, fewer))
    assert told.delta(1.0) == whole.delta(1.0)
    design, small = (
        Counters(tuple(some), dummies, neighbours, 1.0, 0.3) for some in (levels, fewer)
    )
    assert design.profile() == small.profile()
    own = whole.profile(1.0)
    assert replace(design.profile(), apart=own.apart) == own


def test_metrics_over_other_domains_have_one_noise_that_is_solved_once() -> None:
    before = solve._least_noise.cache_info().misses
    target: Any = "replace", 0.731, 1e-6
    made = [Counters.meeting([Level(1, counters)], *target) for counters in range(90, 100)]
    assert solve._least_noise.cache_info().misses == before + 1
    assert {design.dummies for design in made} == {made[0].dummies}
    wider = [design.meeting_another(0.5, 1e-6).dummies for design in made]
    assert {*wider} == {alike(made[0].dummies, made[0].levels, "replace", 0.5, 1e-6, 0.731 / 0.5)}
    # Where dummies are limited, domains differ.
    limited = {"most_dummies": 100 * made[0].dummies.means[0] - 1}
    Counters.meeting([Level(1, 99)], *target, **limited)
    with pytest.raises(ValueError, match="dummies and may have"):
        Counters.meeting([Level(1, 5000)], *target, **limited)
