"""The answer to a query, of what its statistics publish in each window of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint

from pipelines.errors import RequestError
from pipelines.query.answer import QueryResult
from pipelines.rows.calendar import WindowCalendar
from transforms.elements.blocks import GroupOnce

_WINDOW = "window"


@dataclass
class AnswerQuery(beam.PTransform):
    """(file, content) of all statistics in; the rows of the answer out, in every window.

    Attributes:
        answer: what is made of them.
        calendar: which windows; where there are any, each row names its own.
    """

    answer: QueryResult
    calendar: WindowCalendar

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        names = [*self._before, *self.answer.names]
        if wrong := [one for one in names if not one.isidentifier() or one.startswith("_")]:
            raise RequestError(
                f"column {wrong[0]!r} of the answer is no name of a Beam Row: say AS and another"
            )
        if len({*names}) < len(names):
            raise RequestError(f"{_WINDOW!r} is the column of the window: say AS and another name")
        keyed = files | "One release" >> beam.WithKeys(0) | "Statistics" >> GroupOnce()
        kind = RowTypeConstraint.from_fields([*self._types()])
        return keyed | "Rows" >> beam.ParDo(AnswerDoFn(self)).with_output_types(kind)

    @property
    def _before(self) -> list[str]:
        return [_WINDOW] if self.calendar.length else []

    def _types(self) -> Iterator[tuple[str, Any]]:
        for name in self._before:
            yield name, str
        kinds = {label: type(values[0]) if values else str for label, values in self.answer.groups}
        counts = {
            label for one in self.answer.figures if one.kind == "count" for label in one.labels
        }
        for name in self.answer.names:
            kind = int if name in counts else kinds.get(name, float)
            yield name, Optional[kind]  # noqa: UP045 (Beam's schemas)


class AnswerDoFn(beam.DoFn):
    """The rows of a window's answer; none, if a statistic was withheld."""

    def __init__(self, query: AnswerQuery) -> None:
        self._answer, self._calendar = query.answer, query.calendar

    def process(
        self, keyed: tuple[int, Iterable[tuple[str, bytes]]], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[beam.Row]:
        table = self._answer.of_files(dict(keyed[1]))
        of_window = {_WINDOW: self._calendar.name(window)} if self._calendar.length else {}
        for row in (table or pa.table({})).to_pylist():
            yield beam.Row(**of_window, **row)
