"""What the jobs about a column of numbers share: options, checks, and the way to cells."""

from __future__ import annotations

import io
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from mechanisms.channel import Guarantee
from mechanisms.randomness import SecureRandom
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.requests import Whole
from pipelines.road import fresh_digest
from pipelines.wording import RAW_ROWS, meaning
from transforms.blocks import Generator
from transforms.contributions import OneValuePerUser
from transforms.encode_numbers import (
    Bounds,
    EncodeNumbersDoFn,
    GroupColumn,
    Rounding,
    Scale,
    is_numeric,
)
from transforms.progress import ROWS

_LARGEST_EPSILON = 700.0  # beyond it e^epsilon leaves the range of doubles, and all sense
_PACKAGES = ("hushbeam", "apache-beam", "numpy", "scipy", "pyarrow", "cryptography")


class NumberOptions(BaseModel):
    """What a person asks of a column of numbers; checked before anything is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: tuple[str, ...] = Field(min_length=1)
    column: str
    output: str = Field(min_length=1)
    bounds: str | None = None
    user_column: str | None = None
    model: Literal["local", "shuffle"] = "shuffle"
    epsilon: float | None = Field(None, gt=0, le=_LARGEST_EPSILON)
    delta: float | None = Field(None, ge=0, lt=1)
    epsilon_local: float | None = Field(None, gt=0, le=_LARGEST_EPSILON)
    min_reports: Whole | None = Field(None, ge=1)
    mechanism: str = "auto"
    cells: Whole | None = Field(None, ge=1)
    confidence: float = Field(0.95, gt=0, lt=1)

    @property
    def unit(self) -> str:
        """Whose value is protected."""
        return "row" if self.user_column is None else "user"


def read_bounds(text: str | None) -> Bounds:
    """The bounds in "L,U".

    Raises:
        RequestError: they are not two finite numbers, the first below the second.

    >>> read_bounds("-5,5")
    Bounds(low=-5.0, high=5.0)
    """
    if text is None:
        raise RequestError("--bounds is missing: name the least and the largest value, as in 0,100")
    parts = text.split(",")
    try:
        ends = [float(part) for part in parts]
    except ValueError:
        ends = []
    if len(ends) != 2:
        raise RequestError(
            f"--bounds must be two numbers with a comma, as in 0,100 or -5,5, not {text!r}"
        )
    if not math.isfinite(ends[1] - ends[0]):
        raise RequestError(f"--bounds must be finite, and so must be their distance, not {text!r}")
    if not ends[0] < ends[1]:
        raise RequestError(f"--bounds: the first must be below the second, not {text!r}")
    return Bounds(*ends)


def open_numbers(options: NumberOptions, given: inputs.Given = inputs.ALONE) -> inputs.Telemetry:
    """The files, after all checks that need no more than their footers.

    Raises:
        RequestError: the output is taken, there is no input, or a column is not what it must be.
    """
    telemetry = given.open(options.input, options.output)
    kind = telemetry.column_type(options.column, "--column")
    if not (telemetry.unread or is_numeric(kind)):
        raise RequestError(
            f"--column: {options.column!r} holds {kind}; numbers are needed (integers, floats or "
            "decimals)"
        )
    if options.user_column is not None:
        inputs.check_user_column(telemetry, options.user_column)
    return telemetry


class Cells(NamedTuple):
    """What `EncodeCells` yields: CellBlocks, and (name, count) pairs that are added up by name."""

    cells: beam.PCollection
    tallies: beam.PCollection


@dataclass
class EncodeCells(beam.PTransform):
    """From tables to `Cells`: one cell a row, or with a user column one cell a user.

    Attributes:
        options: what was asked.
        bounds: what the numbers are clipped to.
        rounding: what takes them to cells.
        groups: the column that says which mean a number belongs to.
        buckets: into how many groups users are hashed.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: NumberOptions
    bounds: Scale
    rounding: Rounding
    groups: GroupColumn | None = None
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, tables: beam.PCollection) -> Cells:
        users = fresh_digest(self.options.user_column)
        encode = EncodeNumbersDoFn(
            self.options.column, self.bounds, self.rounding, users, self.groups, self.open_rng
        )
        encoded = tables | "Encode" >> beam.ParDo(encode).with_outputs(encode.TALLIES, main="cells")
        cells = encoded.cells
        if users is not None:
            cells |= "Bound contributions" >> OneValuePerUser(self.buckets, self.open_rng)
        return Cells(cells, encoded[encode.TALLIES] | "Add up tallies" >> beam.CombinePerKey(sum))


def statement_head(
    kind: str,
    guarantees: tuple[Guarantee, Guarantee],
    more_words: Iterable[str],
    least: int,
) -> dict[str, Any]:
    """How the statement of any release of numbers begins.

    Args:
        kind: of release: "mean", "distribution".
        guarantees: what the release promises, and what a single report does.
        more_words: cautions, and what else the promises need.
        least: the least batch for which the guarantee was computed.
    """
    released, local = guarantees
    in_words = [meaning(each, least) for each in dict.fromkeys(guarantees)]
    return {
        "statement_version": 1,
        "release": kind,
        "release_id": None,  # whoever publishes knows it
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "in_words": [*in_words, *more_words, RAW_ROWS],
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
    }


def counted(n: int, invalid: int, tallies: Mapping[str, int]) -> dict[str, Any]:
    """What a statement counts: all of it is published as it is."""
    return {
        "published_exactly": "the number of reports, of rows read and of rejects by reason",
        "n": n,
        "rows_read": tallies.get(ROWS, 0),
        "rejects": {name: amount for name, amount in sorted(tallies.items()) if name != ROWS},
        "invalid_reports": invalid,
    }


def versions() -> dict[str, str]:
    """What the release was made with."""
    return {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def parquet(table: pa.Table) -> bytes:
    """A table as a file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
