"""The journal survives being killed, and belongs to one request."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from hushbeam.studies.engine.journal import JOURNAL, REQUEST, journal, write_whole
from pipelines.errors import RequestError

TYPED = {"--epsilons": [0.1, 1.0], "--seed": 3, "--data": ["zipf:10,2,1"]}


def entries(folder: Path) -> list[dict[str, object]]:
    with journal(str(folder), TYPED, "digest") as record:
        return record.entries


def filled(folder: Path, amount: int = 3) -> Path:
    with journal(str(folder), TYPED, "digest") as record:
        assert record.entries == []
        for cell in range(amount):
            record.append({"cell": cell, "runs": [{"mse": 0.1 + cell / 3}]})
    return folder / JOURNAL


def test_what_was_appended_is_there_again_with_all_digits(tmp_path) -> None:
    filled(tmp_path / "a" / "b")
    again = entries(tmp_path / "a" / "b")
    assert again == [{"cell": cell, "runs": [{"mse": 0.1 + cell / 3}]} for cell in range(3)]


def test_wherever_it_is_cut_off_whole_entries_remain(tmp_path) -> None:
    path = filled(tmp_path)
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        assert len(entries(tmp_path)) == sum(end <= size for end in ends)
        with journal(str(tmp_path), TYPED, "digest") as record:
            record.append({"cell": 9})
        assert entries(tmp_path)[-1] == {"cell": 9}


def test_a_damaged_line_is_an_error_and_not_skipped(tmp_path) -> None:
    path = filled(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{damage\n", lines[2]]))
    with pytest.raises(RequestError, match=r"line 2 of journal\.jsonl is damaged"):
        entries(tmp_path)


def test_numbers_that_are_none_are_not_written(tmp_path) -> None:
    with journal(str(tmp_path), TYPED, "digest") as record, pytest.raises(ValueError, match="JSON"):
        record.append({"mse": math.nan})
    assert entries(tmp_path) == []


def test_another_request_is_refused_and_told_apart(tmp_path) -> None:
    filled(tmp_path)
    for request, data, said in (
        ({**TYPED, "--seed": 4}, "digest", r"another request \(--seed differ\)"),
        ({**TYPED, "--seed": 4, "--data": []}, "digest", r"\(--data, --seed differ\)"),
        (TYPED, "other", r"\(the data differ\)"),
    ):
        with pytest.raises(RequestError, match=said), journal(str(tmp_path), request, data):
            pass
    assert len(entries(tmp_path)) == 3


def test_a_folder_of_somebody_else_is_refused(tmp_path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RequestError, match="holds other files"):
        entries(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / "thesis.tex").rename(tmp_path / REQUEST)
    with pytest.raises(RequestError, match="is cut off, or is no JSON"):
        entries(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot write in"):
        entries(tmp_path / "file" / "folder")


def test_a_start_that_was_killed_at_once_is_no_obstacle(tmp_path) -> None:
    (tmp_path / JOURNAL).write_bytes(b"")
    (tmp_path / f".{REQUEST}.partial").write_bytes(b'{"requ')
    assert entries(tmp_path) == []
    assert json.loads((tmp_path / REQUEST).read_text())["request"] == TYPED


def test_two_at_once_are_refused(tmp_path) -> None:
    with (
        journal(str(tmp_path), TYPED, "digest"),
        pytest.raises(RequestError, match="still running"),
    ):
        entries(tmp_path)
    assert entries(tmp_path) == []


def test_files_are_replaced_whole(tmp_path) -> None:
    write_whole(str(tmp_path), "a", b"one")
    write_whole(str(tmp_path), "a", b"another")
    assert (tmp_path / "a").read_bytes() == b"another"
    assert os.listdir(tmp_path) == ["a"]
