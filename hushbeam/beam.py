"""Private figures as steps of a Beam pipeline: `import hushbeam.beam as private`; see docs/beam.md.

    with beam.Pipeline() as pipeline:
        trips = pipeline | ReadFromParquet("trips/*.parquet")
        trips | private.Count(by="city", values=["Oslo", "Bern"], user="rider", epsilon=1) | ...

Rows are dicts, Beam Rows, named tuples, dataclasses or Arrow tables. What comes out are rows of the
long table that all releases share; of a query, rows of its answer.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import apache_beam as beam

from hushbeam.frames import Handed
from hushbeam.kinds import require_known, words
from hushbeam.own import require_own
from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.request.options import undashed
from pipelines.rows.budgets import JointBudget, PromisedFigures
from pipelines.rows.steps import FIGURES, FILES, STATEMENTS
from pipelines.rows.tables import schema_of

require_own()

__all__ = [
    "Budget", "Count", "Distribution", "Histogram", "Mean", "Query", "Statistics", "Strings", "Sum",
]  # fmt: skip

Values = Sequence[Any] | range | str | os.PathLike[str]
"""Declared values: one after the other, whole numbers, or a file with one a line."""

Budget = JointBudget


class _Private(beam.PTransform):
    """What all transforms share.

    Attributes:
        statement: what is promised, once it is applied and its budget closed.
    """

    _named: ClassVar[Mapping[str, str]] = {}  # an option of the kind -> what it is called here

    def __init__(self, given: dict[str, Any]) -> None:
        # What all take is taken out of `given`; the rest are options of a kind.
        super().__init__()
        own = ("user", "types", "span", "share", "name")
        self._beside = {name: given.pop(name, None) for name in own}
        self._both = bool(given.pop("statements", False))
        self._given = tuple(given.pop(name, None) for name in ("budget", "epsilon", "delta"))
        self._handed = Handed()
        weakref.finalize(self, self._handed.__exit__)  # a budget reads them when it is closed
        self._promised: list[PromisedFigures] = []

    def _of_budget(self) -> Budget:
        """The budget that it has a share of, or one of its own."""
        budget, epsilon, delta = self._given
        if (budget is None) == (epsilon is None):
            raise RequestError("say epsilon, or the budget that the transform has a share of")
        if budget is not None and delta is not None:
            raise RequestError("delta: the budget says it")
        self._alone = budget is None
        self._budget: Budget = budget or Budget(epsilon, delta)
        return self._budget

    @property
    def statement(self) -> dict[str, Any]:
        """What is promised, by what noise, at what price: statement.json before a row is read.

        Of a query: metric -> statement.

        Raises:
            RequestError: it is not applied, or its budget is open.
        """
        said = [one.statement for one in self._promised if one.statement is not None]
        if len(said) < len(self._promised):
            raise RequestError("statement: apply the transform, and close its budget, before")
        return self._stated(said)

    def _stated(self, statements: list[dict[str, Any]]) -> dict[str, Any]:
        return statements[0]

    def expand(self, rows: beam.PCollection) -> Any:
        try:
            steps: list[Any] = [*self._promised]
            if self._alone:
                for one in steps:
                    one.hold(rows)
                self._budget.close()
                steps = [one.built for one in steps]
            labels = [f"Private {one.place['name'] or ''}".rstrip() for one in self._promised]
            made = [rows | label >> step for label, step in zip(labels, steps, strict=True)]
            figures = self._figures(made)
        except RequestError as error:
            raise RequestError(self._in_words(str(error))) from None
        if not self._both:
            return figures
        return figures, _together([one[STATEMENTS] for one in made], "Statements")

    def _figures(self, made: list[Any]) -> beam.PCollection:
        return made[0][FIGURES]

    def _in_words(self, refusal: str) -> str:
        """A refusal in the words of this transform."""
        option, colon, why = self._handed.named(undashed(refusal)).partition(":")
        for word, name in {**self._named, "user_column": "user"}.items():
            option = re.sub(rf"\b{word}\b", name, option)
        return f"{option}{colon}{why}"


class Statistics(_Private):
    """What a kind of metric publishes, one of your own as well: vector-mean, cross-tab, ...

    Args:
        kind: as `hushbeam KIND` has it; its noise is the job's.
        user: the column that tells users apart; without it rows are protected, not users.
        epsilon, delta: what it may reveal, alone ...
        budget, share: ... or among others: which budget, and how much of it.
        types: column -> type, where rows have no schema, as dicts.
        span: of rows in FixedWindows: when the first begins and the last ends; in a stream the end
            may be None.
        name: of the metric, in figures and statements.
        statements: whether there is a second output, in each window a row with the statement.
        **options: of the kind's command, with underscores: rows_per_user, confidence, ...

    Raises:
        RequestError: in one line, when it is applied or its budget is closed.
    """

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__(options)
        known = registry.options(kind)
        try:
            require_known(kind, known, options)
            said = words(known, options, self._handed)
        except RequestError as error:
            raise RequestError(self._in_words(str(error))) from None
        self._promised = [PromisedFigures(self._of_budget(), kind, said, **self._beside)]


class Count(Statistics):
    """How many users, or rows, there are: all, or those of each declared value.

    Args:
        by: a column, or two: one count for each value, or pair of values.
        values: those of the column, or of both; without them, those that enough users have.
        **options: as of `Statistics`.
    """

    _named: ClassVar[Mapping[str, str]] = {"column": "by", "group_by": "by", "domain": "values"}

    def __init__(
        self,
        *,
        by: str | Sequence[str] | None = None,
        values: Values | tuple[Values, Values] | None = None,
        **options: Any,
    ) -> None:
        columns: Sequence[Any] = (by, None)
        declared: Any = (values, None)
        if by is not None and values is None:  # those that enough users have
            super().__init__("count", group=(by,) if isinstance(by, str) else by, **options)
            return
        if by is not None and not isinstance(by, str):
            if not (isinstance(values, tuple | list) and len(by) == len(values) == 2):
                raise RequestError("by: two columns have two lists of values, in a tuple")
            columns, declared = by, values
        own = {"column": columns[0], "by": columns[1]}
        own |= {"domain": declared[0], "by_domain": declared[1]}
        super().__init__("count", **own, **options)


class _OfNumbers(Statistics):
    """Of a column of numbers, in each group or in all."""

    _kind: ClassVar[str]
    _named: ClassVar[Mapping[str, str]] = {"group_by": "by", "groups": "values"}

    def __init__(
        self,
        column: str,
        bounds: Sequence[float],
        *,
        by: str | None = None,
        values: Values | None = None,
        **options: Any,
    ) -> None:
        own = {"column": column, "bounds": bounds, "group_by": by, "groups": values}
        super().__init__(self._kind, **own, **options)


class Sum(_OfNumbers):
    """The total of a column of numbers, clipped to bounds a user and group; else as `Count`."""

    _kind = "sum"


class Mean(_OfNumbers):
    """The average of a column of numbers, clipped to bounds; else as `Count`."""

    _kind = "mean"


class Histogram(Statistics):
    """Which share of the users, or rows, has each declared value of a column; else as `Count`."""

    _named: ClassVar[Mapping[str, str]] = {"domain": "values"}

    def __init__(self, column: str, values: Values, **options: Any) -> None:
        super().__init__("histogram", column=column, domain=values, **options)


class Distribution(_OfNumbers):
    """Bins and quantiles of a column of numbers, clipped to bounds; else as `Count`."""

    _kind = "distribution"


class Strings(Statistics):
    """The frequent strings of a column, none of which was declared; else as `Statistics`."""

    def __init__(self, column: str, **options: Any) -> None:
        super().__init__("strings", column=column, **options)


class Query(_Private):
    """One SELECT of GoogleSQL over the rows, as docs/sql.md has it; out come rows of its answer.

    Figures are named as in the query, with `_standard_error`, `_lower` and `_upper`; in windows a
    row begins with the `window`.

    Args:
        sql: the query; what stands behind FROM is a name, as in FROM rows.
        groups: column -> its declared values, where the query does not say them.
        public: name -> a table that everybody may know: a file or a frame.
        max_groups, rows_per_user, confidence: as of `hushbeam query`.
        **options: user, epsilon, delta, budget, share, types, span, statements, as of `Statistics`.

    Raises:
        RequestError: in one line, with the place in the query.
    """

    def __init__(
        self,
        sql: str,
        *,
        groups: Mapping[str, Values] | None = None,
        public: Mapping[str, Any] | None = None,
        max_groups: int | None = None,
        rows_per_user: int | None = None,
        confidence: float = 0.95,
        **options: Any,
    ) -> None:
        from pipelines.command.query_options import QueryOptions
        from pipelines.query.clause import QueryTerms
        from pipelines.query.compiler import compiled
        from pipelines.query.public import PublicTable

        super().__init__(options)
        for name in options:
            raise RequestError(f"Query has no option {name!r}")
        try:
            said = words(QueryOptions, {"groups": groups, "public": public}, self._handed)
            paths = {name: dict(one.split("=", 1) for one in said[name]) for name in said}
            tables = {k: PublicTable.read(path) for k, path in paths.get("public", {}).items()}
            budget, epsilon, delta = self._given
            terms = QueryTerms(
                self._beside["user"], epsilon, delta, max_groups, rows_per_user,
                paths.get("groups", {}), tables,
            )  # fmt: skip
            query = compiled(sql, terms, "sql", self._beside["name"] or "query")
        except RequestError as error:
            raise RequestError(self._handed.named(undashed(str(error)))) from None
        if query.files:
            raise RequestError("FROM: rows are the pipeline's: FROM has a name, as in FROM rows")
        if budget is None:
            self._given = (None, query.terms.epsilon, query.terms.delta)
        for name in () if budget is None else ("epsilon", "delta"):
            if getattr(query.terms, name) is not None:
                raise RequestError(f"{name}: the budget says it: leave it out of the query")
        self._answer = query.answer
        share, budget = self._beside["share"], self._of_budget()
        beside = {**self._beside, "user": query.terms.unit}
        beside["share"] = None if share is None else share / len(query.metrics)
        for metric in query.metrics:
            own = {name: x for name, x in metric.items() if name not in ("name", "kind")}
            own |= {"confidence": confidence}
            beside["name"] = metric["name"]
            self._promised.append(PromisedFigures(budget, metric["kind"], own, **beside))

    def expand(self, rows: beam.PCollection) -> Any:
        schema = schema_of(rows.element_type, self._beside["types"])
        self._answer.require_clear(() if schema is None else schema.names)
        return super().expand(rows)

    def _stated(self, statements: list[dict[str, Any]]) -> dict[str, Any]:
        return {one["metric"]: one for one in statements}

    def _figures(self, made: list[Any]) -> beam.PCollection:
        from pipelines.rows.queries import AnswerQuery

        answer = AnswerQuery(self._answer, self._promised[0].calendar)
        return _together([one[FILES] for one in made], "Figures") | "Answer" >> answer


def _together(parts: list[beam.PCollection], label: str) -> beam.PCollection:
    return parts[0] if len(parts) == 1 else parts | label >> beam.Flatten()
