"""Training runs on common chance have the law of the shipped clients' runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hushbeam.studies.populations.tables import read_examples
from hushbeam.studies.systems.common_chance import CommonRun, CommonSteps, Quantiles
from hushbeam.studies.systems.gradients import MECHANISMS
from mechanisms import catalog
from mechanisms.learning.objectives import SquaredError
from mechanisms.papers.learning.schedule import StepSchedule
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_optimal

FALSE_ALARM = 1e-10


@pytest.mark.parametrize("name", ["duchi", "pm", "hm", "optimal"])
@pytest.mark.parametrize("value", [0.0, 0.37, -1.0, 1.0])
def test_reports_follow_the_channel(name, value) -> None:
    """100,000 reports: a channel 30 % off would be seen, and a right one never refused."""
    mechanism = catalog.build(name, epsilon=1.0, cells=16)
    n, rng = 100_000, SeededRandom(3)
    coins, uniforms = ((rng.words(n) >> np.uint64(11)).astype(float) * 2.0**-53 for _ in range(2))
    reports = Quantiles(mechanism).reports(np.full(n, value), coins, uniforms)
    position = (value + 1) / 2 * 16
    low = min(int(position), 15)
    upper = position - low
    law = (1 - upper) * mechanism.channel(low) + upper * mechanism.channel(low + 1)
    decoded, place = np.unique(mechanism.decoded, return_inverse=True)
    expected = np.bincount(place, law) * n
    seen = np.bincount(np.searchsorted(decoded, reports), minlength=decoded.size)
    assert seen.sum() == n
    possible = expected > 0
    assert not seen[~possible].any()
    statistic = float(np.sum((seen - expected)[possible] ** 2 / expected[possible]))
    assert stats.chi2.sf(statistic, possible.sum() - 1) > FALSE_ALARM
    # The same test refuses shares that are 30 % off.
    off = expected * np.where(np.arange(expected.size) % 2, 1.3, 0.7)
    off *= n / off.sum()
    statistic = float(np.sum((seen - off)[possible] ** 2 / off[possible]))
    assert stats.chi2.sf(statistic, possible.sum() - 1) < FALSE_ALARM


@pytest.mark.parametrize("mechanism", [multi_optimal(1.0, 4), multi_optimal(6.0, 4)], ids=str)
def test_mean_gradients_are_unbiased_and_as_noisy_as_predicted(mechanism) -> None:
    objective = SquaredError(4)
    steps = CommonSteps(objective, mechanism, StepSchedule(1, 1.0))
    run = CommonRun(steps, Quantiles(mechanism.mechanism))
    rows = np.tile(np.array([0.5, -0.3, 0.1, 1.0], np.float32), (2000, 1))
    targets = np.full(2000, 0.1, np.float32)
    # One step of length 1 from 0: the weights are the estimated gradient, turned round.
    estimates = np.array([run.train(rows, targets, seed * 10).weights for seed in range(200)])
    exact = -objective.gradients(np.zeros(4), rows[:1], targets[:1])[0]
    noise = np.array([steps.predicted_noise(2000, float(g)) for g in exact])
    apart = (estimates - exact) / noise
    assert np.abs(apart.mean(axis=0)).max() < 6.5 / math.sqrt(200)
    # 800 normal deviations: their mean square has a relative error of 0.05.
    assert np.mean(apart**2) == pytest.approx(1, abs=6.5 * 0.05)


@pytest.mark.verify
def test_chance_is_common_to_mechanisms() -> None:
    """Differences between runs are much smaller than runs with chance of their own would have."""
    (census,) = read_examples(["census:2000"])
    objective = SquaredError(census.d)

    def weights(name: str, seed: int) -> np.ndarray:
        mechanism = MECHANISMS[name](1.0, census.d)
        steps = CommonSteps(objective, mechanism, StepSchedule(10, 0.2))
        run = CommonRun(steps, Quantiles(mechanism.mechanism))
        return run.train(census.rows, census.targets, seed).average

    common = [weights("duchi", seed) - weights("hm", seed) for seed in range(0, 200, 20)]
    apart = [weights("duchi", seed) - weights("hm", seed + 1000) for seed in range(0, 200, 20)]
    assert np.mean(np.square(common)) < 0.4 * np.mean(np.square(apart))
    np.testing.assert_array_equal(weights("hm", 7), weights("hm", 7))
