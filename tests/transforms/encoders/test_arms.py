"""Rows of an experiment: the arm of a unit, and what all of its rows come to."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.counters.arms import ArmCounters, ArmTotals
from mechanisms.counters.levels import Layout
from mechanisms.counters.tree import Tree
from mechanisms.randomness import SeededRandom
from transforms.encoders.arms import ArmEncoder, ArmOutcome, ArmReporting, HashedArms
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.encoder import Rows
from transforms.encoders.reports import reports_of

OUTCOMES = (
    ArmOutcome("bought", "rate"),
    ArmOutcome("seconds", "mean", Bounds(0.0, 10.0)),
    ArmOutcome("cents", "total", Bounds(-4.0, 4.0)),
    ArmOutcome("seconds", "quantile", Bounds(0.0, 10.0), (0.5,)),
)
NAN = np.nan
# user, arm, before, bought, seconds, cents
ROWS = np.array([
    (0, 0, 5, 0, 4, 1), (0, 0, 5, 1, NAN, 2), (0, 0, NAN, 0, 8, NAN),  # any; 6; 3
    (1, 1, NAN, 0, NAN, NAN),  # nothing usable: 0, and counted
    (2, 1, 50, NAN, 99, 9), (2, 1, 70, 0, 99, -2),  # clipped to 10; 7, clipped to 4
    (3, 0, 5, 1, 1, 1), (3, 1, 5, 1, 1, 1),  # in both arms
])  # fmt: skip


def told(edges: tuple[float, ...] = ()) -> tuple[ArmReporting, list[np.ndarray]]:
    """What the rows add to each level, (counters,) each."""
    counters = ArmCounters(2, len(edges) + 2 if edges else 1, 1, 2, 20, 1, Tree.uniform(10, 4))
    reporting = ArmReporting(counters, OUTCOMES, edges)
    users, arms = ROWS[:, 0].astype(np.int64), ROWS[:, 1].astype(np.int64)
    numbers = ROWS[:, [2, 3, 4, 5, 4] if edges else [3, 4, 5, 4]]
    order = np.random.default_rng(3).permutation(len(ROWS))
    layout = Layout(reporting.levels)
    counts = np.zeros(layout.codes, np.int64)
    rows = users[order], arms[order], numbers[order]
    for words in reports_of(reporting, *rows, 4, None, SeededRandom(1)):
        np.add.at(counts, words["code"].astype(int), words["times"])
    return reporting, layout.split(counts)


def totals(reporting: ArmReporting, levels: list[np.ndarray]) -> ArmTotals:
    return reporting.counters.totals(levels, [1.0] * len(levels))


def test_all_rows_of_a_user_count_together() -> None:
    reporting, levels = told()
    known = totals(reporting, levels)
    assert (known.units[:, 0].tolist(), known.several) == ([1, 2], 1)
    bought, seconds, cents = known.totals[:, :, 0]
    assert bought.tolist() == [1, 0]
    assert seconds == pytest.approx([6 / 5 - 1, -1 + 1])  # nobody's 0 seconds, and ten
    assert cents == pytest.approx([3 / 4, 0 + 1])
    assert known.squares[:, :, 0] == pytest.approx(
        np.array([[0.04, 2], [9 / 16, 1]]), abs=0.06
    )  # fmt: skip
    assert levels[-1].tolist() == [1]  # who lacks a number
    # Of quantiles that one is none: 6 in the first arm, and 10 in the second.
    assert [np.flatnonzero(row).tolist() for row in np.diff(known.below[0]).round(9)] == [[6], [9]]


def test_bins_are_of_the_mean_of_what_was_known() -> None:
    reporting, levels = told((10.0, 60.0))
    units = totals(reporting, levels).units
    # Below ten; from ten; from sixty, as the mean of 50 and 70 is; and nothing known.
    assert units.tolist() == [[1, 0, 0, 0], [0, 0, 1, 1]]


def test_rows_from_before_the_start_say_the_bin_alone() -> None:
    batch = pa.record_batch({
        "user": [0, 0, 1, 1, 2, 3, 3], "arm": ["a", "a", None, "b", None, "a", "b"],
        "early": [True, False, True, None, True, True, False],
        "spend": [5.0, 99.0, 50.0, None, 5.0, 5.0, None], "bought": [1, 0, 1, 1, 1, 1, 1],
    })  # fmt: skip
    encoder = ArmEncoder("arm", DeclaredValues(("a", "b")), ("spend", "bought"), "early")
    assert encoder.columns == {"arm", "spend", "bought", "early"}
    block = encoder.encode(batch, Rows(7), SeededRandom(0))
    reporting = ArmReporting(ArmCounters(2, 3, 1), OUTCOMES[:1], (10.0,))
    users, counts = np.array(batch["user"]), np.zeros(Layout(reporting.levels).codes)
    rows = users, block.cells.astype(np.int64), block.amounts
    for words in reports_of(reporting, *rows, 4, block.applies, SeededRandom(1)):
        np.add.at(counts, words["code"].astype(int), words["times"])
    known = totals(reporting, Layout(reporting.levels).split(counts))
    # Who was there before alone is in no arm; who had another arm then is in one.
    assert (known.units.tolist(), known.several) == ([[1, 0, 0], [1, 1, 0]], 0)
    assert known.totals[0].tolist() == [[0, 0, 0], [1, 1, 0]]


def test_rows_of_no_declared_arm_count_for_nothing() -> None:
    batch = pa.record_batch({
        "arm": ["a", "b", None, "x"], "bought": [True, None, True, False], "n": [1, 2.5, None, 4],
    })  # fmt: skip
    encoder = ArmEncoder("arm", DeclaredValues(("a", "b")), ("bought", "n"))
    block = encoder.encode(batch, Rows(4), SeededRandom(0))
    assert (block.cells.tolist(), block.applies.tolist()) == ([0, 1, 0, 0], [1, 1, 0, 0])
    np.testing.assert_array_equal(block.amounts, [[1, 1], [NAN, 2.5], [1, NAN], [0, 4]])


@pytest.mark.parametrize("ids", [["ada", "bob", None, "ada"], [7, -3, None, 7]])
def test_a_device_draws_the_same_arm(ids: list[object]) -> None:
    """As docs/experiments.md says it, in other words."""
    drawn = HashedArms("x-1", (0.7, 0.2, 0.1)).encode(pa.array(ids))
    for one, arm in zip(ids, drawn.tolist(), strict=True):
        if one is None:
            assert arm == -1
            continue
        place = int(hashlib.sha256(b"x-1\x00" + str(one).encode()).hexdigest()[:16], 16) / 2**64
        assert arm == (place >= 0.7) + (place >= 0.9)


def test_arms_have_their_shares() -> None:
    """Of 20,000 ids, within 6.1 standard errors; another salt draws independently."""
    ids, shares = pa.array(range(20_000)), np.array([0.7, 0.2, 0.1])
    first, other = (HashedArms(salt, tuple(shares)).encode(ids) for salt in ("a", "b"))
    errors = 6.1 * np.sqrt(shares * (1 - shares) / 20_000)
    assert (np.abs(np.bincount(first, minlength=3) / 20_000 - shares) < errors).all()
    both = np.mean((first == 0) & (other == 0))
    assert both == pytest.approx(0.49, abs=6.1 * np.sqrt(0.49 * 0.51 / 20_000))
