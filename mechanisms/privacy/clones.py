"""Shuffle amplification of any local randomiser, when nothing is known but its epsilon."""

from __future__ import annotations

import math

import numpy as np

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
