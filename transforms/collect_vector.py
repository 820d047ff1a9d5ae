"""Counting the messages of rows: tables of millions of counters, few of which a bundle touches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Counts, Mechanism

_WAITING = 1 << 16  # messages are counted together, once there are so many or as many as counters


class CountedRows(NamedTuple):
    """A collector's state: it merges by addition, so any bundling gives the same result.

    Attributes:
        counts: what the mechanism's `count` yields; None while all messages wait.
        messages: how many came that a client could have sent.
        invalid: how many were dropped because no client could have sent them.
        waiting: of `messages` those not in `counts` yet.
    """

    counts: Counts | None
    messages: int
    invalid: int
    waiting: tuple[NDArray[np.uint64], ...] = ()


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(CountedRows)
class CountRows(beam.CombineFn):
    """Counts messages.

    A bundle of few messages passes them on as they are, so that a table of counters is made and
    added only where there is something to fill it with.
    """

    def __init__(self, mechanism: Mechanism, waiting: int = _WAITING) -> None:
        self._mechanism = mechanism
        self._enough = max(waiting, mechanism.count(np.empty(0, np.uint64)).size)

    def create_accumulator(self) -> CountedRows:
        return CountedRows(None, 0, 0)

    def add_input(self, state: CountedRows, messages: NDArray[np.uint64]) -> CountedRows:
        valid = self._mechanism.valid(messages)
        came = int(np.count_nonzero(valid))
        kept = messages if came == messages.size else messages[valid]
        return self._settled(
            CountedRows(
                state.counts,
                state.messages + came,
                state.invalid + messages.size - came,
                _joined(state.waiting, kept),
            )
        )

    def merge_accumulators(self, states: Iterable[CountedRows]) -> CountedRows:
        merged = self.create_accumulator()
        for state in states:
            counts = merged.counts
            if counts is None:
                counts = None if state.counts is None else state.counts.copy()
            elif state.counts is not None:
                np.add(counts, state.counts, out=counts)
            merged = self._settled(
                CountedRows(
                    counts,
                    merged.messages + state.messages,
                    merged.invalid + state.invalid,
                    reduce(_joined, state.waiting, merged.waiting),
                )
            )
        return merged

    def extract_output(self, state: CountedRows) -> CountedRows:
        return self._counted(state)

    def _settled(self, state: CountedRows) -> CountedRows:
        """The same, its messages counted if they are many."""
        if sum(block.size for block in state.waiting) < self._enough:
            return state
        return self._counted(state)

    def _counted(self, state: CountedRows) -> CountedRows:
        """The same, with no message left waiting."""
        waiting = np.concatenate([np.empty(0, np.uint64), *state.waiting])
        counts = self._mechanism.count(waiting)
        if state.counts is not None:
            np.add(counts, state.counts, out=counts)
        return CountedRows(counts, state.messages, state.invalid)


def _joined(
    waiting: tuple[NDArray[np.uint64], ...], block: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], ...]:
    """One more block, smaller ones put together: each is over twice the next, so they are few."""
    while waiting and waiting[-1].size <= 2 * block.size:
        block, waiting = np.concatenate([waiting[-1], block]), waiting[:-1]
    return (*waiting, block) if block.size else waiting
