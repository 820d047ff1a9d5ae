"""Local perturbation: a Map over blocks, the one step that makes a value private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.channel import Mechanism
from mechanisms.randomness import SecureRandom
from transforms.blocks import Generator
from transforms.encode import CellBlock
from transforms.progress import REPORTS, tally

_MESSAGES = 1 << 22  # of one block, on average at most


@dataclass
class Perturb(beam.PTransform):
    """Blocks of cells in, blocks of messages out; nothing but the messages goes on.

    Put it straight before `Shuffle`: a bundle that is retried then replaces its messages and
    never adds a second draw of the same value.

    Attributes:
        mechanism: what randomises each cell.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    mechanism: Mechanism
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return blocks | "Perturb" >> beam.ParDo(PerturbDoFn(self.mechanism, self.open_rng))


def users_of(block: Any) -> int:
    """How many users a block stands for, one entry each: of cells, or of rows."""
    return len(block[0])


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(np.ndarray)
class PerturbDoFn(beam.DoFn):
    """Each value through the mechanism, with this worker's own keystream."""

    def __init__(self, mechanism: Mechanism, open_rng: Generator) -> None:
        self._mechanism, self._open_rng = mechanism, open_rng
        # Where a user sends thousands of messages, a block of users must not become too large.
        self._users = max(1, int(_MESSAGES / mechanism.messages))

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: CellBlock) -> Iterator[np.ndarray]:
        tally(REPORTS, block.cells.size)
        for start in range(0, block.cells.size, self._users):
            yield self._mechanism.perturb(block.cells[start : start + self._users], self._rng)
