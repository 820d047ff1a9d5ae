"""A query as a plan of its own, and queries that stand in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mechanisms.nearest import meant
from pipelines.errors import RequestError
from pipelines.logs.reading import view_of
from pipelines.plan.document import PlanDocument
from pipelines.plan.parts import SourceLines, is_query
from pipelines.query.answer import QueryResult
from pipelines.query.clause import QueryTerms
from pipelines.query.compiler import UNIT_ALONE, Compiled, compiled
from pipelines.query.public import PublicTable
from pipelines.request.options import undashed
from pipelines.request.requests import Pairs, must
from pipelines.storage.paths import beside
from transforms.encoders.domain import integer_range
from transforms.expressions.tree import columns
from transforms.files.systems import UNCOMPRESSED, FileSystems

_KEYS: dict[str, tuple[type, str]] = {
    "name": (str, "a text"), "kind": (str, "a text"), "sql": (str, "a text"),
    "file": (str, "a path"), "share": (float, "a number"), "max_groups": (int, "a whole number"),
    "rows_per_user": (int, "a whole number"), "groups": (dict, "of the form {COLUMN: FILE}"),
    "public": (dict, "of the form {NAME: FILE}"),
}  # fmt: skip
# What a query's clause may say as the plan does, and the plan's name for it.
_CLAUSE = {"unit": "user_column", "epsilon": "epsilon", "delta": "delta"}
_LARGEST = 1 << 16  # bytes


def text_of(path: str) -> str:
    """The text of a query in a file.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        with FileSystems.open(path, compression_type=UNCOMPRESSED) as stream:
            return bytes(stream.read(_LARGEST)).decode("utf-8-sig")
    except (OSError, ValueError):
        raise RequestError(f"{path} is no file of UTF-8 text that can be read") from None


def plan_of(query: Compiled, said: Mapping[str, Any]) -> PlanDocument:
    """The plan that one query is.

    Args:
        query: compiled.
        said: what a plan says beside its metrics: input, output and so on.

    Raises:
        RequestError: the query lacks what a plan must say.
    """
    if query.terms.epsilon is None:
        raise RequestError("--epsilon is missing: say what the answer may reveal, as in 1")
    terms = query.terms
    document = {
        "collection": "query", "version": 1, "unit": "row" if terms.unit is None else "user",
        "user_column": terms.unit, "epsilon": terms.epsilon, "delta": terms.delta,
        "metrics": [*query.metrics], **said,
    }  # fmt: skip
    try:
        plan = PlanDocument.model_validate(document)
        for metric in plan.metrics:
            plan.options(metric, "")
        _require_no_unit(plan)
    except ValidationError as error:
        first: Any = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "query"
        why = must(first)
        text = f"must be {why}" if why else first["msg"].removeprefix("Value error, ")
        raise RequestError(f"{name.replace('_', ' ')}: {text}") from None
    return plan.answering((query.answer,))


def _require_no_unit(plan: PlanDocument) -> None:
    if plan.user_column is None:
        return
    derived = plan.view.derived_of(plan.user_column)
    for name in sorted(derived):
        raise RequestError(f"--derive {name}: {UNIT_ALONE}")
    for tree in plan.view.where:
        if plan.user_column in {column.name for column in columns(tree)}:
            raise RequestError(f"--where: {UNIT_ALONE}")


def expanded(
    said: Any, folder: str, places: SourceLines
) -> tuple[Any, tuple[QueryResult, ...], SourceLines]:
    """A plan whose queries stand as the metrics that they compile to.

    Args:
        said: what the file says, queries among it.
        folder: that its paths are relative to.
        places: its lines.

    Returns:
        What the file would say, what is made of the metrics' figures, and where they stand.

    Raises:
        RequestError: a query is wrong; with its line.
    """
    metrics = said["metrics"]
    made: list[tuple[int, Any]] = []  # (which metric of the file it stands for, metric)
    answers: list[QueryResult] = []
    for index, metric in enumerate(metrics):
        if not is_query(metric):
            made.append((index, metric))
            continue
        where = places.where(("metrics", index))
        query = _compiled(said, metric, folder, where)
        share = metric.get("share")
        part = {} if share is None else {"share": share / len(query.metrics)}
        made += [(index, {**one, **part}) for one in query.metrics]
        answers.append(query.answer)
    lines = [one for one in places.lines if one[0][:1] != ("metrics",) or len(one[0]) == 1]
    for new, (old, _) in enumerate(made):
        own = [one for one in places.lines if one[0][:2] == ("metrics", old)]
        lines += [(("metrics", new, *place[2:]), line) for place, line in own]
    whole = {**said, "metrics": [metric for _, metric in made]}
    return whole, tuple(answers), SourceLines(places.path, tuple(lines))


def _typed(said: Mapping[str, Any], key: str, kind: type) -> Any:
    """What is said of a key; None if it is no number, text or mapping, as it should be."""
    value = said.get(key)
    known = (int, float) if kind is float else kind
    return value if isinstance(value, known) and not isinstance(value, bool) else None


def _number(said: Mapping[str, Any], key: str) -> float | None:
    """What is said of a number, also as 1e-6, which YAML takes for a text."""
    try:
        return float(said[key])
    except (KeyError, TypeError, ValueError):
        return None


def _of_unit(said: Mapping[str, Any]) -> frozenset[str]:
    """The columns that a plan derives of its users' column."""
    unit = _typed(said, "user_column", str)
    try:
        view = view_of(TypeAdapter(Pairs).validate_python(said.get("derive", ())), ())
    except (ValidationError, RequestError):  # the plan says so itself
        return frozenset()
    return frozenset() if unit is None else view.derived_of(unit)


def _groups(said: Mapping[str, Any], metric: Mapping[str, Any]) -> dict[Any, Any]:
    """Column -> its declared values, as the query says or another metric of the plan."""
    known = {}
    for one in (one for one in said["metrics"] if isinstance(one, dict)):
        for column, values in (("column", "domain"), ("by", "by_domain"), ("group_by", "groups")):
            if isinstance(one.get(column), str) and isinstance(one.get(values), str):
                known[one[column]] = one[values]
    return known | metric.get("groups", {})


def _why(metric: Mapping[str, Any]) -> str:
    """What is wrong with the keys of a query; empty if nothing is."""
    for key in metric:
        if key == "choose_bounds":
            return f"{key}: a plan is one round: ask `hushbeam query --choose-bounds`, and say them"
        if key not in _KEYS:
            return f"{key} is nothing that a query says{meant(str(key), sorted(_KEYS))}"
        kind, form = _KEYS[key]
        if _typed(metric, key, kind) is None:
            return f"{key} must be {form}"
    return "" if ("sql" in metric) != ("file" in metric) else "a query says sql, or its file"


def _compiled(
    said: Mapping[str, Any], metric: Mapping[str, Any], folder: str, where: str
) -> Compiled:
    """A query of a plan."""

    def placed(path: Any) -> str:
        text = str(path)
        return text if integer_range(text) or text.startswith("[") else beside(folder, text)

    if why := _why(metric):
        raise RequestError(f"{where}: {why}")
    try:
        text = metric["sql"] if "sql" in metric else text_of(placed(metric["file"]))
        public = metric.get("public", {}).items()
        tables = {str(name): PublicTable.read(placed(one)) for name, one in public}
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
    terms = QueryTerms(
        _typed(said, "user_column", str), _number(said, "epsilon"), _number(said, "delta"),
        metric.get("max_groups"), metric.get("rows_per_user"),
        {str(column): placed(one) for column, one in _groups(said, metric).items()}, tables,
        of_unit=_of_unit(said),
    )  # fmt: skip
    try:
        query = compiled(text, terms, f"{where}: sql", str(metric.get("name")))
    except RequestError as error:
        raise RequestError(undashed(str(error))) from None
    for name, key in _CLAUSE.items():
        if getattr(query.terms, name) != getattr(terms, name):
            raise RequestError(f"{where}: sql: the plan alone says its {key}: write it there")
    if query.files:
        raise RequestError(f"{where}: FROM: the plan says its input: write a name, as in FROM log")
    return query
