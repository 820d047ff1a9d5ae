"""Units divided among metrics: each is asked for one, by a public draw that knows no value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints

from mechanisms.randomness import SecureRandom
from transforms.columns import decoded, plain
from transforms.elements.blocks import DrawingDoFn, Generator
from transforms.encoders.part import DRAWN
from transforms.encoders.users import UserDigest


@dataclass
class DrawParts(beam.PTransform):
    """Tables in; the same with a column of 64-bit draws, which say what each unit is asked, out.

    A user has one draw in all rows, files and runs; a row has one for all metrics, so it must be
    drawn before their ways part.

    Attributes:
        users: the privacy unit, under a public key; None where that is a row.
        open_rng: opens the generator of rows' draws; a seeded one is for tests.
    """

    users: UserDigest | None
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        return tables | "Draw parts" >> beam.ParDo(DrawPartsDoFn(self.users, self.open_rng))


@typehints.with_input_types(pa.Table)
@typehints.with_output_types(pa.Table)
class DrawPartsDoFn(DrawingDoFn):
    """Appends the draws."""

    def __init__(self, users: UserDigest | None, open_rng: Generator) -> None:
        self._users, self._open_rng = users, open_rng

    def process(self, table: pa.Table) -> Iterator[pa.Table]:
        if self._users is None:
            draws = self._rng.words(table.num_rows)
        else:
            column = table.column(self._users.column)
            digests = [self._users(decoded(plain(chunk))) for chunk in column.chunks]
            draws = np.concatenate([np.empty(0, np.uint64), *digests])
        yield table.append_column(DRAWN, pa.array(draws))
