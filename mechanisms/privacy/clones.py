"""Shuffle amplification of any local randomiser, when nothing is known but its epsilon."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.privacy import blanket
from mechanisms.privacy.divergence import require_loss
from mechanisms.privacy.pair_law import PairLaw, ShuffleLaws


def clone_laws(epsilon_local: float) -> ShuffleLaws:
    """The pair of batches that dominates every epsilon_local-LDP randomiser's.

    Every other user sends what the first user would with probability at least e^-epsilon_local,
    half of it as if holding the one value and half as if holding the other.

    Args:
        epsilon_local: of one report, in (0, 700], in nats.

    Returns:
        Laws with an upper bound only: without the randomiser there is no attainable pair.

    Raises:
        ValueError: epsilon_local is out of range, or not a number.

    Source: Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021, Theorem 3.1,
        evaluated instead of bounded. Their later, sharper pair ("Stronger privacy amplification",
        SODA 2023, Theorem 3.2) is not used: enumeration of small batches shows it below the truth
        for k-ary response.
    """
    if not 0 < epsilon_local <= 700:
        raise ValueError(f"epsilon_local must lie in (0, 700], not {epsilon_local}")
    clone = math.exp(-epsilon_local)  # hardly ever, from 230 on: no amplification
    truth, lie = 1 / (1 + clone), clone / (1 + clone)
    law = PairLaw(
        first=np.array([truth, lie, 0.0]),
        second=np.array([lie, truth, 0.0]),
        others=np.array([clone / 2, clone / 2, -math.expm1(-epsilon_local)]),
    )
    return ShuffleLaws((law,), (), epsilon_local)


def clones_delta(epsilon_local: float, n: int, epsilon: float) -> float:
    """delta of n shuffled reports of any epsilon_local-LDP randomiser, rounded up.

    Args:
        epsilon_local: of one report, in (0, 700].
        n: how many reports, at least 1.
        epsilon: at least 0.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require_loss(epsilon)
    return blanket.upper_delta(clone_laws(epsilon_local), n, epsilon)


def clones_epsilon(epsilon_local: float, n: int, delta: float) -> float:
    """epsilon of n shuffled reports of any epsilon_local-LDP randomiser, on the private side.

    Args:
        epsilon_local: of one report, in (0, 700].
        n: how many reports, at least 1.
        delta: in (0, 1).

    Returns:
        An epsilon that holds; never above epsilon_local.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    return blanket.epsilon_bounds(clone_laws(epsilon_local), n, delta)[1]
