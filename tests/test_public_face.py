"""What programs outside the repository hold on to: names and figures that may not change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import build, names
from mechanisms.postprocess.expectation_maximisation import maximise
from mechanisms.postprocess.simplex import project
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SecureRandom, SeededRandom

E = math.e
ROWS, FREQUENCY = 4000, 0.25


def shares(reports: Any, rng: Any, **said: int) -> Any:
    cells = np.repeat(np.arange(4, dtype=np.uint32), ROWS // 4)
    return reports.estimate(reports.count(reports.perturb(cells, rng)), **said)


@pytest.mark.parametrize("name", ["grr", "olh", "srr", "hadamard", "sue", "oue", "subset"])
def test_frequencies_are_built_perturbed_and_estimated(name: str) -> None:
    reports = build(name, epsilon=1.0, domain_size=4)
    bound = 7 * np.sqrt(reports.variance(FREQUENCY, ROWS))  # misses in 3e-12 of the runs, a value
    assert np.abs(shares(reports, SeededRandom(1), n=ROWS) - FREQUENCY).max() < bound
    assert shares(reports, SecureRandom(), n=ROWS).shape == (4,)
    made = reports.guarantee
    assert (made.model, made.epsilon, made.delta) == ("local", 1.0, 0.0)
    assert made.how
    assert np.sum(reports.channel(0)) == pytest.approx(1)
    assert 0.99 < tight_epsilon(reports) <= 1 + 1e-12


@pytest.mark.parametrize("name", ["optimal", "hm", "pm", "nm", "duchi", "laplace"])
def test_means_are_encoded_perturbed_and_estimated(name: str) -> None:
    reports, rng = build(name, epsilon=1.0), SeededRandom(2)
    cells = reports.encode(np.full(ROWS, 0.5), rng)
    mean = reports.estimate(reports.count(reports.perturb(cells, rng)))
    assert abs(mean - 0.5) < 7 * np.sqrt(reports.variance(0.5) / ROWS)


def test_parameters_keep_their_names() -> None:
    assert build("olh", epsilon=1.0, domain_size=10, hash_range=4).guarantee.epsilon == 1
    assert build("optimal", epsilon=1.0, cells=8).guarantee.epsilon == 1
    assert build("gaussian_analytic", epsilon=1.0, delta=1e-6).guarantee.delta <= 1e-6
    assert build("multi_optimal", epsilon=1.0, dimension=3).guarantee.epsilon == 1
    assert {"grr", "optimal", "poisson", "harmony"} <= set(names())


def test_what_randomised_response_reveals() -> None:
    reports = build("grr", epsilon=1.0, domain_size=2)
    assert tight_epsilon(reports) == pytest.approx(1, rel=1e-12)
    assert tight_delta(reports, 0.0) == pytest.approx((E - 1) / (E + 1), rel=1e-12)
    low, high = shuffled_epsilon(reports, 10_000, 1e-6)
    assert 0 < low <= high < 0.1
    # Exact: bits flip with 1 / (1 + e); both ways round the same mechanism.
    least, most = shuffled_delta(reports, 10_000, high)
    assert 0 <= least <= most <= 1e-6 * (1 + 1e-9)


def test_estimates_are_made_distributions() -> None:
    assert project([0.9, 0.4, -0.1]).tolist() == pytest.approx([0.75, 0.25, 0])
    response = np.array([[0.75, 0.25], [0.25, 0.75]])
    assert maximise([600, 400], response, tolerance=1e-12) == pytest.approx([0.7, 0.3], abs=1e-4)
    assert maximise([600, 400], response, smooth=True).sum() == pytest.approx(1)
