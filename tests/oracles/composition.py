"""Rules of composition and accountants that the product is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from mechanisms.channel import Guarantee, Model
from mechanisms.compat.pld import accounting
from mechanisms.papers.renyi import renyi_to_epsilon
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.sampled_gaussian import ORDERS, SubsampledGaussian


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
