"""Make the tables of the reproduction pages anew, from what their commands have written.

    python deploy/figures.py --data DATA --results RESULTS [PAGE ...]

runs the commands of the pages whose results are not in RESULTS yet, writes each figure of
docs/figures/tables.yaml to docs/figures/cells.json, and the tables into the pages.
tests/test_figures.py holds pages to cells, and drawn cells to their commands.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

DOCS = Path(__file__).parents[1] / "docs"
CELLS = DOCS / "figures" / "cells.json"
MARKED = re.compile(r"(<!-- figures: (.+?) -->\n)(.*?)(?=\n\n)", re.DOTALL)
DATA = "DATA/"  # in a page's commands: where its readers have their data

_HOW = ("run", "of", "take", "shown", "beside", "mark")  # of a cell; all else chooses its rows
_TAKES: Mapping[str, Callable[[Any], Any]] = {
    "mean": np.mean,
    "first": lambda values: values[0],
    "deviation": lambda values: np.std(values, ddof=1),
    "error": lambda values: np.std(values, ddof=1) / np.sqrt(len(values)),
}


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        page: that it stands on.
        table: its name there.
        row: the first column of its row.
        column: the head of its column.
        how: what it is of: the run, the column of its results, what is taken of it, and the rest.
    """

    page: str
    table: str
    row: str
    column: str
    how: Mapping[str, Any]

    @property
    def key(self) -> str:
        """By which it is kept."""
        return f"{self.page}#{self.table}: {self.row} | {self.column}"

    @property
    def chosen(self) -> dict[str, Any]:
        """Column of the results -> what it has to be."""
        return {name: value for name, value in self.how.items() if name not in _HOW}

    @property
    def made(self) -> bool:
        """Whether its population is made, so that anybody can make the figure."""
        return re.match(r"[a-z]+:[0-9]", str(self.how.get("data"))) is not None

    def value(self, results: pa.Table) -> float | None:
        """The figure, of the results of its run; None where there is none."""
        some = results
        for name, value in self.chosen.items():
            some = some.filter(
                pc.is_null(some[name]) if value is None else pc.equal(some[name], pa.scalar(value))
            )
        values = some[self.how["of"]].drop_null().to_numpy()
        if not len(values):
            return None
        return float(_TAKES[self.how.get("take", "mean")](values))

    def text(self, value: float | None) -> str:
        """How it stands in the table."""
        if value is None:
            return "–"
        shown = self.how.get("shown", ".3g")
        text = format(100 * value, shown[:-1]) + " %" if shown.endswith("%") else f"{value:{shown}}"
        text = re.sub(r"e([+-])0*(\d+)", lambda e: f"e{e[1].strip('+')}{e[2]}", text)
        return self.how.get("mark", "{}").format(text)


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes:
        page: where.
        name: in its marker there.
        said: what the file says of it.
    """

    page: str
    name: str
    said: Mapping[str, Any]

    @cached_property
    def cells(self) -> list[list[Cell | None]]:
        """Row by row; None where nothing is told."""
        common = {name: self.said[name] for name in _HOW if name in self.said}
        common |= self.said.get("where", {})
        return [
            [
                None if how is None or column is None
                else Cell(self.page, self.name, row, head, {**common, **column, **how})
                for head, column in self.said["columns"].items()
                for how in [self._of_row(of_row, head)]
            ]
            for row, of_row in self.said["rows"].items()
        ]  # fmt: skip

    def _of_row(self, of_row: Mapping[str, Any], head: str) -> Mapping[str, Any] | None:
        """What a row says of a column: some rows lack some, or say it otherwise."""
        if head in of_row.get("not", ()):
            return None
        return {name: value for name, value in of_row.items() if name not in ("not", "but")} | (
            of_row.get("but", {}).get(head, {})
        )

    def lines(self, cells: Mapping[str, float | None]) -> Iterator[str]:
        """As it stands in the page."""
        heads = [self.said["head"], *self.said["columns"]]
        yield f"| {' | '.join(heads)} |"
        yield "|" + "---|" * len(heads)
        for row, of_row in zip(self.said["rows"], self.cells, strict=True):
            words = ["" if cell is None else cell.text(cells[cell.key]) for cell in of_row]
            yield f"| {' | '.join([row, *words])} |".replace("|  |", "| |").replace("|  |", "| |")


def tables() -> list[Table]:
    """All that the file says."""
    said = yaml.safe_load((DOCS / "figures" / "tables.yaml").read_text("utf-8"))
    return [
        Table(page, name, one) for page, of_page in said.items() for name, one in of_page.items()
    ]


def commands(page: str) -> dict[str, list[str]]:
    """The commands of a page, by the folder that each writes."""
    text = (DOCS / page).read_text("utf-8").replace("\\\n", " ")
    lines = re.findall(r"^hushbeam (evaluate .*)$", text, re.MULTILINE)
    words = [shlex.split(line) for line in lines]
    return {each[each.index("--output") + 1]: each for each in words if "--output" in each}


def narrowed(cell: Cell) -> list[str]:
    """The command that makes one figure alone; draws of a setting depend on no other.

    Args:
        cell: of a population that is made.
    """
    chosen = cell.chosen
    system = chosen.get("system", "")
    if chosen.get("bound") == "published":
        system += ":published"
    only = {"--systems": system, "--data": chosen.get("data")}
    for option, name in (("--epsilons", "epsilon"), ("--deltas", "delta"), ("--ns", "n"),
                         ("--dimensions", "d"), ("--alphas", "alpha")):  # fmt: skip
        only[option] = chosen.get(name)
    words: list[str] = []
    kept = True
    for word in commands(cell.page)[cell.how["run"]]:
        if word.startswith("--"):
            kept = only.get(word) in (None, "")
            words += [word] if kept else [word, str(only[word])]
        elif kept:
            words.append(word)
    return words


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and write cells and pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="as in docs; all by default")
    parser.add_argument("--data", type=Path, required=True, help="the folder of real data")
    parser.add_argument("--results", type=Path, required=True, help="a folder; what is there stays")
    parser.add_argument("--jobs", default="1", help="processes of each command")
    arguments = parser.parse_args(argv)
    kept: dict[str, float | None] = json.loads(CELLS.read_text()) if CELLS.exists() else {}
    chosen = [one for one in tables() if not arguments.pages or one.page in arguments.pages]
    for table in chosen:
        kept = {
            key: x for key, x in kept.items() if not key.startswith(f"{table.page}#{table.name}: ")
        }
        for cell in filter(None, chain(*table.cells)):
            folder = arguments.results / Path(table.page).stem / cell.how["run"]
            if not (folder / "results.parquet").exists():
                _run(commands(table.page)[cell.how["run"]], folder, arguments)
            value = cell.value(pq.read_table(folder / "results.parquet"))
            kept[cell.key] = None if value is None else float(f"{value:.12g}")
    CELLS.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    for page in dict.fromkeys(table.page for table in chosen):
        path = DOCS / page
        path.write_text(written(page, kept), "utf-8")
    return 0


def written(page: str, cells: Mapping[str, float | None]) -> str:
    """A page with its tables as the cells have them."""
    own = {table.name: table for table in tables() if table.page == page}

    def filled(found: re.Match[str]) -> str:
        return found[1] + "\n".join(own[found[2]].lines(cells))

    return MARKED.sub(filled, (DOCS / page).read_text("utf-8"))


def _run(words: list[str], folder: Path, arguments: argparse.Namespace) -> None:
    """One command of a page, with its output elsewhere."""
    words = [word.replace(DATA, f"{arguments.data}/") for word in words]
    words[words.index("--output") + 1] = str(folder)
    subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *words, "--jobs", arguments.jobs], check=True
    )


if __name__ == "__main__":
    sys.exit(main())
