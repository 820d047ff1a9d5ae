"""How well random directions point: order statistics on the sphere, and PrivUnit's cap.

What is computed here decides accuracy alone; no privacy rests on it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from mechanisms.channel import Floats
from mechanisms.mean.scalar import rise

_NODES = 600
_FARTHEST = 14.0  # times 1 / sqrt(D): no coordinate of a uniform unit vector gets there


class Cap(NamedTuple):
    """A cap of the unit sphere, {v: <u, v> >= gamma}, as PrivUnit uses it.

    Attributes:
        gamma: its height.
        chance: p, the probability of a report from the cap.
        length: m, the mean of the report's component along u; reports are divided by it.
    """

    gamma: float
    chance: float
    length: float


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


def best_cap(epsilon: float, sphere: int) -> Cap:
    """PrivUnit's cap of largest length: what a finite code can come near to.

    Args:
        epsilon: privacy loss of one report, in nats.
        sphere: D, the dimension of the space, at least 2.

    Returns:
        The cap. The variance of a report about a unit vector is 1 / length^2 - 1 in all.

    Source: Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its
        applications in private federated learning", 2018, Algorithm 1, with height and chance
        chosen together for the least variance, as in Asi, Feldman, Talwar, "Optimal algorithms
        for mean estimation under local differential privacy", ICML 2022.

    >>> round(1 / best_cap(1.0, 200).length ** 2 - 1, 1)
    1262.3
    """
    top = min(1 - 1e-9, _FARTHEST / math.sqrt(sphere))
    from scipy.optimize import minimize_scalar  # a fifth of a second, which few need

    optimum = minimize_scalar(
        lambda gamma: -_cap(gamma, epsilon, sphere).length,
        bounds=(0.0, top),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return _cap(float(optimum.x), epsilon, sphere)


def _cap(gamma: float, epsilon: float, sphere: int) -> Cap:
    """The cap of a given height."""
    share = float(scipy.special.betainc((sphere - 1) / 2, 0.5, 1 - gamma * gamma)) / 2
    odds = rise(epsilon) + 1
    chance = odds * share / (odds * share + 1 - share)
    surface = math.exp(scipy.special.gammaln(sphere / 2) - scipy.special.gammaln((sphere - 1) / 2))
    moment = surface / math.sqrt(math.pi) * (1 - gamma * gamma) ** ((sphere - 1) / 2) / (sphere - 1)
    return Cap(gamma, chance, moment * (chance / share - (1 - chance) / (1 - share)))
