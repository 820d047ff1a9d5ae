"""Memoised clients: equal values, equal messages; over users, exactly the mechanism's channel."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.catalog import build
from mechanisms.channel import Guarantee
from mechanisms.memoised import MemoisedClient
from mechanisms.randomness import PermanentRandom
from tests.oracles.statistics import FALSE_ALARM, follows, sample_size, tilted
from tests.oracles.wire import DATA, PLAN

GOLDEN = json.loads((DATA / "memoised.json").read_text())
SMALL = {
    "grr": {"domain_size": 4},
    "olh": {"domain_size": 4},
    "nm": {"cells": 2},
    "duchi": {"cells": 4},
}
SECRET = bytes(range(32))


def secret(user: int) -> bytes:
    """The secret of one of many users."""
    return hashlib.sha256(b"user %d" % user).digest()


@functools.cache
def mechanism(name: str, **parameters):
    """A mechanism at epsilon 1; one object for all users, as its constants take time."""
    return build(name, epsilon=1.0, **parameters)


def client(name: str = "grr", user: int = 0, metric: int = 0, plan: bytes = PLAN, **parameters):
    return MemoisedClient(
        secret(user), plan, metric, mechanism(name, **(parameters or SMALL[name]))
    )


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["mechanism"])
def test_messages_never_change(case):
    """Whoever gets another message for an old value pays for it again: so no version may differ."""
    memo = MemoisedClient(
        bytes.fromhex(GOLDEN["secret"]),
        bytes.fromhex(GOLDEN["fingerprint"]),
        GOLDEN["metric"],
        build(case["mechanism"], **case["parameters"]),
    )
    assert memo.report(case["cells"]).tolist() == case["messages"]
    again = pickle.loads(pickle.dumps(memo))
    assert again.report(case["cells"]).tolist() == case["messages"]


@pytest.mark.verify
@pytest.mark.parametrize("name", SMALL)
def test_over_users_the_law_is_the_mechanisms(name):
    """One message of each of n users: n shows a law 30 % off, and a false alarm is below 1e-9."""
    channel = mechanism(name, **SMALL[name])
    law = channel.channel(1)
    n = sample_size(law, tilted(law))
    messages = [client(name, user).report([1])[0] for user in range(n)]
    counts = channel.count(np.array(messages))
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


@pytest.mark.verify
def test_messages_of_a_users_cells_are_independent():
    """Two cells of one user: their pairs of messages follow the product of the two laws."""
    channel = mechanism("grr", domain_size=3)
    law = np.outer(channel.channel(0), channel.channel(2)).ravel()
    n = sample_size(law, tilted(law))
    pairs = np.array([client(user=u, domain_size=3).report([0, 2]) for u in range(n)], np.int64)
    assert follows(np.bincount(pairs @ [3, 1], minlength=9), law)


@pytest.mark.parametrize("change", [{"metric": 1}, {"plan": bytes(16)}, {"user": 1}])
def test_users_plans_and_metrics_have_noise_of_their_own(change):
    """Of 512 cells of 2^20 hashed messages, ten agree by chance with probability below 1e-20."""
    cells = np.arange(512)
    wide = {"epsilon": 1.0, "domain_size": 1 << 20}
    one, other = (client("olh", **c, domain_size=wide["domain_size"]) for c in ({}, change))
    assert np.count_nonzero(one.report(cells) == other.report(cells)) < 10


@pytest.mark.parametrize(
    "other", [("olh", {"epsilon": 1.1}), ("olh", {"hash_range": 5}), ("srr", {}), ("pm", {})]
)
def test_mechanisms_have_noise_of_their_own_under_one_fingerprint(other):
    """Two laws that read the same coins would show more of a value than the sum of their losses."""
    name, constants = other
    shape = {} if name == "pm" else {"domain_size": 1 << 20}
    one = client("olh", domain_size=1 << 20)
    two = MemoisedClient(secret(0), PLAN, 0, build(name, **{"epsilon": 1.0, **shape, **constants}))
    streams = [PermanentRandom(each._key(b"", bytes(8))).words(64) for each in (one, two)]
    assert not np.intersect1d(*streams).size
    same = MemoisedClient(secret(0), PLAN, 0, build("olh", epsilon=1.0, domain_size=1 << 20))
    assert same.report(np.arange(9)).tolist() == one.report(np.arange(9)).tolist()


def test_repeats_are_copies_in_any_order_and_split():
    memo = client("olh", domain_size=1000)
    cells = np.array([7, 3, 7, 7, 999, 3])
    messages = memo.report(cells)
    assert messages.tolist() == [memo.report([cell])[0] for cell in cells]
    assert memo.report(cells[::-1]).tolist() == messages[::-1].tolist()
    assert memo.report(cells.astype(np.uint16)).tolist() == messages.tolist()
    assert memo.report([]).size == 0


@pytest.mark.parametrize("name", ["oue", "sue"])
def test_several_messages_stay_together(name):
    """Mechanisms that send a random number of messages: each cell's own, cell after cell."""
    memo = client(name, domain_size=40)
    each = {cell: memo.report([cell]).tolist() for cell in (0, 3, 39)}
    assert len({len(messages) for messages in each.values()}) > 1
    assert memo.report([3, 0, 3, 39]).tolist() == each[3] + each[0] + each[3] + each[39]


def test_rows_of_a_vector_are_memoised_whole():
    memo = client("multi_hm", dimension=3)
    rows = np.array([[0, 1, 2], [2, 1, 0], [0, 1, 2]])
    messages = memo.report(rows)
    size = messages.size // 3
    assert messages[:size].tolist() == messages[2 * size :].tolist()
    assert messages[size : 2 * size].tolist() == memo.report(rows[1:2]).tolist()


def test_rounding_is_unbiased_over_users_and_steady_for_each():
    """P(up) is the position between two grid points, to 6 standard errors: 2e-9 at this n."""
    n, values = 4000, np.array([-0.9, 0.1, 0.1, 0.3, 0.45])
    cells = np.array([client("nm", user).encode(values) for user in range(n)])
    position = (values + 1) * 1  # N = 2
    up = cells - np.floor(position)
    share = position - np.floor(position)
    deviation = np.sqrt(share * (1 - share) / n)
    assert (np.abs(up.mean(axis=0) - share) < 6.2 * deviation).all()
    assert math.erfc(6.2 / math.sqrt(2)) < FALSE_ALARM
    assert (cells[:, 1] == cells[:, 2]).all()
    # Values within one cell's width touch two cells at most, and larger values no lesser cells.
    assert (np.diff(cells[:, 1:].astype(int)) >= 0).all()
    assert (np.ptp(cells[:, 1:].astype(int), axis=1) <= 1).all()
    again = np.array([client("nm", user).encode(values[::-1]) for user in range(50)])
    assert (again[:, ::-1] == cells[:50]).all()


def test_histories_have_the_exact_law_that_the_guarantee_bounds():
    """Two days, every history and outcome: log ratios reach k epsilon where changes coincide.

    Where they do not, an outcome of one history is impossible in the other: no epsilon holds.
    """
    channel = np.array([mechanism("grr", domain_size=3).channel(cell) for cell in range(3)])

    def law(first, second):
        both = np.outer(channel[first], channel[second])
        return np.diag(channel[first]) if first == second else both

    histories = [(a, b) for a in range(3) for b in range(3)]
    loss = {1: 0.0, 2: 0.0}
    for one in histories:
        for other in histories:
            p, q = law(*one), law(*other)
            if (one[0] == one[1]) != (other[0] == other[1]):
                assert ((p > 0) != (q > 0)).any()
                continue
            k = len(set(one))
            possible = p > 0
            loss[k] = max(loss[k], np.log(p[possible] / q[possible]).max())
    for k, largest in loss.items():
        claimed = client(domain_size=3).guarantee(k).epsilon
        assert claimed == k
        assert claimed - 1e-9 < largest <= claimed + 1e-12


def test_the_guarantee_says_what_it_covers():
    claim = client().guarantee(1)
    assert (claim.model, claim.epsilon, claim.delta) == ("local", 1.0, 0.0)
    assert "change at the same times" in claim.unit
    slack = client("gaussian", cells=4, delta=0.3)
    once = slack.mechanism.local
    assert 0 < once.delta <= 0.3
    assert (slack.guarantee(4).epsilon, slack.guarantee(4).delta) == (4.0, 4 * once.delta)
    assert slack.guarantee(1000).delta == 1
    tenth = MemoisedClient(SECRET, PLAN, 0, build("grr", epsilon=0.1, domain_size=5))
    for distinct in range(1, 100):  # never rounded to less than the exact multiple
        claimed = Fraction(tenth.guarantee(distinct).epsilon)
        assert 0 <= claimed / (distinct * Fraction(0.1)) - 1 < 1e-15
    published = client("dct_published", cells=4)
    assert published.guarantee(1) == Guarantee.none(published.mechanism.guarantee.how)
    for distinct in (0, -1, 1.5, math.nan):
        with pytest.raises(ValueError, match="distinct"):
            client().guarantee(distinct)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((bytes(31), PLAN, 0), "secret must have 32 bytes, not 31"),
        ((SECRET, bytes(15), 0), "fingerprint must have 16 bytes"),
        ((SECRET, PLAN, 65_536), "metric must lie"),
        ((SECRET, PLAN, -1), "metric must lie"),
        ((SECRET, PLAN, 0.5), "metric must be an integer"),
    ],
)
def test_bad_parameters_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        MemoisedClient(*fields, build("grr", epsilon=1.0, domain_size=5))
    with pytest.raises(ValueError, match="32 bytes"):
        PermanentRandom(b"short")


@pytest.mark.parametrize("cells", [[4], [-1], [0.5], [["a"]], [True], 3])
def test_bad_cells_are_refused_without_being_told(cells):
    with pytest.raises(ValueError, match=r"cells") as error:
        client().report(cells)
    assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match="1 of 1 cells lie outside"):
        client().report([0, 77])


def test_only_numbers_are_rounded_and_nothing_shows_the_secret():
    with pytest.raises(ValueError, match="only a mechanism for the mean"):
        client().encode([0.5])
    with pytest.raises(ValueError, match="outside"):
        client("nm").encode([1.5])
    assert repr(secret(0)) not in repr(client())
    assert secret(0).hex() not in repr(client())
