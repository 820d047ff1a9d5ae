"""Which noise serves rows that count each for itself, and groups of several columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("option", ["by_row: true", "undeclared: drop", "group: [city=a.txt]"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("kind: count, drawn_by: shuffler", "only the job's own noise serves it"),
        (
            "kind: mean, column: real, bounds: '0,1', drawn_by: devices, enrolled: 9",
            "only the job's",
        ),
        (
            "kind: mean, column: real, bounds: '0,1', drawn_by: each-report",
            "only the job's own noise",
        ),
        ("kind: count, horizon: 9, user_windows: 9", "running totals do not serve it"),
    ],
)
def test_no_other_noise_serves_them(run: Any, log: str, option: str, more: str, said: str) -> None:
    Path("a.txt").write_text("Oslo\n")
    Path("plan.yaml").write_text(
        f"collection: c\nversion: 1\nunit: user\nuser_column: user\ninput: '{log}'\n"
        "output: 'out/{window}'\nepsilon: 1\nmin_reports: 10\nmetrics:\n"
        f"- {{name: m, {more}, {option}}}\n"
    )
    outcome = run(["check", "plan.yaml", "--window", "2026-11-20"])
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by-row", "--per-value", "3"], "--per-value: each row counts for itself"),
        (["--group", "value="], "--group: a column and its values"),
        (["--group", "value=[1, 2]"], "a list of texts is needed"),
        (["--group", 'value=["a", "a"]'], "repeats value 1"),
        (["--group", 'value=["a"]', "--group", 'value=["b"]'], "name another column"),
        (["--group", "value=none.txt"], "none.txt is neither"),
    ],
)
def test_what_is_malformed_is_refused(run: Any, log: str, words: list[str], said: str) -> None:
    outcome = run(
        [
            "count",
            "--input",
            log,
            "--user-column",
            "user",
            *words,
            "--epsilon",
            "1",
            "--output",
            "o",
        ]
    )
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert said in outcome.err
