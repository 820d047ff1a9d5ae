"""The kinds of metrics by name: where the options of each are, which say the rest.

A command and a plan's `kind` name a kind, or several that are ways to search for the same: which of
these is meant an option says, `search`.

Another distribution adds kinds as entry points of the group `hushbeam.metrics`, each a name and
"module:Options"; a name that is ours stays ours. What is listed is imported when it is asked for:
a metric itself imports Beam, which takes a second, its options do not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from mechanisms.nearest import meant
from pipelines.errors import RequestError
from pipelines.metrics.options import ReleaseOptions

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric

GROUP = "hushbeam.metrics"
HORIZON = "horizon"
"""The option that makes running totals of a count, or a sum."""
SEARCH = "search"
"""The option that says which of several kinds is meant."""

_OURS = {
    "histogram": "pipelines.metrics.histogram.options:HistogramOptions",
    "heavy-hitters": "pipelines.metrics.heavy_hitters.options:HeavyHittersOptions",
    "unknown-strings": "pipelines.metrics.unknown_strings.options:UnknownStringsOptions",
    "mean": "pipelines.metrics.mean.options:MeanOptions",
    "distribution": "pipelines.metrics.distribution.options:DistributionOptions",
    "vector-mean": "pipelines.metrics.vector_mean.options:VectorMeanOptions",
    "count": "pipelines.metrics.counting.options:CountOptions",
    "sum": "pipelines.metrics.counting.options:SumOptions",
    "active-users": "pipelines.metrics.active_users.options:ActiveUsersOptions",
    "cross-tab": "pipelines.metrics.cross_tab.options:CrossTabOptions",
}

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
    return tuple(dict.fromkeys(_JOINED.get(name, name) for name in names()))


def is_written(name: str) -> bool:
    """Whether a kind, or several, are called that in commands and in plans."""
    return name in _SEARCHES or (name not in _JOINED and known(name))


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
    return _imported(_COMMANDS[name]) if name in _COMMANDS else options(name)


def alternatives(name: str) -> tuple[Alternative, ...]:
    """What else a command may ask.

    Raises:
        RequestError: as `options`.
    """
    others = [(search, kind) for search, kind in searches(name).items() if kind != usual(name)]
    found = [Alternative(SEARCH, search, kind, options(kind)) for search, kind in others]
    place = command_options(name).growing
    if place:
        found.append(Alternative(HORIZON, None, name, _imported(place)))
    return tuple(found)


def names() -> tuple[str, ...]:
    """The kinds that there are, ours before those of other distributions."""
    return tuple(dict.fromkeys((*_OURS, *sorted(_foreign()))))


def known(name: str) -> bool:
    """Whether a kind is called that; others' are looked for if none of ours is."""
    return name in _OURS or name in _foreign()


@cache
def options(name: str) -> type[ReleaseOptions]:
    """What a kind asks.

    Args:
        name: of the kind.

    Raises:
        RequestError: there is none of that name, or it cannot be imported.
    """
    if name in _OURS:
        return _imported(_OURS[name])
    if name not in _foreign():
        raise RequestError(
            f"no metric is called {name!r}; there are: {', '.join(names())}{meant(name, names())}"
        )
    path = _foreign()[name]
    try:
        return _imported(path)
    except Exception as error:  # whatever a stranger's module raises, the others are served
        problem = f"{type(error).__name__}: {error}"
        raise RequestError(f"metric {name} ({path}) cannot be imported: {problem}") from error


def options_in_plan(name: str, asked: Container[str]) -> type[ReleaseOptions]:
    """What a metric of a plan asks: of totals that go on from window to window, more.

    Args:
        name: of the kind.
        asked: the options that are written there.

    Raises:
        RequestError: as `options`.
    """
    kind = options(name)
    running: type[ReleaseOptions] = _imported(kind.running) if kind.running else kind
    return running if HORIZON in asked else kind


def publisher(options: ReleaseOptions) -> Callable[..., int]:
    """What publishes from the command line.

    Args:
        options: of the request.
    """
    make: Callable[..., int] = _imported(options.publisher)
    return make


def find(name: str) -> type[Metric]:
    """A kind of metric.

    Args:
        name: of the kind.

    Raises:
        RequestError: as `options`.
    """
    metric: type[Metric] = _imported(options(name).metric)
    return metric


def find_for(options: ReleaseOptions) -> type[Metric]:
    """The metric that answers a request.

    Args:
        options: of the request.
    """
    metric: type[Metric] = _imported(options.answered_by)
    return metric


def _foreign() -> dict[str, str]:
    """Those of other distributions, and where they are."""
    return _listed(tuple(sys.path))


@cache
def _listed(path: tuple[str, ...]) -> dict[str, str]:
    """The entry points of a search path; every look takes 20 ms."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _imported(path: str) -> Any:
    """What "module:name" stands for."""
    return EntryPoint("", path, GROUP).load()
