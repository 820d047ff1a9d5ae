"""Reports that come again in the next window: counted once, in bounded memory."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from mechanisms.randomness import SeededRandom
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import DUPLICATE
from tests.oracles.transforms import run
from tests.oracles.wire import PLAN
from transforms.reports.repeats import DropRepeats, EchoDoFn

FORM = Form()


def made(n: int, seed: int = 1) -> Reports:
    return Reports.submitted(PLAN, 0, np.arange(n) % 9, SeededRandom(seed))


def _stamped(at: int, block: Reports) -> TimestampedValue:
    return TimestampedValue(block, at)


def repeated(moments: list[int], reports: Reports) -> tuple[list[int], dict[str, int]]:
    """(how many reports are left in each window of ten seconds, what was counted)."""

    def place(block: Reports, window=beam.DoFn.WindowParam) -> tuple[int, int]:
        return int(window.start.micros // 10_000_000), len(block)

    outcome = run(
        lambda p: (
            p
            | beam.Create([(moment, reports) for moment in moments])
            | beam.MapTuple(lambda at, block: TimestampedValue(block, at)).with_output_types(
                Reports
            )
            | beam.WindowInto(FixedWindows(10))
            | DropRepeats(PLAN, FORM, 10_000_000)
            | beam.Map(place)
        )
    )
    left = [0] * 8
    for window, size in outcome.elements:
        left[window] += size
    return left, outcome.counters


def test_what_comes_again_in_the_next_window_counts_once():
    """As when a client tries again across a window's end; and then again in every window."""
    left, counted = repeated([3, 12, 13, 24, 35], made(50))
    assert left == [50, 0, 0, 0, 0, 0, 0, 0]
    assert counted == {DUPLICATE: 200}


def test_what_was_forgotten_counts_again():
    left, counted = repeated([3, 24, 65], made(50))
    assert left == [50, 0, 50, 0, 0, 0, 50, 0]
    assert counted == {}


def test_an_echo_is_of_ids_alone():
    (stamped,) = EchoDoFn(5).process(made(20), Timestamp(0))
    echo = stamped.value
    assert np.array_equal(
        np.unique(echo.records["report_id"], axis=0),
        np.unique(made(20).records["report_id"], axis=0),
    )
    assert not echo.records["message"].any()
    assert not echo.records["length"].any()
