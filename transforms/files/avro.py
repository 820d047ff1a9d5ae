"""Avro, by the reader that Beam's own connector stands on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, cast

import pyarrow as pa

from transforms.files.format import Look, Opener
from transforms.files.moments import TIME
from transforms.files.reading import Reading

_ROWS = 1 << 16  # that become a table

_KINDS = {
    "string": pa.string(), "bytes": pa.binary(), "int": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "null": pa.null(),
    "enum": pa.string(),
}  # fmt: skip
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": TIME,
    "timestamp-micros": TIME,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_OTHER = pa.struct([])  # records, maps and the like: there, and of no use


class Avro:
    """Row by row, as Avro is laid out."""

    name: ClassVar[str] = "Avro"
    endings: ClassVar[tuple[str, ...]] = (".avro",)
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> Look:
        from fastavro import block_reader

        with open_file() as stream:
            blocks = block_reader(stream)
            fields = _fields(blocks)
            # Each block says how many rows it has, and how long it is.
            rows = sum(block.num_records for block in blocks)
        return Look(rows, pa.schema([*fields.items()]))

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        from fastavro import reader

        with open_file() as stream:
            rows = reader(stream)
            kinds = _fields(rows)
            schema = pa.schema([(name, kinds[name]) for name in columns])
            while some := [*islice(cast(Iterator[dict[str, Any]], rows), _ROWS)]:
                parts = [_array([row[f.name] for row in some], f.type) for f in schema]
                yield pa.table(parts, schema=schema)


def _fields(reader: Any) -> dict[str, pa.DataType]:
    """Column -> type, of a file whose rows are records."""
    return {field["name"]: _kind(field["type"]) for field in reader.writer_schema["fields"]}


def _kind(written: Any) -> pa.DataType:
    """Arrow's type for one of Avro's; what may be null beside it has the other's."""
    if isinstance(written, list):
        others = [part for part in written if part != "null"]
        return _kind(others[0]) if len(others) == 1 else _OTHER
    if isinstance(written, dict):
        if written.get("logicalType") in _LOGICAL:
            return _LOGICAL[written["logicalType"]]
        if written["type"] == "array":
            return pa.list_(_kind(written["items"]))
        return _OTHER if "logicalType" in written else _kind(written["type"])
    return _KINDS.get(written, _OTHER)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(values), kind) if kind == _OTHER else pa.array(values, kind)
