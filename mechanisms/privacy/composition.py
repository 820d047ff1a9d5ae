"""What several releases reveal together, from what each reveals alone.

Rules over guarantees come first; they need nothing but epsilon and delta. `compose_releases`
takes whole privacy profiles and is the one to publish: it is tight, the rules are not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from mechanisms.channel import Guarantee, Model, conditions
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss

Neighbours = Literal["replace one", "add or remove"]

_MODELS: tuple[Model, ...] = ("local", "shuffle", "central", "none")  # ever fewer are kept out
_ORDERS = [1 + k / 10 for k in range(1, 100)] + list(range(11, 513))


def _combined(parts: Sequence[Guarantee], epsilon: float, delta: float, how: str) -> Guarantee:
    """A joint claim: it holds against those only against whom every part holds."""
    if not parts:
        raise ValueError("there is nothing to compose")
    units = sorted({part.unit for part in parts})
    if len(units) > 1:
        raise ValueError(f"guarantees for different units do not add up: {', '.join(units)}")
    model = max((part.model for part in parts), key=_MODELS.index)
    if model == "none":
        return Guarantee.none("one of the releases protects nobody")
    neighbours = {part.neighbours for part in parts}
    if len(neighbours) > 1:
        raise ValueError("guarantees for different neighbours do not add up: see `replaced`")
    return Guarantee(
        model, epsilon, min(delta, 1.0), units[0], how, neighbours.pop(), conditions(parts)
    )


def _repeats(times: int) -> None:
    """Refuse a number of releases that is not a positive integer (NaN included)."""
    if not 1 <= times < math.inf or times != int(times):
        raise ValueError(f"times must be a positive integer, not {times}")


def sequential(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Basic composition: releases about the same units add up.

    Args:
        guarantees: of each release; later ones may depend on what earlier ones showed.

    Returns:
        The sum of the epsilons and of the deltas, correctly rounded, in the weakest model.

    Raises:
        ValueError: there is none, or their units differ.

    Source: Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 3.16.

    >>> day = Guarantee("local", epsilon=0.1, delta=0.0, unit="user", how="closed form")
    >>> sequential([day] * 10).epsilon
    1.0
    """
    parts = list(guarantees)
    return _combined(
        parts,
        math.fsum(part.epsilon for part in parts),
        math.fsum(part.delta for part in parts),
        f"basic composition of {len(parts)} releases",
    )


def parallel(guarantees: Iterable[Guarantee], neighbours: Neighbours) -> Guarantee:
    """Releases about disjoint parts of the data, the parts chosen by what a record holds.

    Adding or removing a record touches one part. Replacing a record may take it from one part to
    another, and both see a change, so the two largest losses add up: the familiar maximum is
    false there.

    Args:
        guarantees: of each part's release, against adding or removing one record.
        neighbours: the relation the result is to hold for.

    Returns:
        The maximum, or for "replace one" the sum of the two largest, in epsilon and in delta.

    Raises:
        ValueError: there is none, their units differ, or the relation is unknown.

    Source: McSherry, "Privacy integrated queries", SIGMOD 2009, Theorem 4, which is about adding
        or removing.

    >>> part = Guarantee("central", epsilon=0.5, delta=0.0, unit="user", how="closed form")
    >>> parallel([part] * 3, "add or remove").epsilon, parallel([part] * 3, "replace one").epsilon
    (0.5, 1.0)
    """
    # How many parts one record may change.
    touched = {"add or remove": 1, "replace one": 2}.get(neighbours)
    if touched is None:
        raise ValueError(f"neighbours must be 'replace one' or 'add or remove', not {neighbours!r}")
    parts = list(guarantees)
    epsilons = sorted((part.epsilon for part in parts), reverse=True)[:touched]
    deltas = sorted((part.delta for part in parts), reverse=True)[:touched]
    how = f"parallel composition of {len(parts)} parts under {neighbours}"
    return _combined(parts, math.fsum(epsilons), math.fsum(deltas), how)


def advanced(guarantee: Guarantee, times: int, slack: float) -> Guarantee:
    """Advanced composition, or basic composition where that is smaller.

    Args:
        guarantee: of each release.
        times: k, how many releases.
        slack: delta', in (0, 1), spent on top of k delta if advanced composition wins.

    Returns:
        epsilon = min(k epsilon, sqrt(2 k ln(1/delta')) epsilon + k epsilon (e^epsilon - 1)).

    Raises:
        ValueError: times or slack is out of range.

    Source: Dwork, Rothblum, Vadhan, "Boosting and differential privacy", FOCS 2010, Theorem III.3.
        For ten releases of epsilon 0.1 it gives 1.77, more than their sum, hence the minimum.

    >>> day = Guarantee("local", epsilon=0.1, delta=0.0, unit="user", how="closed form")
    >>> advanced(day, 10, 1e-6).epsilon, round(advanced(day, 1000, 1e-6).epsilon, 2)
    (1.0, 27.14)
    """
    basic = _repeated(guarantee, times, slack)
    epsilon = dwork_rothblum_vadhan(guarantee.epsilon, times, slack)
    delta = times * guarantee.delta + slack
    if not epsilon < basic.epsilon:
        return basic
    return _combined([guarantee], epsilon, delta, f"advanced composition of {times} releases")


def dwork_rothblum_vadhan(epsilon: float, times: int, slack: float) -> float:
    """sqrt(2 k ln(1/delta')) epsilon + k epsilon (e^epsilon - 1), whether or not that is useful."""
    # expm1 would raise; infinity loses against basic composition, as it should.
    growth = math.expm1(epsilon) if epsilon < 700 else math.inf
    return (math.sqrt(2 * times * math.log(1 / slack)) + times * growth) * epsilon


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
    basic = _repeated(guarantee, times, slack)
    epsilon = min(
        renyi_to_epsilon(a, times * randomised_response_renyi(a, guarantee.epsilon), slack)
        for a in _ORDERS
    )
    delta = times * guarantee.delta + slack
    if not epsilon < basic.epsilon:
        return basic
    return _combined([guarantee], epsilon, delta, f"Renyi composition of {times} releases")


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


def _repeated(guarantee: Guarantee, times: int, slack: float) -> Guarantee:
    """k epsilon and k delta, after a check of what the sharper rules are given."""
    _repeats(times)
    if not 0 < slack < 1:
        raise ValueError(f"slack must lie strictly between 0 and 1, not {slack}")
    how = f"basic composition of {times} releases"
    return _combined([guarantee], times * guarantee.epsilon, times * guarantee.delta, how)


def compose_releases(
    losses: Iterable[PrivacyLoss], delta: float, model: Model = "shuffle", unit: str = "user"
) -> Guarantee:
    """Many releases of one collection, composed tightly from their privacy profiles.

    Equal losses are composed by one Fourier transform, so a thousand windows take under a second.

    Args:
        losses: of each release, all about the same unit; later ones may depend on earlier ones.
        delta: the mass that may lie outside the epsilon to be found, in (0, 1).
        model: against whom every one of the losses holds.
        unit: whose contribution may change in all of the releases at once.

    Returns:
        The least epsilon at that delta, rounded up: never above the sum of what each alone needs
        at delta 0.

    Raises:
        ImportError: the package dp-accounting is missing.
        ValueError: delta is out of range or there is no release.

    >>> coin = PrivacyLoss.from_pair([0.55, 0.45], [0.45, 0.55])
    >>> round(compose_releases([coin] * 30, delta=1e-6).epsilon, 2), round(30 * coin.epsilon(0), 2)
    (5.03, 6.02)
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    counts = Counter(losses)
    how = (
        f"numerical accountant: privacy loss distributions of {counts.total()} releases, "
        "pessimistic (dp-accounting)"
    )
    return Guarantee(model, compose(counts).epsilon(delta), delta, unit, how)
