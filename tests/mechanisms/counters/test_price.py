"""The price of footprints: an independent program's constants, and whole batches by brute force."""

from __future__ import annotations

import itertools
import math
from operator import itemgetter

import numpy as np
import pytest

from mechanisms.counters.noise import Gaussian, Laplace
from mechanisms.counters.price import Charge, Neighbours, Price
from mechanisms.privacy import loss_lattice, tilted_sum
from mechanisms.privacy.dummy_laws import DummyLaw, poisson
from mechanisms.privacy.loss_lattice import dominating, losses, turned
from mechanisms.privacy.loss_sums import LossSum, RepeatedLoss
from mechanisms.privacy.search import gaussian_delta
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta
from tests.fakes.few import ends, few
from tests.mechanisms.counters.constants import BITS, DEVICES, GAUSSIAN, LAPLACE

COUNTERS = ("neighbours", "k", "epsilon", "delta", "low", "high")
CLOSE = 5e-4  # ten times closer than the constants are to be met


def meets(price_at, low: float, high: float, epsilon: float, delta: float) -> bool:
    """Whether the bracket of a scale lies around that of the constants, or all but does."""
    enough = price_at(high * (1 + CLOSE)).delta(epsilon)
    short = price_at(low * (1 - CLOSE)).delta(epsilon)
    return bool(enough[1] <= delta < short[0])


@pytest.mark.parametrize(COUNTERS, few(DEVICES, itemgetter(0, 1)))
def test_equal_counters_of_devices(
    neighbours: Neighbours, k: int, epsilon: float, delta: float, low: float, high: float
) -> None:
    def price(mean: float) -> Price:
        return Price([Charge(poisson(mean).bin_law, k, 2 * k)], neighbours)

    assert meets(price, low, high, epsilon, delta)


@pytest.mark.parametrize("row", BITS, ids=str)
def test_bits_of_a_number(row: tuple) -> None:
    bits, epsilon, delta, low, high = row

    def price(scale: float) -> Price:
        means = [scale / 2**i for i in range(bits)]
        return Price([Charge(poisson(mean).bin_law, 1, 1) for mean in means], "add or remove")

    assert meets(price, low, high, epsilon, delta)


@pytest.mark.parametrize(COUNTERS, few(GAUSSIAN, itemgetter(0, 1)))
def test_equal_counters_of_the_shuffler(
    neighbours: Neighbours, k: int, epsilon: float, delta: float, low: float, high: float
) -> None:
    def price(sigma: float) -> Price:
        return Price([Charge(Gaussian(round(9 * sigma), sigma).seen(), k, 2 * k)], neighbours)

    assert meets(price, low, high, epsilon, delta)


@pytest.mark.parametrize("row", LAPLACE, ids=str)
def test_one_value_with_laplace_noise(row: tuple) -> None:
    neighbours, epsilon, delta, mu, variance = row
    changes = 1 if neighbours == "add or remove" else 2
    law = Laplace.ending(epsilon / changes, delta / changes)
    assert law.mu == mu
    assert law.variance == pytest.approx(variance, abs=1e-6)
    price = Price([Charge(law.seen(), 1, 2)], neighbours)
    lower, upper = price.delta(epsilon)
    ends = 1 - (1 - law.pmf[0]) ** changes
    assert lower == pytest.approx(ends, rel=1e-6)
    assert upper == pytest.approx(ends, rel=1e-6)
    assert price.epsilon(delta)[1] <= epsilon * (1 + 1e-6)


def joint(laws: list[DummyLaw], raised: tuple[int, ...]) -> np.ndarray:
    """The law of all counts together, flat; every law's window begins at 0."""
    whole = np.ones(1)
    for law, more in zip(laws, raised, strict=True):
        one = np.zeros(law.pmf.size + 1)
        one[more : more + law.pmf.size] = law.pmf
        whole = np.multiply.outer(whole, one).ravel()
    return whole


def excess(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


SMALL = [
    [DummyLaw(0, Laplace(3, 0.7).pmf)] * 3,
    [DummyLaw(0, Gaussian(5, 1.6).pmf)] * 3,
    [DummyLaw(0, np.array([0.1, 0.2, 0.3, 0.25, 0.15]))] * 3,  # a law that is not symmetric
]


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize("laws", SMALL, ids=["laplace", "gaussian", "skewed"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_whole_batches_by_brute_force(laws: list[DummyLaw], neighbours, k: int) -> None:
    sets = [s for s in itertools.product((0, 1), repeat=3) if sum(s) <= k]
    nobody = (0, 0, 0)
    if neighbours == "replace":
        pairs = list(itertools.permutations(sets, 2))
    else:
        pairs = [(a, b) for s in sets if s != nobody for a, b in ((s, nobody), (nobody, s))]
    tables = {s: joint(laws, s) for s in sets}
    price = Price([Charge(laws[0].bin_law, k, 3)], neighbours)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        truth = max(excess(tables[a], tables[b], epsilon) for a, b in pairs)
        lower, upper = price.delta(epsilon)
        assert lower - 1e-9 <= truth <= upper + 1e-12
        exact = neighbours == "add or remove" or price.charges[0].mirrored or k == 1
        assert upper <= truth * (1 + 1e-3) + 1e-7 or not exact


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
def test_levels_of_different_laws_by_brute_force(neighbours: Neighbours) -> None:
    noises = [Gaussian(4, 1.5), Laplace(4, 0.5), Laplace(3, 1.0)]
    laws = [DummyLaw(0, noise.pmf) for noise in noises]
    price = Price([Charge(noise.seen(), 1, 1) for noise in noises], neighbours)
    sets = list(itertools.product((0, 1), repeat=3))
    tables = {s: joint(laws, s) for s in sets}
    for epsilon in (0.1, 0.8, 1.7):
        pairs = itertools.permutations(sets, 2)
        if neighbours == "add or remove":
            pairs = ((a, b) for a, b in pairs if sum(a) == 0 or sum(b) == 0)
        truth = max(excess(tables[a], tables[b], epsilon) for a, b in pairs)
        lower, upper = price.delta(epsilon)
        assert lower - 1e-9 <= truth <= upper <= truth * (1 + 1e-3) + 1e-7


def test_a_replaced_value_is_priced_as_histograms_are() -> None:
    law = poisson(136.1).bin_law
    exact = two_bins_delta(law, law, 0.5)
    lower, upper = Price([Charge(law, 1, 9)], "replace").delta(0.5)
    assert lower <= exact[1]
    assert exact[0] <= upper
    assert upper < exact[0] * 1.001
    assert lower > exact[0] * 0.999


def test_a_hundred_thousand_counters() -> None:
    noise = Gaussian.ending(1336.0, 1e-16)
    lower, upper = Price([Charge(noise.seen(), 100_000, 200_000)], "add or remove").delta(1.0)
    ideal = gaussian_delta(math.sqrt(1e5) / 1336, 1.0)
    assert lower < ideal < upper
    assert upper < lower * 1.02


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 3.0, 30.0, 200.0, 600.0])
@pytest.mark.parametrize("times", [1, 40, 3000])
def test_far_from_any_target(times: int, epsilon: float) -> None:
    sigma = 6.0
    noise = Gaussian(60, sigma)
    lower, upper = LossSum([RepeatedLoss(noise.seen(), times)]).delta(epsilon)
    ideal = gaussian_delta(math.sqrt(times) / sigma, epsilon)
    # Within half a percent of the noise, and the ends of the table.
    more = gaussian_delta(math.sqrt(times) / sigma * 1.005, epsilon) + times * noise.pmf[0]
    less = gaussian_delta(math.sqrt(times) / sigma * 0.995, epsilon)
    assert lower <= upper <= more * 1.001 + times * 2e-18
    assert less * 0.999 - times * 2e-18 <= lower
    assert lower <= ideal * 1.005 + times * 1e-17


def test_errors_of_laws_are_part_of_the_price() -> None:
    noise, times, epsilon = Gaussian(40, 6.0), 20, 1.0
    plain = LossSum([RepeatedLoss(noise.seen(), times)])
    law = noise.seen()
    for more in ({"missing": 1e-6}, {"distance": 1e-6}, {"hidden": 1e-3}, {"relative": 1e-4}):
        blurred = LossSum([RepeatedLoss(BinLaw(law.occupied, law.free, **more), times)])
        lower, upper = blurred.delta(epsilon)
        assert lower <= plain.delta(epsilon)[0] * (1 + 1e-12)
        assert upper > plain.upper(epsilon) * (1 + 1e-4)
    far = BinLaw(law.occupied, law.free, distance=1e-6)
    room = LossSum([RepeatedLoss(far, times)]).upper(epsilon) - plain.upper(epsilon)
    assert room == pytest.approx(times * (1 + math.e) * 1e-6, rel=1e-6)


def test_either_of_two_pairs() -> None:
    law = poisson(9.0).bin_law
    both = LossSum([RepeatedLoss(law, 2, turned(law))])
    alone = [LossSum([RepeatedLoss(x, 2)]) for x in (law, turned(law))]
    mixed = LossSum([RepeatedLoss(law, 1), RepeatedLoss(turned(law), 1)])
    for epsilon in (0.0, 0.4, 1.0):
        least = max(one.delta(epsilon)[0] for one in (*alone, mixed))
        assert least <= both.upper(epsilon) < max(1.5 * least, 1e-9)


def test_raising_a_counter_by_less_shows_no_more() -> None:
    noise = Laplace.ending(0.02, 1e-7, 31)
    prices = [LossSum([RepeatedLoss(noise.seen(shift), 1)]) for shift in (1, 2, 11, 30, 31)]
    for epsilon in (0.0, 0.2, 0.5, 0.62, 0.7):
        deltas = [price.delta(epsilon) for price in prices]
        assert all(lower <= deltas[-1][1] for lower, _ in deltas)


def test_profile_lies_above_and_meets_the_price() -> None:
    noise = Gaussian.ending(13.36, 1e-12)
    price = Price([Charge(noise.seen(), 10, 915)], "add or remove")
    profile = price.profile(1.0)
    for epsilon in (0.0, 0.31, 0.77, 1.0, 1.4):
        assert price.delta(epsilon)[0] <= profile.delta(epsilon)
    assert profile.delta(1.0) == pytest.approx(price.upper(1.0), rel=1e-6)


def test_bad_prices_are_refused() -> None:
    law = Laplace(3, 1.0).seen()
    with pytest.raises(ValueError, match="neighbours must be add or remove or replace"):
        Price([Charge(law, 1, 1)], "both")  # type: ignore[arg-type]
    for slots, counters in ((0, 1), (2, 1)):
        with pytest.raises(ValueError, match="raise 1 to all"):
            Price([Charge(law, slots, counters)], "replace")
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        Price([Charge(law, 1, 1)], "replace").delta(math.nan)


def test_losses_far_apart_are_gathered_as_those_near_by_are(monkeypatch) -> None:
    """An array of all steps between the losses of steep noise would take gigabytes."""
    law = losses(Laplace(9, 1.3).seen(2))
    wide = dominating(law, 1.3 / 7)
    monkeypatch.setattr(loss_lattice, "_DENSE", 0)
    apart = dominating(law, 1.3 / 7)
    assert np.array_equal(wide.places, apart.places)
    assert np.array_equal(wide.mass, apart.mass)


@pytest.mark.parametrize("sigma", ends([0.18, 0.25, 0.6, 3.0]))
@pytest.mark.parametrize("epsilon", [0.0, 5.0, 30.0])
def test_one_loss_alone_is_not_transformed(sigma: float, epsilon: float, monkeypatch) -> None:
    """Losses of steep noise lie some 10^6 steps apart: all of them were transformed for five."""
    law = Gaussian.ending(sigma, 1e-12).seen()
    truth = excess(law.occupied, law.free, epsilon)
    monkeypatch.delattr(tilted_sum.fft, "rfft")
    lower, upper = LossSum([RepeatedLoss(law, 1)]).delta(epsilon)
    assert lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= upper <= truth * (1 + 1e-3) + 1e-11
    assert lower >= truth * (1 - 1e-3) - 1e-11
