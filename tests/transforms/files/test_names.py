"""A refusal names no cell of a file, and no value of a folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes import canaries
from transforms.files.names import names_of
from transforms.files.partitions import shown
from transforms.files.reading import PLAIN, Reading
from transforms.files.source import look


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("city,seconds\nOslo,1.5\n", ["city", "seconds"]),
        ("city,when\nOslo,2026-11-20T08:00\n", ["city", "when"]),
        ("CANARY,1\nb,2\n", []),
        ("CANARY,1.5\nb,x\nc,2.5\n", []),
        ("CANARY@example.com,x\nb@example.com,y\n", []),
        ("CANARY,Oslo\nb,Rome\n", []),  # as like a header as not
        ("CANARY,NA\nb,2\nc,3\n", []),  # a first row that lacks its number
        ("CANARY,2026-11-20\nb,2026-11-21\n", []),
    ],
)
def test_a_first_line_is_a_header_where_it_cannot_be_a_row(
    workspace: Path, text: str, names: list[str]
) -> None:
    Path("log.csv").write_text(text)
    assert names_of("log.csv", look("log.csv").schema, PLAIN) == names


def test_declared_names_are_said_if_they_look_like_such(workspace: Path) -> None:
    Path("log.csv").write_text("a,b\n")
    reading = Reading(header=("who", "what"))
    assert names_of("log.csv", look("log.csv", reading).schema, reading) == ["who", "what"]
    pq.write_table(pa.table({"n": [1], "CANARY@example.com": [2], "7": [3]}), "log.parquet")
    assert names_of("log.parquet", look("log.parquet").schema, PLAIN) == ["n"]


@pytest.mark.parametrize(
    "more",
    [
        ["--column", "sx"], ["--column", "CANARZ"], ["--column", "z", "--derive", "z=CANARZ+1"],
        ["--column", "x", "--where", "CANARZ > 1"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["CANARY,1\nb,2\n", "CANARY,x\nb,y\n"])
def test_no_refusal_prints_a_cell(workspace: Path, run, more: list[str], text: str) -> None:
    Path("log.csv").write_text(text)
    words = ["mean", "--input", "log.csv", "--bounds", "0,1", "--epsilon", "1", "--output", "o"]
    outcome = run([*words, *more])
    assert outcome.code == 2
    assert "it has 2 columns" in outcome.err
    assert not canaries.found(outcome.said)


def test_values_of_folders_are_said_if_they_are_times(workspace: Path, run) -> None:
    for path in ("user=CANARY/a.csv", "day=2026-11-20/user=CANARY%40x.org/a.csv"):
        assert not canaries.found(shown(path))
    assert shown("day=2026-11-20/hour=7/a.csv") == "day=2026-11-20/hour=7/a.csv"
    Path("user=CANARY").mkdir()
    Path("user=CANARY/a.parquet").write_text("no such file")
    words = ["count", "--input", "./user=*/*.parquet", "--epsilon", "1", "--output", "o"]
    outcome = run(words)
    assert outcome.code == 2
    assert "user=*/a.parquet is not a readable Parquet file" in outcome.err
    assert not canaries.found(outcome.said)
