"""Columns of a log that are called as a release's own: no release breaks, or says it elsewhere.

A plan has a metric of one kind for each name, so one command tries all names on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.metrics import registry
from pipelines.metrics.counting.result import COLUMNS
from pipelines.releases.schema import LONG
from tests.contract.laws import reach
from tests.fakes.few import few
from tests.oracles.releases import Release

N = 400
TEXTS, NUMBERS = ("a", "b"), (1, 2)
# Those of all kinds, those of single ones, and what JSON, YAML and SQL have names for.
OWN = (
    "low", "high", "cumulative", "p", "coordinate", "attribute", "whole", "expected_false",
    "shrunk", "unusable", "column_1", "labels", "figures", "estimate_value", "null", "select",
)  # fmt: skip
NAMES = tuple(dict.fromkeys((*LONG.names, *COLUMNS, *OWN)))

# What a metric asks about a column, and where its values then stand: rows by one of two values.
ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "count": ({"kind": "count", "column": "X", "domain": "D"}, "value"),
    "count by two": (
        {"kind": "count", "column": "X", "domain": "D", "by": "other", "by_domain": "1..2"},
        "group",
    ),
    "count by another": (
        {"kind": "count", "column": "other", "domain": "1..2", "by": "X", "by_domain": "D"},
        "value",
    ),
    "sum": (
        {"kind": "sum", "column": "other", "bounds": "0,2", "group_by": "X", "groups": "D",
         "whole_numbers": True}, "group",
    ),
    "mean": (
        {"kind": "mean", "column": "other", "bounds": "0,2", "group_by": "X", "groups": "D",
         "drawn_by": "shuffler"}, "group",
    ),
    "variance": (
        {"kind": "variance", "column": "other", "bounds": "0,2", "group_by": "X", "groups": "D"},
        "group",
    ),
    "ratio": (
        {"kind": "ratio", "column": "other", "bounds": "0,2", "group_by": "X", "groups": "D"},
        "group",
    ),
    "mean of reports": (
        {"kind": "mean", "column": "other", "bounds": "0,2", "group_by": "X", "groups": "D",
         "min_reports": 300}, "group",
    ),
    "histogram": (
        {"kind": "histogram", "column": "X", "domain": "D", "drawn_by": "shuffler"}, "value",
    ),
    "histogram of reports": (
        {"kind": "histogram", "column": "X", "domain": "D", "min_reports": 300}, "value",
    ),
    "cross-tab": ({"kind": "cross-tab", "columns": ["X"], "domains": ["X=D"]}, "value"),
}  # fmt: skip
# Kinds of numbers alone, or of texts alone.
MORE: dict[str, tuple[dict[str, Any], str]] = {
    "distribution": (
        {"kind": "distribution", "column": "X", "bounds": "1,3", "bins": 8, "drawn_by": "shuffler"},
        "value",
    ),
    "distribution of reports": (
        {"kind": "distribution", "column": "X", "bounds": "1,3", "bins": 8, "min_reports": 300},
        "value",
    ),
    "vector-mean": (
        {"kind": "vector-mean", "number": ["X=0,2"], "drawn_by": "shuffler"}, "value",
    ),
    "vector-mean of reports": (
        {"kind": "vector-mean", "number": ["X=0,2"], "min_reports": 300}, "value",
    ),
    "sum of it": ({"kind": "sum", "column": "X", "bounds": "0,2", "whole_numbers": True}, ""),
    "mean of it": ({"kind": "mean", "column": "X", "bounds": "0,2", "drawn_by": "shuffler"}, ""),
    "mean of reports of it": (
        {"kind": "mean", "column": "X", "bounds": "0,2", "min_reports": 300}, "",
    ),
}  # fmt: skip
STRINGS: dict[str, tuple[dict[str, Any], str]] = {
    "levels": (
        {"kind": "strings", "search": "levels", "column": "X", "max_length": 2, "alphabet": ["ab"],
         "drawn_by": "shuffler"}, "value",
    ),
    "levels of reports": (
        {"kind": "strings", "search": "levels", "column": "X", "max_length": 2, "alphabet": ["ab"],
         "min_reports": 300}, "value",
    ),
    "threshold": ({"kind": "strings", "column": "X", "max_length": 2}, "value"),
}  # fmt: skip
ALL = ASKED | MORE | STRINGS
CASES = [
    *((case, values) for case in ASKED for values in (TEXTS, NUMBERS)),
    *((case, NUMBERS) for case in MORE), *((case, TEXTS) for case in STRINGS),
]  # fmt: skip


def of_column(asked: Any, name: str, declared: str) -> Any:
    """A request about a column, whose values are declared in a file or as a range."""
    if isinstance(asked, list):
        return [of_column(part, name, declared) for part in asked]
    if asked == "D":
        return declared
    text = asked.replace("X=D", f"{name}={declared}") if isinstance(asked, str) else asked
    return text.replace("X", name) if isinstance(text, str) else text


QUICK = [
    param.values for param in few(CASES, lambda case: ALL[case[0]][0]["kind"]) if not param.marks
]

every_case = pytest.mark.parametrize(
    ("case", "values"), CASES, ids=lambda part: part if isinstance(part, str) else str(part[0])
)


@pytest.mark.parametrize("place", range(len(QUICK)), ids=[case for case, _ in QUICK])
def test_a_column_may_have_a_name_of_a_release(place: int, run) -> None:
    """On one of each kind some names, so that every third one is tried."""
    require_released(*QUICK[place], [*NAMES[place :: 3 * len(QUICK)]], run)


@pytest.mark.verify
@every_case
def test_a_column_may_have_any_name(case: str, values: tuple[Any, ...], run) -> None:
    """Every fifth name on whatever may be asked: each of them on five cases or six."""
    require_released(case, values, [*NAMES[CASES.index((case, values)) % 5 :: 5]], run)


def require_released(case: str, values: tuple[Any, ...], names: list[str], run: Any) -> None:
    """A plan of one metric for each name is released, and says of all the same."""
    asked, column = ALL[case]
    column_of = pa.array([values[k % 4 == 0] for k in range(N)])
    other = pa.array([1 + (k % 4 == 1) for k in range(N)])
    pq.write_table(pa.table([column_of] * len(names) + [other], [*names, "other"]), "log.parquet")
    Path("values.txt").write_text("a\nb\n")
    declared = "values.txt" if values is TEXTS else "1..2"
    metrics = [
        {"name": f"m{k}"} | {key: of_column(x, name, declared) for key, x in asked.items()}
        for k, name in enumerate(names)
    ]
    plan = {"collection": "names", "version": 1, "input": "log.parquet", "unit": "row",
            "epsilon": 4 * len(names), "output": "out/{window}", "metrics": metrics}  # fmt: skip
    Path("plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    outcome = run(["run", "plan.yaml", "--window", "w"])
    assert outcome.code == 0, outcome.said
    seen = set()
    for k, name in enumerate(names):
        release = Release(Path(f"out/w/m{k}"))
        table = release.table(next(iter(release.statement["figures"])))
        assert table.select(LONG.names).schema.types == LONG.types, name
        seen.add(tuple(table.column_names))
        require_figures(release, table.to_pylist(), column, values, name)
    assert len(seen) == 1  # the same columns, whatever the log's is called


def require_figures(
    release: Any, rows: list[dict[str, Any]], column: str, values: tuple[Any, ...], name: str
) -> None:
    """Labels in their column, and figures that are theirs."""
    kind = release.statement["release"]
    assert {row["kind"] for row in rows} == {kind}
    if not column:
        assert {(row["group"], row["value"]) for row in rows} == {(None, None)}
    if kind in {"distribution", "vector-mean"} or not column:
        return
    labels = release.statement["labels"]
    assert labels.get(column) == name or kind == "cross-tab"
    texts = [str(value) for value in values]
    some = [row[column] for row in rows if row[column] in texts]
    assert {*some} == {*texts}, rows
    if kind == "count" and len(labels) == 1:
        for row in rows:
            true = {texts[0]: 3 * N / 4, texts[1]: N / 4}.get(row["value"], 0)
            assert abs(row["estimate"] - true) <= reach(row["standard_error"])


def test_all_kinds_are_tried() -> None:
    """But for those whose figures are of no column's values: of days, of steps, of arms."""
    tried = {asked["kind"] for asked, _ in ALL.values()}
    assert tried == {*registry.names()} - {"active-users", "funnel", "experiment"}


@pytest.mark.parametrize("dummies", ["shuffler", None])
def test_groups_are_compared_whoever_draws_the_noise(dummies: str | None, run) -> None:
    """By their names, under `group`: what one form publishes is read like what the other does."""
    rng = np.random.default_rng(5)
    city = rng.choice(["Oslo", "Rome"], 4000)
    pq.write_table(pa.table({"city": city, "x": rng.uniform(0, 1, 4000)}), "log.parquet")
    Path("cities.txt").write_text("Oslo\nRome\n")
    more = [] if dummies is None else ["--drawn-by", dummies]
    words = ["mean", "--input", "log.parquet", "--column", "x", "--bounds", "0,1", "--group-by",
             "city", "--groups", "cities.txt", "--epsilon", "3", "--output", "out"]  # fmt: skip
    assert run([*words, *more]).code == 0
    assert Release(Path("out")).statement["labels"] == {"group": "city"}
    outcome = run(["compare", "out", "--groups", "Oslo", "Rome"])
    assert outcome.code == 0, outcome.said
    assert "of 1 differences" in outcome.out
