"""Rules of composition and accountants that the product is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from mechanisms.channel import Guarantee, Model
from mechanisms.compat.pld import accounting
from mechanisms.papers.renyi import renyi_to_epsilon, repeated
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.composition import Neighbours, combined
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.sampled_gaussian import ORDERS, SubsampledGaussian


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
    return combined(parts, math.fsum(epsilons), math.fsum(deltas), how)


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
    basic = repeated(guarantee, times, slack)
    epsilon = dwork_rothblum_vadhan(guarantee.epsilon, times, slack)
    delta = times * guarantee.delta + slack
    if not epsilon < basic.epsilon:
        return basic
    return combined([guarantee], epsilon, delta, f"advanced composition of {times} releases")


def dwork_rothblum_vadhan(epsilon: float, times: int, slack: float) -> float:
    """sqrt(2 k ln(1/delta')) epsilon + k epsilon (e^epsilon - 1), whether or not that is useful."""
    # expm1 would raise; infinity loses against basic composition, as it should.
    growth = math.expm1(epsilon) if epsilon < 700 else math.inf
    return (math.sqrt(2 * times * math.log(1 / slack)) + times * growth) * epsilon


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


def moments_epsilon(run: SubsampledGaussian, delta: float, orders: int = 32) -> float:
    """The moments accountant as published: min over lambda of (T alpha + ln(1/delta)) / lambda.

    Args:
        run: whose.
        delta: in (0, 1).
        orders: the largest lambda tried.

    Source: Abadi et al. 2016, Theorem 2.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    return min(
        (run.steps * run.log_moment(order) - math.log(delta)) / order
        for order in range(1, orders + 1)
    )


def renyi_epsilon(run: SubsampledGaussian, delta: float) -> float:
    """The same moments, converted without the loss in the published tail bound.

    Args:
        run: whose.
        delta: in (0, 1).

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
        NeurIPS 2020, Proposition 12.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    return min(
        renyi_to_epsilon(order + 1, run.steps * run.log_moment(order) / order, delta)
        for order in ORDERS
    )


def tight_epsilon(run: SubsampledGaussian, delta: float) -> float:
    """The answer to publish: the composed privacy loss distribution, an upper bound.

    Args:
        run: whose.
        delta: in (0, 1).

    Raises:
        ImportError: the package dp-accounting is missing.

    Source: Doroshenko et al., "Connect the dots", PoPETs 2022, as implemented by
        dp-accounting.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    distributions = accounting().privacy_loss_distribution
    step = distributions.from_gaussian_mechanism(run.sigma, sampling_prob=run.rate)
    return float(step.self_compose(run.steps).get_epsilon_for_delta(delta))
