"""Values that come one a line, as tables of the columns that a metric asks for."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.metrics.metric import Metric

_BLOCK = 1 << 16  # lines made a table at a time
_LARGEST_BLOCK = 1 << 22  # bytes, beyond which a table is made of fewer
_LARGEST_LINE = 1 << 20  # bytes


def tables(metric: Metric) -> Iterator[pa.Table]:
    """The lines of the standard input, in tables of the metric's columns.

    Of a metric of one column of single values a line is a value; of any other it is a JSON object
    with the columns' names, as in {"seconds": 3.5, "city": "Oslo"}. A value that is not what the
    metric asks for becomes a null, and is counted as one.

    Args:
        metric: whose values they are.

    Raises:
        RequestError: a line is longer than 1 MiB, or should be an object and is none.
    """
    # Of a total a line is a row, whatever stands on it.
    types = metric.encoder().line_types or {"": pa.string()}
    one = len(types) == 1 and not any(pa.types.is_list(kind) for kind in types.values())
    for first, lines in _blocks(sys.stdin.buffer):
        texts = enumerate(map(_text, lines), first)
        rows = [dict.fromkeys(types, text) if one else _object(text, n) for n, text in texts]
        yield pa.table(
            {
                column: pa.array([_value(row.get(column), kind) for row in rows], kind)
                for column, kind in types.items()
            }
        )


def _blocks(stream: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Some lines, and the number of the first, in bounded memory: a line may never end."""
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
            yield number - len(block) + 1, block
            block, size = [], 0
    if block:
        yield number - len(block) + 1, block


def _text(line: bytes) -> str | None:
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        return None


def _object(text: str | None, number: int) -> dict[str, Any]:
    """A line as a JSON object."""
    row: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        row = json.loads(text or "", parse_constant=_no_number)
    if type(row) is not dict:
        raise RequestError(
            f"--input: line {number:,} is no JSON object: of several columns a line names each, as "
            'in {"seconds": 3.5, "city": "Oslo"}'
        )
    return row


def _no_number(name: str) -> NoReturn:
    """NaN and infinities are no JSON, though Python reads them."""
    raise ValueError(f"{name} is no JSON")


def _value(written: Any, kind: pa.DataType) -> Any:
    """What was written as a value of a type, or None if it is none."""
    if pa.types.is_list(kind):
        if type(written) is not list:
            return None
        numbers = [_value(number, kind.value_type) for number in written]
        return None if None in numbers else numbers
    if type(written) not in (str, int, float):
        return None
    if pa.types.is_string(kind):
        return str(written)
    if pa.types.is_date(kind):
        return _day(str(written))
    # 3.0 is an integer that somebody wrote as a number; 3.5 is not to be cut to one.
    if pa.types.is_integer(kind) and type(written) is float and not written.is_integer():
        return None
    try:
        number = float(written) if pa.types.is_floating(kind) else int(written)
    except (ValueError, OverflowError):
        return None
    return number if pa.types.is_floating(kind) or -(1 << 63) <= number < 1 << 63 else None


def _day(written: str) -> date | None:
    try:
        return date.fromisoformat(written)
    except ValueError:
        return None
