"""How a mechanism's parameters follow from a target: the rules for whoever states none of its own.

A rule takes a target and returns a mechanism that meets it, or raises ValueError. A mechanism's own
stand at its registration: {"local": ..., "shuffle": ..., "published": ...}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from mechanisms.channel import Mechanism
from mechanisms.privacy.budget import largest_shuffled
from mechanisms.privacy.search import TOLERANCE
from mechanisms.registry import Registration
from mechanisms.targets.target import M, Target, Task

_F = TypeVar("_F", bound=Mechanism)


def fitted(registration: Registration, target: Target[Task[M]]) -> M:
    """The best parameters of one mechanism for a target.

    Args:
        registration: of the target's task.
        target: what must hold.

    Raises:
        ValueError: the mechanism does not serve that model or bound, or cannot meet the target.
    """
    offered = target.task.offers(target)
    for key, words in target.task.wanting(target).items():
        taken = registration.parameters.get(key)
        if taken is not None and taken.default is taken.empty and offered.get(key) is None:
            raise ValueError(f"{registration.name} needs {words}")
    if (target.model, target.bound) not in registration.serves:
        raise ValueError(
            f"{registration.name} does not serve the {_phrase(target.model, target.bound)}; it "
            f"serves the {', '.join(_phrase(*served) for served in registration.serves)}"
        )
    kind = target.rule
    if kind == "local" and kind not in registration.models:
        kind = target.model  # who is private in a batch only: it has to be said how private
    rule = registration.rules.get(kind)
    if rule is not None:
        return cast("M", rule(target))
    if kind == "shuffle":
        return amplified(registration, target)
    return at(registration, target, target.spent)


def at(registration: Registration, target: Target[Task[M]], epsilon: float, **more: Any) -> M:
    """A mechanism whose reports spend a given epsilon; its other parameters follow from the target.

    Raises:
        ValueError: a parameter is out of range, or it is missing.
        TypeError: it rests on a public seed, and the target has none.
    """
    task, taken = target.task, registration.parameters
    parameters: dict[str, Any] = {"epsilon": epsilon}
    if registration.seeded:
        if target.seed is None:  # a default would be the same in every collection, silently
            raise TypeError(f"{registration.name} rests on a public seed; the target names none")
        parameters["seed"] = target.seed
    for key, value in task.offers(target).items():
        if key in taken and key not in registration.own and value is not None:
            parameters[key] = value
    parameters |= more
    return task.complete(registration.build(**parameters))


def amplified(registration: Registration, target: Target[Task[M]]) -> M:
    """The mechanism whose reports spend the most that a shuffled batch lets them."""

    def family(epsilon: float) -> M:
        return at(registration, target, epsilon)

    return family(most_shuffled(target, family, registration.largest_epsilon))


def most_shuffled(
    target: Target[Any],
    family: Callable[[float], _F],
    cap: float = math.inf,
    guess: float | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """The most that a user's messages may spend in a shuffled batch.

    Args:
        target: of the shuffle model, with an epsilon of the batch.
        family: the mechanism of an epsilon_local.
        cap: the most that the family can spend.
        guess: where to look first, or None.
        tolerance: relative width at which to stop; the result is private in any case.
    """
    return largest_shuffled(*target.batch, family, min(target.cap, cap), guess, tolerance)


def _phrase(model: str, bound: str) -> str:
    return f"{model} model" if bound == "exact" else f"{model} model by its published bound"
