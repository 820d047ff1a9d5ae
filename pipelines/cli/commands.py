"""The commands of `hushbeam`: which there are, and where each is.

Only the module of the command that is typed is imported: the others' would cost it a second. What
stands above this floor, or in another distribution, adds a command as an entry point of the group
`hushbeam.commands`, a name and "module:its `Command`"; a name that is ours stays ours.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from mechanisms.plug_ins import entry_points
from pipelines.errors import RequestError
from pipelines.metrics import registry


class Command(NamedTuple):
    """A command that is no metric.

    Attributes:
        module: its `add_to` adds the command, perhaps among others.
        brief: what it does, for the list of commands.
        task: the heading that it stands under there.
    """

    module: str
    brief: str
    task: str


# What people come for, in the order in which they do.
_RELEASE = "publish one thing about a log"
_PLANS = "publish by a plan, within a budget"
CHOICE = "compare and audit mechanisms"
_AFTERWARDS = "read what was published"
_SHELL = "shell completion"

GROUP = "hushbeam.commands"

_PLAN = "pipelines.plan.command"

_OTHERS = {
    "query": Command(
        "pipelines.command.query_options", "a SELECT of GoogleSQL, answered with noise", _RELEASE
    ),
    "train": Command(
        "pipelines.train.options", "a model fitted to rows, published with its guarantee", _RELEASE
    ),
    "ask": Command("pipelines.ask.options", "interactive queries within a budget", _RELEASE),
    "init": Command(_PLAN, "draft a plan from the names and types of a log's columns", _PLANS),
    "look": Command(
        _PLAN, "what is in a log, and what a plan finds there: for its owner alone", _PLANS
    ),
    "check": Command(_PLAN, "what a plan promises, costs and can know, without data", _PLANS),
    "run": Command(_PLAN, "all metrics of a plan, within its budget", _PLANS),
    "stream": Command(
        "pipelines.stream.command", "a plan for as long as files land, a release a window", _PLANS
    ),
    "parties": Command(
        "pipelines.parties.command", "a plan as three parties: client, shuffler, collector", _PLANS
    ),
    "serve": Command(
        "pipelines.serve.command", "take reports of devices over HTTP, or issue tokens", _PLANS
    ),
    "ledger": Command(
        "pipelines.bookkeeping.command",
        "show, explain and settle what was spent of a budget",
        _PLANS,
    ),
    "size": Command(
        "pipelines.size.command", "compare mechanisms for a target, without data", CHOICE
    ),
    "audit": Command("pipelines.cli.audit", "check a claim, by enumeration and by attack", CHOICE),
    "site": Command(
        "pipelines.site.command", "a static site over releases, every day side by side", _AFTERWARDS
    ),
    "verify": Command(
        "pipelines.verify.command",
        "signatures, prices, tables and ledgers of releases, without a secret",
        _AFTERWARDS,
    ),
    "watch": Command(
        "pipelines.watch.command", "lasting shifts of published figures, with alarms", _AFTERWARDS
    ),
    "compare": Command(
        "pipelines.compare.command",
        "what differs beyond noise between releases, or in one",
        _AFTERWARDS,
    ),
    "export": Command(
        "pipelines.cli.export", "one table of many releases, in Parquet or CSV", _AFTERWARDS
    ),
    "synthetic": Command(
        "pipelines.synthetic.command", "synthetic records, from a published cross-tab", _AFTERWARDS
    ),
    "completion": Command(
        "pipelines.cli.completion", "a script that completes words in bash, zsh or fish", _SHELL
    ),
}


def _others() -> dict[str, Command]:
    return _OTHERS | {k: v for k, v in _added().items() if k not in _OTHERS}


def _added() -> dict[str, Command]:
    """What entry points add."""
    return {point.name: point.load() for point in entry_points(group=GROUP)}


def add_commands(commands: Any, word: str | None) -> None:
    """Add the command that is meant, or the list of all.

    Args:
        commands: where they are added.
        word: what was typed where a command stands; anything else gets the list.
    """
    if word in _OTHERS:
        import_module(_OTHERS[word].module).add_to(commands)
    elif word is not None and registry.known(word):
        from pipelines.command import metric  # a tenth of what `ledger show` would import

        metric.add_to(commands, word)
    elif word in _others():
        import_module(_others()[word].module).add_to(commands)
    else:
        for name in names():
            commands.add_parser(name)


def names() -> list[str]:
    """Every command."""
    others = _others()
    return [*(name for name in registry.names() if name not in others), *others]


def listed() -> str:
    """Every command and what it does, a line each, by what people come for."""
    tasks: dict[str, list[str]] = {}
    wide = max(map(len, names()))
    for name in names():
        task, brief = _RELEASE, ""
        if name in _others():
            _, brief, task = _others()[name]
        line = f"  {name:{wide}}  {brief or _brief(name)}"
        tasks.setdefault(task, []).append(line)
    parts = ("\n".join((f"{task}:", *lines)) for task, lines in tasks.items())
    return "\n\n".join((*parts, "`hushbeam COMMAND --help` tells the rest."))


def _brief(name: str) -> str:
    """What a metric publishes; or why it cannot be imported, and the list is there all the same."""
    try:
        return registry.options(name).brief
    except RequestError as error:
        return str(error)
