"""The kinds of metrics by name: where the options of each are, which say the rest.

Another distribution adds kinds as entry points of the group `hushbeam.metrics`, each a name and
"module:Options"; a name that is ours stays ours. What is listed is imported when it is asked for:
a metric itself imports Beam, which takes a second, its options do not.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from mechanisms.nearest import meant
from mechanisms.plug_ins import entry_points
from pipelines.errors import RequestError

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric
    from pipelines.metrics.options import ReleaseOptions

GROUP = "hushbeam.metrics"
HORIZON = "horizon"
"""The option that makes running totals of a count, or a sum."""

_OURS = {
    "histogram": "pipelines.metrics.histogram.options:HistogramOptions",
    "strings": "pipelines.metrics.strings.options:StringsOptions",
    "mean": "pipelines.metrics.mean.options:MeanOptions",
    "variance": "pipelines.metrics.variance.options:VarianceOptions",
    "ratio": "pipelines.metrics.ratio.options:RatioOptions",
    "distribution": "pipelines.metrics.distribution.options:DistributionOptions",
    "vector-mean": "pipelines.metrics.vector_mean.options:VectorMeanOptions",
    "count": "pipelines.metrics.counting.options:CountOptions",
    "sum": "pipelines.metrics.counting.options:SumOptions",
    "active-users": "pipelines.metrics.active_users.options:ActiveUsersOptions",
    "funnel": "pipelines.metrics.funnel.options:FunnelOptions",
    "cross-tab": "pipelines.metrics.cross_tab.options:CrossTabOptions",
    "experiment": "pipelines.metrics.experiment.options:ExperimentOptions",
}


def names() -> tuple[str, ...]:
    """The kinds that there are, ours before those of other distributions."""
    return tuple(dict.fromkeys((*_OURS, *sorted(_foreign()))))


def known(name: str) -> bool:
    """Whether a kind is called that; others' are looked for if none of ours is."""
    return name in _OURS or name in _foreign()


@cache
def options(name: str) -> type[ReleaseOptions]:
    """What a kind asks.

    Raises:
        RequestError: there is none of that name, or it cannot be imported.
    """
    if name in _OURS:
        return imported(_OURS[name])
    if name not in _foreign():
        raise RequestError(
            f"no metric is called {name!r}; there are: {', '.join(names())}{meant(name, names())}"
        )
    path = _foreign()[name]
    try:
        return imported(path)
    except Exception as error:  # whatever a stranger's module raises, the others are served
        problem = f"{type(error).__name__}: {error}"
        raise RequestError(f"metric {name} ({path}) cannot be imported: {problem}") from error


def options_in_plan(name: str, written: Container[str]) -> type[ReleaseOptions]:
    """What a metric of a plan asks: of totals that go on from window to window, more.

    Args:
        name: of the kind.
        written: the options that are written there.

    Raises:
        RequestError: as `options`.
    """
    kind = options(name)
    running: type[ReleaseOptions] = imported(kind.running) if kind.running else kind
    return running if HORIZON in written else kind


def publisher(options: ReleaseOptions) -> Callable[..., int]:
    """What publishes from the command line."""
    return imported(options.publisher)


def find(name: str) -> type[Metric]:
    """A kind of metric.

    Raises:
        RequestError: as `options`.
    """
    return imported(options(name).metric)


def _foreign() -> dict[str, str]:
    """Those of other distributions, and where they are."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def imported(path: str) -> Any:
    """What "module:name" stands for.

    Args:
        path: as in an entry point.
    """
    return EntryPoint("", path, GROUP).load()
