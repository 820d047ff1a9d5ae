"""Counting messages: the one aggregation of every collector."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, reduce
from typing import Any, NamedTuple, Protocol

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Counts, Messages
from transforms.elements.numbers import amount, is_numbered

_WAITING = 1 << 16  # messages are counted together, once there are so many or as many as counters


class Collector(Protocol):
    """The half of a mechanism that counts messages."""

    @property
    def several(self) -> bool:
        """Whether users may send none, or more than one message, so that counts tell no users."""

    def valid(self, messages: Messages) -> NDArray[np.bool_]:
        """(n,) which messages a client could have sent."""

    def count(self, messages: Messages) -> Counts:
        """How often each code came."""


class Counted(NamedTuple):
    """What a batch of messages comes to.

    Attributes:
        counts: what the mechanism's `count` yields.
        messages: how many came that a client could have sent.
        invalid: how many were dropped because no client could have sent them.
    """

    counts: Counts
    messages: int
    invalid: int


class CollectorState(NamedTuple):
    """A collector's state: it merges by addition, so any bundling gives the same result.

    Attributes:
        counts: as `Counted`; None while all messages wait.
        messages: as `Counted`.
        invalid: as `Counted`.
        waiting: of `messages` those that are not in `counts` yet.
        numbers: the same of blocks that say how often each code came.
    """

    counts: Counts | None = None
    messages: int = 0
    invalid: int = 0
    waiting: tuple[Messages, ...] = ()
    numbers: tuple[NDArray[np.void], ...] = ()

    @property
    def rows(self) -> int:
        """How much of it waits."""
        return sum(block.size for block in (*self.waiting, *self.numbers))


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Counted)
class CountMessages(beam.CombineFn):
    """Counts messages.

    A bundle of few messages passes them on as they are: tables may have millions of counters, and
    one is made and added only where there is something to fill it with.
    """

    def __init__(self, mechanism: Collector, waiting: int = _WAITING) -> None:
        self._mechanism, self._waiting = mechanism, waiting

    @cached_property
    def _enough(self) -> int:
        """As many messages as there are counters; made on workers, not where a job is planned."""
        return max(self._waiting, self._mechanism.count(np.empty(0, np.uint64)).size)

    def create_accumulator(self) -> CollectorState:
        return CollectorState()

    def add_input(self, state: CollectorState, messages: Messages) -> CollectorState:
        # What no client can have sent is counted and left out: it may be an attack, and stops
        # nothing.
        block: Any = messages
        valid = self._mechanism.valid(block["code"] if is_numbered(messages) else block)
        kept = messages if valid.all() else messages[valid]
        came = amount(kept)
        state = state._replace(
            messages=state.messages + came, invalid=state.invalid + amount(messages) - came
        )
        if is_numbered(messages):
            return self._settled(state._replace(numbers=_joined(state.numbers, kept)))
        return self._settled(state._replace(waiting=_joined(state.waiting, kept)))

    def merge_accumulators(self, states: Iterable[CollectorState]) -> CollectorState:
        merged = CollectorState()
        for state in states:
            merged = self._settled(
                CollectorState(
                    _sum(merged.counts, state.counts),
                    merged.messages + state.messages,
                    merged.invalid + state.invalid,
                    reduce(_joined, state.waiting, merged.waiting),
                    reduce(_joined, state.numbers, merged.numbers),
                )
            )
        return merged

    def extract_output(self, state: CollectorState) -> Any:
        return self.counted(state)

    def counted(self, state: CollectorState) -> Counted:
        """The counts, with nothing left waiting."""
        waiting = np.concatenate([np.empty(0, np.uint64), *state.waiting])
        counts = self._mechanism.count(waiting)
        for block in state.numbers:  # where a message is the counter that it raises
            np.add.at(counts, block["code"].astype(np.int64), block["times"])
        if state.counts is not None:
            np.add(counts, state.counts, out=counts)
        return Counted(counts, state.messages, state.invalid)

    def _settled(self, state: CollectorState) -> CollectorState:
        """The same, its messages counted if they are many."""
        if state.rows < self._enough:
            return state
        return CollectorState(*self.counted(state))


def _sum(one: Counts | None, other: Counts | None) -> Counts | None:
    """Two states' counts together. A new array: a runner may use a state again."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _joined(waiting: tuple[NDArray[Any], ...], block: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """One more block, smaller ones put together: each is over twice the next, so they are few."""
    while waiting and waiting[-1].size <= 2 * block.size:
        block, waiting = np.concatenate([waiting[-1], block]), waiting[:-1]
    return (*waiting, block) if block.size else waiting
