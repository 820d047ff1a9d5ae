"""From a YAML file to a plan, or one line that says what is wrong and on which line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from mechanisms.nearest import meant
from pipelines.errors import RequestError, because
from pipelines.metrics import registry
from pipelines.plan.consistency import ELSEWHERE
from pipelines.plan.document import PlanDocument
from pipelines.plan.parts import Place, SourceLines, is_query
from pipelines.request.requests import must
from pipelines.storage.paths import folder_of
from transforms.files.systems import UNCOMPRESSED, FileSystems

if TYPE_CHECKING:
    from pipelines.query.answer import QueryResult

_LARGEST_FILE = 1 << 20  # bytes: a plan is read by people

# What YAML 1.1 takes for a number or a truth, and YAML 1.2 and most readers for something else.
_AMBIGUOUS = re.compile(
    r"(?i:on|off|yes|no)|[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?|[-+]?0[\d_]+(\.\d*)?"
    r"|[-+]?0[box][\da-fA-F_]+|[-+]?\d[\d_]*_[\d_.]*"
)
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """YAML 1.2's scalars: a date is a text; what two versions read differently is refused."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (so PyYAML names and reads it)
        first: [rule for rule in rules if rule[0] != f"{_TAG}timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def load(path: str) -> PlanDocument:
    """The plan in a file.

    Args:
        path: local, or on a file system that Beam knows.

    Raises:
        RequestError: the file cannot be read, or what it says is no plan; with its line.
    """
    text = _read(path)
    root = _composed(path, text)
    if not isinstance(root, yaml.MappingNode):
        raise RequestError(f"{path}: a plan begins with `collection: NAME`; see docs/plans.md")
    for node in _mappings(path, root):
        _require_distinct(path, node)
    built, places = _built(path, root), SourceLines.of(path, root)
    queries: tuple[QueryResult, ...] = ()
    if isinstance(metrics := built.get("metrics"), list) and any(map(is_query, metrics)):
        from pipelines.plan.queries import expanded  # a parser of SQL, which few plans need

        built, queries, places = expanded(built, folder_of(path), places)
    try:
        plan = PlanDocument.model_validate(built).answering(queries)
    except ValidationError as error:
        keys = [field.alias or name for name, field in PlanDocument.model_fields.items()]
        raise _wrong(places, error, (), keys) from None
    for index, metric in enumerate(plan.metrics):
        try:
            plan.options(metric, "")
        except ValidationError as error:
            kind = registry.options_in_plan(metric.kind, metric.options)
            raise _wrong(places, error, ("metrics", index), [*kind.model_fields]) from None
    placed = plan.placed(places, _home(path, plan))
    placed.reading, placed.view  # noqa: B018 (refused here, with their lines)
    for index, metric in enumerate(placed.metrics):
        with placed.located("metrics", index):
            placed.options(metric, "").view  # noqa: B018
    return placed


def _home(path: str, plan: PlanDocument) -> str:
    """The folder that relative paths are relative to: the plan's, unless that is in doubt."""
    named, real = folder_of(path), folder_of(os.path.realpath(path))
    kept = plan.ledger is not None and "://" not in plan.ledger and not os.path.isabs(plan.ledger)
    if "://" not in path and os.path.realpath(named) != real and kept:
        raise RequestError(
            f"{path} is a link to a plan in {real}, so a ledger beside it could be one of two: "
            "name the ledger by its absolute path"
        )
    return named


def _wrong(
    places: SourceLines, error: ValidationError, around: Place, keys: list[str]
) -> RequestError:
    """The first complaint, with its line."""
    said: list[Any] = error.errors(include_url=False)
    # A key that is misspelt is missing, too: which of the two is said first teaches more.
    first = next((error for error in said if error["type"] == "extra_forbidden"), said[0])
    place = (*around, *first["loc"])
    text = _explained(first)
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        text += meant(str(place[-1]), keys)
    if first["type"] == ELSEWHERE:
        place, text = (*place, *first["ctx"]["place"]), f"is wrong: {first['msg']}"
    field = ".".join(str(part) for part in place) or "plan"
    return RequestError(f"{places.where(place)}: {field} {text}")


# What has another shape than a plan gives it, by pydantic's names for that, and that shape.
_SHAPES = frozenset({"tuple_type", "too_short", "model_type"})
_METRIC = "of the form {name: users, kind: count}"
_WRITTEN = {
    "metrics": "a list of one metric or more, as in [{name: users, kind: count}]",
    "input": "a file, a glob, or a list of them, as in [a.csv, b.csv]",
    "where": "a condition, or a list of them, as in [seconds > 0, city is not null]",
    "derive": "of the form {NAME: EXPRESSION}, as in {hour: hour(started)}",
    "types": "of the form {COLUMN: TYPE}, as in {seconds: float}",
    "header": "a list of all columns' names, as in [user_id, city]",
    "budget": "of the form {epsilon: 4, delta: 1e-5}",
    "stream": "of the form {window: 1d, state: FOLDER}",
}


def _read(path: str) -> str:
    try:
        # As it is: to undo a compression that a name claims would raise what the bytes say.
        with FileSystems.open(path, compression_type=UNCOMPRESSED) as stream:
            raw = stream.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise RequestError(f"{path} is larger than {_LARGEST_FILE >> 20} MiB: no plan")
        return bytes(raw).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise RequestError(
            f"{path} is not a file of UTF-8 text that can be read{because(error)}"
        ) from None


def _composed(path: str, text: str) -> yaml.Node | None:
    """The document as nodes, which know their lines."""
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise RequestError(f"{path}{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise RequestError(f"{path}: not YAML that can be read") from None


def _built(path: str, root: yaml.Node) -> Any:
    """The document as lists, mappings and scalars."""
    loader = _Loader("")
    try:
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise RequestError(f"{path}{line}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        raise RequestError(f"{path}: a value in it cannot be read; quote it as text") from None


def _mappings(path: str, root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """All mappings of a document; a part that is used twice is refused.

    Aliases can make a short file unfold into an endless one, and hide from a reviewer what a
    metric says.
    """
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            line = node.start_mark.line + 1
            raise RequestError(
                f"{path}, line {line}: plans have no aliases (& and *); write it out"
            )
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            _require_plain(path, node)
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _require_plain(path: str, node: yaml.ScalarNode) -> None:
    if node.style is None and _AMBIGUOUS.fullmatch(node.value):
        raise RequestError(
            f"{path}, line {node.start_mark.line + 1}: {node.value} is a number or a truth to some "
            'readers of YAML, and not to others; quote a text ("yes"), write a number plainly (10)'
        )


def _require_distinct(path: str, mapping: yaml.MappingNode) -> None:
    """Refuse a key that comes twice: YAML would silently keep the last."""
    seen: set[str] = set()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            line = key.start_mark.line + 1
            raise RequestError(f"{path}, line {line}: {key.value!r} is there already; keep one")
        seen.add(str(key.value))


def _explained(first: Any) -> str:
    """One complaint of pydantic's in plain words."""
    if first["type"] == "extra_forbidden":
        return "is nothing that a plan says; see docs/plans.md for what it does"
    if first["type"] == "missing":
        return "is missing"
    said = must(first)
    if first["type"] in _SHAPES:
        whole = len(first["loc"]) == 1
        said = _WRITTEN.get(str(first["loc"][0]), "a list, as in [a, b]") if whole else _METRIC
    return f"must be {said}" if said else f"is wrong: {first['msg'].removeprefix('Value error, ')}"
