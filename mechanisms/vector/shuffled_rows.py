"""On how many coordinates of a row users spend what a shuffled batch lets them."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mechanisms.mean.hybrid import hm
from mechanisms.targets.rules import most_shuffled
from mechanisms.vector.sampled import SampledCoordinates

if TYPE_CHECKING:
    from mechanisms.targets.rules import Target
    from mechanisms.vector.task import VectorTask

ROUGH = 1e-3
"""How exactly, relatively, an epsilon has to be known to choose what is then solved exactly."""


def best_sampled(
    target: "Target[VectorTask]",
    family: Callable[[float, int], SampledCoordinates],
    shares: Sequence[float],
    largest_share: float = math.inf,
) -> SampledCoordinates:
    """The number of coordinates with the least error, each spending what a batch lets it.

    Args:
        target: of the shuffle model, with an epsilon of the batch.
        family: the mechanism of an epsilon_local and of a number of coordinates.
        shares: of epsilon, for each coordinate sent, around which the best is to be expected.
        largest_share: the most that one coordinate can spend.

    Raises:
        ValueError: the target is out of its reach.
    """

    def most(k: int) -> float:
        return largest_share * k

    spent = _rough(target)
    tried = [family(min(spent, most(k)), k) for k in _near(target, spent, shares)]
    best = min(tried, key=lambda mechanism: target.task.error(mechanism, target.n))
    k = best.sampled

    def one(epsilon: float) -> SampledCoordinates:
        return family(min(epsilon, most(k)), k)

    return one(most_shuffled(target, one, most(k), spent))


def _rough(target: "Target[VectorTask]") -> float:
    """About what a report of coordinates may spend, whichever mechanism it is of.

    What a batch hides of a report hardly depends on the scalar mechanism, nor on k: both move
    epsilon_local by 4 % where a thousand users report, by less where more do. Rows of -1 and 1
    alone have the cheapest law.
    """

    def family(epsilon: float) -> SampledCoordinates:
        return SampledCoordinates(epsilon, target.task.dimension, 1, hm(epsilon, cells=1))

    return most_shuffled(target, family, tolerance=ROUGH)


def _near(target: "Target[VectorTask]", spent: float, shares: Sequence[float]) -> list[int]:
    """The numbers of coordinates, ascending, among which the best one is to be expected."""
    tried = {ends(spent / share) for share in shares for ends in (math.floor, math.ceil)}
    near = {max(1, min(target.task.dimension, k)) for k in tried}
    # Of short rows the numbers are small, and noise is then worth another price.
    return sorted(near if target.task.radius is None else near | {1})
