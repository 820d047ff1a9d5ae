"""Rows that count each for itself: how many of a unit do, which, and where they go."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.counters.amounts import Amounts, Ends
from mechanisms.counters.levels import Layout
from mechanisms.randomness import SeededRandom
from transforms.encoders.domain import DeclaredValues, IntegerRange
from transforms.encoders.encoder import Rows
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.part import Viewed
from transforms.encoders.reports import LIMITED, UNUSABLE, Clip, Reporting, reports_of
from transforms.expressions.view import View

K = 3


def totals(reporting: Reporting, words: list[np.ndarray]) -> list[np.ndarray]:
    layout = Layout(reporting.levels)
    codes = np.concatenate([one.ravel() for one in words]).astype(np.int64)
    return layout.split(np.bincount(codes, minlength=layout.codes))


def test_at_most_so_many_rows_count_of_a_unit_and_all_of_one_that_has_fewer() -> None:
    users = np.array([0] * 10 + [1] * 2 + [2] * 3)
    groups = np.array([1] * 10 + [0, 1] + [0, 0, 0])
    reporting = Reporting(Amounts(2), beside=(LIMITED,), rows=K)
    words = [*reporting.words(users, groups, None, 4, SeededRandom(1))]
    assert sum(len(one) for one in words) == 4  # units, each with one report
    counts, cut = totals(reporting, words)
    assert counts.tolist() == [4, 4]
    assert cut.tolist() == [1]


def test_which_rows_count_is_drawn_uniformly() -> None:
    n, rows, times = 8, 2, 4000
    users, groups = np.repeat(np.arange(times), n), np.tile(np.arange(n), times)
    reporting = Reporting(Amounts(n), rows=rows)
    (counts,) = totals(reporting, [*reporting.words(users, groups, None, times, SeededRandom(3))])
    share = rows / n
    far = 6.2 * np.sqrt(times * share * (1 - share))
    assert np.abs(counts - times * share).max() < far


@pytest.mark.parametrize("averaged", [False, True])
def test_each_row_is_clamped_and_those_without_a_number_take_no_place(averaged: bool) -> None:
    users, groups = np.zeros(6, np.int64), np.zeros(6, np.int64)
    numbers = np.array([np.nan, 2.0, 99.0, np.nan, 1.0, np.nan])
    clip = Clip(0.0, 4.0, 4)
    amounts = Ends(1, 1, 4) if averaged else Amounts(1, 1, 4)
    reporting = Reporting(amounts, clip, (LIMITED, UNUSABLE), averaged=averaged, rows=K)
    words = [*reporting.words(users, groups, numbers, 1, SeededRandom(2))]
    *levels, beside = totals(reporting, words)
    # The unit once, however many of its rows are cut; an average leaves out what is no number.
    assert beside.tolist() == [1, int(not averaged)]
    if averaged:
        assert amounts.number(levels)[0] / amounts.most == K
    else:
        assert amounts.estimate(levels).tolist() == [2 + 4 + 1]


def test_a_unit_is_without_an_average_where_no_row_has_a_number() -> None:
    users, groups = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    numbers = np.array([np.nan, 2.0, np.nan, np.nan, 3.0])
    reporting = Reporting(Ends(2, 2, 4), Clip(0.0, 4.0, 4), (LIMITED, UNUSABLE), averaged=True)
    words = [*reporting.words(users, groups, numbers, 3, SeededRandom(2))]
    *_, beside = totals(reporting, words)
    assert beside.tolist() == [0, 1]


def test_a_unit_none_of_whose_rows_applies_sends_a_report_all_the_same() -> None:
    reporting = Reporting(Amounts(2), rows=K)
    users, applies = np.array([0, 0, 1]), np.array([True, False, False])
    (words,) = reports_of(reporting, users, np.array([1, 1, 1]), None, 2, applies, SeededRandom(0))
    assert words.shape == (2, K)
    assert Counter(words.ravel().tolist()) == {1: 1, 2: 5}


def test_rows_of_no_declared_group_are_dropped_also_behind_a_condition() -> None:
    batch = pa.record_batch({"city": ["Oslo", "Rom", None, "Bern"], "hour": [1, 1, 2, 30]})
    domains = (("city", DeclaredValues(("Oslo", "Bern"))), ("hour", IntegerRange(0, 23)))
    encoder = GroupEncoder(domains, drops=True)
    assert encoder.size == encoder.declared == 48
    block = encoder.encode(batch, Rows(4), SeededRandom(0))
    assert block.applies is not None
    assert block.applies.tolist() == [True, False, False, False]
    both = Viewed(encoder, View.read((), ["hour > 1"])).encode(batch, Rows(4), SeededRandom(0))
    assert both.applies.tolist() == [False] * 4
    assert GroupEncoder((), drops=True).encode(batch, Rows(4), SeededRandom(0)).applies is None
