"""The collector of a search for frequent strings: messages -> counts -> strings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
from apache_beam import typehints

from mechanisms.heavy_hitters.discovery import Found, discover
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from transforms.collect_counts import Counted, CountMessages


class Discovered(NamedTuple):
    """What a search has found, and how many messages no client could have sent."""

    found: Found
    invalid: int


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
