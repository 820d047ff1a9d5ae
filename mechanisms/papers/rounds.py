"""What thousands of equal rounds reveal together, each of them made of a few small releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Guarantee
from mechanisms.papers.renyi import renyi
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss

_LARGEST = 300.0  # epsilons beyond it protect nobody, and overflow in the numerical accountant


def accounted(
    once: Guarantee, losses: Sequence[PrivacyLoss], rounds: int, delta: float
) -> Guarantee:
    """Many equal rounds, each made of several releases, by every accountant there is.

    Args:
        once: what one round reveals in all; its delta, times rounds, is set aside.
        losses: of the releases of one round.
        rounds: how many.
        delta: the mass that may lie outside the epsilon to be found, in (0, 1).

    Returns:
        The least epsilon of basic, Renyi and numerical composition.

    Raises:
        ImportError: the package dp-accounting is missing.
        ValueError: delta is out of range, or less than what the rounds bring.
    """
    left = delta - rounds * once.delta
    if not 0 < left < delta < 1:
        raise ValueError(
            f"delta must lie between {rounds * once.delta:.1e}, the ends of the noise tables, "
            f"and 1, not {delta}"
        )
    bound = renyi(replace(once, delta=0.0), rounds, left)
    if bound.epsilon > _LARGEST:
        return replace(bound, delta=delta)
    counted = {loss: rounds * times for loss, times in Counter(losses).items()}
    epsilon = min(compose(counted).epsilon(left), bound.epsilon)
    how = f"numerical accountant over {rounds} rounds of {len(losses)} releases (dp-accounting)"
    return replace(once, epsilon=epsilon, delta=delta, how=how)


def shifted_loss(noise: DiscreteLaplace) -> PrivacyLoss:
    """The privacy profile of one count, which its noise was made for: two tables apart."""
    table, total = noise.weights
    law, apart = table / float(total), np.zeros(noise.sensitivity)
    return PrivacyLoss.from_pair(np.append(law, apart), np.append(apart, law))
