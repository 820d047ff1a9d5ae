"""The parameter server and the order of turns, and what participants pick to upload."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mechanisms.papers.learning.exchange import PROTOCOLS, ParameterServer, portion, turns
from mechanisms.papers.learning.private_selection import PrivateSelection, RandomPlaces, to_grid
from mechanisms.papers.learning.selection import LargestValues, RandomAbove
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import FALSE_ALARM

# ---- turns ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_everybody_fetches_and_brings_by_turns(protocol):
    order = list(turns(protocol, 7, 5, SeededRandom(1), at_once=3))
    assert len(order) == 2 * 7 * 5
    for participant in range(7):
        own = [turn.uploads for turn in order if turn.participant == participant]
        assert own == [False, True] * 5


@pytest.mark.parametrize("protocol", ["round-robin", "random-order", "alone"])
def test_in_rounds_nobody_comes_between(protocol):
    order = list(turns(protocol, 7, 5, SeededRandom(1)))
    pairs = zip(order[::2], order[1::2], strict=True)
    assert all(fetch.participant == bring.participant for fetch, bring in pairs)
    rounds = [tuple(t.participant for t in order[i : i + 14 : 2]) for i in range(0, 70, 14)]
    assert all(sorted(each) == list(range(7)) for each in rounds)
    assert len(set(rounds)) == (5 if protocol == "random-order" else 1)


@pytest.mark.parametrize("at_once", [1, 4, 20])
def test_asynchronous_participants_overlap(at_once):
    learning, most, stale = 0, 0, []
    begun: dict[int, int] = {}
    brought = 0
    for turn in turns("asynchronous", 10, 20, SeededRandom(2), at_once):
        learning += -1 if turn.uploads else 1
        most = max(most, learning)
        if turn.uploads:
            stale.append(brought - begun[turn.participant])
            brought += 1
        else:
            begun[turn.participant] = brought
    assert most == min(at_once, 10)
    # Others bring their changes meanwhile: on average as many as learn at the same time.
    assert np.mean(stale) == pytest.approx(most - 1, rel=0.3)


@pytest.mark.parametrize(
    "arguments", [("fastest", 2, 2), ("alone", 0, 2), ("alone", 2, 0), ("alone", 2, 1.5)]
)
def test_bad_turns_are_refused(arguments):
    with pytest.raises(ValueError, match=r"protocol|participants|epochs"):
        list(turns(*arguments, SeededRandom(1)))
    with pytest.raises(ValueError, match="at_once"):
        list(turns("asynchronous", 2, 2, SeededRandom(1), at_once=0))


# ---- the server ----------------------------------------------------------------------------


def test_uploads_add_up():
    server = ParameterServer(np.arange(4.0))
    server.upload(np.array([3, 0]), np.array([0.5, -1.0]))
    server.upload(np.array([3]), np.array([0.25]))
    assert server.weights.tolist() == [-1, 1, 2, 3.75]


def test_recent_updates_count_for_more():
    rng = SeededRandom(3)
    server = ParameterServer(np.zeros(10), decay=0.5)
    for _ in range(3):
        server.upload(np.array([1, 2]), np.ones(2))  # 1.75 each by then, then 0.875 and 0.4375
    server.upload(np.array([2, 7]), np.ones(2))
    assert set(server.most_updated(0.3, rng).tolist()) == {1, 2, 7}
    assert set(server.most_updated(0.2, rng).tolist()) == {2, 7}
    # What nobody changed, ever or since the participant came last, is not fetched.
    assert sorted(server.most_updated(1.0, rng).tolist()) == [1, 2, 7]
    assert sorted(server.most_updated(1.0, rng, since=3).tolist()) == [2, 7]
    assert not server.most_updated(1.0, rng, since=4).size
    # The counters never overflow, and the newest update still wins.
    for k in range(2000):
        server.upload(np.array([k % 5]), np.ones(1))
    assert server.most_updated(0.1, rng).tolist() == [4]


def test_ties_are_broken_by_chance():
    rng, server = SeededRandom(4), ParameterServer(np.zeros(9))
    server.upload(np.arange(4), np.ones(4))
    # 100 draws miss one of 4 with probability 4 (3/4)^100 < 2e-12.
    assert {int(server.most_updated(0.1, rng)[0]) for _ in range(100)} == {0, 1, 2, 3}


@pytest.mark.parametrize("share", [0.0, 1.5, math.nan, -0.1])
def test_bad_shares_are_refused(share):
    with pytest.raises(ValueError, match="share"):
        portion(share, 10)
    with pytest.raises(ValueError, match="share"):
        LargestValues(share)
    with pytest.raises(ValueError, match="decay"):
        ParameterServer(np.zeros(2), decay=share)


# ---- what is picked ------------------------------------------------------------------------

CHANGE = np.array([0.5, -4.0, 0.0, 3.0, -1.0, 2.0, 0.1, -0.2])


def test_the_largest_are_picked_and_clipped():
    chosen = LargestValues(3 / 8, bound=2.5).choose(CHANGE, SeededRandom(1))
    assert dict(zip(chosen.places.tolist(), chosen.values.tolist(), strict=True)) == {
        1: -2.5,
        3: 2.5,
        5: 2.0,
    }
    assert LargestValues(0.5).guarantee(8).model == "none"
    assert LargestValues(0.5).after(8, 10, 1e-5)[1].epsilon == math.inf


def test_any_above_the_threshold_may_be_picked_and_no_other():
    rng, rule = SeededRandom(2), RandomAbove(0.25, bound=5.0, threshold=0.9)
    seen = [tuple(sorted(rule.choose(CHANGE, rng).places.tolist())) for _ in range(200)]
    # 6 pairs of {1, 3, 4, 5}: one is missed with probability 6 (5/6)^200 < 1e-15.
    assert set(seen) == set(itertools.combinations([1, 3, 4, 5], 2))
    assert RandomAbove(1.0, threshold=3.5).choose(CHANGE, rng).places.tolist() == [1]
    assert not RandomAbove(1.0, threshold=9.0).choose(CHANGE, rng).places.size


def test_rounding_to_the_grid_is_unbiased_and_bounded():
    n, x = 100_000, 0.3711
    steps = to_grid(np.full(n, x), 1.0, 4, SeededRandom(5))
    assert set(steps.tolist()) == {1, 2}
    # Hoeffding: the mean of n numbers in an interval of length 1.
    assert abs(steps.mean() - 4 * x) < math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))
    extremes = to_grid(np.array([7.0, -7.0, 1.0, -1.0, 0.0]), 1.0, 4, SeededRandom(5))
    assert extremes.tolist() == [4, -4, 4, -4, 0]


@pytest.mark.parametrize("rule", [PrivateSelection, RandomPlaces])
def test_without_a_need_for_privacy_noise_vanishes(rule):
    change = np.tile(CHANGE, 50)
    chosen = rule(0.05, 2.0, epsilon=20 * 500.0).choose(change, SeededRandom(6))
    assert chosen.places.size == len(set(chosen.places.tolist())) == 20
    errors = np.abs(chosen.values - np.clip(change, -2, 2)[chosen.places])
    assert errors.max() < 2.0 / 8


def test_the_sparse_vector_prefers_large_changes_and_random_places_do_not():
    change = np.where(np.arange(400) < 20, 1.0, 0.0)
    picked = [
        rule.choose(change, SeededRandom(7)).places
        for rule in (
            PrivateSelection(0.05, 1.0, epsilon=20 * 80.0, threshold=0.5),
            RandomPlaces(0.05, 1.0, epsilon=20 * 80.0),
        )
    ]
    assert [np.count_nonzero(places < 20) > 15 for places in picked] == [True, False]


def test_noise_is_clipped_and_has_the_promised_size():
    rule = RandomPlaces(1.0, 1.0, epsilon=1000 * 8.0, levels=64)
    values = rule.choose(np.zeros(1000), SeededRandom(8)).values
    assert np.abs(values).max() <= 1.0
    # Laplace noise of scale 2/8: half of it is smaller than ln(2)/4. Hoeffding, at 1e-9.
    share = np.mean(np.abs(values) < math.log(2) / 4)
    assert abs(share - 0.5) < math.sqrt(math.log(2 / FALSE_ALARM) / 2000) + 0.02  # of the grid


@pytest.mark.parametrize("rule", [PrivateSelection, RandomPlaces])
def test_guarantees_are_those_of_an_upload_and_of_a_run(rule):
    selection = rule(0.1, 0.5, epsilon=20.0)
    one = selection.guarantee(1000)
    assert (one.model, one.epsilon, one.unit) == ("central", 20.0, "record")
    assert 0 < one.delta < 1e-9
    total, accountant = selection.after(1000, 5, 1e-5)
    assert total.epsilon == pytest.approx(100.0)
    assert accountant.epsilon < 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"bound": math.inf}, "bound"),
        ({"bound": 0.0}, "bound"),
        ({"bound": math.nan}, "bound"),
        ({"levels": 0}, "levels"),
        ({"levels": 2.5}, "levels"),
        ({"threshold": 1.0}, "threshold"),
        ({"threshold": -0.1}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
    ],
)
def test_bad_rules_are_refused(change, message):
    good = {"share": 0.1, "bound": 1.0, "epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        PrivateSelection(**(good | change))
    if "threshold" not in change:
        with pytest.raises(ValueError, match=message):
            RandomPlaces(**(good | change))
