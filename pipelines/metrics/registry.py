"""Every kind of metric by name; imported when it is asked for, since Beam takes a second."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric

_KINDS = {
    "histogram": "pipelines.metrics.histogram.metric:Histogram",
    "heavy-hitters": "pipelines.metrics.heavy_hitters.metric:HeavyHitters",
    "mean": "pipelines.metrics.mean.metric:Mean",
    "distribution": "pipelines.metrics.distribution.metric:DistributionOfNumbers",
    "vector-mean": "pipelines.metrics.vector_mean.metric:AverageRow",
}

NAMES = tuple(_KINDS)


@cache
def find(name: str) -> type[Metric]:
    """A kind of metric by its name.

    Args:
        name: one of `NAMES`.
    """
    module, _, member = _KINDS[name].partition(":")
    kind: type[Metric] = getattr(import_module(module), member)
    return kind
