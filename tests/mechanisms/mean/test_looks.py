"""False alarms over all looks are as many as was asked for, by the normal law and its noise."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.mean.looks import Looks, boundary

RUNS = 400_000
OFF = 6.1 * np.sqrt(0.05 * 0.95 / RUNS)  # 0.21 %: beyond it once in 10^9


def test_boundaries_are_those_of_tables() -> None:
    """Of five looks as R's ldbounds has them; noise is taken for a hundredth of a look."""
    known = [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]
    assert [boundary(0.05, 5, look) for look in range(1, 6)] == pytest.approx(known, abs=0.002)
    assert Looks().half(0.05, 1.0, 3.0) == pytest.approx(2 * 1.959964)


@pytest.mark.verify
@pytest.mark.parametrize(("planned", "noise"), [(2, 0.0), (5, 0.3), (28, 0.0), (28, 0.1)])
def test_planned_looks_alarm_as_often_as_one(planned: int, noise: float) -> None:
    """noise: its variance at the last look, in that of chance; it is as much at every look."""
    draw = np.random.default_rng(planned)
    chance, alarms = np.zeros(RUNS), np.zeros(RUNS, bool)
    for look in range(1, planned + 1):
        chance += draw.normal(size=RUNS)
        own = noise * planned  # in what one look adds
        seen = chance + np.sqrt(own) * draw.normal(size=RUNS)
        alarms |= np.abs(seen) > Looks(planned, look).half(0.05, look, own)
    assert alarms.mean() == pytest.approx(0.05, abs=OFF + 5e-4)  # what rounding of noise changes


@pytest.mark.verify
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_sequence_alarms_no_more_often_than_that(noise: float) -> None:
    """From a fiftieth of what was expected to twenty times as much, in 1,000 looks."""
    draw, runs = np.random.default_rng(3), 20_000
    chance, alarms = np.zeros(runs), np.zeros(runs, bool)
    for look in range(1, 1001):
        chance += draw.normal(size=runs)
        own = noise * 50
        seen = chance + np.sqrt(own / 2) * draw.laplace(size=runs)
        alarms |= np.abs(seen) > Looks(1, look, True).half(0.05, look, own, look / 50)
    # Noise has an interval of its own, which is more than both together need.
    assert (0.0 if noise else 0.02) < alarms.mean() < 0.05


def test_a_sequence_is_narrowest_where_all_are_there() -> None:
    lengths = [Looks(sequence=True).half(0.05, 1.0, 0.0, part) for part in (0.1, 1.0, 10.0)]
    assert lengths[1] == min(lengths)
    assert 1.5 < lengths[1] / 1.96 < 1.65
