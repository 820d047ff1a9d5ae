"""Histograms whose shuffler draws: privacy by enumeration, errors as predicted, liars."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from hushbeam.studies.systems.augmented import Augmented
from hushbeam.studies.systems.augmented_systems import best_design
from hushbeam.studies.systems.dummy_laws import LAWS, PUBLISHED, ThinnedLaw, even_coins, two_sided
from mechanisms.frequency.task import FrequencyTask
from mechanisms.privacy.two_bins import two_bins_delta
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from tests.fakes.few import ends

N = 20_000


def of(name: str, epsilon: float = 1.0, d: int = 10, n: int = N, bound: str = "exact") -> Augmented:
    design = best_design(Target("shuffle", epsilon, 1e-6, n, FrequencyTask(d), bound=bound), name)
    assert design.release.epsilon <= epsilon
    assert isinstance(design.mechanism, Augmented)
    return design.mechanism


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_s1geo_is_purely_private_and_no_more_than_that(epsilon: float) -> None:
    law = of("s1geo", epsilon).bin_law(N)
    gains = np.log(law.occupied[:20] / law.free[:20])
    assert gains[0] == pytest.approx(-epsilon / 2)
    assert gains[1:] == pytest.approx(np.full(19, epsilon / 2))
    assert two_bins_delta(law, law, epsilon * (1 + 1e-9))[1] < 1e-12
    assert two_bins_delta(law, law, epsilon * 0.99)[0] > 1e-6


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("name", ["counters", "sbin", "sageo"])
def test_they_keep_their_target_and_waste_little(name: str, epsilon: float) -> None:
    law = of(name, epsilon).bin_law(N)
    assert two_bins_delta(law, law, epsilon)[1] <= 1e-6
    # A few coins are few steps of noise.
    wasted = 0.2 if name == "sbin" and epsilon == 3 else 0.03
    assert two_bins_delta(law, law, epsilon * (1 - wasted))[0] > 1e-6


@pytest.mark.parametrize("epsilon", ends([0.1, 0.5, 1.0, 2.0, 5.0]))
@pytest.mark.parametrize("users", [500, N])
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_holds_and_costs_no_less(name: str, users: int, epsilon: float) -> None:
    """With 1,000 values of 500 users reports are lost, with 20,000 users hardly any."""
    published, exact = (of(name, epsilon, 1000, users, bound) for bound in ("published", "exact"))
    law = published.bin_law(users)
    delta = two_bins_delta(law, law, epsilon)[1]
    assert delta <= 1e-6
    if name == "sbin":  # a Chernoff bound
        assert delta < 1e-12
        assert published.variance(0, users) > 2 * exact.variance(0, users)
    assert published.average_variance(users) >= exact.average_variance(users) * (1 - 1e-6)


@pytest.mark.parametrize("name", ["sbin", "sageo"])
def test_how_many_reports_are_kept_errs_least(name: str) -> None:
    target = Target("shuffle", 1.0, 1e-6, 500, FrequencyTask(100_000))
    parts = LAWS[name](target)
    others = [_exact(name, kept, target).error(target) for kept in (0.4, 0.5, 0.7, 0.9, 0.95, 1.0)]
    assert parts.error(target) <= 1.005 * min(others)  # whole numbers of coins are steps
    assert parts.error(target) < 0.85 * max(others)


def _exact(name: str, kept: float, target: Target[FrequencyTask]) -> ThinnedLaw:
    """The least noise beside a chance of keeping reports, by trying one size after another."""
    left, right = 1 - (1 - math.exp(-0.5)) / kept, kept / (math.exp(0.5) - 1 + kept)
    for size in range(500):
        parts = (
            even_coins(kept, size)
            if name == "sbin"
            else ThinnedLaw(kept, two_sided(size, left, right))
        )
        if parts.meets(target):
            return parts
    raise AssertionError("no noise was enough")


@pytest.mark.parametrize("number", [0, 1, 7, 40])
def test_coins_are_binomial(number: int) -> None:
    _, law, _ = even_coins(1.0, number)
    assert law.first == 0
    ways = [math.comb(number, heads) for heads in range(number + 1)]
    assert law.pmf * 2**number == pytest.approx(np.array(ways, float))


def test_a_great_many_coins_keep_their_moments() -> None:
    law = even_coins(1.0, 1_000_001).law
    assert law.mean() == pytest.approx(500_000.5)
    assert law.var() == pytest.approx(250_000.25)
    assert law.pmf.size < 20_000


@pytest.mark.parametrize("kept", [1.0, 0.6])
@pytest.mark.parametrize("noise", ["coins", "geometric"])
def test_the_price_is_that_of_whole_batches(noise: str, kept: float) -> None:
    """Every batch of three users with three values, and everything that may be seen of it."""
    parts = even_coins(kept, 6) if noise == "coins" else ThinnedLaw(kept, two_sided(3, 0.4, 0.5))
    laws = {batch: _seen(batch, parts) for batch in product(range(3), repeat=3)}
    for epsilon in (0.3, 1.0, 2.0):
        worst = max(
            float(
                np.maximum(laws[(one, *rest)] - math.exp(epsilon) * laws[(other, *rest)], 0).sum()
            )
            for one, other, *rest in product(range(3), repeat=4)
        )
        low, high = two_bins_delta(parts.bin_law, parts.bin_law, epsilon)
        # Attained where the others hold a third value.
        assert low - 1e-9 <= worst <= high + 1e-9


def _seen(batch: tuple[int, ...], parts: ThinnedLaw) -> NDArray[np.float64]:
    """The joint law of three counts: every way to keep reports, and every number of dummies."""
    size = 40
    dummies = np.zeros(size)
    shown = min(size - 3, parts.law.pmf.size)  # what is beyond has a probability below 1e-11
    dummies[int(parts.law.first) :][:shown] = parts.law.pmf[:shown]
    law = np.zeros((size, size, size))
    for keep in product([False, True], repeat=3):
        counts = [
            sum(kept for value, kept in zip(batch, keep, strict=True) if value == cell)
            for cell in range(3)
        ]
        chance = math.prod(parts.kept if kept else 1 - parts.kept for kept in keep)
        rows = [np.append(np.zeros(count), dummies)[:size] for count in counts]
        law += chance * np.einsum("i,j,k->ijk", *rows)
    return law


@pytest.mark.parametrize("name", LAWS)
def test_errors_are_those_predicted(name: str) -> None:
    mechanism, holders, runs = of(name), np.array([N // 2, *[N // 18] * 9]), 2000
    holders[1] += N - holders.sum()
    rng, truth = SeededRandom(1), holders / N
    shares = [mechanism.estimate(mechanism.simulate(holders, rng), N) for _ in range(runs)]
    errors = np.array(shares) - truth
    variance = mechanism.variance(truth, N)
    # Six and a half standard errors; a variance 30 % off would not pass.
    assert (np.abs(errors.mean(axis=0)) < 6.5 * np.sqrt(variance / runs)).all()
    assert np.mean(errors**2, axis=0) == pytest.approx(variance, rel=0.28)


def test_coins_lose_and_keep_reports_as_predicted() -> None:
    """With reports lost: see `test_errors_are_those_predicted`, for 1 of 20 values of 500 users."""
    mechanism = Augmented(1.0, 1e-6, 500, 20, 1.0, parts=even_coins(0.5, 40))
    holders, runs, rng = np.array([310, *[10] * 19]), 2000, SeededRandom(4)
    shares = [mechanism.estimate(mechanism.simulate(holders, rng), 500) for _ in range(runs)]
    errors = np.array(shares) - holders / 500
    variance = mechanism.variance(holders / 500, 500)
    assert (np.abs(errors.mean(axis=0)) < 6.5 * np.sqrt(variance / runs)).all()
    assert np.mean(errors**2, axis=0) == pytest.approx(variance, rel=0.28)


@pytest.mark.parametrize("name", LAWS)
def test_a_liar_counts_once(name: str) -> None:
    mechanism, targets = of(name), np.array([3])
    assert mechanism.influence * mechanism.kept == 1
    forged = mechanism.forged(targets, 1000, SeededRandom(2))
    # Binomial: 6.5 standard deviations are 104 at the most.
    assert abs(forged[3] - 1000 * mechanism.kept) <= 104 * math.sqrt(1 - mechanism.kept)
    assert forged.sum() == forged[3]
