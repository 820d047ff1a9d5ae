"""Windows that slide over codes which stand for the best numbers, verified, for each epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from mechanisms.channel import Floats
from mechanisms.mean.optimal_values import optimal_values
from mechanisms.rounding import ceiling, exponential_bounds

WORD = 1 << 64
_COARSE, _FINE, _SPLIT = 64, 128, 4.0  # positions, below and above this epsilon
_BIAS = 1e-12  # the largest that passes, in units of the value


@dataclass(frozen=True, eq=False)
class Table:
    """A verified window for one epsilon: exact probabilities, and what the codes stand for.

    Attributes:
        steps: n; the window has positions 0 .. n.
        width: how many codes the window holds; there are n + width codes.
        outside: P(one given code outside the window), in units of 2^-64.
        inside: P(one given code inside it), in units of 2^-64.
        decoded: (codes,) what the codes stand for, ascending and antisymmetric.
        points: (n + 1,) what the positions stand for: -1 to 1, ascending.
        moments: (n + 1,) the mean square of the decoded code at each position.
        variance: the worst, any position or even mixture of neighbours.
    """

    steps: int
    width: int
    outside: int
    inside: int
    decoded: Floats
    points: Floats
    moments: Floats
    variance: float

    @classmethod
    def of(cls, epsilon: float, steps: int, width: int) -> Table:
        """The best table of a shape.

        Raises:
            ArithmeticError: the optimisation did not converge, or its result does not verify.
        """
        outside, inside = _window_weights(epsilon, steps, width)
        q, p = outside / WORD, inside / WORD
        decoded, _ = optimal_values(q, p, steps, width)
        # Scaled until the last position stands for 1 in doubles, too: the solver is that close
        # only.
        decoded = decoded / _at_positions(decoded, q, p, width)[-1]
        points = _at_positions(decoded, q, p, width)
        moments = _at_positions(decoded**2, q, p, width)
        middles = (moments[:-1] + moments[1:]) / 2 - ((points[:-1] + points[1:]) / 2) ** 2
        worst = max((moments - points**2).max(), middles.max())
        table = cls(steps, width, outside, inside, decoded, points, moments, float(worst))
        table.verify(epsilon)
        return table

    def verify(self, epsilon: float) -> None:
        """Check what the claims rest on: exact mass and ratio, and points that span [-1, 1].

        Raises:
            ArithmeticError: a claim fails.
        """
        if self.steps * self.outside + self.width * self.inside != WORD:
            raise ArithmeticError("the probabilities of a window do not add up to 1")
        if not Fraction(self.inside, self.outside) <= exponential_bounds(epsilon)[0]:
            raise ArithmeticError("the ratio of a window's probabilities is above e^epsilon")
        ends = self.points[[0, -1]]
        if not (np.abs(ends - [-1, 1]) <= _BIAS).all() or not (np.diff(self.points) > 0).all():
            raise ArithmeticError("the positions of a window do not span [-1, 1] in order")


def _window_weights(epsilon: float, steps: int, width: int) -> tuple[int, int]:
    """P(a code outside, inside) in units of 2^-64: exact mass 1, ratio at most e^epsilon.

    `steps` is a power of 2, so it differs from 2^64 by a multiple of its divisor in `width`: some
    `outside` within `width` units of the least possible one leaves a multiple of `width`.
    """
    lower, _ = exponential_bounds(epsilon)
    outside = ceiling(WORD / (width * lower + steps))
    while (WORD - steps * outside) % width:
        outside += 1
    return outside, (WORD - steps * outside) // width


def _at_positions(values: Floats, outside: float, inside: float, width: int) -> Floats:
    """The mean of a function of the code at each position of the window."""
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    return np.asarray(outside * values.sum() + (inside - outside) * windows.sum(axis=1))


@lru_cache(maxsize=128)
def best_table(epsilon: float) -> Table:
    """The table whose width is best, by a walk from where it is to be expected.

    Takes some 0.1 s, once in a process for each epsilon.

    Args:
        epsilon: 0.05 .. 8, in nats.

    Raises:
        ArithmeticError: no table verifies.
    """
    steps = _COARSE if epsilon <= _SPLIT else _FINE
    width = min(steps, round(4 / 3 * math.exp(-epsilon / 3) * steps))
    best = Table.of(epsilon, steps, width)
    # Downhill from the guess to either side: the variance is taken to have one minimum in the
    # width.
    for direction in (-1, 1):
        while 1 <= best.width + direction <= steps:
            other = Table.of(epsilon, steps, best.width + direction)
            if not other.variance < best.variance:
                break
            best = other
    return best
