"""Privacy without sampling: every pair of inputs, every report, in exact rationals."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice, permutations
from typing import Any

import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.catalog import registrations
from mechanisms.channel import Kinds, Mechanism
from mechanisms.privacy.audit import audit, audit_batch
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from tests.mechanisms.contract.cases import ALONE, CENTRAL, TOGETHER, Case, first, over, stand_in
from tests.oracles.dummies import exact_batch_delta
from tests.oracles.mean import declared_divergence, worst_divergence

SHARES = (0, 0.1, 0.45, 0.8, 0.97, 1.2)  # of the claimed epsilon
SOUND = [case for case in ALONE if case.facts.claims_hold]


def surplus(mechanism: Mechanism, epsilon: float) -> Fraction:
    """delta at an epsilon; the multiplier is a rational below e^epsilon."""
    return worst_divergence(mechanism, exponential_bounds(epsilon)[0])


@pytest.mark.parametrize("name", registrations())
def test_every_mechanism_is_enumerated_or_says_what_stands_in(name):
    facts = registrations()[name]
    cases = [case for case in ALONE + TOGETHER + CENTRAL if case.name == name]
    assert cases, f"{name}: small parameters are missing, at which its reports can be listed"
    if facts.stands_in is not None:
        assert callable(stand_in(facts))
    broken = [case for case in cases if case.mechanism.guarantee.model == "none"]
    assert bool(broken) != facts.claims_hold


@over(ALONE)
def test_privacy_by_enumeration(case):
    """A claim holds for every pair of inputs, unless the mechanism says that it does not."""
    mechanism = case.mechanism
    claim = mechanism.claimed
    assert claim.model == "local"
    assert claim.epsilon == case.parameters["epsilon"]
    assert claim.delta <= case.parameters.get("delta", 0.0)
    holds = surplus(mechanism, claim.epsilon) <= Fraction(claim.delta)
    assert holds == (mechanism.guarantee.model == "local")
    if holds:
        assert mechanism.guarantee.epsilon == claim.epsilon
        assert surplus(mechanism, claim.epsilon) <= Fraction(mechanism.guarantee.delta)
    assert audit(mechanism).holds == holds


@over(TOGETHER)
def test_batch_privacy_by_enumeration(case):
    """The claim holds with the dummies of those users alone on whom it counts."""
    mechanism, claim = case.mechanism, case.mechanism.claimed
    assert claim.model == "shuffle"
    assert claim.epsilon == case.parameters["epsilon"]
    assert claim.delta == case.parameters["delta"]
    assert mechanism.n == case.parameters["n"]
    truth = exact_delta(case, mechanism.honest(mechanism.n), claim.epsilon)
    assert truth <= claim.delta * (1 + 1e-12)
    assert audit_batch(mechanism, mechanism.n).holds


@over(CENTRAL)
def test_privacy_of_a_release_by_enumeration(case):
    claim = case.mechanism.guarantee
    assert claim.model == "central"
    assert claim.epsilon == case.parameters["epsilon"]
    assert case.listed.delta(1, claim.epsilon) <= Fraction(claim.delta) < Fraction(1e-12)


def built(case: Case) -> tuple[Any, str]:
    """A mechanism, or what it says against its parameters."""
    try:
        return case.mechanism, ""
    except ValueError as refusal:
        return None, str(refusal)


@pytest.mark.parametrize("epsilon", [1e-30, 300.0])
@over(first(SOUND))
def test_an_epsilon_beyond_64_bits_is_met_or_refused(case, epsilon):
    mechanism, refusal = built(case.at(epsilon=epsilon))
    assert mechanism is not None or "epsilon" in refusal
    if mechanism is not None:
        assert surplus(mechanism, epsilon) <= Fraction(mechanism.guarantee.delta)


def exact_delta(case, users: int, epsilon: float) -> float:
    """The largest divergence of two neighbouring batches of so many users."""
    if case.facts.stands_in is not None:
        return case.listed.delta(users, epsilon)
    return exact_batch_delta(case.mechanism, users, epsilon)


@over([case for case in SOUND if not case.facts.seeded and "delta" not in case.parameters])
def test_pure_privacy_is_not_wasted(case):
    """The worst ratio is within a part in a million of the claim: accuracy is not given away."""
    epsilon = case.parameters["epsilon"]
    assert epsilon * (1 - 1e-6) < tight_epsilon(case.mechanism) <= epsilon


@over([case for case in SOUND if case.facts.searched and "delta" in case.parameters])
def test_delta_is_not_wasted(case):
    spent = tight_delta(case.mechanism, case.parameters["epsilon"])
    assert case.parameters["delta"] * (1 - 1e-3) < spent <= case.parameters["delta"]


@over(ALONE)
def test_declared_pairs_dominate_all_pairs(case):
    """At every epsilon, not only the claimed one: no pair is told apart better."""
    for share in SHARES:
        multiplier, _ = exponential_bounds(case.parameters["epsilon"] * share)
        declared = declared_divergence(case.mechanism, multiplier)
        assert worst_divergence(case.mechanism, multiplier) == declared


def ratios(kinds: Kinds, denominators: tuple[int, int]) -> dict[Fraction | None, Fraction]:
    """How much of the second law lies at each likelihood ratio; None: of the first, at infinity.

    Reports of one ratio may be put together; that changes no divergence.
    """
    first, second = denominators
    law: dict[Fraction | None, Fraction] = {}
    for (a, b), times in kinds.items():
        if a or b:
            ratio = Fraction(int(a) * second, int(b) * first) if b else None
            part = Fraction(int(b) * times, second) if b else Fraction(int(a) * times, first)
            law[ratio] = law.get(ratio, Fraction(0)) + part
    return law


@over(ALONE)
def test_kinds_in_closed_form_are_those_of_the_table(case):
    mechanism = case.mechanism
    for one, other in islice(permutations(range(mechanism.inputs), 2), 0, 140, 7):
        stated, listed = mechanism.kinds(one, other), Mechanism.kinds(mechanism, one, other)
        assert ratios(*stated) == ratios(*listed)
