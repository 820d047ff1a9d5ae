"""What kinds of metrics are called in commands and in plans, and what else a command may ask.

A name is that of one kind, or of several that search for the same: an option says which, `search`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipelines.metrics import registry
from pipelines.metrics.options import ReleaseOptions

SEARCH = "search"
"""The option that says which of several kinds is meant."""

_STRINGS = "strings"
_SEARCHES = {_STRINGS: {"threshold": "unknown-strings", "levels": "heavy-hitters"}}
_JOINED = {kind: name for name, kinds in _SEARCHES.items() for kind in kinds.values()}
_COMMANDS = {_STRINGS: "pipelines.metrics.strings:StringsOptions"}


class Alternative(NamedTuple):
    """What a command asks where one of its options is typed.

    Attributes:
        option: that is typed.
        value: that it has; None for any.
        kind: of the metric.
        options: what is asked.
    """

    option: str
    value: str | None
    kind: str
    options: type[ReleaseOptions]

    def __str__(self) -> str:
        return f"--{self.option}" + (f" {self.value}" if self.value else "")

    def chosen(self, words: Mapping[str, Any]) -> bool:
        """Whether it is asked for: option -> what was typed, or None."""
        typed = words[self.option]
        return typed is not None and self.value in (None, typed)


def written() -> tuple[str, ...]:
    """What kinds are called in commands and in plans."""
    return tuple(dict.fromkeys(_JOINED.get(name, name) for name in registry.names()))


def is_written(name: str) -> bool:
    """Whether a kind, or several, are called that in commands and in plans."""
    return name in _SEARCHES or (name not in _JOINED and registry.known(name))


def words_of(kind: str) -> dict[str, str]:
    """How a plan names a kind: `kind`, and `search` where it needs one."""
    if kind not in _JOINED:
        return {"kind": kind}
    name = _JOINED[kind]
    search = next(search for search, one in _SEARCHES[name].items() if one == kind)
    return {"kind": name, SEARCH: search}


def searches(name: str) -> dict[str, str]:
    """Search -> kind, the usual one first; none where the name is that of one kind."""
    return _SEARCHES.get(name, {})


def usual(name: str) -> str:
    """The kind that is meant where nothing more is said."""
    return next(iter(searches(name).values()), name)


def command_options(name: str) -> type[ReleaseOptions]:
    """What a command asks where nothing more is said.

    Raises:
        RequestError: as `options`.
    """
    return registry.imported(_COMMANDS[name]) if name in _COMMANDS else registry.options(name)


def alternatives(name: str) -> tuple[Alternative, ...]:
    """What else a command may ask.

    Raises:
        RequestError: as `options`.
    """
    others = [(search, kind) for search, kind in searches(name).items() if kind != usual(name)]
    offered = [Alternative(SEARCH, search, kind, registry.options(kind)) for search, kind in others]
    place = command_options(name).growing
    if place:
        offered.append(Alternative(registry.HORIZON, None, name, registry.imported(place)))
    return tuple(offered)
