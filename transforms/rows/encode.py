"""From tables to blocks: the one step that runs any encoder.

What a model sees of a row, and what it should tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.learning.features import Features
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SecureRandom
from transforms.elements.block_coders import weighed
from transforms.elements.blocks import DrawingDoFn, Generator
from transforms.elements.conservation import ADDING_UP
from transforms.elements.progress import FILES, READ, ROWS, tally
from transforms.encoders.block import CellBlock, PooledBlock, RowBlock
from transforms.encoders.encoder import Encoder, encoded
from transforms.encoders.part import ELSEWHERE, Part
from transforms.encoders.users import UserDigest

__all__ = ["CellBlock", "Encode", "EncodeDoFn", "EncodedRows"]

weighed(CellBlock)
weighed(PooledBlock)
weighed(RowBlock)


class EncodedRows(NamedTuple):
    """What `Encode` yields.

    Attributes:
        blocks: usable rows.
        tallies: (name, count), one for each name: the rows read, and the rejects by reason; FILES
            and READ, where files say how many rows they had.
    """

    blocks: beam.PCollection
    tallies: beam.PCollection


@dataclass
class Encode(beam.PTransform):
    """Tables in, `EncodedRows` out.

    Attributes:
        encoder: of the values.
        users: the privacy unit; None where that is a row.
        open_rng: opens the generator on each worker; a seeded one is for tests.
        part: which units answer, if not all; the tables then say what was drawn for each row.
        reported: whether the engine's counters say how many rows there are, and of which kinds: not
            where a unit may have several, or noise hides how many take part.
    """

    encoder: Encoder
    users: UserDigest | None = None
    open_rng: Generator = field(default=SecureRandom)
    part: Part | None = None
    reported: bool = True

    def expand(self, tables: beam.PCollection) -> EncodedRows:
        encode = EncodeDoFn(self)
        step = beam.ParDo(encode).with_output_types(self.encoder.kind)
        outputs = tables | "Encode" >> step.with_outputs(encode.TALLIES, main="blocks")
        tallies = outputs[encode.TALLIES] | "Add up tallies" >> beam.CombinePerKey(ADDING_UP)
        return EncodedRows(outputs.blocks, tallies)


@typehints.with_input_types(pa.Table)
class EncodeDoFn(DrawingDoFn):
    """Tables to blocks; rows that cannot be used are counted under their reason.

    The main output holds blocks; the output tagged `TALLIES` holds (name, count) pairs. Neither a
    value nor a user ever reaches the tallies.
    """

    TALLIES = "tallies"

    def __init__(self, encode: Encode) -> None:
        self._encode, self._open_rng = encode, encode.open_rng

    def process(self, table: pa.Table) -> Iterator[Any]:
        encoder, part = self._encode.encoder, self._encode.part
        counted = Counter({ROWS: table.num_rows})
        if READ.encode() in (said := table.schema.metadata or {}):
            for name in (READ, FILES):
                yield beam.pvalue.TaggedOutput(self.TALLIES, (name, int(said[name.encode()])))
        if part is not None:
            table = part.rows(table)
            counted[ELSEWHERE] = counted[ROWS] - table.num_rows
        for batch in table.to_batches(max_chunksize=encoder.batch_size):
            block, rejects = encoded(encoder, batch, self._encode.users, self._rng)
            counted += rejects
            if block.size:
                yield block
        for name, amount in (+counted).items():
            # Engines show their counters to whoever may see the job.
            if self._encode.reported:
                tally(name, amount)
            yield beam.pvalue.TaggedOutput(self.TALLIES, (name, amount))


@dataclass(frozen=True)
class Examples:
    """What takes blocks of rows to what a model sees and what it should tell.

    Attributes:
        features: of the model.
        classified: whether the target is the last of the categories, rather than of the numbers.
    """

    features: Features
    classified: bool

    def __call__(self, block: RowBlock) -> tuple[Numbers, NDArray[Any]]:
        """((n, inputs) rows, (n,) targets) of a block whose last column is the target's."""
        if self.classified:
            rows = self.features.rows(block.numbers, block.categories[:, :-1])
            return rows, block.categories[:, -1]
        return self.features.rows(block.numbers[:, :-1], block.categories), block.numbers[:, -1]
