"""`run --windows`: every day in one process, and one table of what came of each."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ledger.ledger import CollectionLedger
from tests.fakes.ledgers import begun_by

PLAN = """\
collection: days
version: 1
input: "{window}.parquet"
output: "out/{window}"
ledger: ledger.sqlite
budget: {epsilon: 20.0, delta: 1.0e-4}
epsilon: 1.0
min_reports: 1000
metrics:
  - {name: value, kind: mean, column: value, bounds: "0,9"}
"""


def log(day: int, rows: int) -> None:
    table = pa.table({"value": pa.array([k % 10 for k in range(rows)], pa.int64())})
    pq.write_table(table, f"2026-11-{day:02}.parquet")


@pytest.mark.verify
def test_each_day_has_its_turn_and_one_table_tells_of_all(run, workspace) -> None:
    for day, rows in ((1, 2000), (2, 10), (4, 2000)):  # the second has too few, the third none
        log(day, rows)
    Path("plan.yaml").write_text(PLAN)
    begun_by("plan.yaml")
    words = ["run", "plan.yaml", "--windows", "2026-11-01..2026-11-04"]
    outcome = run(words)
    assert outcome.code == 2, outcome.said  # a day without files is the worst that came
    lines = {line.split()[1]: line for line in outcome.out.splitlines() if " 2026-11-" in line}
    assert [lines[f"2026-11-0{day}"].split()[3] for day in (1, 2, 3, 4)] == ["0", "1", "2", "0"]
    assert "no file matches" in lines["2026-11-03"]
    stands = sorted(path.parent.name for path in Path("out").glob("*/statement.json"))
    assert stands == ["2026-11-01", "2026-11-04"]
    said = [json.loads(Path("out", day, "statement.json").read_text()) for day in stands]
    assert [each["plan"]["window"] for each in said] == stands
    entries = {
        entry.window: entry.state for entry in CollectionLedger.open("ledger.sqlite").entries()
    }
    assert (entries["2026-11-01"], entries["2026-11-04"]) == ("committed", "committed")
    # Again: nothing is randomised twice, and a day that has come since is caught up with.
    log(3, 2000)
    again = run(words)
    assert again.out.count("released before, and not made again") == 2
    assert Path("out/2026-11-03/statement.json").exists()
    assert again.code == 1


def test_a_caution_names_its_window_and_is_said_once(run, workspace) -> None:
    for day in (1, 2):
        halves = pa.array([k % 10 if k % 2 else None for k in range(2000)], pa.int64())
        pq.write_table(pa.table({"value": halves}), f"2026-11-{day:02}.parquet")
    Path("plan.yaml").write_text(
        PLAN.replace("epsilon: 1.0\nmin_reports: 1000\n", "epsilon: 9.0\n")
    )
    begun_by("plan.yaml")
    words = ["run", "plan.yaml", "--windows"]
    first = run([*words, "2026-11-01..2026-11-01"])
    assert first.code == 0, first.said
    caution = "many of the rows have no value that can be used"
    assert (
        first.err.count(f"warning: 2026-11-01: value: {caution}") == first.err.count(caution) == 1
    )
    both = run([*words, "2026-11-01..2026-11-02", "--json"])
    assert both.err.count(f"warning: 2026-11-02: value: {caution}") == both.err.count(caution) == 1
    told = json.loads(both.out)["windows"]
    assert [len(one.get("warnings", [])) for one in told] == [0, 1]


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ("2026-11-04..2026-11-01", "two days, the first not after the last"),
        ("2026-11-31..2026-12-01", "two days"),
        ("november", "two days"),
        ("0001-01-01..2026-12-01", "days are more than the 3,660 of one run"),
    ],
)
def test_what_is_no_range_of_days_is_refused(windows: str, why: str, refused) -> None:
    Path("plan.yaml").write_text(PLAN)
    refused(["run", "plan.yaml", "--windows", windows], why)


def test_a_plan_without_windows_has_no_days(refused) -> None:
    Path("plan.yaml").write_text(PLAN.replace("{window}", "all"))
    refused(["run", "plan.yaml", "--windows", "2026-11-01..2026-11-02"], "window")
