"""`hushbeam count --horizon`: windows of a log, counted exactly, published with noise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.running import kept, totals
from pipelines.storage.paths import new_file
from tests.end_to_end.examples import DOMAIN
from tests.fakes import canaries
from tests.fakes.few import few

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


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--column", "number", "--bounds", "0,2.5"], "--bounds: with --whole-numbers they must"),
        (["--column", "number", "--bounds", "0,3", "--mechanism", "split-mix"], "--mechanism"),
        (["--column", "value", "--bounds", "0,3"], "value"),
        # A number with a fraction would add nothing, and nobody would see that one was left out.
        (
            ["--derive", "half=0.5 * number", "--column", "half", "--bounds", "0,3"],
            "'half' holds double; of totals that grow whole numbers are added up: derive them",
        ),
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
    "more", [["--drawn-by", "devices"], ["--max-messages", "9"], ["--shuffler", "fused"]]
)
def test_what_says_something_of_dummies_is_refused(asked, more: list[str]) -> None:
    assert more[0] in asked("a", *more, code=2)["error"]
    assert not Path("out").exists()


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


def test_what_nobody_said_at_the_begin_may_have_become_an_option_since(asked) -> None:
    asked("a")
    kept = Path("secrets/out")
    said = json.loads(kept.read_text())
    assert said["request"].pop("by", 0) is None
    kept.write_text(json.dumps(said))
    asked("b")
    asked("c", "--per-value", "1", "--confidence", "0.5", code=2)


def test_nothing_of_the_log_is_left_and_no_path(asked, workspace: Path) -> None:
    asked("a", *BY_VALUE, *BY_USER)
    for path in workspace.rglob("*"):
        if path.is_file() and path.suffix != ".parquet" and path.name != DOMAIN:
            assert not canaries.found(path.read_text(), declared=False)
    said = Path("out/statement.json").read_text()
    assert str(workspace) not in said
    assert DOMAIN not in said
    assert json.loads(said)["request"]["domain"] == "4 declared values"


REFUSED: list[tuple[str, list[str], str]] = [
    ("a", [], "window a was drawn before, and its totals stand"),
    ("c", ["--epsilon", "5"], "begun with other terms"),
    ("c", BY_VALUE, "begun with other terms"),
    ("c", ["--confidence", "0.9"], "begun with other terms"),
    ("c", ["--ledger", "b", "--population", "p"], "that were begun without a ledger"),
    ("c", ["--user-windows", "2"], "--user-windows: a row is in one window"),
    ("c", ["--user-column", "user"], "--user-windows is missing: the promise is about"),
    ("c", ["--runner", "PrismRunner"], "--runner: PrismRunner would carry exact counts"),
    ("c", ["--horizon", "20001"], "--horizon must be a number of at most 20,000"),
]


def test_what_would_tell_more_than_was_paid_for_is_refused(asked, run, log: str) -> None:
    asked("a")
    asked("b")
    before = Path("secrets/out").read_bytes(), Path("out/totals.parquet").read_bytes()
    for window, more, why in REFUSED:
        words = {"--input": log, "--window": window, "--horizon": "30", "--epsilon": "4",
                 "--output": "out", "--secret": "secrets/out"}  # fmt: skip
        words |= dict(zip(more[::2], more[1::2], strict=True))
        outcome = run(["count", *(word for pair in words.items() for word in pair)])
        assert outcome.code == 2, outcome.said
        assert why in outcome.err
        assert outcome.err.count("\n") == 1
        after = Path("secrets/out").read_bytes(), Path("out/totals.parquet").read_bytes()
        assert after == before


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


@pytest.mark.parametrize(
    ("spoilt", "more"),
    few([(short, []), (impossible, BY_USER), (short, BY_USER)], lambda case: case[0]),
)
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


def test_a_horizon_that_is_over_is_said_to_be(asked) -> None:
    for window in "ab":
        asked(window, horizon="2")
    error = asked("c", horizon="2", code=2)["error"]
    assert "window c: all 2 windows of the horizon were drawn; what was published before" in error


@pytest.mark.parametrize("part", ["secret", "table"])
def test_what_the_disk_refused_is_said_and_whether_the_window_stands(
    asked, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    asked("a")
    failures = [28]

    @contextmanager
    def full(path: str, secret: bool = False) -> Iterator[BinaryIO]:
        if failures:
            raise OSError(failures.pop(), "No space left on device")
        with new_file(path, secret) as stream:
            yield stream

    monkeypatch.setattr(kept if part == "secret" else totals, "new_file", full)
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
