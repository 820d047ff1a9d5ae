"""Tables as files that others read: Parquet or CSV, whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import pyarrow as pa

from pipelines.errors import RequestError, reason
from pipelines.storage.paths import new_file

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_NUMBERS = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?(\.\.[+-]?[\d.]+(e[+-]?\d+)?)?", re.ASCII)


def require_writable(output: str, *others: str) -> None:
    """Refuse a name that says no format, before anything is read.

    Args:
        output: a file that is to be written.
        *others: endings of what may be written beside tables.

    Raises:
        RequestError: it ends in none.
    """
    endings = (*_WRITERS, *others)
    if os.path.splitext(output)[1] not in endings:
        raise RequestError(f"--output: {output} ends in none of {', '.join(endings)}")


def require_new(*outputs: str) -> None:
    """Refuse a file that is there already.

    Raises:
        RequestError: it is.
    """
    from apache_beam.io.filesystems import FileSystems

    for output in outputs:
        if FileSystems.exists(output):
            raise RequestError(f"--output: {output} is there already; name a new file")


def write(output: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write tables as one.

    Args:
        output: a new file, local or in a store; its ending says the format.
        schema: of all of them.
        tables: one after another.

    Returns:
        How many rows it has.

    Raises:
        RequestError: it is there already, or cannot be written.
    """
    of_format = _WRITERS[os.path.splitext(output)[1]]
    return _written(output, lambda stream: of_format(stream, schema, tables))


def write_whole(output: str, content: bytes) -> None:
    """Write a file that stands beside such tables.

    Raises:
        RequestError: it is there already, or cannot be written.
    """
    _written(output, lambda stream: stream.write(content))


def _written(output: str, write: Callable[[BinaryIO], int]) -> int:
    """A file that is whole or is not there; returns what writing it has returned."""
    from apache_beam.io.filesystems import FileSystems

    try:
        require_new(output)
        there = FileSystems.get_scheme(output) is not None
        with FileSystems.create(output) if there else new_file(output, over=False) as stream:
            return write(stream)
    except OSError as error:
        raise RequestError(f"--output: {output} cannot be written: {reason(error)}") from None


def _rows(writer: Any, tables: Iterable[pa.Table]) -> int:
    """How many rows were written."""
    rows = 0
    with writer:
        for table in tables:
            writer.write_table(table)
            rows += len(table)
    return rows


def _parquet(stream: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    import pyarrow.parquet as pq

    return _rows(pq.ParquetWriter(stream, schema, compression="zstd"), tables)


def _csv(stream: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    from pyarrow import csv

    return _rows(csv.CSVWriter(stream, schema), map(harmless, tables))


def harmless(table: pa.Table) -> pa.Table:
    """A table whose texts no spreadsheet takes for a formula: clients may have made them up.

    >>> import pyarrow as pa
    >>> harmless(pa.table({"value": ["=1+1", "-5", "Oslo"]}))["value"].to_pylist()
    ["'=1+1", '-5', 'Oslo']
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = [_harmless(text) for text in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(texts, field.type))
    return table


def _harmless(text: str | None) -> str | None:
    if text is None or not text.startswith(_FORMULAS):
        return text
    return text if _NUMBERS.fullmatch(text) else f"'{text}"


_WRITERS = {".parquet": _parquet, ".csv": _csv}
