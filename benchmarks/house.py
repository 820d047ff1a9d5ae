"""What a stranger has to carry: lines by package, files that a command enters, members of classes.

A file is entered if one of its functions runs, at import or later, in the process of the command;
Beam's local runner keeps to that process.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.job import write_log

ROOT = Path(__file__).parents[1]
PACKAGES = ("mechanisms", "transforms", "pipelines", "hushbeam")
SHELVES = ("mechanisms/papers", "hushbeam/studies")
_INPUT = ["--input", "log.parquet", "--epsilon", "1"]
COMMANDS = {
    "count": ["count", *_INPUT],
    "histogram": ["histogram", *_INPUT, "--column", "category", "--domain", "0..914"],
    "mean": ["mean", *_INPUT, "--column", "value", "--bounds", "0,3"],
    "sum": ["sum", *_INPUT, "--column", "value", "--bounds", "0,3"],
}
CLASSES = {
    "pipelines/metrics/metric.py": "Metric",
    "pipelines/metrics/randomised.py": "Randomised",
    "pipelines/metrics/counting/by_counters.py": "ByCounters",
    "pipelines/metrics/statistics/statistic.py": "Statistic",
}

_TRACED = """
import sys, threading
entered = set()
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # neither a module nor the body of a class
        entered.add(frame.f_code.co_filename)
threading.setprofile(note)
sys.setprofile(note)
from pipelines.cli.cli import main
code = main(sys.argv[2:])
sys.setprofile(None)
with open(sys.argv[1], "w") as file:
    file.write("\\n".join(sorted(entered)))
sys.exit(code)
"""


def lines() -> Iterator[tuple[str, int, int]]:
    """(package, files, lines) of each, shelves apart."""
    for package in (*PACKAGES, *SHELVES):
        inside = list((ROOT / package).rglob("*.py"))
        if package in PACKAGES:
            shelves = tuple(str(ROOT / shelf) for shelf in SHELVES)
            inside = [path for path in inside if not str(path).startswith(shelves)]
        yield package, len(inside), sum(len(path.read_text().splitlines()) for path in inside)


def entered(words: list[str]) -> int:
    """How many files of the product a command enters, in a folder with a log."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _TRACED, "entered.txt", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    files = Path("entered.txt").read_text().splitlines()
    ours = tuple(str(ROOT / package) + os.sep for package in PACKAGES)
    return sum(file.startswith(ours) for file in files)


def members(file: str, name: str) -> int:
    """How many functions and fields a class names by itself."""
    tree = ast.parse((ROOT / file).read_text())
    (named,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return sum(isinstance(part, ast.FunctionDef | ast.AnnAssign) for part in named.body)


def main() -> None:
    """Print the three tables."""
    screen = Console()
    table = Table("package", "files", "lines", title="the product")
    for package, files, number in lines():
        table.add_row(package, f"{files:,}", f"{number:,}")
    screen.print(table)
    table = Table("command", "files entered")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_log(Path("log.parquet"), 1000)
        for name, words in COMMANDS.items():
            table.add_row(name, str(entered([*words, "--output", f"out-{name}"])))
        os.chdir(ROOT)
    screen.print(table)
    table = Table("class", "members")
    for file, name in CLASSES.items():
        table.add_row(name, str(members(file, name)))
    screen.print(table)


if __name__ == "__main__":
    main()
