"""Digits that share one noise: how many dummies their masks take, and what fewer of them cost."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from mechanisms.channel import Neighbours
from mechanisms.counters.dummies import complete, moved
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian
from mechanisms.counters.price import changes

MOST_DUMMIES = 10_000_000
ENDS = 1e-3  # of delta: what the ends of Gaussian noise may show
HALF = 0.1  # of delta: what the ends of Laplace noise may show where losses take the rest
# Of epsilon: the standard deviation of the loss that masks of a sum leave; more where they would
# take more dummies than there may be, at an error that grows by 4 or 5 times as much.
MASKED, THINNEST = 0.015, 0.15
_GROWTH = 0.066  # of what is left to the noise of a sum, where masks take as much again


class Masked(NamedTuple):
    """Digits that share one noise.

    Attributes:
        sigma: of the masks.
        ends: what one of them may show.
        masks: how many dummies all masks take.
        total: and the noise of the sum.
    """

    sigma: float
    ends: float
    masks: float
    total: float


def masked(levels: Sequence[Level], neighbours: Neighbours, epsilon: float, delta: float) -> Masked:
    """The noise of digits whose sum has all but the least error, reckoned in closed form."""
    first, weights = levels[0], [int(level.weight) for level in levels]
    null = 0 if complete(first, neighbours) else first.slots
    own = changes(first.slots, first.counters, neighbours)
    times = max(own * (len(weights) - 1) + null, 1)
    sigma, ends = math.sqrt(times) / (MASKED * epsilon), ENDS * delta / times
    # Every mask falls on its own digit, and as often as that one weighs on the lowest.
    falls = sum(abs(weight) + 1 for weight in weights[1:])
    span, reach = moved(weights, first, neighbours)
    sums = changes(first.slots, reach, neighbours)
    total = -math.log(HALF * delta / sums) * sums * span / epsilon
    masks = falls * Gaussian.ending(sigma, ends).mu
    return Masked(sigma, ends, max(first.counters * masks, 1), first.counters * total)


def coarsening(
    levels: Sequence[Level],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    most: float = MOST_DUMMIES,
) -> float:
    """By about how much noise grows where digits that share one may take so many dummies.

    Args:
        levels: of the digits.
        neighbours, epsilon, delta, most: as of `least_noise`.

    >>> digits = [Level(1, 1, 1 << i) for i in range(12)]
    >>> [round(coarsening(digits, "add or remove", 1.0, 1e-6, m), 2) for m in (10**7, 2 * 10**6)]
    [1.0, 1.18]
    """
    usual = masked(levels, neighbours, epsilon, delta)
    left = most - usual.total
    lost = _GROWTH * max(usual.masks / left - 1, 0) if left > 0 else 1.0
    return 1 / (1 - lost) if lost < 1 else math.inf
