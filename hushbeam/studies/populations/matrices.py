"""Rows of numbers from the columns of a Parquet file, each taken from its bounds to [-1, 1]."""

from __future__ import annotations

import math
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushbeam.studies.populations.sources import doubles, is_number, numbers, read_columns
from mechanisms.channel import Floats
from pipelines.errors import RequestError

_MOST_NUMBERS = 1 << 28  # of a file: a gigabyte in memory

Matrix = NDArray[np.float32]


def file_name(text: str) -> str:
    """What the data of a file are called; its folder, which may tell who keeps them, is not.

    >>> file_name("logs/adult.parquet:age=17,90:hours=0,99")
    'adult:age=17,90:hours=0,99'
    """
    path, _, columns = text.partition(".parquet:")
    return f"{os.path.basename(path)}:{columns}"


def read_matrix(text: str, forms: str) -> Matrix:
    """The rows of a file.

    Args:
        text: `FILE.parquet:COLUMN=L,U:COLUMN=L,U...`; a column has integers, floats or decimals,
            or lists of them, or bytes, all of one length.
        forms: what texts there are, for a refusal.

    Returns:
        (n, d) clipped to the bounds, and these taken to [-1, 1]; at least two rows. Those with a
        null, NaN or infinity are left out.

    Raises:
        RequestError: it is of another form, cannot be read, or has no such rows.
    """
    path, bounds = _bounds(text, forms)
    table = read_columns(path, list(bounds))
    parts = []
    for name, (low, high) in bounds.items():
        values = _numbers(path, name, table.column(name))
        parts.append(np.clip((2 * values - low - high) / (high - low), -1, 1))
    rows = np.concatenate(parts, axis=1, dtype=np.float32)
    whole = rows[np.isfinite(rows).all(axis=1)]
    if not len(whole) > 1:
        raise RequestError(f"--data: {path} has fewer than two rows without a gap")
    return whole


def _bounds(text: str, forms: str) -> tuple[str, dict[str, tuple[float, float]]]:
    """The path of a file, and the bounds of each of its columns."""
    stem, _, columns = text.partition(".parquet:")
    bounds: dict[str, tuple[float, float]] = {}
    for column in columns.split(":"):
        name, _, limits = column.rpartition("=")
        low, high = (*numbers(limits), math.nan, math.nan)[:2]
        if not (stem and name and limits.count(",") == 1 and 0 < high - low < math.inf):
            raise RequestError(f"--data: {text} is not of the form {forms}")
        if name in bounds:
            raise RequestError(f"--data: column {name!r} of {text} is named twice")
        bounds[name] = low, high
    return f"{stem}.parquet", bounds


def _numbers(path: str, name: str, column: pa.ChunkedArray) -> Floats:
    """(rows, width) numbers of a column, NaN where there is none."""
    kind = column.type
    if is_number(kind):
        return doubles(column)[:, None]
    # What is of a fixed size has a different type for each size, but no other meaning.
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    listed = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not (binary or (listed and is_number(column.type.value_type))):
        raise RequestError(f"--data: {name!r} holds {kind}; numbers, lists of them or bytes do")
    lengths = pc.min_max(pc.binary_length(column) if binary else pc.list_value_length(column))
    least, width = lengths["min"].as_py(), lengths["max"].as_py()
    if not (width and least == width and len(column) * width <= _MOST_NUMBERS):
        raise RequestError(f"--data: lists in {name!r} of {path} are empty, unequal or too many")
    filled = column.drop_null()
    flat = _bytes(filled) if binary else doubles(pc.list_flatten(filled))
    values = np.full((len(column), width), np.nan)
    values[np.flatnonzero(pc.is_valid(column).to_numpy())] = flat.reshape(-1, width)
    return values


def _bytes(column: pa.ChunkedArray) -> NDArray[np.uint8]:
    """All bytes of a column without nulls, one after another."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8)
