"""Rows of a Beam pipeline, of whatever kind, as Arrow tables of the columns that are read."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from apache_beam.typehints.schemas import schema_from_element_type, typing_from_runner_api

from pipelines.errors import RequestError
from pipelines.logs.inputs import UNREAD, Telemetry

_BLOCK = 1 << 16  # rows that become one Arrow table
_ARROW = (pa.Table, pa.RecordBatch)
_KINDS = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(),
    datetime.date: pa.date32(), datetime.datetime: pa.timestamp("us", "UTC"),
}  # fmt: skip

Types = Mapping[str, Any] | None
"""Column -> a type of Python's, its name, or one of Arrow's; None where rows have a schema."""


def schema_of(element: Any, types: Types) -> pa.Schema | None:
    """The columns of rows; None of Arrow tables, which tell them when they come.

    Args:
        element: the type of a PCollection's elements.
        types: what was declared of them.

    Raises:
        RequestError: nobody has said what the rows are.
    """
    if types is not None:
        kinds = {name: _arrow(kind) for name, kind in types.items()}
        if unknown := [name for name, kind in kinds.items() if kind is None]:
            names = ", ".join(kind.__name__ for kind in _KINDS)
            raise RequestError(f"types: column {unknown[0]!r} is one of {names}, or Arrow's")
        return pa.schema(kinds)
    if element in _ARROW:
        return None
    # Of frozen dataclasses Beam makes no schema, and reads no annotations that are put off.
    if isinstance(element, type) and (
        issubclass(element, tuple) or dataclasses.is_dataclass(element)
    ):
        hints = get_type_hints(element)
    else:
        try:
            declared = schema_from_element_type(element)
        except TypeError:
            raise RequestError(
                "the rows have no schema (dicts have none): say types={'city': str, 'seconds': "
                "float, ...} of the columns that are read"
            ) from None
        hints = {field.name: typing_from_runner_api(field.type) for field in declared.fields}
    kinds = {name: _arrow(hint) for name, hint in hints.items()}
    return pa.schema({name: kind for name, kind in kinds.items() if kind is not None})


def _arrow(hint: Any) -> pa.DataType | None:
    """The type of a column of such values, some of which may be missing; None if none is known."""
    if isinstance(hint, pa.DataType):
        return hint
    if isinstance(hint, str):  # in a YAML file
        return next((own for kind, own in _KINDS.items() if kind.__name__ == hint), None)
    (hint, *others) = [one for one in get_args(hint) or (hint,) if one is not type(None)]
    if others or not isinstance(hint, type):
        return None
    return pa.from_numpy_dtype(hint) if issubclass(hint, np.generic) else _KINDS.get(hint)


def seen(schema: pa.Schema | None) -> Telemetry:
    """What a metric may know of rows before they come.

    Args:
        schema: of `schema_of`.
    """
    heads = () if schema is None else (("this PCollection", schema),)
    return dataclasses.replace(UNREAD, heads=heads)


@dataclass
class RowsToTables(beam.PTransform):
    """Rows, or Arrow tables, as Arrow tables of the named columns.

    Attributes:
        columns: what is taken; nothing else leaves the rows.
        types: of columns, where the rows have no schema.
    """

    columns: tuple[str, ...]
    types: Types = None

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        schema = schema_of(rows.element_type, self.types)
        if schema is not None:
            if missing := [name for name in self.columns if name not in schema.names]:
                raise RequestError(
                    f"the rows have no {', '.join(missing)} of a type that is known; they have: "
                    f"{', '.join(schema.names)}"
                )
            schema = pa.schema([schema.field(name) for name in self.columns])
        step = beam.ParDo(ToTableDoFn(self.columns, schema))
        if rows.element_type in _ARROW:
            return rows | "Columns" >> step
        # Beam's own counters of batches would tell how many rows there are.
        batches = beam.BatchElements(
            min_batch_size=256, max_batch_size=_BLOCK, record_metrics=False
        )  # fmt: skip
        blocks = rows | "Blocks" >> batches
        return blocks | "To tables" >> step


@typehints.with_output_types(pa.Table)
class ToTableDoFn(beam.DoFn):
    """A block of rows, or an Arrow table, as a table of the columns that are read.

    A dict without a key has no value there.
    """

    def __init__(self, columns: tuple[str, ...], schema: pa.Schema | None) -> None:
        self._columns, self._schema = columns, schema

    def process(self, rows: Any) -> Iterator[pa.Table]:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not self._columns:  # a table knows its rows by its columns
            yield pa.table({"": pa.nulls(len(rows))})
            return
        if not isinstance(table, pa.Table):
            columns = [_array([_value(row, f.name) for row in rows], f) for f in self._schema or ()]
            yield pa.table(columns, schema=self._schema)
            return
        if missing := [name for name in self._columns if name not in table.column_names]:
            raise TypeError(f"an Arrow table has no {', '.join(missing)}")
        taken = table.select(self._columns)
        schema = taken.schema if self._schema is None else self._schema
        yield pa.table([_array(taken[field.name], field) for field in schema], schema=schema)


def _value(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def _array(values: Any, field: pa.Field) -> pa.Array:
    try:
        if isinstance(values, pa.ChunkedArray):
            return values.cast(field.type)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        problem = f"a value of {field.name} is no {field.type}, which was declared"
    raise TypeError(problem)
