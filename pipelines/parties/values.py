"""Values that come one a line, as a table of the column that a metric asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.metrics.metric import Metric

_BLOCK = 1 << 16  # lines made a table at a time
_LARGEST_BLOCK = 1 << 22  # bytes, beyond which a table is made of fewer
_LARGEST_LINE = 1 << 20  # bytes


def tables(metric: Metric) -> Iterator[pa.Table]:
    """The lines of the standard input, in tables of one column.

    A line that is not what the metric asks for becomes a null, and is counted as one.

    Args:
        metric: whose values they are.

    Raises:
        RequestError: the metric needs more than one column, or a line is longer than 1 MiB.
    """
    column = str(metric.options.column)
    if getattr(metric.options, "group_by", None) is not None:
        raise RequestError(
            f"--input: metric {metric.name} needs two columns, {column} and its groups: name a "
            "Parquet file"
        )
    kind = metric.line_type
    for lines in _blocks(sys.stdin.buffer):
        texts = map(_text, lines)
        yield pa.table({column: pa.array([_value(text, kind) for text in texts], kind)})


def _blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Some lines at a time, in bounded memory: nobody says that a stream ever ends a line."""
    block, size, number = list[bytes](), 0, 0
    while line := stream.readline(_LARGEST_LINE + 1):
        number += 1
        if len(line) > _LARGEST_LINE:
            raise RequestError(
                f"--input: line {number:,} is longer than {_LARGEST_LINE >> 20} MiB: values come "
                "one a line"
            )
        block.append(line)
        size += len(line)
        if len(block) >= _BLOCK or size >= _LARGEST_BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _text(line: bytes) -> str | None:
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        return None


def _value(text: str | None, kind: pa.DataType) -> str | int | float | None:
    """A line as a value, or None if it is none of this type."""
    if text is None or pa.types.is_string(kind):
        return text
    try:
        value = float(text) if pa.types.is_floating(kind) else int(text)
    except ValueError:
        return None
    return value if pa.types.is_floating(kind) or -(1 << 63) <= value < 1 << 63 else None
