"""`hushbeam even-share`: the share of even numbers in a column of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mechanisms.frequency.task import FrequencyTask
from mechanisms.postprocess.intervals import intervals, standard_errors
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs.inputs import ALONE
from pipelines.metrics.heading import Heading
from pipelines.metrics.metric import FRESH
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import best_design
from pipelines.wording import covered
from transforms.collector.collect import CollectFrequencies
from transforms.columns import null
from transforms.encoders.block import CellBlock
from transforms.encoders.encoder import BATCH, NULL_VALUE


@dataclass(frozen=True)
class ParityEncoder:
    """Even numbers to cell 0, odd ones to cell 1, nulls to another one or to none."""

    column: str
    instead: int | None
    kind: ClassVar = CellBlock
    batch_size: ClassVar = BATCH

    @property
    def columns(self):
        return frozenset([self.column])

    @property
    def line_types(self):
        return {self.column: pa.int64()}  # of values that come one a line

    def encode(self, batch, rows, rng):
        numbers = batch.column(self.column)
        rows.reject(NULL_VALUE, null(numbers))
        odd = numbers.fill_null(0).to_numpy(zero_copy_only=False) & 1
        return CellBlock(rows.filled(rows.of(odd).astype(np.uint32), self.instead), None)


@dataclass(frozen=True, kw_only=True)
class EvenShare(Randomised):
    """The share of even numbers."""

    kind = "even-share"

    @classmethod
    def resolve(cls, options, source=ALONE, open_rng=SecureRandom):
        telemetry = source.open(options)
        kind = telemetry.column_type(options.column, "--column")
        if not (telemetry.unread or pa.types.is_integer(kind)):
            raise RequestError(f"--column: {options.column!r} holds {kind}; integers are needed")
        if options.fill is not None and not options.fill.lstrip("-").isdigit():
            raise RequestError("--unusable fill: name an integer, as in fill=0")
        parities, seed = FrequencyTask(2 + options.hides), source.public_seed()
        least, design = best_design(options, parities, telemetry.rows, seed=seed)
        return cls(
            options=options, telemetry=telemetry, design=design, min_reports=least,
            open_rng=open_rng,
        )  # fmt: skip

    # ---- the client: rows to cells, which the design's mechanism perturbs ------------------------

    def encoder(self, coins=FRESH):
        even_or_odd = None if self.options.fill is None else int(self.options.fill) & 1
        return ParityEncoder(self.options.column, 2 if self.options.hides else even_or_odd)

    # ---- the collector: reports to what is published ---------------------------------------------

    def estimated(self, reports):
        return reports.messages | CollectFrequencies(self.mechanism, "pop", reports.users)

    @property
    def heading(self):
        return Heading(f"{self.options.column}: share", {"even_share.parquet": "share"})

    def tables(self, estimate):
        n, unbiased, confidence = estimate.n, estimate.unbiased, self.options.confidence
        lower, upper = intervals(self.mechanism, unbiased, n, confidence, simultaneous=False)
        columns = {
            "estimate": estimate.estimate,
            "unbiased": unbiased,
            "standard_error": standard_errors(self.mechanism, unbiased, n),
            "lower": lower,
            "upper": upper,
        }
        return {"even_share.parquet": pa.table({name: x[:1] for name, x in columns.items()})}

    def own_statement(self, estimate):
        return {"error": {"covers": covered(self.unit)}}
