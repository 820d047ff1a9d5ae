"""Slow and obvious: how far losses exceed a level, pair by pair."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.channel import Floats
from mechanisms.privacy.pair_law import PairLaw


def excess(
    first: Floats, second: Floats, blanket: Floats, epsilon: float, levels: Floats
) -> Floats:
    """(levels,) E(L - level)_+ of L = (first - e^epsilon second) / blanket, and 0 beyond it."""
    loss = first - math.exp(epsilon) * second
    above = np.maximum(loss - levels[:, None] * blanket, 0).sum(axis=1)
    return above + (1 - blanket.sum()) * np.maximum(-levels, 0)


def law_excess(law: PairLaw, epsilon: float, levels: Floats) -> Floats:
    """The same of a pair law, whose others add up to 1."""
    loss = law.first - math.exp(epsilon) * law.second
    return np.maximum(loss - levels[:, None] * law.others, 0).sum(axis=1)


def levels(law: PairLaw, epsilon: float) -> Floats:
    """The losses of a law, between which its excess is straight; and some beyond."""
    sent = law.others > 0
    loss = (law.first - math.exp(epsilon) * law.second)[sent] / law.others[sent]
    return np.concatenate([loss, [loss.min() - 1, loss.max() + 1, 0.0]])


def least_slack(channel: Floats, law: PairLaw, epsilon: float) -> float:
    """The least by which a law's excess is above that of any pair of a channel's inputs.

    Where the law's excess is straight and another is convex, their difference is least at an end:
    the levels where the law bends are all that need be looked at.
    """
    blanket, at = channel.min(axis=0), levels(law, epsilon)
    bound = law_excess(law, epsilon, at)
    return min(
        float((bound - excess(one, other, blanket, epsilon, at)).min())
        for one in channel
        for other in channel
    )
