"""Counting messages, for collectors that decode in a later step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Counts, Mechanism


class Counted(NamedTuple):
    """A collector's state: it merges by addition, so any bundling gives the same result.

    Attributes:
        counts: (codes,) how often each message came.
        invalid: how many were dropped because no client could have sent them.
    """

    counts: Counts
    invalid: int


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Counted)
class CountMessages(beam.CombineFn):
    """Counts messages."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism

    def create_accumulator(self) -> Counted:
        return Counted(np.zeros(self._mechanism.codes, np.int64), 0)

    def add_input(self, state: Counted, messages: NDArray[np.uint64]) -> Counted:
        valid = self._mechanism.valid(messages)
        invalid = int(messages.size - np.count_nonzero(valid))
        kept = messages[valid] if invalid else messages
        if kept.size < self._mechanism.codes:  # do not pass over counters that nothing adds to
            codes, times = np.unique(kept, return_counts=True)
            state.counts[codes.view(np.int64)] += times
        else:
            np.add(state.counts, self._mechanism.count(kept), out=state.counts)
        return Counted(state.counts, state.invalid + invalid)

    def merge_accumulators(self, states: Iterable[Counted]) -> Counted:
        merged = self.create_accumulator()
        for counts, invalid in states:
            np.add(merged.counts, counts, out=merged.counts)
            merged = Counted(merged.counts, merged.invalid + invalid)
        return merged

    def extract_output(self, state: Counted) -> Counted:
        return state
