"""Composition by Renyi divergences of guarantees of which nothing else is known."""

import math

from mechanisms.channel import Guarantee
from mechanisms.privacy.composition import combined

_ORDERS = [1 + k / 10 for k in range(1, 100)] + list(range(11, 513))


def renyi(guarantee: Guarantee, times: int, slack: float) -> Guarantee:
    """Composition by Renyi divergences, or basic composition where that is smaller.

    Binary randomised response with the same epsilon has the largest Renyi divergence of every
    order among epsilon-DP mechanisms; a mass of delta per release is set aside.

    Args:
        guarantee: of each release.
        times: k, how many releases.
        slack: delta', in (0, 1), spent on top of k delta if this form wins.

    Raises:
        ValueError: times or slack is out of range.

    Source: Mironov, "Renyi differential privacy", CSF 2017, Propositions 1 and 5; conversion of
        Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
        Proposition 12.

    >>> day = Guarantee("local", epsilon=0.1, delta=0.0, unit="user", how="closed form")
    >>> round(renyi(day, 1000, 1e-6).epsilon, 2)
    20.45
    """
    basic = repeated(guarantee, times, slack)
    epsilon = min(
        renyi_to_epsilon(a, times * randomised_response_renyi(a, guarantee.epsilon), slack)
        for a in _ORDERS
    )
    delta = times * guarantee.delta + slack
    if not epsilon < basic.epsilon:
        return basic
    return combined([guarantee], epsilon, delta, f"Renyi composition of {times} releases")


def randomised_response_renyi(order: float, epsilon: float) -> float:
    """Renyi divergence of order a > 1 between the two laws of binary randomised response."""
    if epsilon == math.inf:
        return math.inf
    keep, lie = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    terms = (order * keep + (1 - order) * lie, order * lie + (1 - order) * keep)
    # The larger exponent is taken out: at high orders the terms themselves overflow.
    return (max(terms) + math.log1p(math.exp(min(terms) - max(terms)))) / (order - 1)


def renyi_to_epsilon(order: float, divergence: float, delta: float) -> float:
    """The epsilon that a Renyi divergence of order a > 1 gives at a delta in (0, 1).

    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    gain = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
    return max(0.0, divergence + gain)


def repeated(guarantee: Guarantee, times: int, slack: float) -> Guarantee:
    """k epsilon and k delta, after a check of what the sharper rules are given.

    Args: as of `renyi`.
    """
    _repeats(times)
    if not 0 < slack < 1:
        raise ValueError(f"slack must lie strictly between 0 and 1, not {slack}")
    how = f"basic composition of {times} releases"
    return combined([guarantee], times * guarantee.epsilon, times * guarantee.delta, how)


def _repeats(times: int) -> None:
    """Refuse a number of releases that is not a positive integer (NaN included)."""
    if not 1 <= times < math.inf or times != int(times):
        raise ValueError(f"times must be a positive integer, not {times}")
