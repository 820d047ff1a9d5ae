"""Make the tables of the reproduction pages anew, from what their commands have written.

    python deploy/figures.py --data DATA --results RESULTS [PAGE ...]

runs the commands of the pages whose results are not in RESULTS yet, writes each figure of
docs/figures/tables.yaml to docs/figures/cells.json, the tables into the pages, and the pictures
that pages show beside them.
tests/test_figures.py holds pages to cells, and drawn cells to their commands.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
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
PICTURE = re.compile(r"<!-- picture: (\S+)/(\S+) -->\n!\[[^]]+\]\((?:\.\./)?(figures/\S+)\)")
DATA = "DATA/"  # in a page's commands: where its readers have their data

# Of a cell; all else says which rows it is of.
_HOW = ("run", "file", "of", "take", "over", "times", "shown", "mark", "dear", "size")
_HUSHBEAM = (sys.executable, "-m", "pipelines.cli.cli")
_TAKES: Mapping[str, Callable[[Any], Any]] = {
    "mean": np.mean,
    "first": lambda values: values[0],
    "root": lambda values: np.mean(np.sqrt(values)),
    "deviation": lambda values: np.std(values, ddof=1),
    "error": lambda values: np.std(values, ddof=1) / np.sqrt(len(values)),
}

Kept = Mapping[str, Sequence[float] | None]


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        page: that it stands on.
        table: its name there.
        row: the first column of its row.
        column: the head of its column.
        how: what it is of: the run, the columns of its results, what is taken of them, and the
            rest.
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
    def file(self) -> str:
        """The table among what its run writes."""
        return str(self.how.get("file", "results.parquet"))

    @property
    def data(self) -> list[str]:
        """The populations of its run that it is of, as its page types them."""
        data = self.how.get("data", "").partition(" (")[0]
        typed = _options(commands(self.page)[self.how["run"]])["--data"]
        return [text for text in typed if data in ("", *_names(text))]

    @property
    def made(self) -> bool:
        """Whether its population is made, so that anybody can make the figure."""
        return "size" in self.how or not all(text.startswith(DATA) for text in self.data)

    def value(self, results: pa.Table) -> list[float] | None:
        """The figure, or several, of the results of its run; None where there is none."""
        found = self._taken(results, self.chosen)
        if found and "over" in self.how:
            others = self._taken(results, {**self.chosen, **self.how["over"]})
            return others and [one / other for one, other in zip(found, others, strict=True)]
        return found

    def _taken(self, results: pa.Table, chosen: Mapping[str, Any]) -> list[float] | None:
        """What is taken of the rows that are chosen."""
        for name, value in chosen.items():
            column = results[name]
            results = results.filter(
                pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value))
            )
        if not results.num_rows and chosen.get("bound") != "published":  # which may prove nothing
            raise ValueError(f"{self.key}: no run fits")
        of = self.how["of"]
        columns = [results[name].drop_null().to_numpy() for name in np.atleast_1d(of).tolist()]
        if not all(len(values) for values in columns):
            return None
        take = _TAKES[self.how.get("take", "mean")]
        return [float(take(values)) * self.how.get("times", 1) for values in columns]

    def text(self, value: Sequence[float] | None) -> str:
        """How it stands in the table."""
        if value is None:
            return "–"
        return self.how.get("mark", "{}").format(*map(self._number, value))

    def _number(self, value: float) -> str:
        """One figure of it."""
        shown = self.how.get("shown", ".3g")
        text = format(100 * value, shown[:-1]) + " %" if shown.endswith("%") else f"{value:{shown}}"
        return re.sub(r"e([+-])0*(\d+)", lambda e: f"e{e[1].strip('+')}{e[2]}", text)


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

    def lines(self, cells: Kept) -> Iterator[str]:
        """As it stands in the page."""
        heads = [self.said["head"], *self.said["columns"]]
        yield f"| {' | '.join(heads)} |"
        yield "|" + "---|" * len(heads)
        for row, of_row in zip(self.said["rows"], self.cells, strict=True):
            words = ["" if cell is None else cell.text(cells[cell.key]) for cell in of_row]
            yield f"| {' | '.join([row, *words])} |".replace("|  |", "| |").replace("|  |", "| |")


@cache
def tables() -> list[Table]:
    """All that the file says."""
    said = yaml.safe_load((DOCS / "figures" / "tables.yaml").read_text("utf-8"))
    return [
        Table(page, name, one) for page, of_page in said.items() for name, one in of_page.items()
    ]


def read(path: Path) -> pa.Table:
    """A table that a command has written."""
    if path.suffix == ".json":
        return pa.Table.from_pylist(json.loads(path.read_text("utf-8")))
    return pq.read_table(path)


@cache
def commands(page: str) -> dict[str, list[str]]:
    """The commands of a page, by the folder that each writes."""
    text = (DOCS / page).read_text("utf-8").replace("\\\n", " ")
    lines = re.findall(r"^hushbeam (evaluate .*)$", text, re.MULTILINE)
    words = [shlex.split(line) for line in lines]
    return {each[each.index("--output") + 1]: each for each in words if "--output" in each}


def sized(cell: Cell) -> pa.Table:
    """What `hushbeam size` says of the mechanism that it would take, for a cell's setting."""
    words = ["size", *cell.how["size"].format(**cell.chosen).split(), "--json"]
    done = subprocess.run([*_HUSHBEAM, *words], check=True, capture_output=True, text=True)
    best = min(json.loads(done.stdout)["rows"], key=lambda row: row["error"])
    return pa.Table.from_pylist([{**best, **cell.chosen}])


def narrowed(cell: Cell) -> list[str]:
    """The command that makes one figure alone; draws of a setting depend on no other.

    Args:
        cell: of a population that is made.
    """
    chosen = cell.chosen
    system = chosen.get("system", "")
    if chosen.get("bound") == "published":
        system += ":published"
    if "model" in chosen:
        system += f"@{chosen['model']}"
    only = {"--systems": system}
    for option, name in (("--epsilons", "epsilon"), ("--deltas", "delta"), ("--ns", "n"),
                         ("--dimensions", "d"), ("--alphas", "alpha"),
                         ("--liars", "liars")):  # fmt: skip
        only[option] = chosen.get(name)
    command = commands(cell.page)[cell.how["run"]]
    options = _options(command)
    options["--data"] = [text for text in cell.data if not text.startswith(DATA)]
    options |= {
        name: [str(one)] for name, one in only.items() if name in options and one not in (None, "")
    }
    return [*command[:2], *(word for name, words in options.items() for word in (name, *words))]


def _options(command: Sequence[str]) -> dict[str, list[str]]:
    """What a command says, option by option."""
    options: dict[str, list[str]] = {}
    for word in command[2:]:
        if word.startswith("--"):
            options[word] = []
        else:
            options[list(options)[-1]].append(word)
    return options


def _names(text: str) -> set[str]:
    """What results may call the data that a page types so: without its folder, or its sizes."""
    name = text.removeprefix(DATA).replace(".parquet", "")
    family, _, given = name.partition(":")
    if text.startswith(DATA):
        return {name, family}
    numbers = [f"{float(number):g}" for number in given.split(",")]
    return {name, *(f"{family}:{','.join(numbers[sizes:])}".rstrip(":") for sizes in (1, 2))}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and write cells and pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="as in docs; all by default")
    parser.add_argument("--data", type=Path, required=True, help="the folder of real data")
    parser.add_argument("--results", type=Path, required=True, help="a folder; what is there stays")
    parser.add_argument("--jobs", default="1", help="processes of each command")
    arguments = parser.parse_args(argv)
    kept: dict[str, list[float] | None] = json.loads(CELLS.read_text()) if CELLS.exists() else {}
    chosen = [one for one in tables() if not arguments.pages or one.page in arguments.pages]
    for table in chosen:
        kept = {
            key: x for key, x in kept.items() if not key.startswith(f"{table.page}#{table.name}: ")
        }
        for cell in filter(None, chain(*table.cells)):
            value = cell.value(
                sized(cell)
                if "size" in cell.how
                else read(_written(table.page, cell.how["run"], cell.file, arguments))
            )
            kept[cell.key] = None if value is None else [float(f"{one:.12g}") for one in value]
    lines = (f"{json.dumps(key, ensure_ascii=False)}: {kept[key]}" for key in sorted(kept))
    CELLS.write_text("{\n" + ",\n".join(lines).replace(": None", ": null") + "\n}\n", "utf-8")
    for page in dict.fromkeys(table.page for table in chosen):
        path = DOCS / page
        path.write_text(written(page, kept), "utf-8")
        for run, file, shown in PICTURE.findall(path.read_text("utf-8")):
            shutil.copyfile(_written(page, run, file, arguments), DOCS / shown)
    return 0


def written(page: str, cells: Kept) -> str:
    """A page with its tables as the cells have them."""
    own = {table.name: table for table in tables() if table.page == page}

    def filled(found: re.Match[str]) -> str:
        return found[1] + "\n".join(own[found[2]].lines(cells))

    return MARKED.sub(filled, (DOCS / page).read_text("utf-8"))


def _written(page: str, run: str, file: str, arguments: argparse.Namespace) -> Path:
    """A file that a command of a page writes; the command is run where it is not there yet."""
    folder = arguments.results / Path(page).stem / run
    if not (folder / file).exists():
        words = [word.replace(DATA, f"{arguments.data}/") for word in commands(page)[run]]
        words[words.index("--output") + 1] = str(folder)
        subprocess.run([*_HUSHBEAM, *words, "--jobs", arguments.jobs], check=True)
    return folder / file


if __name__ == "__main__":
    sys.exit(main())
