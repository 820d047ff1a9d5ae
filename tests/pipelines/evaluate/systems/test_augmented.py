"""Histograms whose shuffler draws: privacy by enumeration, errors as predicted, liars."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.target import Target
from mechanisms.privacy.two_bins import two_bins_delta
from mechanisms.randomness import SeededRandom
from pipelines.evaluate.systems.augmented import AUGMENTED, Augmented, found

N = 20_000


def of(name: str, epsilon: float = 1.0) -> Augmented:
    design = found(Target("shuffle", epsilon, 1e-6, N, FrequencyTask(10)), name)
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
def test_counters_keep_their_target_and_waste_little(epsilon: float) -> None:
    law = of("counters", epsilon).bin_law(N)
    assert two_bins_delta(law, law, epsilon)[1] <= 1e-6
    assert two_bins_delta(law, law, epsilon * 0.97)[0] > 1e-6


@pytest.mark.parametrize("name", AUGMENTED)
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


@pytest.mark.parametrize("name", AUGMENTED)
def test_a_liar_counts_once(name: str) -> None:
    mechanism, targets = of(name), np.array([3])
    assert mechanism.influence * mechanism.kept == 1
    forged = mechanism.forged(targets, 1000, SeededRandom(2))
    # Binomial: 6.5 standard deviations are 104 at the most.
    assert abs(forged[3] - 1000 * mechanism.kept) <= 104 * math.sqrt(1 - mechanism.kept)
    assert forged.sum() == forged[3]
