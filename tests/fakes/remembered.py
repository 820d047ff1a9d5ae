"""Answers that tests ask for again and again, worked out once in each process.

Most of a small run was spent on what had been known since the run before: Beam asks for the
signature of every method of every DoFn some ten times a pipeline (a sixth of a small release), and
the least noise that meets a target is searched for wherever a plan is read (nine tenths of the
refusals of a client whose devices draw dummies). Both are functions of what they are asked. Only
where the pipelines ask is anything kept: those who answer have tests of their own, which see them
as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import ismethod
from typing import Any


def remember() -> None:
    """Keep answers from here on."""
    from apache_beam.transforms import core

    from pipelines.metrics.counting import design
    from pipelines.metrics.counting.metric import Counting

    core.get_function_args_defaults = _by_function(core.get_function_args_defaults)
    design.least_error = _by_arguments(design.least_error)
    profile = lru_cache(maxsize=256)(lambda counters: counters.profile())
    Counting.profile = property(lambda metric: profile(metric.design))


def _by_function(of: Callable[..., Any]) -> Callable[..., Any]:
    """Names and defaults of arguments, kept for each function that methods are bound from."""
    known: dict[Any, tuple[list[str], list[Any]]] = {}

    @wraps(of)
    def remembered(asked: Any) -> tuple[list[str], list[Any]]:
        if not ismethod(asked):  # of lambdas each pipeline has its own
            return of(asked)
        if asked.__func__ not in known:
            known[asked.__func__] = of(asked)
        names, defaults = known[asked.__func__]
        return [*names], [*defaults]

    return remembered


def _by_arguments(of: Callable[..., Any]) -> Callable[..., Any]:
    """What a function said of the same arguments, lists among them; a refusal is not kept."""
    kept = lru_cache(maxsize=256, typed=True)(of)

    def fixed(value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @wraps(of)
    def remembered(*args: Any, **named: Any) -> Any:
        return kept(*map(fixed, args), **{name: fixed(value) for name, value in named.items()})

    return remembered
