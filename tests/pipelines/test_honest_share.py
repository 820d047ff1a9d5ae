"""Whose noise a promise counts on: all of a job's, and nine tenths of clients'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.cli import main
from pipelines.metrics.metric import Metric
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import has_clients, unread_job
from pipelines.plan.loading import load
from pipelines.plan.metrics import design_of, mark, public_seed
from pipelines.plan.split import split
from pipelines.stream.windows import streamed
from pipelines.wording import counting_on

PLAN = """\
collection: trips
version: 1
input: logs/{window}.parquet
output: out/{window}
epsilon: 1
delta: 1e-6
min_reports: 20000
metrics:
  - {name: city, kind: histogram, column: city, domain: 1..50, mechanism: grr}
  - {name: fare, kind: mean, column: fare, bounds: "0,600", mechanism: duchi, unusable: fill=0}
  - {name: wait, kind: distribution, column: wait, bounds: "0,60", bins: 16}
"""
STREET = (
    "  - {name: street, kind: strings, search: levels, column: street, alphabet: [lower], "
    "max_length: 8}\n"
)


@pytest.fixture
def written(tmp_path: Path) -> str:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return str(path)


def changed(path: str, before: str, after: str) -> PlanDocument:
    text = Path(path).read_text()
    assert before in text
    Path(path).write_text(text.replace(before, after))
    return load(path)


def spent(metrics: tuple[Metric, ...]) -> list[float]:
    return [metric.guarantees[1].epsilon for metric in metrics]


@pytest.mark.verify
def test_clients_are_counted_on_in_part_and_one_job_as_a_whole(written: str) -> None:
    plan = load(written)
    job, parted = unread_job(plan, "monday"), split(plan, "monday")
    assert [metric.protection.honest_share for metric in job.metrics] == [1.0] * 3
    assert [metric.protection.honest_share for metric in parted.metrics] == [0.9] * 3
    for alone, asked in zip(spent(job.metrics), spent(parted.metrics), strict=True):
        assert asked < alone
    for metric in parted.metrics:
        assert "only 18,000 of 20,000 users follow the protocol" in metric.guarantees[0].how
        assert metric.guarantees[0].epsilon <= plan.epsilon
    for metric in job.metrics:
        assert "every report of the batch counts as randomised" in metric.guarantees[0].how
    assert job.design != parted.job.design
    # It is one plan, and one window of it is one release, whoever draws the noise.
    assert mark(job.plan) == mark(parted.job.plan)


@pytest.mark.verify
def test_frequent_strings_are_searched_for_among_those_who_are_counted_on(written: str) -> None:
    plan = changed(written, PLAN.partition("metrics:\n")[2], STREET)
    (alone,), (asked,) = unread_job(plan, "monday").metrics, split(plan, "monday").metrics
    assert (alone.protection.honest_share, asked.protection.honest_share) == (1.0, 0.9)
    assert spent((asked,)) < spent((alone,))
    assert "only 18,000 of 20,000 users follow the protocol" in asked.guarantees[0].how


def test_a_plan_may_say_who_is_counted_on(written: str) -> None:
    before = mark(load(written))
    plan = changed(written, "delta:", "honest_share: 0.5\ndelta:")
    plan = changed(written, "duchi", "duchi, honest_share: 0.75")
    assert mark(plan) != before
    job, parted = unread_job(plan, "monday"), split(plan, "monday")
    assert [metric.protection.honest_share for metric in job.metrics] == [0.5, 0.75, 0.5]
    assert job.design == parted.job.design


def test_nobody_is_counted_on_in_the_local_model(written: str) -> None:
    plan = changed(written, "delta: 1e-6", "model: local")
    job, parted = unread_job(plan, "monday"), split(plan, "monday")
    assert {metric.protection.honest_share for metric in parted.metrics} == {None}
    assert job.design == parted.job.design


def test_streams_of_rows_draw_for_all_and_streams_of_reports_do_not(written: str) -> None:
    plan = changed(written, "epsilon: 1", "stream: {window: 1h, state: state}\nepsilon: 1")
    rows, reports = streamed(plan), streamed(plan, clients=True)
    assert [metric.protection.honest_share for metric in rows.metrics] == [1.0] * 3
    assert reports.fingerprint == split(plan, "stream").fingerprint != rows.fingerprint


@pytest.mark.verify
def test_a_check_shows_both_and_programs_read_what_clients_run(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parted = split(load(written), "monday")
    assert main(["check", written]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert parted.job.design.hex() not in said
    assert "`hushbeam check --clients` shows the design" in said
    assert main(["check", written, "--clients"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert parted.job.design.hex() in said
    assert unread_job(load(written), "monday").design.hex() in said
    for metric in parted.metrics:
        assert f"{metric.name}: {metric.design.name}, {metric.expected_error}, one report" in said
    assert said.count("90 % of the users are counted on") == 3
    assert main(["check", written, "--json", "--window", "monday"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["window"]["fingerprint"] == parted.fingerprint.hex()
    assert told["design"] == parted.job.design.hex()
    for metric, shown in zip(parted.metrics, told["metrics"], strict=True):
        assert shown["resolved"] == design_of(public_seed(parted.job.plan, "monday"), metric)
        assert shown["honest_share"] == 0.9


@pytest.mark.verify
def test_a_check_shows_one_design_where_clients_run_none_of_their_own(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whose users send several messages is decoded by who has counted users: no clients alone.
    plan = changed(written, "mechanism: grr", "mechanism: puredump")
    assert not has_clients(unread_job(plan, "monday"))
    assert main(["check", written]) == 0
    assert "--clients" not in capsys.readouterr().out
    assert main(["check", written, "--clients"]) == 0
    said = capsys.readouterr().out
    assert "must agree" not in said
    assert f"resolved to design {unread_job(plan, 'WINDOW').design.hex()}" in said


def test_a_statement_names_who_is_counted_on() -> None:
    assert "this job drew the noise for every row" in counting_on(None, "row")
    assert "90 % of the users following the protocol" in counting_on(0.9, "user")
    assert "99.5 % of the users" in counting_on(0.995, "user")
    assert "counts on all users following the protocol" in counting_on(1.0, "user")
