"""Devices' noise: the independent program's constants, and what it costs beside the shuffler's."""

from __future__ import annotations

import math

import pytest

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.devices import MaskedCounters, PoissonCounters, least_device_noise
from mechanisms.counters.levels import Level
from mechanisms.privacy.dummy_laws import least_poisson_mean
from mechanisms.privacy.search import gaussian_mu
from tests.mechanisms.counters.constants import BITS, DEVICES

DELTA = 1e-6


@pytest.mark.parametrize("row", [row for row in DEVICES if row[1] in (10, 100)], ids=str)
def test_means_are_those_of_an_independent_program(row: tuple) -> None:
    neighbours, k, epsilon, delta, low, high = row
    levels = [Level(k, 2 * k)]
    noise = least_device_noise(levels, neighbours, epsilon, delta, laws=["poisson"])
    assert isinstance(noise, PoissonCounters)
    assert low * 0.999 <= noise.means[0] <= high * 1.001


@pytest.mark.parametrize("row", [row for row in BITS if row[0] == 10], ids=str)
def test_bits_share_as_gaussian_noise_does(row: tuple) -> None:
    bits, epsilon, delta, low, high = row
    levels = [Level(1, 1, 2**i) for i in range(bits)]
    noise = least_device_noise(levels, "add or remove", epsilon, delta, laws=["poisson"])
    assert low * 0.999 <= noise.messages[0] <= high * 1.001
    assert noise.messages[0] / noise.messages[-1] == pytest.approx(2**9)


def test_a_replaced_value_needs_as_many_dummies_as_histograms_do() -> None:
    levels = [Level(1, 42_178)]
    noise = least_device_noise(levels, "replace", 0.5, DELTA)
    assert isinstance(noise, MaskedCounters)
    assert noise.variances[0] < least_poisson_mean(0.5, DELTA)
    assert noise.variances[0] < 1.25 * 31.83  # the central mechanism's


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_count(epsilon: float) -> None:
    levels = [Level(1, 1)]
    noise = least_device_noise(levels, "add or remove", epsilon, DELTA)
    central = 0.5 / math.sinh(epsilon / 2) ** 2
    assert math.sqrt(noise.variance([1])) <= 1.3 * math.sqrt(central)
    assert noise.price(levels, "add or remove").upper(epsilon) <= DELTA


def test_several_values_and_events() -> None:
    mu = gaussian_mu(1.0, DELTA)
    values = least_device_noise(Amounts(915, 10).levels, "add or remove", 1.0, DELTA)
    assert math.sqrt(values.variance([1])) <= 1.05 * math.sqrt(10) / mu
    encoder = Amounts(915, 10, 8)
    weights = [level.weight for level in encoder.levels]
    events = least_device_noise(encoder.levels, "add or remove", 1.0, DELTA)
    assert math.sqrt(events.variance(weights)) <= 1.1 * 8 * math.sqrt(10) / mu


def test_a_sum_of_one_number() -> None:
    levels = Amounts(1, 1, 1023).levels
    weights = [level.weight for level in levels]
    poisson = least_device_noise(levels, "replace", 1.0, DELTA, laws=["poisson"])
    assert math.sqrt(poisson.variance(weights)) <= 4.9 * 1023
    levels, weights = levels[:7], weights[:7]
    noise = least_device_noise(levels, "replace", 1.0, DELTA)
    assert isinstance(noise, MaskedCounters)
    assert math.sqrt(noise.variance(weights)) <= 3.2 * 127
    assert noise.price(levels, "replace").upper(1.0) <= DELTA


def test_bad_targets_are_refused() -> None:
    for epsilon, delta in ((0.0, DELTA), (math.nan, DELTA), (1.0, 0.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="must"):
            least_device_noise([Level(1, 1)], "replace", epsilon, delta)
    with pytest.raises(ValueError, match="dummies a counter; let a user raise fewer"):
        least_device_noise([Level(1 << 20, 1 << 21)], "replace", 1e-3, DELTA)
