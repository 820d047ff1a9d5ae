"""Local perturbation of rows: a Map over blocks, as `Perturb` is for single values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.channel import Mechanism
from mechanisms.randomness import SecureRandom
from mechanisms.vector.base import VectorMean
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.rows import shortened
from transforms.blocks import Generator
from transforms.encode_rows import RowBlock
from transforms.pick_coordinates import PickedBlock
from transforms.progress import REPORTS, tally

SHORTENED = "longer than the radius, shortened"

_NUMBERS = 1 << 22  # of a block of rows that is treated at a time, or of its messages


@dataclass
class PerturbRows(beam.PTransform):
    """`RowBlock`s in, blocks of messages out; nothing but the messages goes on.

    Attributes:
        mechanism: what randomises each row of numbers.
        radius: rows that measure more, once they are scaled to [-1, 1], are shortened to it, and
            counted; None leaves all as they are.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    mechanism: VectorMean
    radius: float | None = None
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        perturb = PerturbRowsDoFn(self.mechanism, self.radius, self.open_rng)
        return blocks | "Perturb" >> beam.ParDo(perturb)


@typehints.with_input_types(RowBlock)
@typehints.with_output_types(np.ndarray)
class PerturbRowsDoFn(beam.DoFn):
    """Each row through the mechanism, with this worker's own keystream."""

    def __init__(self, mechanism: VectorMean, radius: float | None, open_rng: Generator) -> None:
        self._mechanism, self._radius, self._open_rng = mechanism, radius, open_rng
        self._users = max(1, int(_NUMBERS / max(mechanism.messages, mechanism.dimension)))

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock) -> Iterator[np.ndarray]:
        tally(REPORTS, len(block.numbers))
        for start in range(0, len(block.numbers), self._users):
            rows = block.numbers[start : start + self._users].astype(np.float64)
            yield self._mechanism.report(self._within(rows), self._rng)

    def _within(self, rows: np.ndarray) -> np.ndarray:
        """Rows, the long ones shortened."""
        if self._radius is None:
            return rows
        long = int(np.count_nonzero(np.einsum("ij,ij->i", rows, rows) > self._radius**2))
        if long:
            # A counter for whoever runs the job. It is no part of a release: like the number of
            # clipped values it would tell of single rows.
            tally(SHORTENED, long)
        return shortened(rows, self._radius)


@dataclass
class PerturbMixed(beam.PTransform):
    """`RowBlock`s of numbers and categories in, blocks of messages out; nothing else goes on.

    Attributes:
        mechanism: what randomises each row; its numbers come first.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    mechanism: MixedRows
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return blocks | "Perturb" >> beam.ParDo(PerturbMixedDoFn(self.mechanism, self.open_rng))


@typehints.with_input_types(RowBlock)
@typehints.with_output_types(np.ndarray)
class PerturbMixedDoFn(beam.DoFn):
    """A few attributes of each row through their mechanisms, with this worker's own keystream."""

    def __init__(self, mechanism: MixedRows, open_rng: Generator) -> None:
        self._mechanism, self._open_rng = mechanism, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock) -> Iterator[np.ndarray]:
        tally(REPORTS, len(block.numbers))
        yield self._mechanism.report(block.numbers, block.categories, self._rng)


@dataclass
class PerturbPicked(beam.PTransform):
    """`PickedBlock`s in, blocks of messages out; nothing but the messages goes on.

    Attributes:
        mechanism: what randomises each picked cell, its coordinate in the clear.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    mechanism: Mechanism
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return blocks | "Perturb" >> beam.ParDo(PerturbPickedDoFn(self.mechanism, self.open_rng))


@typehints.with_input_types(PickedBlock)
@typehints.with_output_types(np.ndarray)
class PerturbPickedDoFn(beam.DoFn):
    """Each picked cell through the mechanism, with this worker's own keystream."""

    def __init__(self, mechanism: Mechanism, open_rng: Generator) -> None:
        self._mechanism, self._open_rng = mechanism, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: PickedBlock) -> Iterator[np.ndarray]:
        tally(REPORTS, len(block.cells))
        yield self._mechanism.perturb(block.cells.reshape(-1), self._rng)
