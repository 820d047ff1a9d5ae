"""Plans that meet a privacy target, and what they find in simulated populations."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from hushbeam.studies.systems.searches import quality, simulate
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters.discovery import FrequentStrings
from mechanisms.heavy_hitters.fitting import FittedSearch, fit
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from tests.oracles.statistics import zipf

DIGITS = PrefixCode(alphabet(["digits"]), 4)
LOCAL = Target("local", 4.0, 0.0, 50_000, FrequencyTask(2))
SHUFFLE = Target("shuffle", 1.0, 1e-6, 50_000, FrequencyTask(2), unit="user")


@pytest.fixture(scope="module")
def plans() -> dict[str, FittedSearch]:
    """Every kind of request, planned once."""
    return {
        "local": fit(LOCAL, DIGITS, Search(), 1),
        "shuffle": fit(SHUFFLE, DIGITS, Search(), 1),
        "capped": fit(replace(SHUFFLE, epsilon_local=2.0), DIGITS, Search(), 1),
        "set": fit(replace(SHUFFLE, epsilon=None, epsilon_local=2.0), DIGITS, Search(), 1),
        "treehist": fit(LOCAL, DIGITS, Search(), 1, "treehist"),
        "olh": fit(LOCAL, DIGITS, Search(), 1, oracle="olh"),
    }


@pytest.mark.parametrize("name", ["local", "treehist", "olh"])
def test_a_report_loses_no_more_than_asked(plans, name) -> None:
    plan = plans[name]
    assert plan.design.release == plan.design.local
    assert plan.design.local.epsilon == 4.0
    assert tight_epsilon(plan.protocol.levels) <= 4.0


@pytest.mark.parametrize("name", ["shuffle", "capped", "set"])
def test_a_shuffled_batch_loses_no_more_than_asked(plans, name) -> None:
    plan = plans[name]
    released = plan.design.release
    assert (released.model, released.delta, released.unit) == ("shuffle", 1e-6, "user")
    proven = shuffled_epsilon(plan.protocol.levels, 50_000, 1e-6)[1]
    assert released.epsilon == pytest.approx(proven, rel=1e-3)
    assert proven <= 1.0
    local = plan.design.local.epsilon
    assert local > 3 if name == "shuffle" else local <= 2


def test_without_an_epsilon_each_report_spends_epsilon_local(plans) -> None:
    assert plans["set"].design.local.epsilon == 2.0


def test_limits_are_ordered_as_the_theory_has_it(plans) -> None:
    limit = {name: plan.detection_limit for name, plan in plans.items()}
    assert limit["shuffle"] < limit["local"] < limit["treehist"]
    assert limit["local"] <= limit["olh"]
    assert limit["shuffle"] < limit["capped"]
    assert limit["treehist"] > 3 * limit["local"]


def test_the_plan_is_what_was_asked_for(plans) -> None:
    assert plans["treehist"].protocol.schedule.steps == (1,) * 4
    oracle = plans["treehist"].protocol.oracle
    assert isinstance(oracle, LinearHash)
    assert oracle.hash_range == 2
    assert plans["olh"].design.name == "olh"
    for plan in plans.values():
        assert plan.protocol.code == DIGITS
        assert plan.protocol.levels.codes <= 1 << 25
        assert plan.design.mechanism is plan.protocol.oracle
        assert len(pickle.dumps(plan.protocol)) < 1000
        assert pickle.loads(pickle.dumps(plan.protocol)) == plan.protocol


def test_the_beam_is_widened_where_many_strings_can_be_frequent() -> None:
    many = fit(replace(SHUFFLE, n=10**6, delta=1e-7), DIGITS, Search(), 1)
    assert many.search.beam > 256
    assert many.search.beam * many.detection_limit >= 0.5
    assert fit(LOCAL, DIGITS, Search(beam=512), 1).search.beam == 512


def test_a_batch_too_small_to_find_anything_is_planned_and_said_so() -> None:
    plan = fit(Target("local", 0.5, 0.0, 100, FrequencyTask(2)), DIGITS, Search(), 1)
    assert plan.detection_limit == math.inf


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"system": "trie"}, "pem, treehist"),
        ({"oracle": "magic"}, "unknown mechanism 'magic'"),
        ({"oracle": "oue"}, "one message"),
        ({"oracle": "shist"}, "hash its values itself"),
        ({"oracle": "laplace"}, "laplace does not serve the local model"),
        ({"target": Target("central", 1.0, 0.0, 100, FrequencyTask(2))}, "local or shuffle"),
        ({"code": PrefixCode("", 256), "oracle": "olh"}, "counters"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, match) -> None:
    asked = {"target": LOCAL, "code": DIGITS, "search": Search(), "seed": 1} | changes
    with pytest.raises(ValueError, match=match):
        fit(**asked)


def test_a_simulated_search_finds_the_head(plans) -> None:
    """Under either model, with the shares that the population has."""
    rng = SeededRandom(3)
    values = [str(number) for number in rng.choice(10_000, 3000).tolist()]
    holders = np.rint(50_000 * zipf(3000, 1.3)).astype(int)
    for name in ("local", "shuffle"):
        plan = plans[name]
        k = int(np.count_nonzero(holders > 1.2 * plan.detection_limit * holders.sum()))
        assert k >= 4
        found = simulate(plan, values, holders, SeededRandom(4))
        assert set(values[:k]) <= set(found.values)
        reached = quality(plan, found, values, holders, k)
        first = len(set(values[:k]) & set(found.values[:k]))  # near ties may change places
        assert reached == (first / k, 1, 0)
        assert reached.precision > 0.8
    assert simulate(plan, values, holders, SeededRandom(4)).values == found.values


def test_quality_compares_strings_as_they_were_cut(plans) -> None:
    def listed(*values: tuple[str, bool]) -> FrequentStrings:
        size = np.zeros(len(values))
        whole = np.array([each for _, each in values], np.bool_)
        return FrequentStrings(
            [value for value, _ in values], whole, *[size] * 7, 10, 10, np.zeros(2)
        )

    plan = plans["local"]
    values = ["1", "2", "34567", "34560", "x", "9"]
    holders = [5, 4, 3, 3, 90, 0]
    # The two long strings are one that six users hold; "x" cannot be reported, "9" nobody holds.
    best = listed(("3456", False), ("1", True), ("2", True))
    assert quality(plan, best, values, holders, 3) == (1, 1, 0)
    assert quality(plan, best, values, holders, 2) == (1, 1, 0)
    late = listed(("2", True), ("1", True), ("3456", False))
    assert quality(plan, late, values, holders, 2) == (0.5, 1, 0)
    assert quality(plan, listed(("1", True), ("3456", True)), values, holders, 2) == (0.5, 0.5, 1)
    assert quality(plan, listed(), values, holders, 2) == (1, 0, 0)
    assert quality(plan, listed(("9", True)), values, holders, 9) == (0, 0, 1)
