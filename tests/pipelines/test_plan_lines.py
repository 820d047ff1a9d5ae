"""Refusals of plans name the line of what would have to change, for every kind of metric."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.cli import main
from pipelines.errors import RequestError
from pipelines.plan.check import check
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import open_job, unread_job
from pipelines.plan.loading import load
from pipelines.plan.served import require_schedule

PLAN = """\
collection: trips
version: 1
unit: row
input: logs/{window}.parquet
output: out/{window}
epsilon: 1.0
min_reports: 2000
metrics:
  - name: city
    kind: histogram
    column: city
    domain: 1..50
    mechanism: grr
  - name: word
    kind: strings
    search: levels
    column: word
    oracle: hadamard
  - name: fare
    kind: mean
    column: fare
    bounds: "0,60"
    mechanism: duchi
  - name: wait
    kind: distribution
    column: wait
    bounds: "0,60"
    bins: 16
    quantiles: "0.5,0.9"
  - name: both
    kind: vector-mean
    number:
      - fare=0,60
      - wait=0,9
"""


BOUNDS = 'bounds: "0,60"\n    '


def written(folder: Path, old: str = "", new: str = "") -> str:
    assert not old or PLAN.count(old) == 1, old
    path = folder / "plan.yaml"
    path.write_text(PLAN.replace(old, new) if old else PLAN)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("domain: 1..50", "domain: 50..1", 12, "metric city: domain: 50..1 is empty"),
        ("domain: 1..50", "domain: no.txt", 12, "metric city: domain: {folder}/no.txt is neither"),
        ("mechanism: grr", "mechanism: gr", 13, "metric city: unknown mechanism 'gr'"),
        ("oracle: hadamard", "oracle: laplace", 18, "metric word: "),
        (f"{BOUNDS}mechanism", 'bounds: "60,0"\n    mechanism', 22, "metric fare: bounds"),
        (f"    {BOUNDS}mechanism", "    mechanism", 19, "metric fare: bounds is missing"),
        ("mechanism: duchi", "mechanism: douche", 23, "metric fare: unknown mechanism"),
        ("mechanism: duchi", "group_by: city", 19, "metric fare: drawn_by each-report: groups"),
        (f"{BOUNDS}bins", 'bounds: "0"\n    bins', 27, "metric wait: bounds must be two"),
        ('quantiles: "0.5,0.9"', 'quantiles: "0.5,9"', 29, "metric wait: quantiles must be"),
        ("- wait=0,9", "- wait=9,0", 34, "metric both: number"),
        ("- wait=0,9", "- w*=0,9", 34, "metric both: "),
    ],
)  # fmt: skip
def test_what_a_metric_asks_in_vain_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, told: str
) -> None:
    path = written(tmp_path, old, new)
    with pytest.raises(RequestError) as refusal:
        unread_job(load(path), "2026-11-20")
    told = told.replace("{folder}", str(tmp_path))
    assert str(refusal.value).startswith(f"{path}, line {line}: {told}"), refusal.value
    assert "\n" not in str(refusal.value)
    assert " --" not in str(refusal.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("search: levels", "search: trees", 16, "metrics.1.search must be 'threshold', "),
        ("kind: strings", "kind: heavy-hitters", 15, "metrics.1.kind is wrong: there are hist"),
        ("unit: row", "unit: user", 3, "unit is wrong: user_column"),
        ("unit: row", "unit: row\nuser_column: u", 4, "user_column is wrong"),
        ("epsilon: 1.0", "epsilon: 1.0\nledger: l", 7, "ledger is wrong: ledger and budget go"),
        ("epsilon: 1.0", "budget: {epsilon: 3}\nepsilon: 1.0", 6, "budget is wrong: ledger and"),
        (
            "unit: row", "unit: user\nuser_column: u\nmerge_small: true", 5, "merge_small is wrong",
        ),
        ("out/{window}", "out\nstream: {window: 1d, state: s}", 5, "output is wrong: each window"),
        ("name: wait", "name: city", 24, "metrics.3.name is wrong: two metrics have one name"),
        ("bins: 16", "share: 1.0\n    bins: 16", 9, "metrics.0 is wrong: the other metrics'"),
        ("domain: 1..50", "share: 0.7\n    domain: 1..50", 0, ""),
        ("domain: 1..50", "delta: 1.0e-7\n    domain: 1..50", 12, "metrics.0.delta is wrong"),
        ("version: 1", "version: 1\nschedule: 99 99 * * *", 3, "schedule is wrong: the minute"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_told_at_the_key_that_would_have_to_change(
    tmp_path: Path, old: str, new: str, line: int, told: str
) -> None:
    path = written(tmp_path, old, new)
    if not line:
        load(path)
        return
    with pytest.raises(RequestError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"{path}, line {line}: {told}"), refusal.value


def test_shares_are_told_where_they_come_to_more_than_all(tmp_path: Path) -> None:
    path = Path(written(tmp_path, "domain: 1..50", "domain: 1..50\n    share: 0.7"))
    path.write_text(path.read_text().replace("bins: 16", "bins: 16\n    share: 0.4"))
    with pytest.raises(RequestError, match=r"line 30: metrics\.3\.share is wrong: the shares"):
        load(str(path))


def test_input_that_is_not_there_is_told_at_its_key(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(RequestError) as refusal:
        open_job(load(path), "2026-11-20")
    assert str(refusal.value).startswith(f"{path}, line 4: input: no file matches")


def test_a_plan_without_a_file_is_refused_without_a_line() -> None:
    asked = {"name": "fare", "kind": "mean", "column": "fare", "bounds": "60,0"}
    plan = PlanDocument(
        collection="c", version=1, input=("a",), output="o", epsilon=1, min_reports=9,
        metrics=(asked,),
    )  # fmt: skip
    with pytest.raises(RequestError, match=r"^metric fare: --bounds: the first"):
        unread_job(plan, "all")


def test_min_reports_is_asked_for_in_words_that_fit_the_plan(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refusal:
        check(written(tmp_path, "min_reports: 2000\n", ""))
    assert "line 8: metric city: min_reports is missing: nobody has counted" in str(refusal.value)
    assert "user" not in str(refusal.value)
    with pytest.raises(RequestError, match="min_reports is missing: with user_column"):
        check(
            written(tmp_path, "unit: row\ninput: logs/{window}.parquet\noutput: out/{window}\n"
                "epsilon: 1.0\nmin_reports: 2000\n",
                "unit: user\nuser_column: u\ninput: a\noutput: out\nepsilon: 1.0\n")
        )  # fmt: skip


@pytest.mark.parametrize(
    "written",
    ["0 3 * * *", "*/15 6-22 1,15 jan-mar mon", "0 0 1 1 7", "5-50/5 * * DEC sun", "59 23 31 12 0"],
)
def test_a_schedule_that_cron_understands_is_accepted(written: str) -> None:
    require_schedule(written)


@pytest.mark.parametrize(
    "written",
    [
        "daily", "0 3 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
        "*/0 * * * *", "5-1 * * * *", "1- * * * *", ", * * * *", "mon * * * *", "* * * * x",
        "*/60 * * * *", "-1 * * * *", "1/2 * * * *", "٣ * * * *", "1;ls * * * *",
    ],
)  # fmt: skip
def test_a_schedule_that_never_comes_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"must be \*, numbers|five fields are needed"):
        require_schedule(written)


@pytest.mark.verify
def test_a_check_of_what_a_run_would_refuse_says_so_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path, "epsilon: 1.0", "ledger: l\nbudget: {epsilon: 0.2, delta: 1.0e-6}\nepsilon: 1.0"
    )
    assert check(path) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "line 7: the budget of epsilon 0.2" in told
    assert "a run would be refused" in told
    assert main(["check", path, "--json"]) == 1
    assert "a run would be refused" in json.loads(capsys.readouterr().out)["refused"]


@pytest.mark.verify
def test_a_check_says_which_input_is_not_there(tmp_path: Path, capsys) -> None:
    """It needs no log; but on the machine of the log `run` would refuse what a check passes."""
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("/{window}", "/day"))
    assert check(str(path)) == 0
    shown = capsys.readouterr().out.replace("\n", "")
    assert f"no file matches {tmp_path}/logs/day.parquet here" in shown


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "city,delay\nOslo,1\n".encode("utf-16"),
            "its byte order mark is that of utf-16: name this encoding",
        ),
        ("t\u00f8mt,delay\nOslo,1\n".encode("latin-1"), "the names of its columns are no UTF-8"),
        (b"", "it has no first line that names its columns"),
        (b"\n\n", "it has no first line that names its columns"),
    ],
)
def test_a_check_refuses_the_header_that_a_run_refuses(
    content: bytes, told: str, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_bytes(content)
    path = tmp_path / "plan.yaml"
    path.write_text(
        "collection: c\nversion: 1\ninput: log.csv\noutput: out\nepsilon: 1.0\n"
        "metrics: [{name: n, kind: count}]\n"
    )
    for refused in (check, lambda plan: open_job(load(plan), "all")):
        with pytest.raises(RequestError, match=r"line 3: input: .*log\.csv is not") as refusal:
            refused(str(path))
        assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("metrics:", "metrics must be a list of one metric or more, as in [{name: users, kind"),
        ("metrics: []", "metrics must be a list of one metric or more"),
        ("metrics: [a]", "metrics.0 must be of the form {name: users, kind: count}"),
        ("input: 3", "input must be a file, a glob, or a list of them, as in [a.csv, b.csv]"),
        ("types: x", "types must be of the form {COLUMN: TYPE}, as in {seconds: float}"),
        ("derive: 3", "derive must be of the form {NAME: EXPRESSION}"),
        ("budget: 4", "budget must be of the form {epsilon: 4, delta: 1e-5}"),
        ("delimiter: 3", "delimiter must be a text, in quotes if it is a number"),
        ("unit: rows", "unit must be 'row', 'user' or 'user per window'"),
    ],
)
def test_what_has_another_shape_is_refused_with_the_right_one(
    tmp_path: Path, key: str, said: str
) -> None:
    name = key.partition(":")[0]
    first = "collection: c\nversion: 1\noutput: o\nepsilon: 1\n"
    others = [line for line in ("input: log.csv\n", "metrics: [{name: n, kind: count}]\n")
              if not line.startswith(name)]  # fmt: skip
    (path := tmp_path / "plan.yaml").write_text(f"{first}{key}\n{''.join(others)}")
    with pytest.raises(RequestError) as refused:
        load(str(path))
    assert f"plan.yaml, line 5: {said}" in str(refused.value)
