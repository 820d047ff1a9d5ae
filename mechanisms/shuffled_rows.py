"""What users may spend on rows in a shuffled batch, and on how many coordinates of each."""

from __future__ import annotations

import math
from collections.abc import Callable

from mechanisms.channel import Mechanism
from mechanisms.privacy.budget import largest_shuffled
from mechanisms.privacy.search import TOLERANCE
from mechanisms.vector.base import VectorMean
from mechanisms.vector.multi import multi_hm
from mechanisms.vector.row_error import worst_error
from mechanisms.vector_target import VectorTarget, build

SAMPLED = ("multi_optimal", "multi_hm")
"""What reports a few coordinates, and is accounted for best in a shuffled batch."""

LARGEST_SHARE = 8.0
"""The largest epsilon of one coordinate for which `Optimal` is made."""

ROUGH = 1e-3
"""How exactly, relatively, an epsilon has to be known to choose what is then solved exactly."""

# Of epsilon, for each coordinate sent: the best; of Multi-HM there are several good ones.
_BEST_SHARES = {"multi_optimal": (2.1,), "multi_hm": (2.1, 2.5)}


def most_shuffled(
    target: VectorTarget,
    family: Callable[[float], Mechanism],
    cap: float = math.inf,
    guess: float | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """The most that a user's messages may spend in a shuffled batch.

    Args:
        target: of the shuffle model.
        family: the mechanism of an epsilon_local.
        cap: the most that the family can spend.
        guess: where to look first, or None.
        tolerance: relative width at which to stop; the result is private in any case.
    """
    if target.epsilon is None:
        return min(target.spent, cap)
    cap = min(target.cap, cap)
    return largest_shuffled(target.epsilon, target.delta, target.n, family, cap, guess, tolerance)


def shuffled_mechanism(target: VectorTarget, name: str) -> VectorMean:
    """The mechanism of one name that spends what a shuffled batch lets it.

    Args:
        target: of the shuffle model, with an epsilon of the batch.
        name: of the task "vector".

    Raises:
        ValueError: the target is out of its reach.
    """
    if name not in SAMPLED:
        return _solved(target, lambda epsilon: build(target, name, epsilon))
    spent = _rough(target)
    tried = [_with(target, name, k, spent) for k in _near(target, name, spent)]
    best = min(tried, key=lambda mechanism: worst_error(mechanism, target.mean_square, target.n))
    k = round(best.messages)
    return _solved(target, lambda epsilon: _with(target, name, k, epsilon), _most(name, k), spent)


def _rough(target: VectorTarget) -> float:
    """About what a report of coordinates may spend, whichever of the two mechanisms it is of.

    What a batch hides of a report hardly depends on the scalar mechanism, nor on k: both move
    epsilon_local by 4 % where a thousand users report, by less where more do. Rows of -1 and 1
    alone have the cheapest law.
    """

    def family(epsilon: float) -> VectorMean:
        return multi_hm(epsilon, target.dimension, cells=1, sampled=1)

    return most_shuffled(target, family, tolerance=ROUGH)


def _near(target: VectorTarget, name: str, spent: float) -> list[int]:
    """The numbers of coordinates, ascending, among which the best one is to be expected."""
    shares = [spent / share for share in _BEST_SHARES[name]]
    tried = {ends(share) for share in shares for ends in (math.floor, math.ceil)}
    near = {max(1, min(target.dimension, k)) for k in tried}
    # Of short rows the numbers are small, and noise is then worth another price.
    return sorted(near if target.radius is None else near | {1})


def _most(name: str, sampled: int) -> float:
    """The most that a report of so many coordinates can spend."""
    return LARGEST_SHARE * sampled if name == "multi_optimal" else math.inf


def _with(target: VectorTarget, name: str, sampled: int, epsilon: float) -> VectorMean:
    """A mechanism that reports a given number of coordinates."""
    return build(target, name, min(epsilon, _most(name, sampled)), sampled=sampled)


def _solved(
    target: VectorTarget,
    family: Callable[[float], VectorMean],
    cap: float = math.inf,
    guess: float | None = None,
) -> VectorMean:
    """The mechanism of a family that spends the most, on the private side."""
    return family(most_shuffled(target, family, cap, guess))
