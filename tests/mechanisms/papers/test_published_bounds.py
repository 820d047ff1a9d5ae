"""The papers' closed forms: as printed, and only in their range."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import support_variance
from mechanisms.papers.published_bounds import (
    aue_noise,
    puredump_messages,
    theorem_1_budget,
    theorem_1_epsilon,
    theorem_1_hash_range,
    theorem_1_local_epsilon,
)
from mechanisms.privacy.amplification import shuffled_epsilon

VECTORS = json.loads(Path(__file__).parents[2].joinpath("data/vectors.json").read_text())


@pytest.mark.parametrize("case", VECTORS["hpsdp_theorem1"], ids=lambda c: str(c["params"]))
def test_theorem_1_vectors(case):
    n, delta, epsilon = (case["params"][key] for key in ("n", "delta", "eps_c"))
    constants = case["constants"]
    assert theorem_1_budget(epsilon, n, delta) == pytest.approx(constants["m"], rel=1e-9)
    g = theorem_1_hash_range(epsilon, n, delta)
    assert g == constants["g"]
    local = theorem_1_local_epsilon(epsilon, n, delta, g)
    assert local == pytest.approx(constants["eps_local"], rel=1e-9)
    assert theorem_1_epsilon(local, g, n, delta) == pytest.approx(case["forward_eps_c"], rel=1e-9)
    assert theorem_1_epsilon(local, g, n, delta) <= epsilon
    response = LinearHash(local, g, g)
    assert response.keep == pytest.approx(constants["p"], rel=1e-9)
    assert response.other == pytest.approx(constants["q"], rel=1e-9)
    assert g * response.other == pytest.approx(constants["gamma"], rel=1e-9)
    for frequency, variance in case["variance_of_f_hat"].items():
        ours = support_variance(float(frequency), n, response.keep, 1 / g)
        assert float(ours) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "domain_size", "truth"), [(0.5, 247, 0.122), (0.1, 10_000, 0.0192)]
)
def test_theorem_1_is_four_to_five_times_loose(epsilon, domain_size, truth):
    n, delta = 600_000, 1e-6
    g = theorem_1_hash_range(epsilon, n, delta)
    local = theorem_1_local_epsilon(epsilon, n, delta, g)
    lower, upper = shuffled_epsilon(LinearHash(local, domain_size, g), n, delta)
    assert lower <= upper < epsilon / 4
    assert upper == pytest.approx(truth, rel=0.02)


def test_outside_its_range_theorem_1_refuses():
    with pytest.raises(ValueError, match="epsilon <= 1"):
        theorem_1_epsilon(9.0, 10, 1000, 1e-6)
    with pytest.raises(ValueError, match="blanket condition"):
        theorem_1_epsilon(3.0, 2, 1000, 0.9)
    assert theorem_1_local_epsilon(0.1, 1000, 1e-6, 100) is None
    assert theorem_1_budget(5.0, 1000, 1e-6) == theorem_1_budget(1.0, 1000, 1e-6)


@pytest.mark.parametrize("delta", [0, 1, -1, math.nan])
def test_delta_must_mean_something(delta):
    with pytest.raises(ValueError, match="delta"):
        theorem_1_epsilon(1.0, 10, 1000, delta)
    with pytest.raises(ValueError, match="reports"):
        theorem_1_epsilon(1.0, 10, 1, 1e-6)


@pytest.mark.parametrize(
    ("users", "each", "d", "delta", "epsilon"),
    [(10_000, 10, 50, 1e-6, 0.31868733860300663), (1000, 100, 100, 1e-4, 0.37235764022996515)],
)
def test_puredump_vectors(users, each, d, delta, epsilon):
    assert abs(puredump_messages(epsilon, delta, d) - users * each) <= 1  # rounded up


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "noise"),
    [(0.5, 1e-6, 100_000, 0.12161443935267335), (1.0, 1e-9, 600_000, 0.007369853399355475)],
)
def test_aue_vectors(epsilon, delta, n, noise):
    assert aue_noise(epsilon, delta, n) == pytest.approx(noise, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 24_322), (2.1, 10**9)])
def test_aue_out_of_range(epsilon, n):
    with pytest.raises(ValueError, match="proven for"):
        aue_noise(epsilon, 1e-6, n)
