"""A metric as a step that publishes a release: the providers of Beam YAML.

deploy/beam-yaml/providers.yaml lists them. A step's words are the options of its command, with
underscores. It reads Parquet files that `input` names, or takes the rows of the step before it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
from apache_beam import typehints
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.arrow_type_compatibility import arrow_schema_from_beam_schema
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import schema_from_element_type

from pipelines import inputs, release
from pipelines.errors import RequestError
from pipelines.metrics.metric import Content, Metric
from pipelines.metrics.registry import find
from pipelines.requests import request
from pipelines.run import beam_options
from transforms.telemetry import ReadTelemetry

_FLAG = re.compile(r"--[a-z][a-z-]*")
_BLOCK = 1 << 16  # rows that become one Arrow table
_FROM_ROWS = ("rows of the pipeline",)


class PublishStep(beam.PTransform):
    """From files, or from rows, to the release of one metric.

    No ledger counts what it costs: that is `hushbeam run`'s. A run that is repeated into another
    folder spends its privacy anew.

    Args:
        output: the folder of the release; must be vacant.
        epsilon: of the release, in nats.
        min_reports: the least batch that is published; must be said of rows.
        input: Parquet files or globs, where no step comes before this one.
        asked: the other options of the metric's command.

    Raises:
        RequestError: something is wrong with what was asked, or the folder is taken.
    """

    KIND: ClassVar[str]
    _yaml_requires_inputs = False  # Beam YAML asks for this: `input` may name files instead

    def __init__(
        self,
        output: str,
        epsilon: float,
        min_reports: int | None = None,
        input: list[str] | str | None = None,
        **asked: Any,
    ) -> None:
        super().__init__()
        files = (input,) if isinstance(input, str) else tuple(input or ())
        if not (files or min_reports is not None):
            raise RequestError(f"{type(self).__name__}: min_reports is missing, or input")
        words = {name: tuple(x) if isinstance(x, list) else x for name, x in asked.items()}
        words |= {"output": output, "epsilon": epsilon, "min_reports": min_reports}
        self._metric = self._resolved({"input": files or _FROM_ROWS} | words, read=bool(files))
        self._output, self._release_id = output, uuid.uuid4().hex

    def _resolved(self, words: dict[str, Any], read: bool) -> Metric:
        """The metric, held against its files if there are any to read."""
        kind = find(self.KIND)
        try:
            release.require_vacant(words["output"])
            source = inputs.ALONE if read else inputs.Source(inputs.UNREAD)
            return kind.resolve(request(kind.Options, words), source)
        except RequestError as error:  # in a YAML file, options have no dashes
            told = _FLAG.sub(lambda flag: flag[0][2:].replace("-", "_"), str(error))
            raise RequestError(f"{type(self).__name__}: {told}") from None

    def expand(self, source: beam.PCollection | beam.pvalue.PBegin) -> beam.PCollection:
        # Who wrote the YAML file has not passed hushbeam's door: the runner is looked at here.
        beam_options([f"--runner={type(source.pipeline.runner).__name__}"])
        columns = tuple(sorted(self._metric.columns))
        files = self._metric.telemetry.files
        tables = source | "Read" >> (
            ReadTelemetry(files, columns) if files else RowsToTables(columns)
        )
        step = PublishAndTellDoFn(self._output, self._release_id)
        return self._metric.whole(tables) | "Release" >> beam.ParDo(step)


class Histogram(PublishStep):
    """How often each value of a declared domain occurs. Needs `column` and `domain`."""

    KIND = "histogram"


class HeavyHitters(PublishStep):
    """Frequent strings that nobody declared. Needs `column`, `alphabet` and `max_length`."""

    KIND = "heavy-hitters"


class Mean(PublishStep):
    """The mean of a number. Needs `column` and `bounds`."""

    KIND = "mean"


class Distribution(PublishStep):
    """Shares, quantiles and mean of a number. Needs `column` and `bounds`."""

    KIND = "distribution"


class VectorMean(PublishStep):
    """The average row. Needs `number`, `vector` or `category`: lists, as on the command line."""

    KIND = "vector-mean"


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
        told = f"a value of {field.name} is no {field.type}, which the step before has declared"
    raise TypeError(told)


@typehints.with_output_types(
    RowTypeConstraint.from_fields([("output", str), ("release_id", str), ("reports", int)])
)
class PublishAndTellDoFn(beam.DoFn):
    """Writes a release, and says where it is."""

    def __init__(self, folder: str, release_id: str) -> None:
        self._folder, self._release_id = folder, release_id

    def process(self, content: Content) -> Iterator[beam.Row]:
        statement = {**content.statement, "release_id": self._release_id}
        release.publish(self._folder, content.files, statement)
        reports = int(statement["n"])
        yield beam.Row(output=self._folder, release_id=self._release_id, reports=reports)
