"""Shuffle amplification of any local randomiser, when nothing is known but its epsilon.

What reports may spend in a batch if losses were normal: where exact searches begin.

Of k-ary response on p symbols the sum of n losses has a variance that goes by
(r - 1)^2 / (r + p - 1), r = e^epsilon_local. Nothing is ever claimed on these formulas.
"""

import math

import numpy as np

from mechanisms.privacy.pair_law import PairLaw, ShuffleLaws
from mechanisms.privacy.search import gaussian_mu


def odds_budget(epsilon: float, delta: float, n: int) -> float:
    """(r - 1)^2 / (r + p - 1), r = e^epsilon_local, that suffices if the losses were normal.

    Args:
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: how many reports are shuffled.
    """
    return n * gaussian_mu(epsilon, delta) ** 2 / 2


def odds_epsilon(budget: float, hash_range: int) -> float:
    """The epsilon_local at which (r - 1)^2 / (r + p - 1) has a given value.

    Args:
        budget: that value, positive.
        hash_range: p, at least 2.
    """
    half = budget / 2
    return math.log1p(half + math.sqrt(half * half + budget * hash_range))


def odds(epsilon_local: float, hash_range: int) -> float:
    """(r - 1)^2 / (r + p - 1) at an epsilon_local: the inverse of `odds_epsilon`."""
    above = math.expm1(epsilon_local)
    return above * above / (above + hash_range)


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
