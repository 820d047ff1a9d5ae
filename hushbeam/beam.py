"""Private figures as steps of a Beam pipeline: `import hushbeam.beam as private`; see docs/beam.md.

    with beam.Pipeline() as pipeline:
        trips = pipeline | ReadFromParquet("trips/*.parquet")
        trips | private.Count(by="city", values=["Oslo", "Bern"], user="rider", epsilon=1) | ...

Rows are dicts, Beam Rows, named tuples, dataclasses or Arrow tables. What comes out are rows of the
long table that all releases share.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import apache_beam as beam

from hushbeam.frames import Handed
from hushbeam.own import require_own
from pipelines.errors import RequestError
from pipelines.request.options import undashed
from pipelines.rows.budgets import JointBudget, PromisedFigures
from pipelines.rows.steps import FIGURES, STATEMENTS

require_own()

__all__ = ["Budget", "Count", "Distribution", "Histogram", "Mean", "Strings", "Sum"]

Values = Sequence[Any] | range | str | os.PathLike[str]
"""Declared values: one after the other, whole numbers, or a file with one a line."""

Budget = JointBudget


class _Private(beam.PTransform):
    """What all transforms share.

    Attributes:
        statement: what is promised, once it is applied and its budget closed.
    """

    _kind: ClassVar[str]
    _named: ClassVar[Mapping[str, str]] = {}  # an option of the kind -> what it is called here

    def __init__(self, words: Mapping[str, Any], values: Mapping[str, Any], **given: Any) -> None:
        # Options of the kind; those of them that are declared values; and all that all take.
        super().__init__()
        own = ("user", "types", "span", "share", "name")
        beside = {name: given.pop(name, None) for name in own}
        budget, epsilon, delta = (given.pop(name, None) for name in ("budget", "epsilon", "delta"))
        if (budget is None) == (epsilon is None):
            raise RequestError("say epsilon, or the budget that the transform has a share of")
        if budget is not None and delta is not None:
            raise RequestError("delta: the budget says it")
        self._handed = Handed()
        weakref.finalize(self, self._handed.__exit__)  # a budget reads them when it is closed
        known = {name: x for name, x in {**words, **given}.items() if x is not None}
        for name, declared in values.items():
            if declared is not None:
                known[name] = self._handed.values(name, declared)
        self._alone, self._both = budget is None, False
        self._budget: Budget = budget or Budget(epsilon, delta)
        self._promised = PromisedFigures(self._budget, self._kind, known, **beside)

    def with_statement(self) -> _Private:
        """The same with two outputs: (figures, statements), in each window one row."""
        self._both = True
        return self

    @property
    def statement(self) -> dict[str, Any]:
        """What is promised, by what noise, at what price: statement.json before a row is read.

        Raises:
            RequestError: it is not applied, or its budget is open.
        """
        if self._promised.statement is None:
            raise RequestError("statement: apply the transform, and close its budget, before")
        return self._promised.statement

    def expand(self, rows: beam.PCollection) -> Any:
        try:
            step: beam.PTransform = self._promised
            if self._alone:
                self._promised.hold(rows)
                self._budget.close()
                step = self._promised.built
            outputs = rows | "Private" >> step
        except RequestError as error:
            raise RequestError(self._in_words(str(error))) from None
        return (outputs[FIGURES], outputs[STATEMENTS]) if self._both else outputs[FIGURES]

    def _in_words(self, refusal: str) -> str:
        """A refusal in the words of this transform."""
        option, colon, why = self._handed.named(undashed(refusal)).partition(":")
        for word, name in {**self._named, "user_column": "user"}.items():
            option = re.sub(rf"\b{word}\b", name, option)
        return f"{option}{colon}{why}"


class Count(_Private):
    """How many users, or rows, there are: all, or those of each declared value.

    Args:
        by: a column, or two: one count for each value, or pair of values.
        values: those of the column, or of both.
        user: the column that tells users apart; without it rows are protected, not users.
        epsilon, delta: what it may reveal, alone ...
        budget, share: ... or among others: which budget, and how much of it.
        types: column -> type, where rows have no schema, as dicts.
        span: of rows in FixedWindows: when the first begins and the last ends; in a stream the end
            may be None.
        name: of the metric, in figures and statements.
        **options: of `hushbeam count`, with underscores: rows_per_user, per_value, confidence, ...

    Raises:
        RequestError: in one line, when it is applied or its budget is closed.
    """

    _kind = "count"
    _named: ClassVar[Mapping[str, str]] = {"column": "by", "domain": "values"}

    def __init__(
        self,
        *,
        by: str | tuple[str, str] | None = None,
        values: Values | tuple[Values, Values] | None = None,
        **options: Any,
    ) -> None:
        columns: tuple[Any, ...] = (by, None)
        declared: tuple[Any, ...] = (values, None)
        if by is not None and not isinstance(by, str):
            if not (isinstance(values, tuple) and len(by) == len(values) == 2):
                raise RequestError("by: two columns have two lists of values, in a tuple")
            columns, declared = by, values
        super().__init__(
            {"column": columns[0], "by": columns[1]},
            {"domain": declared[0], "by_domain": declared[1]},
            **options,
        )


class _OfNumbers(_Private):
    """Of a column of numbers, in each group or in all."""

    _named: ClassVar[Mapping[str, str]] = {"group_by": "by", "groups": "values"}

    def __init__(
        self,
        column: str,
        bounds: tuple[float, float],
        *,
        by: str | None = None,
        values: Values | None = None,
        **options: Any,
    ) -> None:
        words = {"column": column, "bounds": _bounds(bounds), "group_by": by}
        super().__init__(words, {"groups": values}, **options)


class Sum(_OfNumbers):
    """The total of a column of numbers, clipped to bounds a user and group; else as `Count`."""

    _kind = "sum"


class Mean(_OfNumbers):
    """The average of a column of numbers, clipped to bounds; else as `Count`."""

    _kind = "mean"


class Histogram(_Private):
    """Which share of the users, or rows, has each declared value of a column; else as `Count`."""

    _kind = "histogram"
    _named: ClassVar[Mapping[str, str]] = {"domain": "values"}

    def __init__(self, column: str, values: Values, **options: Any) -> None:
        super().__init__({"column": column}, {"domain": values}, **options)


class Distribution(_Private):
    """The histogram, the quantiles and the mean of a column of numbers; else as `Count`."""

    _kind = "distribution"

    def __init__(self, column: str, bounds: tuple[float, float], **options: Any) -> None:
        super().__init__({"column": column, "bounds": _bounds(bounds)}, {}, **options)


class Strings(_Private):
    """The frequent strings of a column, none of which was declared; else as `Count`."""

    _kind = "strings"

    def __init__(self, column: str, **options: Any) -> None:
        super().__init__({"column": column}, {}, **options)


def _bounds(bounds: Iterable[float]) -> str:
    return ",".join(str(bound) for bound in bounds)
