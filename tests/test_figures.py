"""Figures of the documentation are what their commands give."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import cli

ROOT = Path(__file__).parents[1]
DRAWN = 8  # cells that are made again, unless HUSHBEAM_FIGURES=all


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "deploy" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["figures"] = module
    spec.loader.exec_module(module)
    return module


FIGURES = _module()
TABLES = FIGURES.tables()
KEPT = json.loads(FIGURES.CELLS.read_text("utf-8"))
CELLS = [cell for table in TABLES for row in table.cells for cell in row if cell is not None]
MADE = [
    cell for cell in CELLS if cell.made and not cell.how.get("dear") and KEPT[cell.key] is not None
]


def drawn() -> list[Any]:
    """Others with each commit, the same for whoever has it."""
    if os.environ.get("HUSHBEAM_FIGURES") == "all":
        return MADE
    words = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return sorted(MADE, key=lambda cell: hashlib.sha256((head + cell.key).encode()).digest())[
        :DRAWN
    ]


@pytest.mark.parametrize("page", sorted({table.page for table in TABLES}))
def test_tables_stand_in_their_page_as_they_were_made(page: str) -> None:
    text = (FIGURES.DOCS / page).read_text("utf-8")
    names = [name for _, name, _ in FIGURES.MARKED.findall(text)]
    assert sorted(names) == sorted(table.name for table in TABLES if table.page == page)
    assert text == FIGURES.written(page, KEPT)


def test_every_cell_is_kept_and_no_other() -> None:
    assert KEPT.keys() == {cell.key for cell in CELLS}


@pytest.mark.parametrize("page", sorted({table.page for table in TABLES}))
def test_no_table_of_numbers_is_typed_by_hand(page: str) -> None:
    text = FIGURES.MARKED.sub("", (FIGURES.DOCS / page).read_text("utf-8"))
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = [cell.strip(" *") for line in table.splitlines()[2:] for cell in line.split("|")]
        numbers = [cell for cell in cells if re.fullmatch(r"-?[\d.]+(e-?\d+)?( %)?", cell)]
        assert len(numbers) < 4, table


@pytest.mark.parametrize("page", sorted({table.page for table in TABLES}))
def test_pictures_and_tables_are_of_commands_of_their_page(page: str) -> None:
    runs = FIGURES.commands(page).keys()
    text = (FIGURES.DOCS / page).read_text("utf-8")
    made = FIGURES.PICTURE.findall(text)
    assert {run for run, _, _ in made} <= runs
    if runs:  # a notebook draws those of choosing.md
        assert [shown for _, _, shown in made] == re.findall(r"!\[[^]]+\]\((?:\.\./)?(\S+)\)", text)
    of_page = [cell for cell in CELLS if cell.page == page]
    assert {cell.how["run"] for cell in of_page if "size" not in cell.how} <= runs


@pytest.mark.verify
@pytest.mark.parametrize("cell", drawn(), ids=lambda cell: cell.key)
def test_a_drawn_figure_is_what_its_command_gives(cell: Any, tmp_path: Path, monkeypatch) -> None:
    """At full seed and under the lock file: the first four digits agree."""
    if "size" in cell.how:
        results = FIGURES.sized(cell)
    else:
        monkeypatch.chdir(tmp_path)
        words = FIGURES.narrowed(cell)
        assert cli.main([*words, "--jobs", "1"]) == 0
        results = FIGURES.read(Path(words[words.index("--output") + 1], cell.file))
    made = cell.value(results)
    assert [f"{one:.3e}" for one in made] == [f"{one:.3e}" for one in KEPT[cell.key]]
