"""Multi-RPHM: its subspace, its error, and why nobody should want it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.papers.rphm import MultiRphm, multi_rphm, orthonormal
from mechanisms.postprocess.shrinkage import to_prior
from mechanisms.privacy.audit import audit
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_hm
from tests.oracles import mean as oracles_mean
from tests.oracles import vector as oracle

VECTORS = oracles_mean.vectors("rphm_mse")
MEANS, SQUARES = VECTORS[0]["expected_mse"]["zero_estimator"], VECTORS[0]["constants"]["ex2"]


@pytest.mark.parametrize("entry", VECTORS, ids=lambda e: str(e["params"]["d"]))
def test_reference_errors(entry):
    epsilon, d, q, n = (entry["params"][key] for key in ("eps", "d", "q", "n"))
    mechanism, expected = MultiRphm(epsilon, d, q), entry["expected_mse"]
    np.testing.assert_allclose(mechanism.error(MEANS, SQUARES, n), expected["rphm"], rtol=2e-5)
    np.testing.assert_allclose(
        mechanism.error(MEANS, SQUARES, 10**15), expected["rp_only"] + 0.3 * 1.30778419e-4
    )
    whole = float(multi_hm(epsilon, d).variance(math.sqrt(SQUARES))) / n
    np.testing.assert_allclose(whole, expected["multi_hm"], rtol=1e-4)
    # The reference leaves out a term of one part in d (V + 1).
    crossover = mechanism.crossover(MEANS, SQUARES)
    np.testing.assert_allclose(crossover, entry["crossover_n"], rtol=1e-3)


def errors(mechanism, rows, runs: int, rng, shrink=None) -> float:
    """The mean squared error of some batches; a mechanism with a seed gets a new one for each."""
    found = []
    for run in range(runs):
        if isinstance(mechanism, MultiRphm):
            mechanism = MultiRphm(mechanism.epsilon, mechanism.dimension, mechanism.projected, run)
        counts = mechanism.count(mechanism.report(rows, rng))
        estimate = mechanism.estimate(counts)
        if shrink:
            estimate = shrink(estimate, mechanism.estimated_variance(counts)).estimate
        found.append(np.mean((estimate - rows.mean(axis=0)) ** 2))
    return float(np.mean(found))


def test_the_papers_setting_and_what_dominates_it():
    """As at d = 400, n = 10^4: errors depend on d / n. 40 batches: deviations of 2 to 3 %."""
    rows, rng = oracle.source_rows(2500, 100, SeededRandom(5)), SeededRandom(6)
    plain = errors(multi_hm(1.0, 100), rows, 40, rng)
    projected = errors(multi_rphm(1.0, 100), rows, 40, rng)
    shrunk = errors(multi_hm(1.0, 100), rows, 40, rng, to_prior)
    assert 0.155 < plain < 0.205
    assert 0.082 < projected < 0.106
    assert 0.060 < shrunk < 0.077


def test_the_error_is_the_predicted_one_without_any_users():
    """What lies outside of the subspace, over 200 seeds."""
    row = oracle.source_rows(1, 50, SeededRandom(2))[0]
    lost = [np.sum((row - (m := orthonormal(50, 15, s)) @ (m.T @ row)) ** 2) for s in range(200)]
    np.testing.assert_allclose(np.mean(lost) / np.sum(row**2), 0.7, atol=6 * 0.1 / math.sqrt(200))


def test_the_subspace_is_public_and_uniform():
    matrix = orthonormal(30, 12, seed=5)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(12), atol=1e-13)
    np.testing.assert_array_equal(matrix, orthonormal.__wrapped__(30, 12, 5))
    assert np.abs(matrix - orthonormal(30, 12, 6)).max() > 0.1
    # Also the bases are uniform: no entry has a sign of its own.
    total = sum(orthonormal.__wrapped__(6, 3, seed) for seed in range(600))
    assert np.abs(total).max() < 6.5 * math.sqrt(600 / 6)
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1.0


def test_estimates_are_projections_and_clients_cut_off():
    mechanism = MultiRphm(1.0, 6, projected=3, seed=2)
    corner = np.where(mechanism.matrix[:, 0] < 0, -1.0, 1.0)
    rows = np.array([corner, [0.1, -0.2, 0.3, 0.0, 0.0, -0.1]])
    inside = mechanism.project(rows)
    assert corner @ mechanism.matrix[:, 0] > 1
    assert inside[0, 0] == 1  # a corner is longer than the subspace's own cube is wide
    np.testing.assert_allclose(inside[1], mechanism.matrix.T @ rows[1], atol=1e-15)
    counts = mechanism.count(mechanism.report(np.tile(rows, (200, 1)), SeededRandom(1)))
    within = mechanism.inner.estimate(counts)
    np.testing.assert_allclose(mechanism.estimate(counts), mechanism.matrix @ within)
    assert audit(MultiRphm(1.0, 6, projected=2, cells=2)).holds


def test_only_what_is_sent_is_projected():
    """`report` draws the same coordinates and rounds the same numbers as the long way round."""
    mechanism = MultiRphm(7.0, 12, projected=5, seed=3)
    rows = oracle.source_rows(300, 12, SeededRandom(1))
    rng = SeededRandom(2)
    chosen = mechanism.inner.choose(300, rng)
    values = np.take_along_axis(mechanism.project(rows), chosen, axis=1)
    sent = mechanism.inner.send(chosen, values, rng)
    np.testing.assert_array_equal(mechanism.report(rows, SeededRandom(2)), sent)
    assert mechanism.encode(rows, rng).shape == (300, 5)
    assert mechanism.perturb(mechanism.encode(rows, rng), rng).size == 300 * mechanism.messages


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"projected": 0}, "projected must lie in 1 .. 10"),
        ({"projected": 11}, "projected must lie in"),
        ({"projected": 2.5}, "projected must be an integer"),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"cells": 0}, "cells"),
        ({"dimension": 100_000, "projected": 30_000}, "projected must be at most 167"),
    ],
)
def test_what_means_nothing_is_refused(parameters, match):
    given = {"epsilon": 1.0, "dimension": 10, "projected": 3} | parameters
    with pytest.raises(ValueError, match=match):
        MultiRphm(**given)


def test_the_whole_space_loses_nothing():
    mechanism = MultiRphm(1.0, 8, projected=8)
    assert mechanism.crossover(MEANS, SQUARES) == 0
    rows = np.full((20_000, 8), 0.25)
    estimate = mechanism.estimate(mechanism.count(mechanism.report(rows, SeededRandom(1))))
    assert np.abs(estimate - 0.25).max() < 6.5 * math.sqrt(mechanism.worst_variance / 20_000)
