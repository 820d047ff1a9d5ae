"""`hushbeam count --horizon`: windows of a log, counted exactly, published with noise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.logs import inputs
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.running import totals
from tests.end_to_end.examples import DOMAIN
from tests.fakes import canaries

BY_VALUE = ["--column", "value", "--domain", DOMAIN]
BY_USER = ["--user-column", "user", "--user-windows", "2"]


@pytest.fixture
def asked(run, workspace: Path):
    """Runs a window, of rows in an order of its own, and returns what a program reads."""
    Path(DOMAIN).write_text("\n".join(canaries.DECLARED) + "\n")

    def asked(
        window: str,
        *more: str,
        output: str = "out",
        horizon: str = "30",
        code: int = 0,
        kind: str = "count",
    ) -> dict[str, Any]:
        turned = sum(window.encode())
        rows = canaries.table()
        rows = pa.concat_tables([rows.slice(turned), rows.slice(0, turned)])
        log = canaries.write(workspace / f"log-{turned}", rows)
        words = [kind, "--input", log, "--window", window, "--horizon", horizon,
                 "--epsilon", "4", "--output", output, "--secret", f"secrets/{output}", *more,
                 "--json"]  # fmt: skip
        outcome = run(words)
        assert outcome.code == code, outcome.said
        assert not canaries.found(outcome.said, declared=False)
        answer: dict[str, Any] = json.loads(outcome.out)
        return answer

    return asked


def estimates(answer: dict[str, Any]) -> dict[str, int]:
    return {row["value"]: row["estimate"] for row in answer["rows"]}


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], {"all": canaries.ROWS}),
        (["--where", "number > 0"], {"all": sum(k % 7 > 3 for k in range(canaries.ROWS))}),
        (BY_USER, {"all": (canaries.ROWS - canaries.NULL_USERS) // 4}),
        ([*BY_USER, "--per-value", "3"], {"all": 3 * (canaries.ROWS - canaries.NULL_USERS) // 4}),
    ],
)
def test_each_window_adds_what_a_count_counts(asked, more: list[str], expected) -> None:
    assert estimates(asked("a", *more)) == expected
    assert estimates(asked("b", *more)) == {name: 2 * n for name, n in expected.items()}


@pytest.mark.usefixtures("noiseless")
def test_values_have_totals_of_their_own_and_all_others_one(asked) -> None:
    values = canaries.table()["value"].to_pylist()
    expected = {name: values.count(name) for name in canaries.DECLARED}
    expected["(other or missing)"] = canaries.ROWS - sum(expected.values())
    assert estimates(asked("a", *BY_VALUE)) == expected
    users = estimates(asked("a", *BY_VALUE, *BY_USER, "--rows-per-user", "5", output="users"))
    assert max(users.values()) <= 500 == canaries.ROWS // 4


@pytest.mark.usefixtures("noiseless")
def test_sums_of_whole_numbers_are_clipped_and_added_up(asked) -> None:
    rows = canaries.table()
    values, numbers = rows["value"].to_pylist(), rows["number"].to_pylist()
    within = [min(max(number or 0, -2), 3) for number in numbers]
    told = ["--column", "number", "--bounds=-2,3"]
    assert estimates(asked("a", *told, kind="sum")) == {"all": sum(within)}
    expected = dict.fromkeys([*canaries.DECLARED, "(other or missing)"], 0)
    for value, number in zip(values, within, strict=True):
        expected[value if value in canaries.DECLARED else "(other or missing)"] += number
    told += ["--group-by", "value", "--groups", DOMAIN]
    assert estimates(asked("a", *told, output="values", kind="sum")) == expected
    said = json.loads(Path("values/statement.json").read_text())
    assert (said["request"]["column"], said["request"]["groups"]) == ("number", "4 declared values")
    # Noise is that of a count, three times.
    asked("a", output="counted")
    sigmas = [
        json.loads(Path(folder, "statement.json").read_text())["mechanism"]["sigma"]
        for folder in ("out", "counted")
    ]
    assert sigmas[0] == pytest.approx(3 * sigmas[1], rel=1e-4)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--column", "number", "--bounds", "0,2.5"], "--bounds: with --whole-numbers they must"),
        (["--column", "number", "--bounds", "0,3", "--mechanism", "split-mix"], "--mechanism"),
        (["--column", "value", "--bounds", "0,3"], "value"),
    ],
)
def test_a_sum_that_is_none_is_refused(asked, more: list[str], why: str) -> None:
    assert why in asked("a", *more, code=2, kind="sum")["error"]
    assert not Path("out").exists()


@pytest.mark.parametrize("option", ["--window", "--secret", "--last", "--time-column"])
def test_an_option_of_totals_needs_a_horizon(refused, option: str) -> None:
    words = ["count", "--input", "x.parquet", "--epsilon", "1", "--output", "out"]
    refused([*words, option, "7"], f"{option} needs --horizon")


@pytest.mark.parametrize(
    "more", [["--dummies", "devices"], ["--max-messages", "9"], ["--shuffler", "fused"]]
)
def test_what_says_something_of_dummies_is_refused(asked, more: list[str]) -> None:
    assert more[0] in asked("a", *more, code=2)["error"]
    assert not Path("out").exists()


def test_totals_are_as_near_as_is_said_and_a_window_is_drawn_once(asked) -> None:
    """Beyond 7 standard errors with a probability below 1e-10."""
    for day, window in enumerate("abc"):
        answer = asked(window)
        (row,) = answer["rows"]
        assert abs(row["estimate"] - (day + 1) * canaries.ROWS) < 7 * row["standard_error"]
    assert asked("c")["rows"] == answer["rows"]
    table = pq.read_table("out/totals.parquet")
    assert table["window"].to_pylist() == [*"abc"]
    assert table["estimate"].to_pylist()[-1] == row["estimate"]


def test_its_page_has_a_picture_of_each_total_and_the_newest_first(asked) -> None:
    for window in ("a", "b <i>", "c"):
        answer = asked(window, *BY_VALUE)
    page = Path("out/report.html").read_text()
    assert "3 of 30 windows" in page
    assert page.count('class="picture"') == len(answer["rows"]) == 5
    assert page.index("<th>c</th>") < page.index("<th>b &lt;i&gt;</th>") < page.index("<th>a</th>")
    assert page.count("<tr><th>c</th>") == 5
    # A job that was killed before it was shown shows it the next time.
    Path("out/report.html").unlink()
    table = pq.read_table("out/totals.parquet")
    pq.write_table(table.slice(0, 10), "out/totals.parquet")
    asked("c", *BY_VALUE)
    assert Path("out/report.html").read_text() == page


def test_names_of_values_and_windows_are_no_markup(asked, run, log: str) -> None:
    Path("odd.txt").write_text("[/x]\n[red]b\n")
    words = ["count", "--input", log, "--window", "[/w]", "--horizon", "30", "--epsilon", "4"]
    outcome = run([*words, "--output", "odd", "--secret", "secrets/odd", "--column", "value",
                   "--domain", "odd.txt"])  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert {word for word in ("[/w]", "[/x]", "[red]b") if word in outcome.out} == {
        "[/w]", "[/x]", "[red]b"
    }  # fmt: skip


def test_what_nobody_said_at_the_begin_may_have_become_an_option_since(asked) -> None:
    asked("a")
    kept = Path("secrets/out")
    said = json.loads(kept.read_text())
    assert said["request"].pop("by", 0) is None
    kept.write_text(json.dumps(said))
    asked("b")
    asked("c", "--per-value", "1", "--confidence", "0.5", code=2)


def test_the_confidence_that_is_asked_for_is_published(asked) -> None:
    answer = asked("a", "--confidence", "0.5")
    (row,) = pq.read_table("out/totals.parquet").to_pylist()
    assert [row] == answer["rows"]
    assert row["upper"] - row["lower"] == pytest.approx(2 * 0.674490 * row["standard_error"])
    said = json.loads(Path("out/statement.json").read_text())
    assert said["request"]["confidence"] == said["error"]["confidence"] == 0.5


def test_nothing_of_the_log_is_left_and_no_path(asked, workspace: Path) -> None:
    asked("a", *BY_VALUE, *BY_USER)
    for path in workspace.rglob("*"):
        if path.is_file() and path.suffix != ".parquet" and path.name != DOMAIN:
            assert not canaries.found(path.read_text(), declared=False)
    said = Path("out/statement.json").read_text()
    assert str(workspace) not in said
    assert DOMAIN not in said
    assert json.loads(said)["request"]["domain"] == "4 declared values"


def test_it_is_said_of_which_users_the_promise_holds(asked, run, log: str) -> None:
    whom = "user who is in at most 2 of 30 windows"
    assert asked("a", *BY_USER)["guarantee"]["unit"] == whom
    said = json.loads(Path("out/statement.json").read_text())
    assert said["in_words"][0].startswith("What anyone but the collector sees in this release")
    assert f"any one {whom} contributes" in said["in_words"][0]
    assert said["in_words"][1].startswith(f"The promise covers all that any one {whom} adds")
    shown = run(["count", "--input", log, "--window", "b", "--horizon", "30", "--epsilon", "4",
                 "--output", "out", "--secret", "secrets/out", *BY_USER])  # fmt: skip
    assert f", per {whom}, presence hidden" in " ".join(shown.said.split())


@pytest.mark.parametrize(
    ("window", "more", "why"),
    [
        ("a", [], "window a was drawn before, and its totals stand"),
        ("c", ["--epsilon", "5"], "begun with other terms"),
        ("c", BY_VALUE, "begun with other terms"),
        ("c", ["--confidence", "0.9"], "begun with other terms"),
        ("c", ["--ledger", "b", "--population", "p"], "that were begun without a ledger"),
        ("c", ["--user-windows", "2"], "--user-windows: a row is in one window"),
        ("c", ["--user-column", "user"], "--user-windows is missing: the promise is about"),
        ("c", ["--runner", "PrismRunner"], "--runner: PrismRunner would carry exact counts"),
        ("c", ["--horizon", "20001"], "--horizon must be a number of at most 20,000"),
    ],
)
def test_what_would_tell_more_than_was_paid_for_is_refused(
    asked, run, log: str, window: str, more: list[str], why: str
) -> None:
    asked("a")
    asked("b")
    before = Path("secrets/out").read_bytes(), Path("out/totals.parquet").read_bytes()
    words = {"--input": log, "--window": window, "--horizon": "30", "--epsilon": "4",
             "--output": "out", "--secret": "secrets/out"}  # fmt: skip
    words |= dict(zip(more[::2], more[1::2], strict=True))
    outcome = run(["count", *(word for pair in words.items() for word in pair)])
    assert outcome.code == 2, outcome.said
    assert why in outcome.err
    assert outcome.err.count("\n") == 1
    assert (Path("secrets/out").read_bytes(), Path("out/totals.parquet").read_bytes()) == before


def test_the_last_window_with_other_rows_is_refused(asked, run, log: str, tmp_path: Path) -> None:
    asked("a")
    other = canaries.write(tmp_path / "other", canaries.table().slice(5))
    outcome = run(["count", "--input", other, "--window", "a", "--horizon", "30", "--epsilon", "4",
                   "--output", "out", "--secret", "secrets/out"])  # fmt: skip
    assert outcome.code == 2
    assert "window a was drawn before, of other files, and its totals stand" in outcome.err


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("more", [[], BY_USER])
def test_a_day_without_rows_is_a_window(run, workspace: Path, more: list[str]) -> None:
    files = {"a": canaries.table(), "b": canaries.table().slice(0, 0)}
    for window, rows in files.items():
        log = canaries.write(workspace / window, rows)
        outcome = run(["count", "--input", log, "--window", window, "--horizon", "30", "--epsilon",
                       "4", "--output", "out", "--secret", "secret", *more])  # fmt: skip
        assert outcome.code == 0, outcome.said
    first, second = pq.read_table("out/totals.parquet")["estimate"].to_pylist()
    assert first == second > 0


def short(messages: np.ndarray) -> np.ndarray:
    return messages[1:]


def impossible(messages: np.ndarray) -> np.ndarray:
    return np.full(messages.size, 200, np.uint8)


@pytest.mark.parametrize("spoilt", [short, impossible])
@pytest.mark.parametrize("more", [[], BY_USER])
def test_a_window_of_which_something_was_lost_is_not_drawn(
    asked, monkeypatch: pytest.MonkeyPatch, spoilt: Any, more: list[str]
) -> None:
    """Between the step that sends and the one that counts."""
    asked("a", *more)
    before = Path("secrets/out").read_bytes(), Path("out/totals.parquet").read_bytes()
    counts = ByCounters.estimated

    def estimated(self: ByCounters, reports: Any) -> Any:
        messages = reports.messages | "Spoil" >> beam.Map(spoilt).with_output_types(np.ndarray)
        return counts(self, reports._replace(messages=messages))

    with monkeypatch.context() as patched:
        patched.setattr(ByCounters, "estimated", estimated)
        error = asked("b", *more, code=3)["error"]
    assert "the engine has lost some, and nothing is published" in error
    assert (Path("secrets/out").read_bytes(), Path("out/totals.parquet").read_bytes()) == before
    asked("b", *more)


def test_files_that_change_meanwhile_add_nothing(asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked("a")
    before = Path("secrets/out").read_bytes()
    opened = inputs.open_telemetry

    def longer(*words: Any) -> Any:
        telemetry = opened(*words)
        return replace(telemetry, rows=telemetry.rows + 1)

    monkeypatch.setattr(inputs, "open_telemetry", longer)
    assert "the files changed while they were read" in asked("b", code=3)["error"]
    assert Path("secrets/out").read_bytes() == before


def test_a_horizon_that_is_over_is_said_to_be(asked) -> None:
    for window in "ab":
        asked(window, horizon="2")
    error = asked("c", horizon="2", code=2)["error"]
    assert "window c: all 2 days of the horizon were drawn; what was published before" in error


@pytest.mark.parametrize("part", ["secret", "table"])
def test_what_the_disk_refused_is_said_and_whether_the_window_stands(
    asked, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    asked("a")
    wrote, failures = totals.write, [28]

    def full(path: str, data: bytes, secret: bool = False) -> None:
        if secret == (part == "secret") and failures:
            raise OSError(failures.pop(), "No space left on device")
        wrote(path, data, secret)

    monkeypatch.setattr(totals, "write", full)
    error = asked("b", code=2)["error"]
    assert "No space left on device" in error
    assert "drawn before" not in error
    stands = part == "table"
    assert error.endswith("as it was first drawn" if stands else "what was published before stands")
    shown = pq.read_table("out/totals.parquet").to_pylist()
    assert [row["window"] for row in shown] == ["a", *["b"] * stands]
    assert asked("b")["rows"] == shown[1:] or not stands


def test_what_was_drawn_and_not_shown_is_shown_by_the_next_run(asked) -> None:
    asked("a")
    shown = Path("out/totals.parquet").read_bytes()
    asked("b")
    Path("out/totals.parquet").write_bytes(shown)  # as if the job had been killed in between
    asked("c")
    assert pq.read_table("out/totals.parquet")["window"].to_pylist() == [*"abc"]


def test_a_ledger_pays_once(asked, run) -> None:
    begin = "ledger init --ledger book.sqlite --population p --unit row --budget 5,1e-5"
    assert run(begin.split()).code == 0
    pays = ["--ledger", "book.sqlite", "--population", "p"]
    for window in "ab":
        asked(window, *pays)
    entries = json.loads(run(["ledger", "show", "--ledger", "book.sqlite", "--json"]).out)
    assert [entry["state"] for entry in entries] == ["committed"]
    assert asked("a", *pays, output="more", code=1)["error"].startswith("withheld")
    assert not Path("more").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--horizon", "365"], False),
        (["--horizon", "7"], True),
        (["--horizon", "100", *BY_USER[:2], "--user-windows", "3"], False),
        (["--horizon", "100", *BY_USER[:2], "--user-windows", "100"], True),
    ],
)
def test_it_is_said_where_counts_of_each_window_would_err_less(
    run, log: str, more: list[str], said: bool
) -> None:
    outcome = run(["count", "--input", log, "--window", "a", "--epsilon", "1", "--output", "out",
                   "--secret", "secret", *more])  # fmt: skip
    assert outcome.code == 0
    assert ("`hushbeam count` says of each window" in outcome.err) == said
