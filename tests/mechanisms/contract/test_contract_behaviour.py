"""How mechanisms behave: what adds up, what travels, and what is refused without being quoted."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from mechanisms.catalog import registrations
from mechanisms.randomness import SeededRandom
from tests.mechanisms.contract.cases import ALONE, CENTRAL, TOGETHER, first, over

CLIENTS = ALONE + TOGETHER
FIRST = first(CLIENTS + CENTRAL)
SECRET = 10**9


@over(CLIENTS)
def test_any_split_of_the_messages_counts_alike(case):
    mechanism = case.mechanism
    messages = SeededRandom(5).integers(mechanism.codes, 3000)
    whole = mechanism.count(messages)
    assert whole.dtype == np.int64
    assert whole.any()
    for pieces in (2, 7, 50):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    assert mechanism.count([]).sum() == 0


@over(CLIENTS + CENTRAL)
def test_travels_as_its_fields(case):
    mechanism = case.mechanism
    _ = mechanism.guarantee, mechanism.constants(), mechanism.codes  # fills caches
    parcel = pickle.dumps(mechanism)
    again = pickle.loads(parcel)
    assert len(parcel) < 700
    assert (again, hash(again)) == (mechanism, hash(mechanism))
    assert again.codes == mechanism.codes
    assert again.constants() == mechanism.constants()
    told = mechanism.constants().values()
    assert all(value is None or isinstance(value, int | float | str) for value in told)


NO_CELLS = {
    "negative": [-1],
    "too large": [SECRET],
    "float": np.array([0.5]),
    "text": np.array(["a"]),
    "matrix": np.array([[SECRET]]),
    "cube": np.array([[[0]]]),
    "nan": np.array([math.nan]),
}


@over(CLIENTS)
def test_cells_out_of_range_are_refused_without_being_quoted(case):
    for kind, cells in NO_CELLS.items():
        with pytest.raises(ValueError, match="cells") as refusal:
            case.mechanism.perturb(cells, SeededRandom(1))
        assert str(SECRET) not in str(refusal.value), kind


@over(CLIENTS)
def test_impossible_messages_are_refused_and_told_apart(case):
    mechanism = case.mechanism
    forged = np.array([0, mechanism.codes, 2**64 - 1], np.uint64)
    assert mechanism.valid(forged).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="2 of 3 messages"):
        mechanism.count(forged)
    for wrong in ([1.5], [-1], ["a"], [math.nan]):
        with pytest.raises(ValueError, match="messages"):
            mechanism.count(wrong)


@over(CLIENTS)
def test_nobody_is_no_estimate(case):
    with pytest.raises(ValueError, match=r"no report|n is missing"):
        case.mechanism.estimate(case.mechanism.count([]))


# ---- parameters ----------------------------------------------------------------------------------

WRONG = {
    "epsilon": [0, -1, math.nan, math.inf, -math.inf, "1", None],
    "delta": [-1e-9, 1, 2.0, math.nan, math.inf, "0.1", None],
    "honest_share": [0, -1, 1.1, math.nan],
}
SIZES = ("domain_size", "n", "cells", "dimension", "groups", "hash_range")
WRONG |= {key: [10.5, 10.0, "10", 0, -3, math.nan] for key in SIZES}


@over(FIRST)
def test_parameters_that_mean_nothing_are_refused(case):
    for key in WRONG.keys() & case.parameters.keys():
        for wrong in WRONG[key]:
            with pytest.raises(ValueError, match=key):
                case.at(**{key: wrong}).mechanism  # noqa: B018


@over(FIRST)
def test_unknown_and_missing_parameters_list_what_is_taken(case):
    with pytest.raises(ValueError, match=r"'unheard_of'; it takes: epsilon"):
        case.facts.build(**case.parameters, unheard_of=1)
    with pytest.raises(ValueError, match=r"'epsilon'; it takes: epsilon"):
        case.facts.build()


def test_every_registration_is_taken():
    assert {case.name for case in FIRST} == set(registrations())
