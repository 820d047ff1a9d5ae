"""Which noises serve a kind, as the noises themselves say: for the contract, and for the docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.by_job import ByJob
from pipelines.metrics.counting.options import SPLIT_MIX
from pipelines.metrics.counting.split_mix import BySplitMix
from pipelines.metrics.reports.by_reports import ByReports
from tests.contract import forms


@dataclass(frozen=True)
class Column:
    """A noise, and who draws it.

    Attributes:
        noise: what serves a workload, where a kind has no way of its own.
        drawn_by: as of `ReleaseOptions.drawer`.
        asked: the options that ask for it.
    """

    noise: Any
    drawn_by: str
    asked: Mapping[str, Any] = field(default_factory=dict)


def _reports(model: str) -> Column:
    return Column(ByReports, model, {"model": model, "drawn_by": "each-report"})


def _counters(drawn_by: str) -> Column:
    return Column(ByCounters, drawn_by, {"drawn_by": drawn_by})


COLUMNS = {
    "integers added by the job": Column(ByJob, "job", {"drawn_by": "job"}),
    "dummies of the shuffler": _counters("shuffler"),
    "dummies of devices": _counters("devices"),
    "each report, shuffled": _reports("shuffle"),
    "each report, local": _reports("local"),
    "split and mix": Column(
        BySplitMix, "shuffler", {"drawn_by": "shuffler", "mechanism": SPLIT_MIX}
    ),
}  # fmt: skip
"""Heading -> what hides the people."""

FORMS = {
    "local": "each report, local",
    "shuffle": "each report, shuffled",
    "shuffler": "dummies of the shuffler",
    "devices": "dummies of devices",
    "job": "integers added by the job",
    "quantile": "integers added by the job",
    "the job": "integers added by the job",
    SPLIT_MIX: "split and mix",
}
"""How `forms.offered` calls a noise, behind what is searched -> its column."""

_GROUPS = {"group_by": "team", "groups": "groups.txt"}
_BOUNDED = {"bounds": "0,63"}
_K = {"user_column": "user", "rows_per_user": 2}

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "histogram": ("histogram", {}),
    "histogram, several values a user": ("histogram", _K),
    "strings by a threshold": ("strings", {"search": "threshold"}),
    "strings by levels": ("strings", {"search": "levels"}),
    "mean": ("mean", _BOUNDED),
    "mean by group": ("mean", _BOUNDED | _GROUPS),
    "variance": ("variance", {"group_by": None, "groups": None}),
    "variance by group": ("variance", {}),
    "ratio": ("ratio", {"group_by": None, "groups": None}),
    "ratio by group": ("ratio", {}),
    "distribution": ("distribution", {}),
    "distribution, one quantile": ("distribution", {"quantile": 0.5}),
    "vector-mean": ("vector-mean", {}),
    "count": ("count", {}),
    "sum": ("sum", {}),
    "sum by group": ("sum", _GROUPS),
    "active-users": ("active-users", {}),
    "funnel": ("funnel", {}),
    "cross-tab": ("cross-tab", {}),
    "experiment": ("experiment", {}),
}
"""Heading -> the kind, and what is asked of it beside what its example shares."""


def objection(row: str, column: str) -> str | None:
    """Why a noise does not serve a kind; None if it does. The files are those of the contract.

    Args:
        row: of `ROWS`.
        column: of `COLUMNS`.
    """
    kind, more = ROWS[row]
    by, options = COLUMNS[column], registry.options(kind)
    shared = {"input": ("log.parquet",), "output": "out", "epsilon": 1.0}
    request = options(**(shared | dict(forms.example(kind).asked) | more))
    statistic, _ = registry.imported(request.answered_by).read(request, ALONE)
    why: str | None = _noise(request, by).objection(statistic.workload, by.drawn_by)
    return why


def _noise(request: Any, by: Column) -> Any:
    """A column's noise, or in its place a kind's own way to hide people, if it has one."""
    known = {name: said for name, said in by.asked.items() if name in type(request).model_fields}
    own = registry.imported(request.model_copy(update=known).hidden_by)
    usual = own in {column.noise for column in COLUMNS.values()}
    return by.noise if usual or by.noise is BySplitMix else own


def table() -> str:
    """Statistics by noises, and the numbered reasons, as they stand in docs/appendix/noises.md."""
    heads = [f"| statistic | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    reasons: list[str] = []

    def cell(why: str | None) -> str:
        if why is None:
            return "served"
        if why not in reasons:
            reasons.append(why)
        return f"no ({reasons.index(why) + 1})"

    lines = [
        f"| {row} | {' | '.join(cell(objection(row, column)) for column in COLUMNS)} |"
        for row in ROWS
    ]
    said = [f"{number}. {why[0].upper()}{why[1:]}." for number, why in enumerate(reasons, 1)]
    return "\n".join([*heads, *lines, "", *said])
