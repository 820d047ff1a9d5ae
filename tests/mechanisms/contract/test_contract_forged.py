"""Simulated liars, for every mechanism that estimates frequencies."""

from __future__ import annotations

import numpy as np

from hushbeam.studies.systems.recovery import ldp_recover
from mechanisms.randomness import SeededRandom
from tests.mechanisms.contract.cases import ALONE, CENTRAL, TOGETHER, over
from tests.mechanisms.contract.test_contract_estimates import decoded

HISTOGRAMS = [case for case in ALONE + TOGETHER if case.facts.task == "frequency"]
LISTED = [case for case in HISTOGRAMS if case.facts.stands_in is None]
TARGETS = np.array([0, 1])
LIARS = 1000


@over(LISTED)
def test_forged_reports_gain_as_much_as_any_reports_could(case):
    """All targets together; reports that are listed are all that a client may send."""
    mechanism = case.mechanism
    counts = mechanism.forged(TARGETS, LIARS, SeededRandom(1))
    gained = mechanism.estimate(counts, LIARS)[TARGETS].sum()
    best = decoded(mechanism)[:, TARGETS].sum(axis=1).max()
    # Bloom filters overlap in some cohorts, which are drawn evenly.
    least = 0.5 if "bits" in case.parameters else 1 - 1e-9
    assert least * best <= gained <= best * (1 + 1e-9)


@over([case for case in HISTOGRAMS if not case.facts.several])
def test_liars_are_as_many_as_they_are(case):
    for attack in (
        case.mechanism.forged(TARGETS, LIARS, SeededRandom(2)),
        case.mechanism.scattered(LIARS, SeededRandom(3)),
    ):
        assert attack.shape == (case.mechanism.codes,)
        assert attack.sum() == LIARS


@over(HISTOGRAMS)
def test_one_target_gains_no_more_than_the_influence_of_the_liars(case):
    mechanism, d = case.mechanism, case.mechanism.domain_size
    counts = mechanism.forged(np.array([0]), LIARS, SeededRandom(4))
    honest = mechanism.simulate(np.full(d, 9 * LIARS // d), SeededRandom(5))
    n = LIARS + 9 * LIARS // d * d
    moved = mechanism.estimate(honest + counts, n)[0] - mechanism.estimate(
        honest + mechanism.simulate(np.eye(d, dtype=np.int64)[1] * LIARS, SeededRandom(6)), n
    )[0]  # fmt: skip
    assert moved <= mechanism.influence * LIARS / n * (1 + 1e-9)


@over(CENTRAL)
def test_who_is_counted_as_it_is_can_only_state_another_value(case):
    mechanism = case.mechanism
    assert mechanism.forged(TARGETS, LIARS, SeededRandom(7))[TARGETS].sum() == LIARS
    assert mechanism.influence == 1.0


@over([case for case in LISTED if case.name == "grr"])
def test_recovery_takes_off_a_sixth_and_stays_a_histogram(case):
    """Of k-ary response liars' estimates add up to 1, so what is left over adds up to 1."""
    d = case.mechanism.domain_size
    shares = np.arange(d, 0.0, -1) / np.arange(d + 1).sum()
    recovered = ldp_recover(case.mechanism, shares)
    np.testing.assert_allclose(recovered, np.maximum(1.2 * shares - 0.2 / d, 0), atol=1e-9)
