"""Levels: what they look at, and what they will find."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from scipy import stats

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.heavy_hitters.fitting import (
    LARGEST_EXTENSION,
    LAST_ROWS,
    ROWS,
    best_schedule,
    symbol_by_symbol,
)
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.schedule import MISSED, Schedule, Search, lost, row_tail

ORACLE = ProjectiveGeometry(4.0, 1 << 16, 41)
URLS = PrefixCode(alphabet(["lower", "digits", "./-"]), 12)
SEARCH = Search()


@pytest.mark.parametrize("beam", [0, -1, 1 << 17, math.nan])
def test_beams_that_mean_nothing_are_refused(beam) -> None:
    with pytest.raises(ValueError, match="beam"):
        Search(beam=beam)


@pytest.mark.parametrize("expected", [0, -1, 1001, math.nan])
def test_numbers_of_false_strings_that_mean_nothing_are_refused(expected) -> None:
    with pytest.raises(ValueError, match="false_strings"):
        Search(false_strings=expected)


def test_chance_fills_half_of_the_beam() -> None:
    assert Search(beam=100).followed(10_000) == 50 / 10_000
    assert Search(beam=100).followed(100) == 1  # then all are followed
    assert Search(beam=100).followed(0) == 1


def test_candidates_are_extensions_of_what_is_followed() -> None:
    code, schedule = PrefixCode("abc", 5), Schedule((2, 2, 1), (1, 1, 2), (1, 1, 1))
    assert schedule.candidates(code, 0, 10) == (9, 4)
    assert schedule.candidates(code, 1, 10) == (90, 40)
    assert schedule.candidates(code, 2, 10) == (0, 70)  # over, or a letter after which it ends
    assert [schedule.last(level) for level in range(3)] == [False, False, True]


def test_one_row_needs_what_the_sum_of_many_does() -> None:
    """On a normal law, less what collisions may do."""
    wide = 1 << 60
    for tail, rows in itertools.product((0.01, 1e-6), (1, 4)):
        needed = stats.norm.isf(tail) / math.sqrt(rows)
        assert row_tail(tail, rows, 0.01, wide) == pytest.approx(stats.norm.sf(needed), rel=1e-6)
    assert row_tail(1e-6, 1, 0.01, 1 << 16) < 0  # a single row never tells that much
    assert row_tail(1e-6, 4, 0.01, 1 << 16) > 0


def test_frequent_prefixes_are_lost_less_often() -> None:
    risks = [lost(ORACLE, f, 20_000, 4, 1e-5) for f in (0.001, 0.003, 0.005, 0.01, 0.02)]
    assert risks == sorted(risks, reverse=True)
    assert risks[0] > 0.9
    assert risks[-1] < 1e-4
    assert lost(ORACLE, 0.001, 20_000, 4, 1.0) == 0  # where all are followed
    assert lost(ORACLE, 0.001, 20_000, 1, 1e-5) == 1  # collisions alone are too many


def test_the_limit_is_where_the_risk_reaches_what_was_agreed() -> None:
    schedule = best_schedule(URLS, ORACLE, 10**6, SEARCH)
    limit = schedule.detection_limit(URLS, ORACLE, 10**6, SEARCH)
    just = schedule.chance_of_missing(URLS, ORACLE, 10**6, SEARCH, limit)
    below = schedule.chance_of_missing(URLS, ORACLE, 10**6, SEARCH, limit * 0.999)
    assert just <= MISSED < below * 1.01
    assert below > just


def test_without_users_there_is_no_limit() -> None:
    schedule = best_schedule(URLS, ORACLE, 50, SEARCH)
    assert schedule.detection_limit(URLS, ORACLE, 50, SEARCH) == math.inf


def test_limits_fall_with_more_users_smaller_alphabets_and_shorter_strings() -> None:
    def limit(code: PrefixCode, n: int, search: Search = SEARCH) -> float:
        return best_schedule(code, ORACLE, n, search).detection_limit(code, ORACLE, n, search)

    base = limit(URLS, 10**6)
    assert limit(URLS, 4 * 10**6) == pytest.approx(base / 2, rel=0.1)
    assert limit(PrefixCode("abc", 12), 10**6) < base
    assert limit(replace(URLS, max_length=24), 10**6) > base
    assert limit(URLS, 10**6, Search(false_strings=5)) < base


@pytest.mark.parametrize(
    ("code", "oracle", "n"),
    [
        (URLS, ORACLE, 10**6),
        (PrefixCode(alphabet(["digits"]), 5), ORACLE, 10**5),
        (PrefixCode("", 8), ORACLE, 10**5),
        (PrefixCode("ab", 200), k_ary(10.0, 1 << 16), 10**5),
    ],
)
def test_schedules_cover_the_string_and_what_is_listed_fits(code, oracle, n) -> None:
    found = best_schedule(code, oracle, n, SEARCH)
    assert sum(found.steps) == code.max_length
    assert found.rows == (ROWS,) * (len(found.steps) - 1) + (LAST_ROWS,)
    assert len(found.shares) == len(found.steps)
    assert min(found.shares) >= 1
    for level, step in enumerate(found.steps):
        assert sum(code.growth(step, found.last(level))) <= LARGEST_EXTENSION


def test_the_steps_are_the_best_of_all() -> None:
    """Against all ways to divide six symbols, the users divided alike or as each level needs."""
    code, n = replace(URLS, max_length=6), 200_000
    found = best_schedule(code, ORACLE, n, SEARCH)
    limit = found.detection_limit(code, ORACLE, n, SEARCH)
    others = []
    for cuts in itertools.product((False, True), repeat=5):
        ends = [*(place + 1 for place, cut in enumerate(cuts) if cut), 6]
        steps = tuple(b - a for a, b in itertools.pairwise([0, *ends]))
        if max(sum(code.growth(step, True)) for step in steps) > LARGEST_EXTENSION:
            continue
        rows = (ROWS,) * (len(steps) - 1) + (LAST_ROWS,)
        other = Schedule(steps, rows, (1,) * len(steps))
        others.append(other.detection_limit(code, ORACLE, n, SEARCH))
    assert limit <= min(others) * 1.01
    assert limit < max(others) / 1.2


def test_treehist_goes_symbol_by_symbol() -> None:
    found = symbol_by_symbol(URLS)
    assert found.steps == (1,) * 12
    assert found.group_shares == (1,) * 14
