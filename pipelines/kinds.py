"""The kinds of metrics: what each asks, how it is prepared, published and shown.

A kind's folder holds a module `kind` with its `KIND`; it is imported when it is asked for, since
Beam takes a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from pydantic import BaseModel
from rich.console import Console

from pipelines.publishing import too_few

NAMES = ("histogram", "heavy-hitters", "mean", "distribution", "vector-mean")


class Prediction(NamedTuple):
    """What a metric will cost and be worth, told before it runs.

    Attributes:
        mechanism: what clients run.
        error: what is expected of the least batch, in a few words.
        bits: that a user sends, on average and at the least.
    """

    mechanism: str
    error: str
    bits: float


@dataclass(frozen=True)
class Kind:
    """One kind of metric.

    Attributes:
        name: one of `NAMES`.
        options: the class of what a person asks.
        prepare: options -> a job: the request held against its input.
        road: a job -> its `Road`.
        show: (screen, job) -> None: the release, where people look first.
        predicted: a job -> what to expect of the least batch.
        withheld: (job, counters) -> why nothing was published, or None if that is not why.
        files: options -> the files of declared values that they name, perhaps among other words.
        foretold: a job -> what may be expected of it, in a sentence before it runs; or None.
    """

    name: str
    options: type[BaseModel]
    prepare: Callable[..., Any]
    road: Callable[[Any], Any]
    show: Callable[[Console, Any], None]
    withheld: Callable[[Any, Mapping[str, int]], str | None] = too_few
    predicted: Callable[[Any], Prediction] = lambda job: Prediction("", "", 0)
    files: Callable[[Any], tuple[str, ...]] = lambda options: ()
    foretold: Callable[[Any], str | None] = lambda job: None


def find(name: str) -> Kind:
    """A kind by its name.

    Args:
        name: one of `NAMES`.
    """
    found: Kind = import_module(f"pipelines.metrics.{name.replace('-', '_')}.kind").KIND
    return found
