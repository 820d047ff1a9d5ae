"""How well random directions point: order statistics on the sphere.

What is computed here decides accuracy alone; no privacy rests on it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy

from mechanisms.channel import Floats

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
