"""The collector of a search for frequent strings: messages -> counts -> strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Counts, Mechanism
from mechanisms.heavy_hitters.discovery import Found, discover
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search


class Counted(NamedTuple):
    """A collector's state: it merges by addition, so any bundling gives the same result.

    Attributes:
        counts: (codes,) how often each message came.
        invalid: how many were dropped because no client could have sent them.
    """

    counts: Counts
    invalid: int


class Discovered(NamedTuple):
    """What a search has found, and how many messages no client could have sent."""

    found: Found
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


@dataclass
class Discover(beam.PTransform):
    """Blocks of shuffled messages in, one `Discovered` out: also of an empty batch.

    Attributes:
        protocol: what the users ran.
        search: what is followed, and what may be wrong.
        top: how many strings are wanted at most; all that stand out if it is None.
        confidence: of the intervals.
    """

    protocol: Protocol
    search: Search
    top: int | None = None
    confidence: float = 0.95

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        return (
            messages
            | "Count" >> beam.CombineGlobally(CountMessages(self.protocol.levels))
            | "Descend"
            >> beam.ParDo(DescendDoFn(self.protocol, self.search, self.top, self.confidence))
        )


@typehints.with_input_types(Counted)
@typehints.with_output_types(Discovered)
class DescendDoFn(beam.DoFn):
    """From the counts of all levels to strings."""

    def __init__(
        self, protocol: Protocol, search: Search, top: int | None, confidence: float
    ) -> None:
        self._protocol, self._search = protocol, search
        self._top, self._confidence = top, confidence

    def process(self, state: Counted) -> Iterator[Discovered]:
        found = discover(self._protocol, state.counts, self._search, self._top, self._confidence)
        yield Discovered(found, state.invalid)
