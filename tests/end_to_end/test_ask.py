"""`hushbeam ask`: a session over one log, from its budget to its last answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.journal.ask_session import AskSession
from pipelines.ledger.ledger import CollectionLedger
from tests.contract.laws import reach
from tests.end_to_end.examples import DOMAIN
from tests.fakes import canaries

BY_VALUE = ["--column", "value", "--domain", DOMAIN]
NUMBERS = ["--column", "number", "--bounds=-3,3"]


@pytest.fixture
def asked(run, log: str, workspace: Path):
    """Asks, and returns what a program reads."""
    Path(DOMAIN).write_text("\n".join(canaries.DECLARED) + "\n")

    def asked(*words: str, code: int = 0, session: str = "session") -> dict[str, Any]:
        files = ["--input", log] if words and not words[0].startswith("-") else []
        outcome = run(["ask", session, *words, *files, "--json"])
        assert outcome.code == code, outcome.said
        assert not canaries.found(outcome.said, declared=False)
        answer: dict[str, Any] = json.loads(outcome.out)
        return answer

    return asked


def numbers() -> np.ndarray:
    column = canaries.table()["number"].to_numpy(zero_copy_only=False).astype(float)
    return np.clip(column[np.isfinite(column)], -3, 3)


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (row,) = answer["answers"][0]["rows"]
    found: dict[str, Any] = row
    return found


@pytest.mark.verify
@pytest.mark.usefixtures("noiseless")
def test_every_question_is_answered_by_what_is_in_the_log(asked) -> None:
    asked("--epsilon", "4")
    assert only(asked("count", "--share", "0.1"))["estimate"] == canaries.ROWS
    positive = asked("count", "--where", "number > 0", "--share", "0.1")
    assert only(positive)["estimate"] == sum(k % 7 > 3 for k in range(canaries.ROWS))
    values = canaries.table()["value"].to_pylist()
    rows = asked("count", *BY_VALUE, "--share", "0.1")["answers"][0]["rows"]
    expected = {name: values.count(name) for name in canaries.DECLARED}
    expected["(other or missing)"] = canaries.ROWS - sum(expected.values())
    assert {row["of"]: row["estimate"] for row in rows} == expected
    exact = numbers()
    total = asked("sum", *NUMBERS, "--whole-numbers", "--share", "0.1")
    assert only(total)["estimate"] == pytest.approx(exact.sum(), abs=1e-6)
    mean = only(asked("mean", *NUMBERS, "--expected", "2000", "--share", "0.1"))
    assert mean["count"] == pytest.approx(exact.size)
    # Numbers are rounded by a coin: within 7 of its standard deviations, at the most.
    assert abs(mean["estimate"] - exact.mean()) < 7 * 3 / np.sqrt(exact.size) / 100
    most = asked("most-common", *BY_VALUE, "--share", "0.1")
    assert only(most)["value"] in canaries.DECLARED
    first = asked("first-above", *BY_VALUE, "--threshold", "100", "--share", "0.1")
    assert only(first)["value"] == canaries.DECLARED[0]


@pytest.mark.verify
@pytest.mark.usefixtures("noiseless")
def test_users_count_once_whatever_rows_they_have(asked) -> None:
    asked("--epsilon", "4", "--user-column", "user")
    users = (canaries.ROWS - canaries.NULL_USERS) // 4
    assert only(asked("count", "--share", "0.1"))["estimate"] == users
    rows = asked("count", *BY_VALUE, "--rows-per-user", "2", "--share", "0.1")
    assert max(row["estimate"] for row in rows["answers"][0]["rows"]) <= users
    error = asked("count", *BY_VALUE, "--rows-per-user", "2", "--per-value", "3", "--share", "0.2")
    sigmas = [one["answers"][0]["rows"][0]["standard_error"] for one in (rows, error)]
    # Three times as many rows, at twice the share.
    assert sigmas[1] / sigmas[0] == pytest.approx(3 / 2**0.5, rel=0.02)


def test_a_quick_look_and_then_detail_are_combined_until_nothing_is_left(asked, run) -> None:
    """Beyond 7 standard errors with a probability below 1e-10."""
    asked("--epsilon", "1")
    quick = asked("count", "--epsilon", "0.25")
    assert quick["answers"][0]["guarantee"]["epsilon"] == pytest.approx(0.25, rel=1e-6)
    detail = asked("count", "--share", "rest")["answers"][0]
    assert detail["answers"] == 2
    (both,) = detail["combined"]
    parts = [only(quick)["standard_error"], detail["rows"][0]["standard_error"]]
    assert both["standard_error"] == pytest.approx(sum(x**-2 for x in parts) ** -0.5)
    assert abs(both["estimate"] - canaries.ROWS) <= reach(both["standard_error"])
    refused = asked("count", "--share", "0.01", code=1)
    assert refused["error"].startswith("withheld: the answer would take 0.01 of the budget")
    assert "nothing is left" in asked("count", "--share", "rest", code=1)["error"]
    shown = asked()
    assert shown["share_left"] == 0
    assert shown["answers"] == [detail]
    said = run(["ask", "session"]).out
    assert "count (2 answers together)" in said
    assert "left: 0 of the budget" in said


def test_nothing_of_the_log_is_left_and_no_path(asked, workspace: Path) -> None:
    asked("--epsilon", "4")
    asked("count", *BY_VALUE, "--share", "0.1")
    asked("most-common", *BY_VALUE, "--share", "0.1")
    files = {path.name for path in Path("session").iterdir()}
    assert files == {"signature.json", "statement.json", "answers.json"}
    for name in files:
        said = Path("session", name).read_text()
        assert not canaries.found(said, declared=False)
        assert str(workspace) not in said
        assert DOMAIN not in said
    statement = json.loads(Path("session/statement.json").read_text())
    assert statement["guarantees"]["release"]["epsilon"] == 4
    assert "each question, and its price, may depend on all answers" in str(statement["in_words"])


def test_a_session_is_paid_for_once_and_whole(asked, run) -> None:
    begin = ["--epsilon", "1", "--ledger", "l.sqlite", "--population", "people"]
    words = ["ledger", "init", "--ledger", "l.sqlite", "--population", "people", "--unit", "row",
             "--budget", "1.2,1e-6"]  # fmt: skip
    assert run(words).code == 0
    asked(*begin)
    asked("count", "--share", "0.5")
    (entry,) = CollectionLedger.open("l.sqlite").entries()
    assert (entry.state, entry.losses[0].epsilon) == ("committed", 1.0)
    asked("--epsilon", "1", "--ledger", "l.sqlite", "--population", "people", code=2)
    asked("count", "--share", "0.1", *begin[2:], code=2)
    asked(*begin, session="another", code=1)


@pytest.mark.verify
def test_answers_in_other_units_are_combined_and_those_of_other_files_are_not(
    asked, run, log: str
) -> None:
    """Units follow from how many are expected. Beyond 7 errors with a probability below 1e-10."""
    asked("--epsilon", "4")
    exact = float(numbers().sum())
    for question, truth in ((["sum", *NUMBERS], exact), (["mean", *NUMBERS], numbers().mean())):
        for expected in ("100", "1000000000"):
            told = asked(*question, "--expected", expected, "--share", "0.1")["answers"][0]
        (both,) = told["combined"]
        assert abs(both["estimate"] - truth) <= reach(both["standard_error"])
        assert both["standard_error"] < 1.01 * told["rows"][0]["standard_error"]
    once = asked("count", "--share", "0.1")["answers"][0]
    assert once["answers"] == 1
    canaries.write(Path("other"), canaries.table())
    words = ["ask", "session", "count", "--input", "other/*.parquet", "--share", "0.1", "--json"]
    (other,) = json.loads(run(words).out)["answers"]
    assert other["answers"] == 1
    assert "other/" not in Path("session/answers.json").read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["count"], "--share or --epsilon"),
        (["count", "--share", "2"], "--share must be a number in 0 .. 1, or rest"),
        (["count", "--share", "0.1", "--epsilon", "1"], "and not both"),
        (["sum", "--share", "0.1", "--column", "number"], "--bounds is missing: sum needs it"),
        (["most-common", "--share", "0.1"], "--column is missing: most-common needs it"),
        (["count", "--share", "0.1", "--threshold", "3"], "--threshold: says nothing of count"),
        (["count", "--share", "0.1", "--delta", "1e-9"], "--delta: is a term of the session"),
        (["count", "--share", "0.1", "--column", "no", "--domain", "1..3"], "no column"),
        (["--share", "0.1"], "--share: belongs to a question, and there is none"),
        (["--epsilon", "2"], "was begun with other terms"),
        (["--user-column", "user"], "--user-column: is a term that a session is begun with"),
        (["first-above", *BY_VALUE, "--threshold", "1", "--share", "1e-9"], "larger share"),
        (["count", "--share", "0.1", "--runner=DataflowRunner"], "counted on this machine"),
    ],
)
def test_a_wrong_request_says_what_to_do(asked, words: list[str], complaint: str) -> None:
    asked("--epsilon", "1")
    assert complaint in asked(*words, code=2)["error"]
    assert AskSession.read("session").answers == ()


def test_there_is_no_question_without_a_session(asked) -> None:
    error = asked("count", "--share", "0.1", code=2)["error"]
    assert "holds no session: `hushbeam ask session --epsilon 1` begins one" in error
    assert "holds no session" in asked(code=2)["error"]
