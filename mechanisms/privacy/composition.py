"""What several releases reveal together, from what each reveals alone.

The rule over guarantees needs nothing but epsilon and delta. `accountant` composes whole privacy
profiles: it is tight, the rule is not.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from mechanisms.channel import Guarantee, Model, conditions

Neighbours = Literal["replace one", "add or remove"]

_MODELS: tuple[Model, ...] = ("local", "shuffle", "central", "none")  # ever fewer are kept out


def combined(parts: Sequence[Guarantee], epsilon: float, delta: float, how: str) -> Guarantee:
    """A joint claim: it holds against those only against whom every part holds.

    Args:
        parts: what is claimed of each release.
        epsilon: of all.
        delta: of all.
        how: it is known.

    Raises:
        ValueError: there is none, or their units or neighbours differ.
    """
    if not parts:
        raise ValueError("there is nothing to compose")
    units = sorted({part.unit for part in parts})
    if len(units) > 1:
        raise ValueError(f"guarantees for different units do not add up: {', '.join(units)}")
    model = max((part.model for part in parts), key=_MODELS.index)
    if model == "none":
        return Guarantee.none("one of the releases protects nobody")
    neighbours = {part.neighbours for part in parts}
    if len(neighbours) > 1:
        raise ValueError("guarantees for different neighbours do not add up: see `replaced`")
    return Guarantee(
        model, epsilon, min(delta, 1.0), units[0], how, neighbours.pop(), conditions(parts)
    )


def sequential(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Basic composition: releases about the same units add up.

    Args:
        guarantees: of each release; later ones may depend on what earlier ones showed.

    Returns:
        The sum of the epsilons and of the deltas, correctly rounded, in the weakest model.

    Raises:
        ValueError: there is none, or their units differ.

    Source: Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 3.16.

    >>> day = Guarantee("local", epsilon=0.1, delta=0.0, unit="user", how="closed form")
    >>> sequential([day] * 10).epsilon
    1.0
    """
    parts = list(guarantees)
    return combined(
        parts,
        math.fsum(part.epsilon for part in parts),
        math.fsum(part.delta for part in parts),
        f"basic composition of {len(parts)} releases",
    )
