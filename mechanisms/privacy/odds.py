"""What reports may spend in a batch if losses were normal: where exact searches begin.

Of k-ary response on p symbols the sum of n losses has a variance that goes by
(r - 1)^2 / (r + p - 1), r = e^epsilon_local. Nothing is ever claimed on these formulas.
"""

from __future__ import annotations

import math

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
