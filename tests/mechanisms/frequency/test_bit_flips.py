"""dBitFlip: what one report loses, what permanent answers lose in all, and how it errs."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest

from mechanisms.catalog import build
from mechanisms.memoised import MemoisedClient
from mechanisms.papers.bit_flips import BitFlips
from mechanisms.privacy.divergence import tight_epsilon
from tests.oracles.statistics import follows, sample_size, tilted

WORD = 1 << 64


def history_losses(mechanism: BitFlips, distinct: int) -> float:
    """The largest log ratio of two histories of distinct values, by every set of questions."""
    lie = Fraction(mechanism.flip_weight, WORD)
    worst = Fraction(1)
    values = range(mechanism.domain_size)
    for asked in combinations(values, mechanism.questions):
        for one, other in product(permutations(values, distinct), repeat=2):
            ratio = Fraction(1)
            for (a, b), question in product(zip(one, other, strict=True), asked):
                # The answer that tells most of the first history, where it tells anything.
                ratio *= (1 - lie) / lie if (a == question) != (b == question) else 1
            worst = max(worst, ratio)
    return math.log(worst)


@pytest.mark.parametrize(("sampled", "distinct"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)])
def test_permanent_answers_lose_what_is_said_and_no_more(sampled: int, distinct: int) -> None:
    mechanism = BitFlips(0.7, 5, sampled)
    truth = history_losses(mechanism, distinct)
    assert truth == pytest.approx(mechanism.over_time(distinct), rel=1e-9)


def test_one_question_as_published_loses_half_of_what_is_claimed() -> None:
    """Its flip is that of e^(epsilon / 2) whatever d is: what `epsilon` at half of it does here."""
    claimed = 1.0
    published = BitFlips(claimed / 2, 9, sampled=1)
    assert published.flip == pytest.approx(1 / (math.exp(claimed / 2) + 1))
    assert tight_epsilon(published) == pytest.approx(claimed / 2, rel=1e-9)
    better = BitFlips(claimed, 9, sampled=1)
    assert better.variance(0.0, 1) < published.variance(0.0, 1) / 3.9


def test_asked_about_all_it_is_symmetric_unary_encoding() -> None:
    sue = build("sue", epsilon=1.5, domain_size=6)
    mechanism = BitFlips(1.5, 6, sampled=6)
    for frequency in (0.0, 0.3, 1.0):
        expected = sue.variance(frequency, 100)
        assert mechanism.variance(frequency, 100) == pytest.approx(expected, rel=1e-9)


def client(user: int, mechanism: BitFlips) -> MemoisedClient:
    secret = hashlib.sha256(b"user %d" % user).digest()
    return MemoisedClient(secret, bytes(16), 0, mechanism)


def test_a_user_is_asked_the_same_questions_for_ever() -> None:
    mechanism = BitFlips(1.0, 50, sampled=3)
    asked = [client(7, mechanism).report([cell]) // 2 for cell in range(50)]
    assert all((one == asked[0]).all() for one in asked)
    assert (client(8, mechanism).report([0]) // 2 != asked[0]).any()


@pytest.mark.verify
def test_over_users_permanent_answers_follow_the_channel() -> None:
    """Of n users' reports a law 30 % off would be seen; a false alarm is below 1e-9."""
    mechanism = BitFlips(2.0, 3, sampled=2)
    law = mechanism.channel(1)
    n = sample_size(law, tilted(law))
    place = {report: index for index, report in enumerate(mechanism.reports)}
    sent = [client(u, mechanism).report([1]).tolist() for u in range(n)]
    counts = np.bincount([place[tuple(sorted(one))] for one in sent], minlength=len(law))
    assert follows(counts, law)
    assert not follows(counts, tilted(law))
