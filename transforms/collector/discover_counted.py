"""Shuffler and collector of a search by noisy counters: keys -> their numbers -> strings.

The collector of a search for frequent strings: messages -> counts -> strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.heavy_hitters.counted import CountedSearch, StringEstimates, Tally
from mechanisms.heavy_hitters.discovery import FrequentStrings, discover
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.randomness import SecureRandom
from transforms.collector.collect import Collect
from transforms.collector.collect_counts import Counted
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce

_WAITING = 1 << 21  # keys that are tallied together


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
        collect = Collect(self.protocol.levels, self._discovered)
        return messages | "Collect" >> collect.with_output_types(Discovered)

    def _discovered(self, counted: Counted, users: int) -> Discovered:
        """From the counts of all levels to strings; everybody sends one message."""
        strings = discover(self.protocol, counted.counts, self.search, self.top, self.confidence)
        return Discovered(strings, counted.invalid)


class Searched(NamedTuple):
    """What a search has found, and of how many messages."""

    strings: StringEstimates
    messages: int


class Tallying(NamedTuple):
    """Keys that were tallied, and tallies that wait to be added."""

    tally: Tally
    waiting: tuple[Tally, ...] = ()
    messages: int = 0


@dataclass
class DiscoverCounted(beam.PTransform):
    """Tallies of keys in, one `Searched` out: also of an empty batch.

    Which counters there are follows from noisy counts, level by level, so one worker makes them
    all. What it found goes straight into a group: a bundle that is retried replaces its dummies,
    and all who read the strings read the same ones.

    Attributes:
        search: what users ran.
        design: the noise.
        false_strings: as of `CountedSearch.discover`.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    search: CountedSearch
    design: Counters | JobTotals
    false_strings: float
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, keys: beam.PCollection) -> beam.PCollection:
        return (
            keys
            | "Tally" >> beam.CombineGlobally(TallyKeys())
            | "Discover" >> beam.ParDo(DiscoverDoFn(self))
            | "Once drawn" >> GroupOnce()
            | "Searched" >> beam.FlatMap(_searched).with_output_types(Searched)
        )


@typehints.with_input_types(Tally)
@typehints.with_output_types(Tallying)
class TallyKeys(beam.CombineFn):
    """How often each key came; a state takes 16 bytes for each that did."""

    def create_accumulator(self) -> Tallying:
        return Tallying(Tally.of(np.empty(0, np.uint64)))

    def add_input(self, state: Tallying, tally: Tally) -> Tallying:
        messages = state.messages + int(tally.counts.sum())
        more = Tallying(state.tally, (*state.waiting, tally), messages)
        return more if sum(one.keys.size for one in more.waiting) < _WAITING else _settled([more])

    def merge_accumulators(self, states: Iterable[Tallying]) -> Tallying:
        return _settled([self.create_accumulator(), *states])

    def extract_output(self, state: Tallying) -> Tallying:
        return _settled([state])


def _settled(states: list[Tallying]) -> Tallying:
    """Several states as one, with nothing that waits."""
    tallies = [tally for state in states for tally in (state.tally, *state.waiting)]
    keys, counts = map(np.concatenate, zip(*tallies, strict=True))
    return Tallying(Tally.of(keys, counts), (), sum(state.messages for state in states))


@typehints.with_input_types(Tallying)
@typehints.with_output_types(tuple[int, Any])
class DiscoverDoFn(DrawingDoFn):
    """Draws the dummies of all levels, and goes down the tree."""

    def __init__(self, into: DiscoverCounted) -> None:
        self._into, self._open_rng = into, into.open_rng

    def process(self, tallied: Tallying) -> Iterator[tuple[int, Any]]:
        arguments = tallied.tally, self._into.design, self._into.false_strings, self._rng
        yield 0, Searched(self._into.search.discover(*arguments), tallied.messages)


def _searched(drawn: tuple[int, Iterable[Any]]) -> list[Searched]:
    [searched] = drawn[1]
    return [searched]
