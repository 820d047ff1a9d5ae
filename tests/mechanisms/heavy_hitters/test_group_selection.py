"""Groups that nobody declared: what they cost by quadrature, what passes, how many are found."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from mechanisms.channel import Neighbours
from mechanisms.counters.levels import Portion
from mechanisms.heavy_hitters.group_selection import GroupSelection
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.rounded_gaussian import RoundedGaussian
from tests.oracles.set_union import MADE, divergences, made, weighted_gaussian
from tests.oracles.statistics import follows, sample_size
from transforms.encoders.undeclared import GroupSums, as_numbers

NUMBERS = (Portion(1, -3, 5),)
LEVELS = (Portion(1, 0, 4),) * 3  # of a tree
WIDE = {"epsilon": 1.0, "delta": 0.1}  # groups of one user pass now and then


def gaussian(most: int, threshold: float, epsilon: float = 1.0, delta: float = 0.1, sigma=2.0):
    """Weights alone, of any Gaussian noise, whatever it promises."""
    grid = GroupSelection.meeting(most, "add or remove", epsilon, delta).grid
    law = RoundedGaussian(sigma * grid)
    return GroupSelection(
        most, law, round(threshold * grid), (), (), 1, "add or remove", epsilon, delta
    )


def shifts(design: GroupSelection, n: int, alone: int) -> float:
    """How many deviations Gaussian noises of what others have move by, from first principles."""
    (weight,) = design.weights([n])
    moved = [weight / design.selection.sigma] * (n - alone)
    for part, law in zip(design.parts, design.laws, strict=True):
        far = max(part.high, -part.low)
        moved += [far / law.sigma] * (n - alone)
    return math.hypot(*moved)


def passing(design: GroupSelection, n: int) -> float:
    """The probability that a group which one user alone has passes, by the law's own table."""
    (weight,) = design.weights([n])
    law = design.selection
    if isinstance(law, ExactGeometric):
        a, need = math.exp(-float(law.decay)), design.threshold + 1 - weight
        return a**need / (1 + a)
    return float(stats.norm.sf((design.threshold + 0.5 - weight) / law.sigma))


@pytest.mark.parametrize("parts", [(), NUMBERS, LEVELS], ids=["weights", "numbers", "levels"])
@pytest.mark.parametrize(
    ("most", "epsilon"),
    [(3, 0.5), *(pytest.param(*one, marks=pytest.mark.verify) for one in ((9, 1.0), (12, 2.0)))],
)
def test_what_is_claimed_is_the_worst_unit_by_quadrature(most, epsilon, parts) -> None:
    """Over how many groups it has, and has alone, in both directions: as much, and hardly less."""
    law = RoundedGaussian(3.1 * (1 << 14))
    own = (RoundedGaussian(5 * 4.0 * math.sqrt(most)),) * len(parts)
    design = GroupSelection(most, law, 9 << 14, parts, own, 1, "add or remove", epsilon, 0.5)
    worst = 0.0
    for n in range(1, most + 1):
        for alone in range(n + 1):
            chance = 1 - (1 - passing(design, n)) ** alone
            worst = max(worst, *divergences(shifts(design, n, alone), chance, epsilon))
    claimed = float(design.deltas([epsilon])[0])
    assert worst * (1 - 1e-9) <= claimed <= worst * 1.03


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_one_group_a_unit_costs_what_enumeration_says(epsilon: float) -> None:
    """With two-sided geometric noise, of weights and of a number: all outcomes of one group."""
    slope = Fraction(1, 2)
    law, own = ExactGeometric.falling(slope), ExactGeometric.falling(Fraction(1, 8))
    design = GroupSelection(1, law, 4, (Portion(1, 0, 3),), (own,), 1, "add or remove", 9.0, 0.5)
    noise, far = np.arange(-200, 201), np.arange(-400, 401)

    def outcome(users: int, total: int) -> np.ndarray:
        """P of each (weight, total) that is published, and first of none."""
        a, b = math.exp(-1 / 2), math.exp(-1 / 8)
        weights = a ** np.abs(noise - users) * (1 - a) / (1 + a)
        totals = b ** np.abs(far - total) * (1 - b) / (1 + b)
        shown = np.multiply.outer(weights[noise > design.threshold], totals)
        return np.append(1 - shown.sum(), shown) if users else np.append(1.0, 0 * shown)

    worst = 0.0
    for users in range(8):
        before = outcome(users, 3 * users)
        for number in (0, 3):
            after = outcome(users + 1, 3 * users + number)
            for p, q in ((before, after), (after, before)):
                worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0).sum()))
    assert worst <= float(design.deltas([epsilon])[0]) * (1 + 1e-9)
    if epsilon > 0.875:  # all that a group of others can lose
        assert float(design.deltas([epsilon])[0]) <= worst * 1.001


@pytest.mark.parametrize("most", [1, 2, 7, 100, 5000])
@pytest.mark.parametrize("parts", [(), NUMBERS, (Portion(2, 0, 9),), LEVELS])
@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
def test_what_was_made_meets_its_target(most, parts, neighbours: Neighbours) -> None:
    for epsilon, delta, rows in ((0.1, 1e-9, 1), (1.0, 1e-6, 1), (4.0, 1e-3, min(most, 5))):
        design = GroupSelection.meeting(most, neighbours, epsilon, delta, parts, rows, 0.3)
        assert (design.guarantee.epsilon, design.guarantee.delta) == (epsilon, delta)
        lower = GroupSelection(
            most, design.selection, int(design.threshold * 0.9) - 1, parts, design.laws, rows,
            neighbours, epsilon, delta,
        )  # fmt: skip
        assert lower.deltas([epsilon])[0] > design.deltas([epsilon])[0]
        profile = design.profile()
        assert profile.delta(epsilon) <= delta
        for one in np.linspace(0, 3 * epsilon, 7):
            # Chords between points of a curve lie above it, and its hull below what was computed.
            assert profile.delta(one) <= design.deltas([one])[0] * 1.05 or one < epsilon
        if neighbours == "add or remove":
            assert profile.replaced.delta(2 * epsilon) <= 2.1 * math.exp(epsilon) * delta


def test_a_threshold_that_is_too_low_is_no_promise() -> None:
    with pytest.raises(ValueError, match="does not meet"):
        _ = gaussian(3, 1.5, delta=1e-3).guarantee


@pytest.mark.parametrize("most", [1, 2, 3, 10, 1000])
def test_no_unit_weighs_more_than_one(most: int) -> None:
    """In L2 of Gaussian noise, in L1 of Laplace noise: in whole numbers, and nearly as much."""
    n = np.arange(1, most + 1)
    for law, power in ((RoundedGaussian(5.0), 2), (ExactGeometric(1, 3), 1)):
        design = GroupSelection(most, law, 1, (), (), 1, "add or remove", 1.0, 0.1)
        weights = design.weights(n)
        assert (n * weights**power <= design.grid**power).all()
        assert (n * (weights + 1) ** power > design.grid**power).all()


@pytest.mark.parametrize(("most", "have"), [(1, 1), (3, 2), (30, 5)])
def test_a_group_of_one_user_passes_as_often_as_is_paid_for(most: int, have: int) -> None:
    """And the same test tells a threshold apart that lets 30 % more pass."""
    design = GroupSelection.meeting(most, "add or remove", **WIDE, parts=NUMBERS)
    chance = passing(design, have)
    law, other = np.array([chance, 1 - chance]), np.array([1.3 * chance, 1 - 1.3 * chance])
    size = sample_size(law, other)
    weights = np.full(size, design.weights([have])[0])
    drawn = design.publish(weights, np.zeros((size, 1)), SeededRandom(7))
    counts = np.array([drawn.kept.sum(), size - drawn.kept.sum()])
    assert follows(counts, law)
    assert not follows(np.rint(other * size), law)
    assert len(drawn.weights) == drawn.kept.sum()
    assert (drawn.weights > design.threshold).all()


def test_totals_that_are_published_have_the_noise_that_is_stated() -> None:
    """The variance of each level: 20,000 draws err by 1 %, and 30 % are a hundred deviations."""
    design = GroupSelection.meeting(5, "add or remove", 1.0, 1e-6, (Portion(2, 0, 9),))
    exact = np.tile([[40, 50]], (20_000, 1))
    weights = np.full(20_000, 2 * design.threshold + 10)
    published = design.publish(weights, exact, SeededRandom(3))
    assert published.kept.all()
    errors = published.totals - exact
    assert errors.var(axis=0) == pytest.approx(design.column_variance, rel=0.1)
    assert abs(np.corrcoef(errors.T)[0, 1]) < 0.05
    assert abs(errors.mean(axis=0)).max() < 7 * math.sqrt(design.column_variance / 20_000)


def test_many_releases_add_up_as_noise_does() -> None:
    """Sixteen cost some four times one, and not sixteen: what passes alone takes half of delta."""
    one = GroupSelection.meeting(50, "add or remove", 0.1, 1e-7, NUMBERS, releases=16).profile()
    many: PrivacyLoss = compose({one: 16})
    assert many.epsilon(16 * 1e-7) < 0.1 * 6


@pytest.mark.parametrize("pair", [*combinations((0.2, 0.5, 0.8), 2)])
def test_a_larger_share_finds_more_and_errs_more(pair: tuple[float, float]) -> None:
    less, more = (
        GroupSelection.meeting(20, "add or remove", 1.0, 1e-6, NUMBERS, share=x) for x in pair
    )
    assert more.limit() < less.limit()
    assert more.column_variance > less.column_variance


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"most_groups": 0}, "most_groups"), ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"), ({"delta": 1.0}, "delta"), ({"share": 1.0}, "share"),
        ({"share": math.nan}, "share"), ({"rows": 0}, "rows"),
        ({"neighbours": "any"}, "neighbours"),
        ({"epsilon": 1e-9}, "out of reach"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(changed, why: str) -> None:
    asked = {"most_groups": 3, "neighbours": "add or remove", "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ValueError, match=why):
        GroupSelection.meeting(**{**asked, "parts": NUMBERS, **changed})


@pytest.mark.verify
@pytest.mark.parametrize("name", MADE)
def test_as_many_are_found_as_by_the_papers_program(name: str) -> None:
    """Of three draws of each on one set; some 430 are found, and they differ by some 10 of them."""
    users, strings = made(name)
    design = GroupSelection.meeting(100, "add or remove", 1.0, 1e-5)
    ours = theirs = 0
    for seed in range(3):
        rng = SeededRandom(seed)
        cells = strings.astype(np.uint32)[:, None]
        table = GroupSums(design).table(users, cells, None, int(users.max()) + 1, rng)
        numbers = as_numbers(table, 2)
        kept = design.publish(numbers[:, 1], numbers[:, 2:], rng).kept
        assert {*table[kept, 0].tolist()} <= {*strings.tolist()}
        ours += int(kept.sum())
        theirs += len(weighted_gaussian(users, strings, 100, 1.0, 1e-5, seed))
    assert ours >= theirs
