"""Noise that a job draws once: a function of a secret, of names and of what was counted.

Engines run steps again. A step that draws from the system would draw anew, and who sees two
releases of one count sees less noise than was paid for. So the secret is what is drawn, behind a
group that an engine keeps, and steps that use it draw the same whenever they run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton

from mechanisms.randomness import RandomSource, SecureRandom, keyed_random
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce

# (what was counted, the generator of its noise) -> what may be published
Draw = Callable[[Any, RandomSource], Any]


class Drawing(NamedTuple):
    """What noise is drawn from, and for which windows.

    Attributes:
        secret: one element of 32 bytes, which no graph, template or log has.
        windows: one element in each window that is published, with rows or without, which comes
            once the window's price is set aside; None where all rows are one batch, at no ledger.
    """

    secret: beam.PCollection
    windows: beam.PCollection | None = None

    def with_empty(self, blocks: beam.PCollection, none: Any, kind: Any) -> beam.PCollection:
        """Blocks of a kind, and the one without content in each window that is published."""
        if self.windows is None:
            return blocks
        empty = self.windows | "Empty" >> beam.Map(lambda _: none).with_output_types(kind)
        return (blocks, empty) | "With empty windows" >> beam.Flatten()

    def paid(self, counted: beam.PCollection) -> beam.PCollection:
        """What was counted of a window, once the window's element has come; of others, nothing.

        Grouped with it, and not by a side input: Prism 2.77 hands out those of windows before they
        are there. An engine that keeps what it has grouped then draws for the same totals again.
        """
        if self.windows is None:
            return counted
        marks = self.windows | "Paid" >> beam.Map(lambda _: (0, (True, None)))
        counted = counted | "Counted" >> beam.Map(lambda element: (0, (False, element)))
        grouped = (marks, counted) | "Paid and counted" >> beam.Flatten() | "Join" >> GroupOnce()
        return grouped | "Once paid" >> beam.FlatMap(_once_paid)


def _once_paid(grouped: tuple[int, Iterable[tuple[bool, Any]]]) -> list[Any]:
    parts = [*grouped[1]]
    return [element for paid, element in parts if not paid] if any(p for p, _ in parts) else []


@dataclass
class DrawSecret(beam.PTransform):
    """From nothing to one secret, of a generator that is opened where it is drawn."""

    open_rng: Generator = field(default=SecureRandom)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        return (
            begin
            | "Once" >> beam.Impulse()
            | "Draw" >> beam.ParDo(SecretDoFn(self.open_rng))
            | "Keep" >> GroupOnce()
            | "Kept" >> beam.FlatMapTuple(lambda _, kept: kept).with_output_types(bytes)
        )


@typehints.with_output_types(tuple[int, bytes])
class SecretDoFn(DrawingDoFn):
    """Draws 256 bits."""

    def __init__(self, open_rng: Generator) -> None:
        self._open_rng = open_rng

    def process(self, _: bytes) -> Iterator[tuple[int, bytes]]:
        yield 0, self._rng.words(4).tobytes()


@dataclass
class DrawNoise(beam.PTransform):
    """What was counted, one element a window, to what may be published of a metric of this name."""

    draw: Draw
    name: str
    drawing: Drawing

    def expand(self, counted: beam.PCollection) -> beam.PCollection:
        paid, secret = self.drawing.paid(counted), AsSingleton(self.drawing.secret)
        return paid | "Draw" >> beam.ParDo(NoiseDoFn(self.draw, self.name), secret)


class NoiseDoFn(beam.DoFn):
    """Draws the noise of a window; the same again whenever it runs."""

    def __init__(self, draw: Draw, name: str) -> None:
        self._draw, self._name = draw, name

    def process(
        self, counted: Any, secret: bytes, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        # An engine may lose what it has grouped and count again, where rows were chosen or rounded
        # at random. Other totals must not get the same noise: who saw both would see the truth of
        # their difference.
        digest = hashlib.sha256(counted.counts.tobytes()).digest()
        rng = keyed_random(secret, self._name.encode(), repr(window).encode(), digest)
        yield self._draw(counted, rng)
