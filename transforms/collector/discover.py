"""The collector of a search for frequent strings: messages -> counts -> strings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import apache_beam as beam

from mechanisms.heavy_hitters.discovery import FrequentStrings, discover
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from transforms.collector.collect import Collect
from transforms.collector.collect_counts import Counted


class Discovered(NamedTuple):
    """What a search has found, and how many messages no client could have sent."""

    strings: FrequentStrings
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
        estimate = partial(discovered, self.protocol, self.search, self.top, self.confidence)
        collect = Collect(self.protocol.levels, estimate)
        return messages | "Collect" >> collect.with_output_types(Discovered)


def discovered(
    protocol: Protocol,
    search: Search,
    top: int | None,
    confidence: float,
    counted: Counted,
    users: int,
) -> Discovered:
    """From the counts of all levels to strings: see `Discover`; everybody sends one message."""
    strings = discover(protocol, counted.counts, search, top, confidence)
    return Discovered(strings, counted.invalid)
