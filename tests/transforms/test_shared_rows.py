"""What a user's rows share of its one: no more of any counter than the noise pays for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.counters.amounts import WholeAmounts
from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.levels import Layout
from mechanisms.counters.tree import Tree
from mechanisms.randomness import SeededRandom
from transforms.encoders.paths import PathReporting
from transforms.encoders.reports import Reporting, TabReporting
from transforms.encoders.sharing import shared

PARTS = 1 << 10
TREE = Tree.uniform(9, 3)
K = 2  # groups of a user, of three of three bins each
TABS = CrossTabs(flat([3, 4]), pairs(2))
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=40)


def reportings() -> dict[str, object]:
    return {
        "tree": PathReporting(TREE, parts=PARTS),
        "groups": PathReporting(Tree.uniform(3, 3), 3, K, parts=PARTS, limited=True),
        "rows": PathReporting(TREE, rows=K, limited=True),
        "cells": Reporting(WholeAmounts(10, 1, PARTS), parts=PARTS),
        "tables": TabReporting(TABS, parts=PARTS),
    }


def totals(which: str, rows: list[tuple[int, int]], applies: list[bool] | None = None) -> list:
    """What the rows of some users add to the counters of each level."""
    reporting = reportings()[which]
    users = np.array([user for user, _ in rows], np.int64)
    cells = np.array([cell for _, cell in rows], np.int64)
    if which == "tables":
        cells = np.stack([cells % 3, cells % 4], axis=1)
    names, users = np.unique(users, return_inverse=True)
    holds = None if applies is None else np.array(applies)
    words = reporting.divided(users, cells, names.size, holds, SeededRandom(1)).ravel()
    layout = Layout(reporting.levels)
    counts = np.zeros(layout.starts[-1], np.int64)
    kept = words[words["code"] < np.uint64(counts.size)]
    np.add.at(counts, kept["code"].astype(np.int64), kept["times"])
    return layout.split(counts)


@pytest.mark.parametrize("which", reportings())
@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_a_user_adds_one_to_each_level_whatever_its_rows_are(which: str, rows: list) -> None:
    added = totals(which, rows)
    users = {user for user, _ in rows}
    if which in ("groups", "rows"):
        *levels, (limited, unusable) = added
        pairs = {(user, cell // 3) for user, cell in rows if cell < 9}
        own = Counter(user for user, _ in (pairs if which == "groups" else rows))
        if which == "rows":
            own = Counter(user for user, cell in rows if cell < 9)
        assert limited == sum(many > K for many in own.values())
        assert unusable == len(users - own.keys())
        one = PARTS if which == "groups" else 1
        for level in levels:
            assert level.sum() == one * sum(min(many, K) for many in own.values())
        return
    if which == "tree":
        *levels, unusable = added
        some = {user for user, cell in rows if cell < TREE.cells}
        assert unusable.tolist() == [len(users - some)]
    else:
        levels, some = added, users
    for level in levels:
        assert level.sum() == PARTS * len(some)
        assert level.min() >= 0


@pytest.mark.parametrize("which", reportings())
@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_a_user_moves_no_level_by_more_than_one(which: str, rows: list) -> None:
    """Noise is for the parts of a one in each level: of whatever coins, with a user and without.

    Where rows divide a one without a rest no coin is tossed, and counters of others are the same.
    """
    sizes = {user: sum(1 for other, _ in rows if other == user) for user, _ in rows}
    rows = [row for row in rows if PARTS % sizes[row[0]] == 0]
    others = [row for row in rows if row[0]]
    if which in ("cells", "groups", "rows") or not others or len(others) == len(rows):
        return  # of which some are drawn
    for level, less in zip(totals(which, rows), totals(which, others), strict=True):
        assert np.abs(level - less).sum() <= PARTS


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        # Of user 0 three rows of bin 0 and one of bin 8; of user 1 one that holds, of bin 4.
        ("tree", [[7, 4, 1], [7, 0, 0, 0, 4, 0, 0, 0, 1], [4]]),
        # Different groups share alike, however often each of them stands in rows.
        ("cells", [[6, 0, 0, 0, 4, 0, 0, 0, 2, 4]]),
    ],
)
def test_rows_share_alike(which: str, expected: list) -> None:
    rows = [(0, 0)] * 3 + [(0, 8), (1, 4), (1, 1), (2, 0), (3, 9)]
    applies = [True] * 5 + [False] + [True] * 2
    got = [(4 * level / PARTS).tolist() for level in totals(which, rows, applies)]
    if which == "tree":
        got[-1] = [got[-1][0] * PARTS]  # of whom none can be used the number
    assert got == expected


def test_of_one_part_each_row_is_as_likely_and_of_many_none_is_drawn() -> None:
    users = np.repeat(np.arange(30_000), 3)
    amounts, order = shared(users, 30_000, 1, SeededRandom(7))
    chosen = order[amounts == 1]
    assert (users[chosen] == np.arange(30_000)).all()
    often = np.bincount(chosen % 3)
    # 6.2 standard deviations of a binomial count: by chance one time in 1e9.
    assert np.abs(often - 10_000).max() < 6.2 * np.sqrt(30_000 * 2 / 9)
    amounts, _ = shared(users, 30_000, PARTS, SeededRandom(7))
    assert set(amounts.tolist()) == {PARTS // 3, PARTS // 3 + 1}
