"""A small release of every registered kind in each of its forms, and of all that has a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipelines.cli import cli
from pipelines.metrics import registry
from tests.end_to_end.examples import models
from tests.fakes import canaries

# What each kind is asked of the log of canaries; the last two are no metrics, and have pages.
COMMANDS = {
    "histogram": "--column value --domain values.txt --out-of-domain other",
    "mean": "--column real --bounds 0,300 --group-by value --groups values.txt",
    "variance": "--column real --bounds 0,300 --group-by value --groups values.txt",
    "ratio": "--column real --bounds 0,300 --group-by value --groups values.txt",
    "distribution": "--column real --bounds 0,300 --bins 64",
    "vector-mean": "--number real=0,300 --number number=-3,3 --category value=values.txt",
    "count": "--column value --domain values.txt",
    "sum": "--column real --bounds 0,300",
    "active-users": "--user-column user --time moment --day 2026-11-21",
    "funnel": "--user-column user --time moment --steps came=real>=0 --steps more=number>0 "
    "--group-by value --groups values.txt",
    "cross-tab": "--columns value,number --domains value=values.txt number=-3..3",
    "experiment": "--arm value --arms CANARY-DECLARED-0,CANARY-DECLARED-1 --rate number",
    "strings": "--search levels --column value --max-length 20",
    "train": "--number number=-3,3 --target real=0,300",
}
# Other requests of the same kinds, whose pages look different.
MORE = {
    "mean": ("--column real --bounds 0,300", "--column real --bounds 0,300 --drawn-by shuffler"),
    "count": (
        "",
        "--column value --domain values.txt --by number --by-domain=-3..3",
        "--column value --domain values.txt --window 2026-11-21 --horizon 30",
        "--group-by value",
    ),
    "strings": ("--column value --max-length 20", "--search weighted --column value"),
    "sum": (
        "--column real --bounds 0,300 --group-by value --groups values.txt",
        "--column real --bounds 0,300 --group-by value --group number",
    ),
    "distribution": ("--column real --bounds 0,300 --bins 1024 --drawn-by shuffler",),
    "vector-mean": ("--number real=0,300 --drawn-by shuffler",),
}

_DEVICES = "--drawn-by devices --enrolled 4000"
# What a kind refuses, or what its page does not begin with: a figure and its error.
REFUSED = {
    ("vector-mean", _DEVICES), ("strings", _DEVICES),
    ("experiment", _DEVICES), ("experiment", "--drawn-by shuffler"),
    # Its first figure is how many reported, which is exact.
    ("cross-tab", "--model local"), ("cross-tab", "--model shuffle"),
}  # fmt: skip


class Request(NamedTuple):
    """A release that is asked for.

    Attributes:
        kind: of it.
        words: beside input, epsilon and output.
    """

    kind: str
    words: str

    def __str__(self) -> str:
        return f"{self.kind} {self.words}".replace("/", " ")


def forms(kind: str) -> Iterator[str]:
    """What can be said of a kind beside what is counted: who draws the noise, in which model."""
    if kind not in registry.names():
        yield ""
        return
    fields = registry.options(kind).model_fields
    if "model" in fields:
        yield from (f"--model {model}" for model in models(kind))
    if "drawn_by" in fields:
        yield from ("--drawn-by job", "--drawn-by shuffler", _DEVICES)
    if not {"model", "drawn_by"} & {*fields}:
        yield ""


def requests() -> list[Request]:
    """All of them; a kind that nobody has given a request for is an error."""
    kinds = [*registry.names(), "train"]
    asked = [
        Request(kind, f"{COMMANDS[kind]} {form}".strip())
        for kind in kinds
        for form in forms(kind)
        if (kind, form) not in REFUSED
    ]
    return asked + [Request(kind, words) for kind, several in MORE.items() for words in several]


def prepared() -> str:
    """The log of canaries in the current folder, with its files; the glob of its rows."""
    Path("values.txt").write_text("\n".join(canaries.DECLARED) + "\n")
    return canaries.write(Path("log"), canaries.table())


def released(request: Request, log: str, output: str) -> Path:
    """Make a release, and the folder of it."""
    words = f"--input {log} {request.words} --epsilon 4 --output {output}".split()
    if "--horizon" in request.words:
        words += ["--secret", f"{output}.secret"]
    assert cli.main([*canaries.words(request.kind, {}), *words]) == 0, request
    return Path(output)
