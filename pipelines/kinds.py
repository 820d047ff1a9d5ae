"""The kinds of metrics: what each asks, how it is prepared, published and shown.

A kind's folder holds a module `kind` with its `KIND`; it is imported when it is asked for, since
Beam takes a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import BaseModel
from rich.console import Console

from pipelines.publishing import too_few

NAMES = ("histogram", "heavy-hitters", "mean", "distribution")


@dataclass(frozen=True)
class Kind:
    """One kind of metric.

    Attributes:
        options: the class of what a person asks.
        prepare: options -> a job: the request held against its input.
        road: a job -> its `Road`.
        show: (screen, job) -> None: the release, where people look first.
        withheld: (job, counters) -> why nothing was published, or None if that is not why.
        foretold: a job -> what may be expected of it, in a sentence before it runs; or None.
    """

    options: type[BaseModel]
    prepare: Callable[..., Any]
    road: Callable[[Any], Any]
    show: Callable[[Console, Any], None]
    withheld: Callable[[Any, Mapping[str, int]], str | None] = too_few
    foretold: Callable[[Any], str | None] = lambda job: None


def find(name: str) -> Kind:
    """A kind by its name.

    Args:
        name: one of `NAMES`.
    """
    found: Kind = import_module(f"pipelines.{name.replace('-', '_')}.kind").KIND
    return found
