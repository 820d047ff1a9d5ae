"""Rows of a Beam YAML pipeline as Arrow tables, which metrics read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import typehints
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.arrow_type_compatibility import arrow_schema_from_beam_schema
from apache_beam.typehints.schemas import schema_from_element_type

from pipelines.errors import RequestError

_BLOCK = 1 << 16  # rows that become one Arrow table


class RowsToTables(beam.PTransform):
    """Rows with a schema, as Arrow tables of the named columns.

    Args:
        columns: what is taken; nothing else leaves the rows.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        super().__init__()
        self._columns = columns

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        schema = self._schema(rows.element_type)
        return (
            rows
            | "Blocks" >> beam.BatchElements(min_batch_size=256, max_batch_size=_BLOCK)
            | "To tables" >> beam.ParDo(ToTableDoFn(schema))
        )

    def _schema(self, element: Any) -> pa.Schema:
        """The columns' types, as the step before has declared them.

        Raises:
            RequestError: the rows have no schema, or lack a column, or do not tell its type.
        """
        try:
            declared = schema_from_element_type(element)
        except TypeError:
            raise RequestError("the rows have no schema; put a MapToFields before") from None
        fields = {field.name: field for field in declared.fields}
        missing = [name for name in self._columns if name not in fields]
        if missing:
            raise RequestError(
                f"the rows have no {', '.join(missing)}; they have: {', '.join(fields)}"
            )
        taken = schema_pb2.Schema(fields=[fields[name] for name in self._columns])
        try:
            schema = arrow_schema_from_beam_schema(taken)
        except (ValueError, NotImplementedError):
            raise RequestError(
                f"the types of {', '.join(self._columns)} are not known; give each an output_type "
                "in the MapToFields before"
            ) from None
        return pa.schema([schema.field(name).remove_metadata() for name in self._columns])


@typehints.with_output_types(pa.Table)
class ToTableDoFn(beam.DoFn):
    """A block of rows, column by column."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def process(self, rows: Iterable[Any]) -> Iterator[pa.Table]:
        rows = list(rows)
        if not self._schema.names:  # a table knows its rows by its columns
            yield pa.table({"": pa.nulls(len(rows))})
            return
        columns = [_array([getattr(row, f.name) for row in rows], f) for f in self._schema]
        yield pa.table(columns, schema=self._schema)


def _array(values: list[Any], field: pa.Field) -> pa.Array:
    """A column of values.

    Raises:
        TypeError: one is not of the type that was declared; Arrow's own words would quote it.
    """
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        problem = f"a value of {field.name} is no {field.type}, which the step before has declared"
    raise TypeError(problem)
