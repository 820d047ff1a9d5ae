"""What reports come to is what they say, to the last unit, whichever way they are added up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mechanisms.counters.amounts import Amounts, Ends, SignedDigits, WholeAmounts, WholeEnds
from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.levels import Layout
from mechanisms.counters.moments import MomentDigits, WholeMoments
from mechanisms.counters.rows import RowCounters, SummedRows
from mechanisms.counters.tree import Tree
from mechanisms.randomness import SeededRandom
from transforms.elements.numbers import is_numbered
from transforms.encoders.block import RowBlock
from transforms.encoders.paths import PathReporting
from transforms.encoders.reports import (
    LIMITED,
    UNUSABLE,
    Clip,
    Reporting,
    RowReporting,
    SummedReporting,
    TabReporting,
    reports_of,
)
from transforms.units.sums import of_rows, of_units, sent

ROWS, USERS, GROUPS = 3_000, 700, 4
CUT = (LIMITED, UNUSABLE)
CLIP, SHORT = Clip(-2.0, 5.0, 6), Clip(0.0, 5.0, 7)


def counts(layout: Layout, messages: Any) -> np.ndarray:
    """How much came of each code."""
    totals = np.zeros(layout.codes, np.int64)
    for block in messages:
        codes, times = (block["code"], block["times"]) if is_numbered(block) else (block, 1)
        np.add.at(totals, codes.astype(np.int64), times)
    return totals


REPORTING = {
    "users": Reporting(Amounts(GROUPS)),
    "present": Reporting(Amounts(GROUPS, 2), beside=(LIMITED,), present=True),
    "events": Reporting(Amounts(GROUPS, 2, 3), beside=(LIMITED,)),
    "of rows": Reporting(WholeAmounts(GROUPS), beside=(LIMITED,), present=True, rows=2),
    "signed": Reporting(Amounts(GROUPS, 2, 6, signed=True), CLIP, CUT),
    "digits": Reporting(SignedDigits(GROUPS, 2, 6, least=-3), CLIP, CUT),
    "whole": Reporting(WholeAmounts(GROUPS, 2, 6, least=-3), CLIP, CUT),
    "ends": Reporting(Ends(GROUPS, 2, 7), SHORT, CUT, averaged=True),
    "ends of rows": Reporting(Ends(GROUPS, 1, 7), SHORT, CUT, averaged=True, rows=3),
    "whole ends": Reporting(WholeEnds(GROUPS, 2, 7), SHORT, CUT, averaged=True),
    "finer than rows": Reporting(Ends(GROUPS, 2, (1 << 14) - 1), Clip(0.0, 5.0, (1 << 14) - 1)),
    "moments": Reporting(MomentDigits(GROUPS, 2, 7), SHORT, CUT, averaged=True),
    "whole moments": Reporting(WholeMoments(GROUPS, 2, 7), SHORT, CUT, averaged=True),
    "paths": PathReporting(Tree.uniform(GROUPS, 2)),
}
# Several rows of a unit are those of users.
UNITS = [
    (name, users) for name in REPORTING for users in (False, True) if users or "of rows" not in name
]


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize(("name", "of_users"), UNITS)
def test_sums_are_those_of_reports(name: str, of_users: bool, holds: bool) -> None:
    reporting: Any = REPORTING[name]
    if not of_users and isinstance(reporting, Reporting):  # a row is of one group
        reporting = replace(reporting, amounts=replace(reporting.amounts, most_groups=1))
    rng = np.random.default_rng(1)
    users = rng.integers(0, USERS, ROWS) if of_users else None
    groups = rng.integers(0, GROUPS, ROWS)
    numbers = rng.normal(2, 3, ROWS) if getattr(reporting, "clip", None) else None
    if numbers is not None:
        numbers[::7] = np.nan
    applies = rng.random(ROWS) < 0.7 if holds else None
    layout, n = Layout(reporting.levels), USERS if of_users else ROWS
    known = users, groups, numbers, n, applies
    expected = (sent(words, layout) for words in reports_of(reporting, *known, SeededRandom(3)))
    [*made] = of_units(reporting, layout, *known, SeededRandom(3))
    assert len(made) == 1
    assert is_numbered(made[0])
    assert counts(layout, made).tolist() == counts(layout, expected).tolist()


def test_reports_of_more_counters_than_units_are_sent_on() -> None:
    reporting = Reporting(Amounts(10_000))
    layout, groups = Layout(reporting.levels), np.array([9_999, 3, 3])
    [made] = of_units(reporting, layout, None, groups, None, 3, None, SeededRandom(0))
    assert made.dtype == np.uint16
    assert sorted(made.tolist()) == [3, 3, 9_999]


def test_whole_amounts_of_one_are_sent_on_as_codes_and_others_with_what_they_add() -> None:
    layout, groups = Layout(WholeAmounts(10_000).levels), np.array([9_999, 3, -1, 3])
    [made] = of_units(
        Reporting(WholeAmounts(10_000)), layout, None, groups, None, 4, None, SeededRandom(0)
    )
    assert made.dtype == np.uint16
    assert sorted(made.tolist()) == [3, 3, 9_999]
    reporting = Reporting(WholeAmounts(10_000, 1, 7), SHORT)
    numbers = np.array([5.0, 0.0, 5.0, 5.0])
    [made] = of_units(reporting, layout, None, groups, numbers, 4, None, SeededRandom(0))
    assert is_numbered(made)
    assert dict(made.tolist()) == {9_999: 7, 3: 7}


TABS = CrossTabs(flat([3, 4]), pairs(2))
OF_ROWS = {
    "digits": RowReporting(RowCounters(5, 15, (3, 2))),
    "numbers alone": RowReporting(RowCounters(5, 3)),
    "sums": SummedReporting(SummedRows(5, 15, (3, 2))),
    "sums and counts": SummedReporting(SummedRows(5, 15, (), own_counts=True)),
    "tables": TabReporting(TABS),
}


@pytest.mark.parametrize("reporting", OF_ROWS.values(), ids=OF_ROWS)
def test_sums_of_rows_are_those_of_reports(reporting: Any) -> None:
    """Few enough to be rounded together, so that both draw alike."""
    rng = np.random.default_rng(2)
    tables = isinstance(reporting, TabReporting)
    numbers = rng.uniform(-1, 1, (2_000, 0 if tables else 5)).astype(np.float32)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    sizes = np.array((2, 3) if tables else reporting.rows.sizes, np.int64)
    categories = rng.integers(0, sizes + 1, (2_000, sizes.size)).astype(np.int32)
    block, layout = RowBlock(numbers, categories, None), Layout(reporting.levels)
    expected = [sent(words, layout) for words in reporting.reports(block, SeededRandom(4))]
    [made] = of_rows(reporting, layout, block, SeededRandom(4))
    assert is_numbered(made)
    assert counts(layout, [made]).tolist() == counts(layout, expected).tolist()


@pytest.mark.parametrize("reporting", OF_ROWS.values(), ids=OF_ROWS)
def test_rows_for_which_something_does_not_hold_add_nothing(reporting: Any) -> None:
    width = len(getattr(reporting.rows, "sizes", (0, 0)))
    numbers = np.zeros((500, 0 if isinstance(reporting, TabReporting) else 5), np.float32)
    categories = np.zeros((500, width), np.int32)
    applies = np.arange(500) < 200
    layout = Layout(reporting.levels)
    some = RowBlock(numbers, categories, None, applies)
    few = RowBlock(numbers[:200], categories[:200], None)
    rng = SeededRandom
    one, other = (counts(layout, of_rows(reporting, layout, b, rng(5))) for b in (some, few))
    assert one.tolist() == other.tolist()
    assert one.any()
