"""Shuffled batches of two and three users by brute force: both ends of what is claimed of them."""

from __future__ import annotations

from itertools import product

from mechanisms.catalog import registrations
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from tests.mechanisms.contract.cases import ALONE, TOGETHER, Case, central, first, over
from tests.mechanisms.contract.test_contract_privacy import exact_delta
from tests.oracles.batches import users_within_reach, worst_deltas

LOSSES = (0.0, 0.4, 1.2)


def tiny(cases: list[Case]) -> list[Case]:
    """Every mechanism over two and over three values: as it is registered, if that has so few."""
    made: dict[str, Case] = {}
    for one in first([case for case in cases if case.facts.claims_hold]):
        own = [case for case in cases if case.name == one.name]
        for size in (2, 3):
            # The reports of rows over three values would be thousands.
            cells = 1 if "dimension" in one.parameters else size - 1
            few = {"domain_size": size, "cells": cells, "dimension": 2}
            same = (case for case in own if case.at(**few).parameters == case.parameters)
            case = next(same, one.at(**few))
            made[str(case)] = case
    return list(made.values())


def within(lower: float, truth: float, upper: float) -> bool:
    """Whether a bracket holds the truth, up to what adding doubles may lose."""
    return lower <= truth * (1 + 1e-9) + 1e-13 and truth <= upper * (1 + 1e-9) + 1e-13


def test_no_mechanism_is_left_out():
    """All that claim something of a batch, over two and over three values where they have some."""
    sizes: dict[str, set[int]] = {}
    for case in tiny(ALONE) + tiny(TOGETHER):
        sizes.setdefault(case.name, set()).add(case.parameters.get("domain_size", 0))
    facts = registrations()
    claiming = {name for name, one in facts.items() if one.claims_hold and not central(one)}
    assert set(sizes) == claiming
    valued = {name for name in claiming if "domain_size" in facts[name].small[0]}
    assert all(sizes[name] >= {2, 3} for name in valued), sizes


@over(tiny(ALONE))
def test_the_bracket_of_a_shuffled_batch_holds_the_truth(case):
    mechanism = case.mechanism
    for users in users_within_reach(mechanism):
        for epsilon, truth in zip(LOSSES, worst_deltas(mechanism, users, LOSSES), strict=True):
            lower, upper = shuffled_delta(mechanism, users, epsilon)
            assert within(lower, truth, upper), (users, epsilon)


@over(tiny(TOGETHER))
def test_the_bracket_of_a_batch_holds_what_is_lost_with_and_without_dropouts(case):
    """From below if all users add their dummies, from above if only the honest ones do."""
    mechanism = case.mechanism
    # Ten users' messages fill arrays of as many dimensions as there are values.
    larger = 10 if case.parameters.get("domain_size") == 2 and case.facts.stands_in is None else 0
    for n, epsilon in product({mechanism.n, max(mechanism.n, larger)}, LOSSES):
        lower, upper = mechanism.batch_delta(n, epsilon)
        assert within(lower, exact_delta(case, n, epsilon), 1.0), (n, epsilon)
        honest = exact_delta(case, mechanism.honest(n), epsilon)
        assert within(0.0, honest, upper), (n, epsilon)


@over(first(tiny(ALONE)) + tiny(TOGETHER))
def test_brackets_of_epsilon_are_those_of_delta(case):
    """At the upper end delta is met; below the lower end it is not known to be."""
    mechanism, n = case.mechanism, case.parameters.get("n", 3)
    lower, upper = shuffled_epsilon(mechanism, n, 0.01)
    assert 0 <= lower <= upper
    if upper < 100:
        assert shuffled_delta(mechanism, n, upper * (1 + 1e-9))[1] <= 0.01 * (1 + 1e-6)
    if lower > 0:
        assert shuffled_delta(mechanism, n, lower * (1 - 1e-9))[0] >= 0.01 * (1 - 1e-6)
