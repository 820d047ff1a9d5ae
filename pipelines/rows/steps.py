"""Rows to the figures and the statement of one metric, in every window of a calendar."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Optional

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from mechanisms.randomness import keyed_random
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import BudgetExceeded, Spend
from pipelines.metrics.metric import Content, Metric, columns_read
from pipelines.metrics.publishable import collected
from pipelines.releases.schema import LONG, joinable, long
from pipelines.rows.calendar import EveryWindow, WindowCalendar
from pipelines.rows.tables import RowsToTables, Types
from transforms.elements.blocks import Generator, GroupOnce
from transforms.elements.drawing import Drawing, DrawSecret

FIGURES, STATEMENTS, FILES = "figures", "statements", "files"
_TEXT = Optional[str]  # noqa: UP045 (Beam's schemas)
_KINDS = {pa.string(): _TEXT, pa.float64(): Optional[float]}  # noqa: UP045
ROWS = {
    FIGURES: RowTypeConstraint.from_fields(
        [(field.name, _KINDS.get(field.type, Optional[Timestamp])) for field in LONG]  # noqa: UP045
    ),
    STATEMENTS: RowTypeConstraint.from_fields(
        [("metric", str), ("window", _TEXT), ("release_id", str), ("statement", str)]
    ),
    FILES: tuple[str, bytes],
}
"""Beam Rows of the long table that all releases share, those of statements in JSON, and the files
of a release: "metric/file" and what is in it."""


@dataclass
class DrawOnce(beam.PTransform):
    """What all metrics of a budget draw from: a secret, and their windows once they are paid for.

    Attributes:
        calendar: which windows.
        windowfn: of the rows.
        price: the ledger where a window is paid for, if it is, and what it costs but for its name.
        open_rng: opens the generator of the secret; a seeded one is for tests.
    """

    calendar: WindowCalendar
    windowfn: Any
    price: tuple[str, Spend] | None
    open_rng: Generator

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection]:
        secret = begin | "Secret" >> DrawSecret(self.open_rng)
        if not self.calendar.length and self.price is None:
            return {"secret": secret}
        windows = begin | "Windows" >> EveryWindow(self.calendar, self.windowfn)
        if self.price is not None:
            reserve = ReserveDoFn(*self.price, self.calendar)
            windows = windows | "Reserve" >> beam.ParDo(reserve, AsSingleton(secret))
        return {"secret": secret, "windows": windows}


@typehints.with_output_types(int)
class ReserveDoFn(beam.DoFn):
    """Sets the price of a window aside; run again, the same run pays for it once.

    Another run draws another secret, by which it is known: a template that runs twice pays twice.
    """

    def __init__(self, ledger: str, spend: Spend, calendar: WindowCalendar) -> None:
        self._ledger, self._spend, self._calendar = ledger, spend, calendar

    def process(
        self, start: int, secret: bytes, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[int]:
        run, usual = _hex(secret, b"run"), self._spend
        span = self._calendar.span(window)
        name = "all" if span is None else self._calendar.name(window)
        spend = replace(
            usual, collection=f"{usual.collection}-{run[:8]}", fingerprint=run,
            window=name, span=span, output=f"{usual.output}/{run}/{name}",
        )  # fmt: skip
        try:
            with CollectionLedger.open(self._ledger).spend(spend) as reservation:
                reservation.spend()
        except BudgetExceeded as error:  # a run has read by then
            raise BudgetExceeded(str(error).replace("was read", "is published")) from None
        yield start


@dataclass
class PrivateFigures(beam.PTransform):
    """Rows in; the figures of a metric, and its statements, out.

    Attributes:
        metric: ready to run.
        calendar: which windows.
        drawing: what its noise is drawn from.
        types: of columns, where the rows have no schema.
        said: of the budget, for statements.
    """

    metric: Metric
    calendar: WindowCalendar
    drawing: Drawing
    types: Types
    said: Mapping[str, Any]

    def expand(self, rows: beam.PCollection) -> dict[str, beam.PCollection]:
        metric = self.metric
        tables = rows | "Tables" >> RowsToTables(tuple(sorted(columns_read(metric))), self.types)
        if not rows.is_bounded:
            # Each group drops late rows by its own watermark. After this one none is late.
            keyed = tables | "One key" >> beam.WithKeys(0) | "In time" >> GroupOnce()
            tables = keyed | "Tables in time" >> beam.FlatMapTuple(lambda _, some: some)
        reports = metric.shuffling.step(metric.client_reports(tables))
        contents = collected(metric, reports._replace(drawing=self.drawing))
        step = beam.ParDo(ReleaseRowsDoFn(self), AsSingleton(self.drawing.secret))
        released = contents | "Release" >> step
        return {
            name: released
            | name.capitalize() >> beam.FlatMap(itemgetter(place)).with_output_types(ROWS[name])
            for place, name in enumerate((FIGURES, STATEMENTS, FILES))
        }


class ReleaseRowsDoFn(beam.DoFn):
    """The figures, the statement and the files of a window; the release has a name in its run."""

    def __init__(self, private: PrivateFigures) -> None:
        self._metric, self._calendar = private.metric.name, private.calendar
        self._said = private.said

    def process(
        self, content: Content, secret: bytes, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[list[beam.Row], list[beam.Row], list[tuple[str, bytes]]]]:
        span = self._calendar.span(window)
        name = None if span is None else self._calendar.name(window)
        release = _hex(secret, b"release", repr(window).encode())
        statement = {
            **content.statement, **self._said, "release_id": release, "metric": self._metric,
            "in_words": [*content.statement.get("in_words", ()), *self._said["in_words"]],
        }  # fmt: skip
        if span is not None:
            start, end = span.start.isoformat(), span.until.isoformat()
            statement["window"] = {"name": name, "start": start, "end": end}
        files = joinable(content.files, statement)
        tables = [table for table in statement.get("figures", ()) if table in files]
        text = json.dumps(statement, default=str)
        row = beam.Row(metric=self._metric, window=name, release_id=release, statement=text)
        figures = [row for table in tables for row in _rows(files[table])]
        yield figures, [row], [(f"{self._metric}/{name}", data) for name, data in files.items()]


def _rows(data: bytes) -> list[beam.Row]:
    """The rows of a table of a release."""
    table = long(pq.read_table(io.BytesIO(data)))
    return [beam.Row(**{name: _plain(x) for name, x in row.items()}) for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    return Timestamp.of(value.timestamp()) if isinstance(value, datetime) else value


def _hex(secret: bytes, *names: bytes) -> str:
    """What a secret names something by: 32 hexadecimal digits that tell nothing of it."""
    return keyed_random(secret, b"name", *names).words(2).tobytes().hex()
