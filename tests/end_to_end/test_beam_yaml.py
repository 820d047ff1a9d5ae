"""Beam YAML files whose steps are hushbeam's, by the listing that is shipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.yaml.yaml_transform import expand_pipeline

import hushbeam.beam as private

LISTING = Path(__file__).parents[2] / "deploy" / "beam-yaml" / "providers.yaml"
ELEMENTS = [
    {"user": f"u{i}", "city": ("Oslo", "Bern")[i % 3 == 0], "real": 1.0, "half": i % 2}
    for i in range(90)
]
CLEAR = "epsilon: 40"  # so that noise is 0, but with a probability below 1e-15


def build(*steps: str) -> beam.Pipeline:
    """The pipeline of a chain of steps that includes the listing."""
    options = PipelineOptions(["--pickle_library=cloudpickle"])
    pipeline = beam.Pipeline("FnApiRunner", options=options)
    listed = [
        {"type": "Create", "config": {"elements": ELEMENTS}},
        *(yaml.safe_load(step) for step in steps),
    ]
    document = {"pipeline": {"type": "chain", "transforms": listed}}
    expand_pipeline(pipeline, yaml.dump(document | {"providers": [{"include": str(LISTING)}]}))
    return pipeline


def written(step: str) -> list[dict[str, Any]]:
    """The rows that a step yields."""
    with build(step, "{type: WriteToJson, config: {path: rows}}"):
        pass
    return [json.loads(x) for path in Path().glob("rows*") for x in path.read_text().splitlines()]


def test_the_listing_names_every_transform() -> None:
    ((provider, *more),) = [yaml.safe_load(LISTING.read_text())]
    assert (provider["type"], more) == ("python", [])
    kinds = {f"Hushbeam{name}": f"hushbeam.beam.{name}" for name in private.__all__}
    assert provider["transforms"] == {n: x for n, x in kinds.items() if n != "HushbeamBudget"}


def test_rows_of_the_step_before_become_figures(workspace: Path) -> None:
    rows = written(
        "{type: HushbeamCount, config: {by: city, values: [Oslo, Bern, Rome], user: user, "
        f"{CLEAR}}}}}"
    )
    assert {row["value"]: row["estimate"] for row in rows} == {
        "Oslo": 60, "Bern": 30, "Rome": 0, None: 0,  # any other value
    }  # fmt: skip
    assert {(row["unit"], row["model"]) for row in rows} == {("user", "central")}


def test_bounds_and_declared_values_of_two_columns(workspace: Path) -> None:
    (row,) = written(
        f"{{type: HushbeamSum, config: {{column: real, bounds: [0, 3], user: user, {CLEAR}}}}}"
    )
    assert row["estimate"] == pytest.approx(90, abs=3)  # 3 / 40 is its scale
    for path in Path().glob("rows*"):
        path.unlink()
    crossed = written(
        "{type: HushbeamStatistics, config: {kind: cross-tab, columns: [city, half], domains: "
        f"{{city: [Oslo, Bern], half: [0, 1]}}, user: user, {CLEAR}}}}}"
    )
    of = {row["value"]: row["estimate"] for row in crossed}
    assert of["Bern × 0"] == pytest.approx(15, abs=1)  # of users who share a one: parts of it


def test_a_query_yields_its_answer(workspace: Path) -> None:
    sql = "SELECT city, COUNT(DISTINCT user) AS users FROM log GROUP BY city ORDER BY users"
    rows = written(
        f"{{type: HushbeamQuery, config: {{sql: '{sql}', groups: {{city: [Oslo, Bern]}}, "
        f"user: user, {CLEAR}}}}}"
    )
    assert [(row["city"], row["users"]) for row in rows] == [("Bern", 30), ("Oslo", 60)]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("column: nothing, values: 0..3, epsilon: 1", "has no column 'nothing'"),
        ("column: real, values: 0..3, epsilon: -1", "epsilon must be a number greater"),
        ("column: real, values: 0..3", "say epsilon"),
        ("column: real, values: 0..3, epsilon: 1, colour: 1", "histogram has no option 'colour'"),
        ("column: city, values: [a, b], epsilon: 1, drawn_by: each-report", "leave it out"),
    ],
)
def test_what_cannot_be_is_refused_before_it_runs(config: str, told: str, workspace: Path) -> None:
    with pytest.raises(ValueError, match=told):
        build(f"{{type: HushbeamHistogram, config: {{{config}}}}}")
