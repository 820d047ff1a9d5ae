"""Pieces for a GroupByKey: no row lost, bounded waiting, no time kept, windows grouped once."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import trigger
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    Sessions,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.transforms import drive, grouped, run, source
from transforms.elements.blocks import GroupOnce, PartitionDoFn, partition


class Remainders(PartitionDoFn):
    """Rows are the block; the bucket is the remainder."""

    def rows(self, block):
        return block

    def assign(self, rows):
        return rows % self._buckets


def gathering(buckets: int, **limits: int) -> Remainders:
    """Such a step that sends on earlier than others do."""
    return type("Gathering", (Remainders,), limits)(buckets)


@given(st.lists(st.integers(0, 999), max_size=50), st.sampled_from([1, 2, 7, 256, 257, 65536]))
def test_partition_keeps_every_row_in_order_within_its_bucket(values, size):
    rows = np.array(values, np.uint16)
    pieces = list(partition(rows, rows.astype(np.uint64) % size, size))
    assert [bucket for bucket, _ in pieces] == sorted({value % size for value in values})
    for bucket, piece in pieces:
        expected = [value for value in values if value % size == bucket]
        assert piece.tolist() == expected


@pytest.mark.parametrize("buckets", [0, -1, 65537, float("nan")])
def test_impossible_numbers_of_buckets_are_refused(buckets):
    with pytest.raises(ValueError, match="buckets must lie in"):
        Remainders(buckets)


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=8), max_size=8), st.sampled_from([1, 5, 1000])
)
def test_rows_are_gathered_and_none_is_lost(bundles, buffer):
    arrays = [[np.array([v], np.uint8) for v in bundle] for bundle in bundles]
    sent = drive(gathering(3, most_rows=buffer), arrays)
    received = [v for pieces in grouped(sent).values() for v in b"".join(pieces)]
    assert sorted(received) == sorted(v for bundle in bundles for v in bundle)


def test_rows_wait_together_whatever_their_windows():
    """A bundle of many windows holds no more rows than a bundle of one."""
    dofn = gathering(2, most_rows=10)
    dofn.start_bundle()
    for day in range(100):
        list(dofn.process(np.arange(3), IntervalWindow(day, day + 1)))
        assert sum(len(r) for rows in dofn._waiting.values() for r in rows) < 10


def test_rows_wait_again_after_they_were_sent():
    """Else every later block of a bundle would leave in pieces of its own."""
    for limits in ({"most_rows": 10}, {"most_bytes": 80}):
        dofn = gathering(2, **limits)
        dofn.start_bundle()
        sent = [len(list(dofn.process(np.arange(4), GlobalWindow()))) for _ in range(9)]
        assert sent == [0, 0, 2] * 3


def test_pieces_carry_the_end_of_their_window():
    dofn, windows = Remainders(2), [IntervalWindow(0, 10), IntervalWindow(10, 20), GlobalWindow()]
    dofn.start_bundle()
    sent = [value for window in windows for value in dofn.process(np.arange(4), window)]
    sent += dofn.finish_bundle()
    assert {value.timestamp for value in sent} == {w.max_timestamp() for w in windows}
    assert all(next(iter(value.windows)).max_timestamp() == value.timestamp for value in sent)


def test_a_failed_bundle_leaves_nothing_behind():
    """Its rows are sent again by the retry, and must not be sent twice."""
    dofn = Remainders(2)
    dofn.start_bundle()
    list(dofn.process(np.arange(5), GlobalWindow()))
    assert grouped(drive(dofn, [[]])) == {}


def grouping(**windowing):
    def build(pipeline):
        return (
            pipeline
            | source([(0, "a"), (1, "b"), (0, "c")], tuple[int, str], spread=4)
            | beam.WindowInto(**windowing)
            | GroupOnce()
            | beam.MapTuple(lambda key, values: (key, sorted(values)))
        )

    return build


@pytest.mark.parametrize(
    ("windowing", "groups"),
    [
        ({"windowfn": GlobalWindows()}, [(0, ["a", "c"]), (1, ["b"])]),
        ({"windowfn": FixedWindows(5)}, [(0, ["a"]), (0, ["c"]), (1, ["b"])]),
        ({"windowfn": Sessions(9)}, [(0, ["a", "c"]), (1, ["b"])]),
        (
            {
                "windowfn": FixedWindows(5),
                "trigger": trigger.AfterWatermark(),
                "accumulation_mode": AccumulationMode.DISCARDING,
            },
            [(0, ["a"]), (0, ["c"]), (1, ["b"])],
        ),
    ],
)
def test_windows_that_fire_once_are_grouped(windowing, groups):
    assert sorted(run(grouping(**windowing)).elements) == groups


@pytest.mark.parametrize(
    ("firing", "lateness"),
    [
        (trigger.DefaultTrigger(), 60),
        (trigger.AfterWatermark(early=trigger.AfterCount(1)), 0),
        (trigger.AfterWatermark(late=trigger.AfterCount(1)), 60),
        (trigger.AfterCount(2), 0),
        (trigger.Repeatedly(trigger.AfterCount(1)), 0),
        (trigger.AfterProcessingTime(5), 0),
    ],
)
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
def test_windows_that_may_fire_again_are_refused(firing, lateness, mode):
    """Each firing would be a batch of its own, and hold one more value of each user."""
    build = grouping(
        windowfn=FixedWindows(5), trigger=firing, accumulation_mode=mode, allowed_lateness=lateness
    )
    with pytest.raises(ValueError, match="grouped once and whole"):
        build(beam.Pipeline("FnApiRunner"))
