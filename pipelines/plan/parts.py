"""The parts of a plan: how all of them are read, and one metric as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from mechanisms.nearest import meant
from pipelines.metrics import registry
from pipelines.plan.consistency import about
from pipelines.request.requests import Count, RequestOptions

_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"


def _require_name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise ValueError("take at most 64 of a-z, 0-9, - and _, a letter or digit first")
    return name


Name = Annotated[str, AfterValidator(_require_name), Field(json_schema_extra={"pattern": _NAME})]
OF_PLAN = frozenset(
    {
        "input", "output", "user_column", "epsilon", "delta", "neighbours", "types", "delimiter",
        "header", "encoding", "day", "window", "series",
        "large_delta",
    }
)  # fmt: skip


def is_query(metric: Any) -> bool:
    """Whether what stands in a plan's list of metrics is a query."""
    return isinstance(metric, dict) and metric.get("kind") == "query"


def _require_kind(name: str) -> str:
    if not registry.known(name):
        kinds = registry.names()
        raise ValueError(f"there are {', '.join(kinds)}; not {name!r}{meant(name, kinds)}")
    return name


def _list_kinds(schema: dict[str, Any]) -> None:
    """Offer the kinds to whoever writes a plan."""
    schema["enum"] = [*registry.names(), "query"]


_Kind = Annotated[str, AfterValidator(_require_kind), Field(json_schema_extra=_list_kinds)]


class PlanPart(RequestOptions):
    """A part that says nothing that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class WatchRequest(PlanPart):
    """Which figures of a metric are watched for lasting shifts: see docs/alarms.md."""

    figures: tuple[str, ...] = Field((), max_length=1000, description="by default the first one")
    windows_per_false_alarm: Count | None = Field(None, ge=10, le=10**6, description="or a year's")


class MetricRequest(RequestOptions):
    """One metric: its name, its kind, its share of epsilon and delta, and what its kind asks.

    What the kind asks are the options of its command, with underscores: column, domain, bounds,
    mechanism, model, min_reports, epsilon_local, confidence and so on.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: Name
    kind: _Kind
    share: float | None = Field(None, gt=0, le=1, description="of the plan's epsilon and delta")
    watch: bool | WatchRequest = Field(False, description="whether alarms are raised, and of what")

    @field_validator("watch", mode="before")
    @classmethod
    def _with_its_defaults(cls, written: object) -> object:
        if not isinstance(written, bool | dict | None):
            raise ValueError("say true, or {figures: [Oslo], windows_per_false_alarm: 365}")
        # Here, for a mapping that is wrong is told by its own keys, and not that it is no truth.
        none = written is None or written is False
        return False if none else WatchRequest.model_validate({} if written is True else written)

    @property
    def options(self) -> dict[str, Any]:
        """What the kind asks, as it was written."""
        return self.model_extra or {}

    @model_validator(mode="after")
    def _asks_no_more_than_it_may(self) -> MetricRequest:
        taken = sorted(OF_PLAN.intersection(self.options))
        if taken:
            raise about("belongs to the plan, not to a metric of it", taken[0])
        return self


Place = tuple[int | str, ...]  # keys and positions, from the outside in


@dataclass(frozen=True)
class SourceLines:
    """The lines of a file.

    Attributes:
        path: of the file.
        lines: (place, line) of every part, the file itself being the place ().

    >>> places = SourceLines.of("plan.yaml", yaml.compose("unit: row\\nmetrics:\\n- name: city\\n"))
    >>> places.where(("metrics", 0, "name")), places.where(("metrics", 0, "bounds"))
    ('plan.yaml, line 3', 'plan.yaml, line 3')
    """

    path: str
    lines: tuple[tuple[Place, int], ...]

    @classmethod
    def of(cls, path: str, root: yaml.Node) -> SourceLines:
        """The places of a document.

        Args:
            path: of the file.
            root: without aliases.
        """
        return cls(path, (((), root.start_mark.line + 1), *_inside((), root)))

    def where(self, place: Place) -> str:
        """The file and the line of a part, or of the nearest thing around it."""
        known = dict(self.lines)
        around = (place[:end] for end in range(len(place), -1, -1))
        return f"{self.path}, line {next(known[place_] for place_ in around if place_ in known)}"


def _inside(place: Place, node: yaml.Node) -> Iterator[tuple[Place, int]]:
    """All parts of a node: in a mapping by the lines of their keys."""
    parts: list[tuple[Place, int, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        parts = [((*place, key.value), key.start_mark.line, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [((*place, i), child.start_mark.line, child) for i, child in enumerate(node.value)]
    for inner, line, value in parts:
        yield inner, line + 1
        yield from _inside(inner, value)
