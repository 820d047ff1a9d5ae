"""Avro, by the reader that Beam's own connector stands on, of files that cannot grow in it."""

import io
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, cast

import pyarrow as pa

from transforms.files.avro_blocks import Container
from transforms.files.avro_kinds import OTHER, Kind, Names, unsaid
from transforms.files.format import FileFacts, Mangled, Opener
from transforms.files.reading import Reading

_ROWS = 1 << 16  # that become a table


class Avro:
    """Row by row, as Avro is laid out.

    A schema may say of a few bytes that they are any number of values. It is looked at before a row
    is read, and a file whose rows nothing bounds is refused.
    """

    name: ClassVar[str] = "Avro"
    endings: ClassVar[tuple[str, ...]] = (".avro",)
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        with open_file() as stream:
            file = _File(stream)
            # Each block says how many rows it has, and how long it is.
            rows = sum(block.rows for block in file.container.blocks())
        return FileFacts(rows, pa.schema([(name, kind.type) for name, kind in file.kinds.items()]))

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            file = _File(stream)
            schema = pa.schema([(name, file.kinds[name].type) for name in columns])
            rows = file.rows({*columns})
            while some := [*islice(rows, _ROWS)]:
                parts = [_array(some, name, file.kinds[name]) for name in columns]
                yield pa.table(parts, schema=schema)


class _File:
    """A file of which the head was read.

    Attributes:
        container: its blocks.
        kinds: column -> what it holds.
    """

    def __init__(self, stream: Any) -> None:
        from fastavro import parse_schema

        self.container = Container(stream)
        self._schema: Any = parse_schema(unsaid(self.container.written))
        if not isinstance(self._schema, dict) or self._schema["type"] != "record":
            raise Mangled("its rows are no records, so that it has no columns")
        fields, self._names = self._schema["fields"], Names(self._schema)
        for field in fields:
            self._names.require_bounded(field["name"], field["type"])
        if not any(self._names.takes_bytes(field["type"]) for field in fields):
            raise Mangled("its rows take no bytes, so that nothing bounds how many it says it has")
        self.kinds = {field["name"]: self._names.kind(field["type"]) for field in fields}

    def rows(self, columns: set[str]) -> Iterator[dict[str, Any]]:
        """All rows, with some columns at the least."""
        from fastavro import parse_schema, schemaless_reader

        known = {name for name in columns if self.kinds[name].type != OTHER}
        rest = self.kinds.keys() - known
        # Reading to a schema of fewer columns takes longer than reading all that are short.
        some = any(self.kinds[name].broad for name in rest)
        chosen: Any = parse_schema(self._names.chosen(self._schema, known)) if some else None
        read = partial(schemaless_reader, handle_unicode_errors="surrogateescape")
        for rows, content in self.container.unpacked():
            stream = io.BytesIO(content)
            for _ in range(rows):
                yield cast(dict[str, Any], read(stream, self._schema, chosen))


def _array(rows: list[dict[str, Any]], name: str, kind: Kind) -> pa.Array:
    if kind.type == OTHER:
        return pa.nulls(len(rows), OTHER)
    values = [row[name] for row in rows]
    if (made := kind.made) is not None:
        values = [None if value is None else made(value) for value in values]
    try:
        return pa.array(values, kind.type)
    except UnicodeEncodeError:  # some are no UTF-8
        return pa.array([_text(value) for value in values], kind.type)


def _text(value: Any) -> Any:
    """A text, or texts; None of what is no UTF-8."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    try:
        (value or "").encode()
        return value
    except UnicodeEncodeError:
        return None
