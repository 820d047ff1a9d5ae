"""Local perturbation: a Map over blocks, the one step that makes a value private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.randomness import SecureRandom
from transforms.elements.blocks import DrawingDoFn, Generator
from transforms.elements.conservation import PERTURBED, SENT, Batches
from transforms.elements.progress import REPORTS, tally
from transforms.encoders.block import Client, RowBlock, pieces
from transforms.rows.encode import CellBlock

_WORDS = 1 << 22  # of the rows treated at a time, or of their messages, on average at most


@dataclass
class Perturb(beam.PTransform):
    """Blocks of cells or rows in, blocks of messages out; nothing but the messages goes on.

    Put it straight before `Shuffle`: a bundle that is retried then replaces its messages and
    never adds a second draw of the same value.

    Attributes:
        mechanism: what randomises each cell, or each row.
        open_rng: opens the generator on each worker; a seeded one is for tests.
    """

    mechanism: Client
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return blocks | "Perturb" >> beam.ParDo(PerturbDoFn(self.mechanism, self.open_rng))


class Perturbed(NamedTuple):
    """What `PerturbAndCount` yields.

    Attributes:
        messages: blocks of them.
        flow: (name, count) of the rows that came, and of the messages of each batch that went.
    """

    messages: beam.PCollection
    flow: beam.PCollection


@dataclass
class PerturbAndCount(beam.PTransform):
    """The same, with what is counted of it: in the step itself, which takes none beside it.

    Attributes:
        mechanism, open_rng: as in `Perturb`.
        batches: by which messages are counted.
    """

    mechanism: Client
    batches: Batches
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> Perturbed:
        step = beam.ParDo(PerturbDoFn(self.mechanism, self.open_rng, self.batches))
        outputs = blocks | "Perturb" >> step.with_outputs(PerturbDoFn.FLOW, main="messages")
        return Perturbed(outputs.messages, outputs[PerturbDoFn.FLOW])


def users_of(block: CellBlock | RowBlock) -> int:
    """How many users a block stands for, each with one row."""
    return block.size


@typehints.with_input_types(CellBlock | RowBlock)
@typehints.with_output_types(np.ndarray)
class PerturbDoFn(DrawingDoFn):
    """Each row through the mechanism, with this worker's own keystream.

    With `batches` the output tagged `FLOW` has how many rows came, and how many messages went.
    """

    FLOW: ClassVar[str] = "flow"

    def __init__(
        self, mechanism: Client, open_rng: Generator, batches: Batches | None = None
    ) -> None:
        self._mechanism, self._open_rng, self._batches = mechanism, open_rng, batches

    def process(self, block: CellBlock | RowBlock) -> Iterator[Any]:
        batches = self._batches
        if batches is None:
            yield from (messages for _, messages in self.perturbed(block))
            return
        sent = np.zeros(batches.number, np.int64)
        for _, messages in self.perturbed(block):
            sent += batches.sizes(messages)
            yield messages
        for counted in ((PERTURBED, block.size), (SENT, sent)):
            yield beam.pvalue.TaggedOutput(self.FLOW, counted)

    def perturbed(self, block: Any) -> Iterator[tuple[Any, np.ndarray]]:
        """Pieces of a block, each with its messages."""
        tally(REPORTS, block.size)
        # Where a user sends thousands of messages, a block of users must not become too large.
        most = max(1, int(_WORDS / max(self._mechanism.messages, block.width)))
        for piece in pieces(block, most):
            yield piece, piece.perturbed(self._mechanism, self._rng)
