"""Rows of numbers from the columns of a Parquet file, each taken from its bounds to [-1, 1]."""

from __future__ import annotations

import math
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.errors import RequestError
from pipelines.evaluate.sources import is_number, kind_of, parquet

_FILE = re.compile(r"(?P<path>.+?\.parquet):(?P<columns>.+)")
_COLUMN = re.compile(r"(?P<name>.+)=(?P<low>[^,=]+),(?P<high>[^,=]+)")
_MOST_NUMBERS = 1 << 28  # of a file: a gigabyte in memory

Matrix = NDArray[np.float32]


def file_name(text: str) -> str:
    """What the data of a file are called; its folder, which may tell who keeps them, is not.

    >>> file_name("logs/adult.parquet:age=17,90:hours=0,99")
    'adult:age=17,90:hours=0,99'
    """
    path, _, columns = text.partition(".parquet:")
    return f"{os.path.basename(path)}:{columns}"


def read_columns(text: str, forms: str) -> Matrix:
    """The rows of a file.

    Args:
        text: `FILE.parquet:COLUMN=L,U:COLUMN=L,U...`; a column holds integers, floats or decimals,
            or lists of them, or bytes, all of one length.
        forms: what may be asked for, for a refusal.

    Returns:
        (n, d) clipped to the bounds, and these taken to [-1, 1]; at least two rows. Those with a
        null, NaN or infinity are left out.

    Raises:
        RequestError: it is of another form, cannot be read, or holds no such rows.
    """
    match = _FILE.fullmatch(text)
    wanted = [] if match is None else [_bounded(each) for each in match["columns"].split(":")]
    if match is None or None in wanted:
        raise RequestError(f"--data: {text} is not of the form {forms}")
    named = [each for each in wanted if each is not None]
    table = _table(match["path"], [name for name, _, _ in named])
    parts = []
    for name, low, high in named:
        numbers = _numbers(match["path"], name, table.column(name))
        parts.append(np.clip((2 * numbers - low - high) / (high - low), -1, 1))
    rows = np.concatenate(parts, axis=1, dtype=np.float32)
    whole = rows[np.isfinite(rows).all(axis=1)]
    if not len(whole) > 1:
        raise RequestError(f"--data: {match['path']} has fewer than two rows without a gap")
    return whole


def _bounded(text: str) -> tuple[str, float, float] | None:
    """A column and its bounds, or None."""
    match = _COLUMN.fullmatch(text)
    if match is None:
        return None
    try:
        low, high = float(match["low"]), float(match["high"])
    except ValueError:
        return None
    return (match["name"], low, high) if low < high and math.isfinite(high - low) else None


def _table(path: str, columns: list[str]) -> pa.Table:
    """Columns of a file, each of which it has once."""
    with parquet(path) as file:
        for column in columns:
            kind_of(path, column, file.schema_arrow)
            if columns.count(column) > 1:
                raise RequestError(f"--data: column {column!r} of {path} is named twice")
        return file.read(columns=columns)


def _numbers(path: str, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """(rows, width) numbers of a column, NaN where there is none."""
    kind = column.type
    if is_number(kind):
        return _floats(column)[:, None]
    several = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if pa.types.is_fixed_size_binary(kind):
        column, several = column.cast(pa.binary()), True
    if pa.types.is_fixed_size_list(kind):
        column, listed = column.cast(pa.list_(kind.value_type)), True
    if not (several or (listed and is_number(column.type.value_type))):
        raise RequestError(f"--data: {name!r} holds {kind}; numbers, lists of them or bytes do")
    lengths = pc.binary_length(column) if several else pc.list_value_length(column)
    span = pc.min_max(lengths).as_py()
    width = span["max"]
    if not (width and span["min"] == width and len(column) * width <= _MOST_NUMBERS):
        raise RequestError(f"--data: lists in {name!r} of {path} are empty, unequal or too many")
    held = np.flatnonzero(pc.is_valid(column).to_numpy())
    filled = column.drop_null()
    flat = _bytes(filled) if several else _floats(pc.list_flatten(filled))
    numbers = np.full((len(column), width), np.nan)
    numbers[held] = flat.reshape(-1, width)
    return numbers


def _bytes(column: pa.ChunkedArray) -> NDArray[np.uint8]:
    """All bytes of a column without nulls, one after another."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8)


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Numbers as doubles; nulls become NaN."""
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)
