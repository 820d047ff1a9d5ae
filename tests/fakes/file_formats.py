"""The same rows as a file of every format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

_AVRO = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean"}


def _parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def _orc(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.orc.write_table(rows, sink)
    return sink.getvalue()


def _arrow(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows)
    return sink.getvalue()


def _avro(rows: pa.Table) -> bytes:
    fields = [{"name": f.name, "type": ["null", _AVRO[f.type]]} for f in rows.schema]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist())
    return sink.getvalue()


def _csv(rows: pa.Table, delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(rows.column_names)
    writer.writerows(
        ["" if value is None else value for value in row.values()] for row in rows.to_pylist()
    )
    return text.getvalue().encode()


def _jsonl(rows: pa.Table) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows.to_pylist()).encode()


def _packed(write: Callable[[pa.Table], bytes], codec: str) -> Callable[[pa.Table], bytes]:
    def packed(rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(write(rows))
        return sink.getvalue().to_pybytes()

    return packed


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {
    ".parquet": _parquet,
    ".orc": _orc,
    ".arrow": _arrow,
    ".avro": _avro,
    ".csv": _csv,
    ".tsv": lambda rows: _csv(rows, "\t"),
    ".jsonl": _jsonl,
    ".csv.gz": _packed(_csv, "gzip"),
    ".csv.bz2": _packed(_csv, "bz2"),
    ".jsonl.zst": _packed(_jsonl, "zstd"),
}
"""Ending -> rows to the bytes of a file. Columns hold strings, whole numbers, doubles or truths."""
