"""`look` says what is likely wrong with a log, in shares and kinds, and ends with 0."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.plan.look import FIRST, LAST
from tests.fakes import canaries

HEAD = "collection: c\nversion: 1\nepsilon: 2\ndelta: 1e-6\nmin_reports: 500\noutput: out\n"


def write(name: str, header: str, rows: list[str]) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("\n".join([header, *rows]) + "\n")


def test_it_is_for_the_owner_alone_and_says_so(workspace: Path, run) -> None:
    write("log.csv", "user_id,x", [f"CANARY-{k},{k}" for k in range(100)])
    outcome = run(["look", "log.csv"])
    assert outcome.code == 0
    first, *_, last = outcome.out.splitlines()
    assert (first, last) == (FIRST, LAST)
    assert not canaries.found(outcome.said)
    assert "100 in the sample, 1 rows each on average" in outcome.out
    told = json.loads(run(["look", "log.csv", "--json"]).out)
    assert (told["exit_code"], told["look"]["for"]) == (0, FIRST)
    assert told["look"]["users"]["in_the_sample"] == 100


def test_sizes_are_said_at_steps_alone(workspace: Path, run) -> None:
    write("log.csv", "x", [str(n) for n in [*range(1, 100), 73914]])
    out = run(["look", "log.csv"]).out
    assert "100 % up to 100,000" in out
    assert "73914" not in out.replace(",", "")
    (sizes,) = re.findall(r"their sizes: (.*)", out)
    steps = [
        float(step.replace(",", "")) for step in re.findall(r"up to ([\d,.e+-]+?)(?:,? |$)", sizes)
    ]
    assert all(f"{step:e}"[0] in "0125" and step == float(f"{step:.0e}") for step in steps)


@pytest.mark.parametrize(
    ("name", "header", "rows", "plan", "said"),
    [
        ("log.csv", "s", ['"1,5"'] * 9, None, 'number(s, decimal=",")'),
        ("log.csv", "at", ["1795161600000"] * 9, None, 'epoch(at, "ms")'),
        ("log.csv", "d", ["11/20/2026"] * 9, None, 'parse_time(d, "%m/%d/%Y")'),
        ("log.csv", "a;b", ["x;1"] * 9, None, 'delimiter: ";"'),
        ("log.csv", "CANARY@x.org,1", ["b@x.org,2"] * 9, None, "header: [column_1, column_2]"),
        (
            "log.csv", "city", ["oslo"] * 9, "histogram, column: city, domain: d.txt",
            "the first line of d.txt is the name of a column",
        ),
        (
            "log.csv", "city", [" OSLO"] * 9, "histogram, column: city, domain: d.txt",
            "lower(trim(`city`))",
        ),
        (
            "log.csv", "x", ["1.5"] * 9, 'mean, column: x, bounds: "0,2"',
            'types: {"x": float}',
        ),
        ("log.csv", "y", ["1"] * 9, 'mean, column: x, bounds: "0,2"', 'there is no column "x"'),
        (
            "log-2026-10.csv", "t", ["2026-11-20T08:00"] * 9, None,
            "after which a file is named: are these the files that you mean?",
        ),
    ],
)  # fmt: skip
def test_what_is_likely_wrong_is_named_with_its_cure(
    workspace: Path, run, name: str, header: str, rows: list[str], plan: str | None, said: str
) -> None:
    write(name, header, rows)
    Path("d.txt").write_text("city\noslo\n")
    words = ["look", name]
    if plan is not None:
        text = f"{HEAD}input: {name}\nmetrics:\n  - {{name: m, kind: {plan}}}\n"
        Path("plan.yaml").write_text(text)
        words.append("plan.yaml")
    outcome = run(words)
    assert outcome.code == 0, outcome.said
    assert any(said in line for line in outcome.out.splitlines() if line.startswith("->"))
    assert not canaries.found(outcome.said)


@pytest.mark.verify
def test_a_log_as_it_should_be_has_no_finding(workspace: Path, run) -> None:
    write("log.csv", "city,x", ["oslo,1.5", "rome,2"] * 9)
    Path("d.txt").write_text("oslo\nrome\n")
    text = f"{HEAD}input: log.csv\ntypes: {{x: float}}\nmetrics:\n"
    text += "  - {name: c, kind: histogram, column: city, domain: d.txt}\n"
    Path("plan.yaml").write_text(text + '  - {name: m, kind: mean, column: x, bounds: "0,60"}\n')
    outcome = run(["look", "plan.yaml"])
    assert outcome.code == 0
    assert "-> nothing that stands out" in outcome.out
    assert '"city" is in the domain: 100 %' in outcome.out
    assert "within 0 to 100, by steps: 100 %" in outcome.out
    both = run(["check", "--look", "plan.yaml", "--json"])
    assert json.loads(both.out)["look"]["findings"] == []


@pytest.mark.parametrize("log", ["user_id,x", "user_id,x\n"])
def test_a_log_without_rows_is_no_failure(workspace: Path, run, log: str) -> None:
    """It ends with 0 whatever it finds; so does `check --look`, which has nothing against it."""
    Path("log.csv").write_text(log)
    looked = run(["look", "log.csv"])
    assert looked.code == 0
    assert "0 rows in 1 file; looked at: 0" in looked.out
    metric = "metrics:\n  - {name: m, kind: mean, drawn_by: shuffler, column: x, bounds: '0,9'}\n"
    more = "input: log.csv\ntypes: {x: float}\n"
    Path("plan.yaml").write_text(HEAD.replace("min_reports: 500\n", "") + more + metric)
    assert run(["check", "plan.yaml"]).code == run(["check", "--look", "plan.yaml"]).code == 0


def test_what_cannot_be_read_is_refused(workspace: Path, refused) -> None:
    refused(["look", "none.csv"], "no file matches none.csv")


def planned(reading: str, metric: str) -> None:
    text = f"{HEAD}input: log.csv\n{reading}metrics:\n  - {{name: m, kind: {metric}}}\n"
    Path("plan.yaml").write_text(text)


@pytest.mark.parametrize(
    ("hour", "said"), [("hour(at)", True), ("hour(epoch(number(at), 'ms'))", False)]
)
def test_what_no_expression_reads_is_named_although_one_asks_for_it(
    workspace: Path, run, hour: str, said: bool
) -> None:
    write("log.csv", "at", ["1795161600000"] * 9)
    kind = "timestamp" if hour == "hour(at)" else "string"
    reading = f'types: {{at: {kind}}}\nderive: {{h: "{hour}"}}\n'
    planned(reading, "histogram, column: h, domain: 0..23")
    outcome = run(["look", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    assert ('"at" look like milliseconds since 1970' in outcome.out) == said
    assert ('0 % of "h" are among the declared values' in outcome.out) == said


def test_text_that_is_not_utf_8_is_named_and_no_value_of_a_plan(workspace: Path, run) -> None:
    Path("log.csv").write_bytes(b"city\n" + "Malmö\n".encode("latin-1") * 9)
    said, valued = "as in encoding: cp1252", '"city" has a value: 0 %'
    outcome = run(["look", "log.csv"])
    assert (outcome.code, said in outcome.out) == (0, True)
    assert '"city": text; 100 % have a value' in outcome.out
    for reading, missing in (("", True), ("encoding: cp1252\n", False)):
        planned(reading, "strings, search: levels, column: city")
        out = run(["look", "plan.yaml"]).out
        assert (said in out, valued in out) == (missing, missing)
    # One sign that is cut off where the look ends is no other encoding.
    Path("log.csv").write_bytes(b"city\n" + "ö".encode() * (1 << 19) + b"\n")
    assert said not in run(["look", "log.csv"]).out


def test_names_of_several_columns_are_named(workspace: Path, run) -> None:
    write("log.csv", "a,a,b", ["x,y,z"] * 9)
    assert '-> "a": the name of several columns' in run(["look", "log.csv"]).out
