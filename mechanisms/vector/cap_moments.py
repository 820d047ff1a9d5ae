"""How well a report of PrivUnit's finite code points at the row, on average over public seeds.

What is computed here decides accuracy alone; no privacy rests on it.

How well random directions point: order statistics on the sphere.

What is computed here decides accuracy alone; no privacy rests on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy

from mechanisms.channel import Floats
from mechanisms.mean.scalar import rise
from mechanisms.vector.cap_law import CapLaw

_NODES = 600
_FARTHEST = 14.0  # times 1 / sqrt(D): no coordinate of a uniform unit vector gets there


@lru_cache(maxsize=16)
def largest_projections(sphere: int, lines: int) -> tuple[Floats, Floats]:
    """What the k of some random lines that are nearest to a vector come to, for every k.

    Args:
        sphere: D, the dimension of the space, at least 2.
        lines: H, how many independent lines through 0 are drawn uniformly.

    Returns:
        ((H,), (H,)): entry k - 1 is the mean of the sum of the k largest |<c, u>|, and of the sum
        of their squares, for any unit vector u.

    >>> sums, squares = largest_projections(3, 2)
    >>> sums.round(3).tolist(), squares.round(3).tolist()  # of two uniform numbers of [0, 1]
    ([0.667, 1.0], [0.5, 0.667])
    """
    farthest = min(math.pi / 2, _FARTHEST / math.sqrt(sphere))
    nodes, rule = _rule()
    angles = (nodes + 1) * (farthest / 2)
    # The angle's density is cos^(D - 2); as an exponential it does not vanish for large D.
    masses = rule * np.exp((sphere - 2) * np.log(np.cos(angles)))
    masses /= masses.sum()
    x = np.sin(angles)
    below = scipy.special.betainc(0.5, (sphere - 1) / 2, x * x)
    k = np.arange(1, lines)[:, None]
    # P(fewer than k of the other lines are nearer)
    among = np.concatenate([scipy.special.betainc(lines - k, k, below), np.ones((1, _NODES))])
    return lines * (among @ (masses * x)), lines * (among @ (masses * x * x))


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """Gauss and Legendre's nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def best_cap_size(epsilon: float, sphere: int, lines: int) -> int:
    """K, the number of likelier directions at which a report points best.

    Args:
        epsilon: privacy loss of one report, in nats.
        sphere: D, the dimension of the directions.
        lines: H, how many lines a codebook has.
    """
    k, growth = np.arange(1, lines + 1), rise(epsilon)
    sums = largest_projections(sphere, lines)[0]
    # The mean component along the row, in which all but K and the sum of its projections is fixed.
    return int(k[np.argmax(growth / (k * growth + 2 * lines) * sums)])


@dataclass(frozen=True)
class CapMoments:
    """Moments of a reported direction's components along the row and across it.

    Attributes:
        law: of the directions of a codebook.
        sphere: D, the dimension of the directions.

    >>> moments = CapMoments(CapLaw(lines=2, size=1, inside=5, outside=1), sphere=3)
    >>> round(moments.length, 3), round(moments.along, 3)  # the nearest of two lines: 2/3, 1/2
    (0.333, 0.417)
    """

    law: CapLaw
    sphere: int

    @cached_property
    def length(self) -> float:
        """m, the mean of a report's component along the row.

        Outside the cap are the far ends of its lines, and both ends of all others, which cancel.
        """
        near = largest_projections(self.sphere, self.law.lines)[0][self.law.size - 1]
        return float((self.law.inside - self.law.outside) / self.law.total * near)

    @cached_property
    def along(self) -> float:
        """The mean square of a report's component along the row."""
        near = largest_projections(self.sphere, self.law.lines)[1][self.law.size - 1]
        every = self.law.lines / self.sphere
        squares = self.law.inside * near + self.law.outside * (2 * every - near)
        return float(squares / self.law.total)

    def coordinate(self, own: Floats) -> Floats:
        """The mean square of a coordinate of a report.

        Args:
            own: the square of the unit row's own number there, in [0, 1]; any shape.
        """
        return np.asarray(self.along * own + (1 - self.along) * (1 - own) / (self.sphere - 1))

    @property
    def astray(self) -> float:
        """By how much, of the squared row, two reports from one codebook point astray together."""
        k, (sums, squares) = self.law.size, largest_projections(self.sphere, self.law.lines)
        most = k + (k - 1) * squares[k - 1]  # no less than |sum of the cap's directions|^2
        return float(most / sums[k - 1] ** 2) - 1
