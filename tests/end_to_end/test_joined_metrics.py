"""Metrics of a plan whose steps are joined: what each publishes is what it publishes alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.testing.util import assert_that

from mechanisms.randomness import SeededRandom
from pipelines.metrics import joined as joined_metrics
from pipelines.metrics.joined import AddUpEachDoFn, JoinedMetrics, chains, joined
from pipelines.metrics.metric import PAGE, Content, Metric
from pipelines.plan.job import open_job
from pipelines.plan.loading import load
from pipelines.plan.publish import PublishPlan, Whole
from pipelines.plan.run import ReleaseTarget
from tests.end_to_end.test_release_contract import losing
from tests.fakes import canaries
from transforms.elements.chains import naming
from transforms.encoders import users
from transforms.rows.encode import EncodeDoFn
from transforms.shuffle.dummies import DrawDummiesDoFn
from transforms.units.contributions import ThinUsersDoFn
from transforms.units.units import ReportUsersDoFn

ROW = "unit: row\nneighbours: replace\n"
USER = "unit: user\nuser_column: user\n"
PLAN = """\
collection: joined
version: 1
{unit}input: {log}
output: out
epsilon: 6.0
delta: 1.0e-6
metrics:
  - {{name: values, kind: histogram, column: value, domain: {domain}, drawn_by: shuffler}}
  - {{name: total, kind: sum, column: real, bounds: "0,300", drawn_by: shuffler}}
  - {{name: middle, kind: mean, column: number, bounds: "-3,3", where: number < 2}}
  - {{name: shape, kind: distribution, column: real, bounds: "0,300", drawn_by: shuffler}}
  - {{name: tabs, kind: cross-tab, columns: [value, number],
     domains: [value={domain}, number=-3..3], drawn_by: shuffler}}
  - {{name: row, kind: vector-mean, number: ["number=-3,3", "real=0,300"]}}
  - {{name: many, kind: count}}
"""
REPORTS = """\
  - {{name: apart, kind: histogram, column: value, domain: {domain}, mechanism: grr,
     min_reports: 400}}
"""


def metrics_of(unit: str, log: str, domain: str, more: str = "") -> tuple[Metric, ...]:
    """Those of the plan, drawn from one seed."""
    text = (PLAN + more).format(unit=unit, log=log, domain=domain)
    Path("plan.yaml").write_text(text)
    metrics = open_job(load("plan.yaml"), "all").metrics
    return tuple(replace(metric, open_rng=partial(SeededRandom, 7)) for metric in metrics)


def said(content: Content) -> tuple[dict[str, bytes], dict[str, Any]]:
    """All that is published but the time of day."""
    files = {name: data for name, data in content.files.items() if name != PAGE}
    return files, {name: part for name, part in content.statement.items() if name != "created"}


def both(contents: list[tuple[str, list[Content]]]) -> None:
    assert len(contents) == 7
    for name, (alone, with_others) in contents:
        assert len(alone.files) > 1, name
        assert said(alone) == said(with_others), name


@pytest.mark.parametrize("unit", [ROW, USER])
def test_each_metric_publishes_to_the_byte_what_it_publishes_alone(
    unit: str, log: str, domain: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws, noise, counts and statements: joining the steps moves none of them."""
    monkeypatch.setattr(users, "SecureRandom", lambda: SeededRandom(3))  # of users' digests
    metrics = metrics_of(unit, log, domain)
    (some,) = joined(metrics) if unit == ROW else [sum(joined(metrics), ())]
    assert {metric.name for metric in some} == {metric.name for metric in metrics}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        # One table: which of several comes first, and draws first, is the engine's choice.
        tables = pipeline | beam.Create([canaries.table()]).with_output_types(pa.Table)
        contents = [tables | metric.name >> Whole(metric) for metric in metrics]
        contents += [
            tables | f"Joined {k}" >> JoinedMetrics(part) for k, part in enumerate(joined(metrics))
        ]
        pairs = contents | beam.Flatten() | beam.GroupByKey()
        assert_that(pairs | beam.MapTuple(lambda name, two: (name, [*two])), both)


def test_beam_has_as_many_steps_for_many_metrics_as_for_one(
    log: str, domain: str, workspace: Path
) -> None:
    def steps(metrics: tuple[Metric, ...]) -> int:
        class Counting(PipelineVisitor):
            number = 0

            def visit_transform(self, step: Any) -> None:
                self.number += 1

        pipeline, visitor = beam.Pipeline(runner="FnApiRunner"), Counting()
        pipeline | PublishPlan(metrics, ReleaseTarget("out", {}))
        pipeline.visit(visitor)
        return visitor.number

    metrics = metrics_of(ROW, log, domain)
    drawn = tuple(metric for metric in metrics if not metric.draws_once)
    assert len(drawn) == 4
    assert steps(drawn) == steps(drawn[:1])


def test_metrics_of_many_rows_are_joined_some_at_a_time(
    log: str, domain: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = metrics_of(USER, log, domain, REPORTS)
    monkeypatch.setattr(joined_metrics, "_ROWS", 3 * metrics[0].telemetry.about)
    sets = joined(metrics)
    assert [len(some) for some in sets] == [3, 3, 1]
    assert "apart" not in {metric.name for some in sets for metric in some}
    assert all(len(chains(metric)) == 2 for metric in sets[0])  # users meet before they report


def test_kinds_with_steps_of_their_own_stand_beside_joined_ones(
    run, log: str, domain: str, workspace: Path
) -> None:
    metrics_of(ROW, log, domain, REPORTS)
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    assert {path.parent.name for path in Path("out").glob("*/statement.json")} >= {"apart", "tabs"}


@pytest.mark.parametrize(
    ("step", "method"),
    [
        (EncodeDoFn, "process"),
        (ThinUsersDoFn, "finish_bundle"),
        (ReportUsersDoFn, "process"),
        (DrawDummiesDoFn, "process"),
        (AddUpEachDoFn, "process"),
    ],
)
def test_what_an_engine_loses_of_one_metric_fails_the_run(
    step: Any,
    method: str,
    run,
    log: str,
    domain: str,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics_of(USER, log, domain)
    monkeypatch.setattr(step, method, losing(getattr(step, method)))
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 3, outcome.said
    assert "the engine has lost some, and nothing is published" in outcome.err
    assert not Path("out").exists()


def test_a_log_without_rows_has_the_release_of_every_metric(
    run, log: str, domain: str, workspace: Path
) -> None:
    pq.write_table(canaries.table().slice(0, 0), "empty.parquet")
    metrics_of(USER, "empty.parquet", domain)
    outcome = run(["run", "plan.yaml"])
    assert outcome.code in (0, 1), outcome.said
    assert len([*Path("out").glob("many/count.parquet")]) == 1


def test_errors_name_the_metric() -> None:
    with pytest.raises(ValueError, match=r"^too wide \[metric shape\]$"), naming("shape"):
        raise ValueError("too wide")
    with pytest.raises(PermissionError) as raised, naming("shape"):
        raise PermissionError(13, "Permission denied")
    assert raised.value.errno == 13
