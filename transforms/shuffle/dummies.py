"""The shuffler's dummies, drawn once: a step of its own, which knows no row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.counters.choose import DummyCounters
from mechanisms.counters.design import Range
from mechanisms.randomness import SecureRandom
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce, repeated
from transforms.elements.chains import FLOW
from transforms.elements.conservation import DRAWN, added
from transforms.elements.numbers import numbered
from transforms.elements.pieces import Piece

_COUNTERS = 1 << 14  # of a range; of devices' dummies so many


class WithDummies(NamedTuple):
    """What `AddDummies` yields.

    Attributes:
        messages: and the dummies.
        flow: (name, count) of the ranges for which there are dummies, and of all messages.
    """

    messages: beam.PCollection
    flow: beam.PCollection


@dataclass
class AddDummies(beam.PTransform):
    """Blocks of codes, nulls left out, in; `WithDummies`, the same and dummies, as numbers, out.

    The job that draws them counts them, too, so of each counter's dummies one number travels,
    however many there are.

    Where nobody sees a report by itself, empty slots need not travel, nor dummies of them: what is
    seen without them follows from what is paid for.

    How many dummies each counter gets is drawn by one element for each range of counters, or of all
    devices that are enrolled where these draw them, whoever is in the log. It goes straight into a
    group: a bundle that is retried replaces its draw, and all who read the dummies read the same
    ones.

    Attributes:
        counters: what they are drawn for.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    counters: DummyCounters
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, messages: beam.PCollection) -> WithDummies:
        drawn = messages.pipeline | "Drawn" >> _Drawn(self.counters, self.open_rng, nulls=False)
        dummies = drawn | "Dummies" >> beam.FlatMap(numbers).with_output_types(np.ndarray)
        flow = drawn | "Ranges drawn" >> beam.FlatMap(_drawn)
        return WithDummies((messages, dummies) | "With dummies" >> beam.Flatten(), flow)


@dataclass
class DrawDummies(beam.PTransform):
    """Nothing in; `WithDummies`, blocks of dummies alone, nulls among them, one by one, out.

    Attributes:
        counters, open_rng: as in `AddDummies`.
    """

    counters: DummyCounters
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, begin: beam.pvalue.PBegin) -> WithDummies:
        drawn = begin | "Drawn" >> _Drawn(self.counters, self.open_rng, nulls=True)
        dummies = drawn | "Dummies" >> beam.FlatMap(spread).with_output_types(np.ndarray)
        return WithDummies(dummies, drawn | "Ranges drawn" >> beam.FlatMap(_drawn))


@dataclass
class _Drawn(beam.PTransform):
    """Nothing in; how many dummies each counter of a range has, out."""

    counters: DummyCounters
    open_rng: Generator
    nulls: bool

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        draw = DrawDummiesDoFn(self.counters, self.open_rng, self.nulls)
        return (
            begin
            | "Ranges of counters" >> beam.Create([*enumerate(ranges_of(self.counters))])
            | "Draw dummies" >> beam.ParDo(draw)
            | "Once drawn" >> GroupOnce()
        )


def ranges_of(counters: DummyCounters) -> list[Range]:
    """What workers draw the dummies of, each on its own."""
    return counters.ranges(_COUNTERS)


@typehints.with_output_types(tuple[int, Piece])
class DrawDummiesDoFn(DrawingDoFn):
    """How many dummies each counter of a range gets."""

    def __init__(self, counters: DummyCounters, open_rng: Generator, nulls: bool) -> None:
        self._counters, self._open_rng, self._nulls = counters, open_rng, nulls

    def process(self, numbered: tuple[int, Range]) -> Iterator[tuple[int, bytes]]:
        number, range_ = numbered
        codes, times = self._counters.draw(Range(*range_), self._rng)
        if not self._nulls:
            seen = np.isin(codes, self._counters.nulls, invert=True)
            codes, times = codes[seen], times[seen]
        yield number, np.stack([codes, times]).astype(np.int64).tobytes()


def _drawn(drawn: tuple[int, Iterable[bytes]]) -> Iterator[tuple[str, Any]]:
    """That a range was drawn, and how many dummies it has: lost ones are noise that is missing."""
    yield DRAWN, 1
    yield added(int(_read(drawn)[1].sum()), 1)


class CountDummiesDoFn(beam.DoFn):
    """The dummies of a range, as `AddDummies` hands them on, and its flow, tagged."""

    def process(self, drawn: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        yield from numbers(drawn)
        for fact in _drawn(drawn):
            yield beam.pvalue.TaggedOutput(FLOW, fact)


def _read(drawn: tuple[int, Iterable[bytes]]) -> NDArray[np.int64]:
    """(2, k) the codes of a range, and how many dummies each of them has."""
    [table] = drawn[1]
    return np.frombuffer(table, np.int64).reshape(2, -1)


def numbers(drawn: tuple[int, Iterable[bytes]]) -> Iterator[NDArray[np.void]]:
    """The dummies of a range, as one number for each code."""
    yield numbered(*_read(drawn))


def spread(drawn: tuple[int, Iterable[bytes]]) -> Iterator[Messages]:
    """The dummies of a range, as codes."""
    codes, times = _read(drawn)
    if not codes.size:  # few devices that send little may send nothing
        return
    yield from repeated(codes.astype(np.min_scalar_type(int(codes.max()))), times)
