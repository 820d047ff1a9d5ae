"""What a stream believes of clocks, as arithmetic: no file is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.stream.clocks import (
    FILES,
    MOST,
    OFF,
    ClockEvidence,
    ClockReading,
    jumped,
    passed,
    span,
)
from transforms.windows import SECOND

HOUR, DAY = 3600 * SECOND, 86_400 * SECOND
STEP = 2 * HOUR  # of windows of one hour, without lateness
NOW = 20_000 * DAY


def hour(begin: float, length: float = 1) -> list[int]:
    """The points of a file whose rows are spread over some hours."""
    return [int(NOW + (begin + length * k / 100) * HOUR) for k in range(1, 100)]


NOTHING = ClockEvidence()


def after(
    files: Sequence[Sequence[int]], begin: ClockEvidence = NOTHING, limit: int = 0
) -> ClockEvidence:
    for points in files:
        begin = begin.after(points, STEP, limit)
    return begin


def reached(evidence: ClockEvidence) -> float:
    """In hours."""
    assert evidence.reached is not None
    return (evidence.reached - NOW) / HOUR


# ---- this machine's clocks ---------------------------------------------------------------------


@pytest.mark.parametrize("leap", [-400, 4000])
def test_within_a_boot_what_passes_is_measured(leap: int) -> None:
    before = ClockReading(NOW, "boot", 5 * SECOND)
    after = ClockReading(NOW + leap * DAY + 10 * SECOND, "boot", 15 * SECOND)
    assert passed(before, after) == 10 * SECOND
    assert jumped(before, after) == leap * DAY


@pytest.mark.parametrize(("days", "believed"), [(3, True), (8, False), (4000, False), (-1, False)])
@pytest.mark.parametrize("boots", [("one", "two"), ("", "one"), ("", "")])
def test_over_a_boot_the_wall_clock_is_believed_for_a_week(days, believed, boots) -> None:
    before, after = (ClockReading(NOW + k * days * DAY, boots[k], 7 - k) for k in (0, 1))
    assert passed(before, after) == (days * DAY if believed else None)
    assert jumped(before, after) == (0 if believed else days * DAY)
    assert OFF == 7 * DAY


# ---- files -------------------------------------------------------------------------------------


def rows(*parts: tuple[int, float, float]) -> np.ndarray:
    """(count, first hour, last hour) of rows, by the limit."""
    return np.concatenate([NOW + HOUR * np.linspace(a, b, n) for n, a, b in parts]).astype(np.int64)


@pytest.mark.parametrize(
    ("parts", "due"),
    [
        ([(1000, -2, 0)], None),
        ([(1000, -2, -1), (9, 0.4, 0.5)], None),  # strays, fewer than one in a hundred
        ([(950, -2, -1), (50, 9e4, 9e4)], None),  # a twentieth from another age
        ([(760, -2, -1), (240, 9e4, 9e4)], None),
        ([(740, -2, -1), (260, 9e4, 9e4)], 9e4),
        ([(600, -10, -1), (300, 1.5, 8)], 7.8),  # a night without rows, and a clock behind
        ([(50, -4e5, -4e5), (920, -2, -1), (30, 9e4, 9e4)], None),
        ([(950, -2, -1), (50, 0.4, 0.5)], 0.4),  # as many, that will soon be true
        ([(930, -2, -1), (30, 0.4, 0.5), (40, 9e4, 9e4)], 0.4),
        ([(1000, -0.5, 0.5)], 0.4),
        ([(400, -2, -1), (600, 9600, 9601)], 9600),  # all of a file, or most: our own clock?
        ([(1000, 96_000, 96_001)], 96_000),
    ],
)
def test_a_file_waits_for_what_may_come_true(parts, due) -> None:
    found = span(rows(*parts), NOW, HOUR)
    if due is None:
        assert found.due <= NOW
    else:
        assert NOW + due * HOUR <= found.due <= NOW + (due + 1) * HOUR
    assert all(point <= NOW for point in found.points)


def test_a_file_that_waits_is_taken_in_when_the_clock_has_come_to_its_rows() -> None:
    """However often it is looked at; thirteen hours behind, for a file of a day."""
    moments, limit, looks = rows((10_000, -11, 13)), NOW, 0
    while (found := span(moments, limit, HOUR)).due > limit:
        limit, looks = found.due, looks + 1
        assert looks < 50
    ahead = np.count_nonzero(moments > limit)
    assert ahead <= 100  # one in a hundred may be a stray
    assert span(np.empty(0, np.int64), NOW, HOUR).due <= NOW


# ---- how far time has come ---------------------------------------------------------------------


def test_time_goes_with_files_that_come_steadily() -> None:
    evidence = ClockEvidence()
    for k in range(48):
        evidence = after([hour(k), hour(k), hour(k - 3)], evidence)
        assert reached(evidence) == pytest.approx(k + 0.99)
    assert evidence.beyond == ()


def test_one_file_of_another_year_moves_nothing() -> None:
    begin = after([hour(k) for k in range(12)])
    far = after([hour(9000)], begin)
    assert far.reached == begin.reached
    assert len(far.beyond) == 1
    # Nor a file of which any part has another date, however large.
    for wrong in (2, 30, 50, 90):
        mixed = hour(12)[: 99 - wrong] + hour(9000)[99 - wrong :]
        assert reached(after([mixed], begin)) <= 13
    # Nor do four in a row; of the next one, most of the latest files say so.
    four = after([hour(9000 + k) for k in range(4)], begin)
    assert four.reached == begin.reached
    assert reached(after([hour(9004)], four)) == pytest.approx(9004.99)


def test_a_file_a_day_moves_time_by_what_has_passed_here() -> None:
    evidence = after([hour(12)])
    for day in range(1, 30):
        limit = (evidence.reached or 0) + DAY + STEP
        evidence = after([hour(24 * day + 12)], evidence, limit)
        assert reached(evidence) == pytest.approx(24 * day + 12.99)


def test_a_file_a_day_of_last_year_moves_time_by_its_own_steps() -> None:
    """Nothing has passed here, and a day is too long a step for hours; but it is the usual one."""
    evidence = after([hour(24 * day + 12) for day in range(30)])
    assert reached(evidence) == pytest.approx(24 * 29 + 12.99)
    lost = after([hour(24 * 400)], evidence)
    assert lost.reached == evidence.reached


def test_after_a_gap_time_follows_most_of_the_latest_files() -> None:
    evidence = after([hour(k) for k in range(24)])
    for k in range(MOST - 1):
        evidence = after([hour(100 + k)], evidence)
        assert reached(evidence) < 24
    assert reached(after([hour(100 + MOST)], evidence)) == pytest.approx(100 + MOST + 0.99)


def test_time_does_not_go_back() -> None:
    evidence = after([hour(k) for k in range(24)])
    assert after([hour(k) for k in range(24)], evidence).reached == evidence.reached


@pytest.mark.parametrize("seed", range(4))
def test_one_file_in_a_hundred_may_be_wrong(seed: int) -> None:
    """A year of them, in order: time is never ahead of the rows that are right."""
    rng = SeededRandom(seed)
    wrong = rng.integers(100, 8760) == 0
    by = rng.integers(20_000, 8760).astype(int) - 10_000  # a year and more, either way
    evidence = ClockEvidence()
    for k in range(8760):
        begin = k + by[k] if wrong[k] and abs(by[k]) > 10 else k
        evidence = after([hour(int(begin))], evidence)
        assert k < MOST or k - MOST <= reached(evidence) <= k + 1
    assert np.count_nonzero(wrong) > 50


def test_only_the_latest_files_are_remembered() -> None:
    evidence = after([hour(k) for k in range(100)])
    assert len(evidence.recent) == FILES
