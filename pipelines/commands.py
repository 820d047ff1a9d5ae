"""The commands of `hushbeam`: which there are, and where each is.

Only the module of the command that is typed is imported: the others' would cost it a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from pipelines.errors import RequestError
from pipelines.metrics import command as metric_command
from pipelines.metrics import registry


class _Command(NamedTuple):
    """A command that is no metric.

    Attributes:
        module: its `add_to` adds the command, perhaps among others.
        brief: what it does, for the list of commands.
    """

    module: str
    brief: str


_PARTIES, _PLAN = "pipelines.parties.command", "pipelines.plan.command"

_OTHERS = {
    "train": _Command("pipelines.train.command", "a model fitted to rows that nobody sees"),
    "init": _Command(_PLAN, "draft a plan from the names and types of a log's columns"),
    "run": _Command(_PLAN, "all metrics of a plan, within its budget"),
    "check": _Command(_PLAN, "what a plan promises, costs and can know, without data"),
    "plan": _Command(
        "pipelines.planner.command",
        "compare mechanisms for a privacy target, before data is touched",
    ),
    "audit": _Command(
        "pipelines.audit_command", "check a mechanism's privacy claim by enumeration and by attack"
    ),
    "evaluate": _Command(
        "pipelines.evaluate.command",
        "compare systems on simulated releases whose truth is known",
    ),
    "ledger": _Command(
        "pipelines.ledger.command", "show, explain and settle what was spent of a privacy budget"
    ),
    "site": _Command(
        "pipelines.site.command", "a static site over releases, every day side by side"
    ),
    "export": _Command("pipelines.export_command", "one table of many releases, in Parquet or CSV"),
    "client": _Command(_PARTIES, "values to randomised reports, on the device"),
    "shuffle": _Command(_PARTIES, "reports to shuffled reports"),
    "collect": _Command(_PARTIES, "shuffled reports to a release"),
    "keys": _Command(_PARTIES, "keys for sealed reports"),
    "stream": _Command(
        "pipelines.stream.command", "a plan for as long as files land, one release a window"
    ),
}


def add_commands(commands: Any, word: str | None) -> None:
    """Add the command that is meant, or the list of all.

    Args:
        commands: where they are added.
        word: what was typed where a command stands; anything else gets the list.
    """
    if word in _OTHERS:
        import_module(_OTHERS[word].module).add_to(commands)
    elif word in registry.names():
        metric_command.add_to(commands, word)
    else:
        for name, brief in _listed():
            commands.add_parser(name, help=brief)


def _listed() -> Iterator[tuple[str, str]]:
    """Every command and what it does."""
    for name in registry.names():
        if name not in _OTHERS:
            yield name, _brief(name)
    yield from ((name, command.brief) for name, command in _OTHERS.items())


def _brief(name: str) -> str:
    """What a metric publishes; or why it cannot be imported, and the list is there all the same."""
    try:
        return registry.options(name).brief
    except RequestError as error:
        return str(error)
