"""Histograms from a fixed number of dummy messages that fall on all bins alike (pureDUMP)."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.privacy.blanket import (
    attained_delta,
    dominated_delta,
    epsilon_bounds,
)
from mechanisms.privacy.divergence import require_batch
from mechanisms.privacy.pair_law import PairLaw, ShuffleLaws


def uniform_dummies(bins: int, dummies: int) -> tuple[PairLaw, int]:
    """The pair law of one user's message among a fixed number of uniform dummies (pureDUMP).

    Args:
        bins: how many bins the dummies fall into, at least 2.
        dummies: how many there are in the whole batch, at least 1.

    Returns:
        (the law, the number of messages that decide); both bounds apply to it and meet.

    Raises:
        ValueError: an argument is out of range, or not a number.

    Source: Li, Wang, Li, Bai, Song, "DUMP: a dummy-point-based framework for histogram estimation
        in shuffle model", 2020; accounted exactly in place of its closed form.
    """
    if not bins >= 2:
        raise ValueError(f"there must be at least 2 bins, not {bins}")
    require_batch(dummies)
    share = 1 / bins
    law = PairLaw(
        np.array([1.0, 0.0, 0.0]),
        np.array([0.0, 1.0, 0.0]),
        np.array([share, share, 1 - 2 * share]),
    )
    return law, dummies + 1


def uniform_dummies_delta(bins: int, dummies: int, epsilon: float) -> tuple[float, float]:
    """delta of one replaced value among a fixed number of uniform dummies.

    Args:
        bins: how many bins, at least 2.
        dummies: in the whole batch, at least 1.
        epsilon: at least 0.

    Returns:
        (lower, upper), equal but for rounding.
    """
    law, n = uniform_dummies(bins, dummies)
    upper = dominated_delta(law, n, epsilon)
    return min(attained_delta(law, n, epsilon), upper), upper


def uniform_dummies_epsilon(bins: int, dummies: int, delta: float) -> tuple[float, float]:
    """epsilon of one replaced value among a fixed number of uniform dummies.

    Args:
        bins: how many bins, at least 2.
        dummies: in the whole batch, at least 1.
        delta: in (0, 1).

    Returns:
        (lower, upper), equal but for rounding.
    """
    law, n = uniform_dummies(bins, dummies)
    return epsilon_bounds(ShuffleLaws((law,), (law,), math.inf), n, delta)
