"""Tables of mechanisms in the documentation say what the registry says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mechanisms.catalog import of_task, published
from mechanisms.registry import Registration
from tests.contract import examples, runs, served
from transforms.expressions.functions import FUNCTIONS
from transforms.files.reading import TYPES
from transforms.files.source import FORMATS

DOCS = Path(__file__).parents[1] / "docs"

# Which part of the frequency mechanisms each table of systems.md lists.
SECTIONS = {
    "one message": lambda one: "local" in one.models and not one.several,
    "several messages": lambda one: "local" in one.models and one.several,
    "a batch only": lambda one: one.batch,
    "of papers": lambda one: one.models == ("shuffle",) and not one.batch,
    "central": lambda one: one.models == ("central",),
}


def table(registrations: list[Registration]) -> str:
    """The table, as it should stand in the page."""
    lines = ["| name | what a user sends | published by | models |", "|---|---|---|---|"]
    for one in registrations:
        auto = " *auto*" if one.searched else ""
        name, models = f"`{one.name}`{auto}", ", ".join(one.models)
        lines.append(f"| {name} | {one.sends} | {one.source} | {models} |")
    return "\n".join(lines)


@pytest.mark.parametrize("section", SECTIONS)
def test_systems_are_listed_as_they_are_registered(section: str) -> None:
    page = (DOCS / "appendix" / "systems.md").read_text("utf-8")
    (found,) = re.findall(rf"<!-- mechanisms: {section} -->\n(.*?)\n\n", page, re.DOTALL)
    assert found == table([one for one in of_task("frequency").values() if SECTIONS[section](one)])


def test_every_system_is_in_one_table() -> None:
    for one in of_task("frequency").values():
        assert sum(belongs(one) for belongs in SECTIONS.values()) == 1, one.name


@pytest.mark.parametrize(("section", "task"), [("Means", "mean"), ("Vectors", "vector")])
def test_every_mechanism_is_explained(section: str, task: str) -> None:
    """Tables say when to name it, which no registration knows; none is left out, none is gone."""
    page = (DOCS / "appendix" / "randomised-reports.md").read_text("utf-8")
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0] + "\n\n"
    (rows,) = re.findall(r"\| name \|.*?when to name it \|\n(.*?)\n\n", text, re.DOTALL)
    explained = {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row[:60])}
    assert set(of_task(task)) <= explained <= {*of_task(task), *published(task)}


def test_statistics_by_noises_are_as_the_noises_say(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())
    page = (DOCS / "appendix" / "noises.md").read_text("utf-8")
    (table_and_reasons,) = re.findall(
        r"<!-- statistics by noises -->\n(.*?\n\n.*?)\n\n", page, re.DOTALL
    )
    assert table_and_reasons == served.table()


def test_expressions_are_listed_as_they_are_registered() -> None:
    page = (DOCS / "files.md").read_text("utf-8")
    (found,) = re.findall(r"<!-- expressions -->\n(.*?)\n\n", page, re.DOTALL)
    listed = dict.fromkeys((one.usage, one.text) for one in FUNCTIONS.values())
    lines = [f"| `{usage}` | {text} |" for usage, text in listed]
    assert found.splitlines() == ["| expression | what it is |", "|---|---|", *lines]


def test_formats_are_listed_as_they_are_registered() -> None:
    page = (DOCS / "files.md").read_text("utf-8")
    for one in FORMATS:
        endings = ", ".join(f"`{ending}`" for ending in one.endings)
        assert re.search(rf"^\| {one.name}[^|]*\| {re.escape(endings)} \|", page, re.MULTILINE)
    kinds = re.findall(r"^Types are (.*?)\.", page, re.MULTILINE)[0]
    assert re.findall(r"`(\w+)`", kinds) == [*TYPES]


def test_every_registration_says_what_is_sent() -> None:
    for task in ("frequency", "mean", "vector", "group means", "attributes"):
        for one in {**of_task(task), **published(task)}.values():
            assert one.sends, one.name
