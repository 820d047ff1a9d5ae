"""Answers that tests ask for again and again, worked out once in each process.

Beam asks for the signature of every method of every DoFn some ten times a pipeline, a quarter of a
small release. The caches that the planner and the ledger have hold a plan; tests come in any order,
and read hundreds. What tests of planners and accountants themselves ask is not kept: they see them
as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import ismethod
from typing import Any


def remember() -> None:
    """Keep answers from here on."""
    from apache_beam.transforms import core, userstate

    from mechanisms.heavy_hitters import crowds
    from mechanisms.planner import search
    from pipelines.ledger import accounting

    core.get_function_args_defaults = _kept(core.get_function_args_defaults, _function)
    core._check_fn_use_yield_and_return = _kept(core._check_fn_use_yield_and_return, _function)
    userstate.get_dofn_specs = _kept(userstate.get_dofn_specs, _class)
    for module, name in (
        (search, "_search"), (accounting, "_joint"), (crowds, "_least_threshold"),
    ):  # fmt: skip
        setattr(module, name, lru_cache(maxsize=4096)(getattr(module, name).__wrapped__))


def _function(method: Any) -> Any:
    """What a method is bound from. Of lambdas each pipeline has its own: they are not kept."""
    return method.__func__ if ismethod(method) else None


def _class(dofn: Any) -> Any:
    """Where the methods of a DoFn are from; what wraps a function has that one's arguments."""
    return None if hasattr(dofn, "_inspect_process") else type(dofn)


def _kept(of: Callable[..., Any], key: Callable[[Any], Any]) -> Callable[..., Any]:
    """What Beam finds by looking at code, once for each key; lists and sets are copied."""
    known: dict[Any, Any] = {}

    @wraps(of)
    def remembered(asked: Any) -> Any:
        place = key(asked)
        if place is None:
            return of(asked)
        if place not in known:
            known[place] = of(asked)
        found = known[place]
        return tuple(part.copy() for part in found) if isinstance(found, tuple) else found

    return remembered
