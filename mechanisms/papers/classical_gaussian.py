"""Discrete Gaussian noise of the classical sigma, which is larger than it need be."""

import math

from mechanisms.compat.roots import brentq
from mechanisms.mean.gaussian import (
    Gaussian,
    noise_table,
    require_room,
    require_target,
    table_delta,
)
from mechanisms.mean.scalar import SMALL_WITH_DELTA
from mechanisms.privacy.search import gaussian_delta
from mechanisms.registry import register


@register(
    "gaussian",
    task="mean",
    sends="the value plus discrete normal noise, by the classical formula",
    source="Dwork, Roth 2014, Theorem 3.22, as discrete noise",
    models=["local"],
    small=SMALL_WITH_DELTA,
)
def gaussian(epsilon: float, delta: float, cells: int = 1024) -> Gaussian:
    """The classical Gaussian mechanism: sigma = 2 sqrt(2 ln(1.25 / delta)) / epsilon.

    Args:
        epsilon: privacy loss of one report, in nats.
        delta: the probability mass outside it, in [1e-12, 1); less is spent.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range, or the formula's claim does not hold there.

    Source: Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Theorem
        3.22, which is proven for epsilon below 1 and first fails between 6.8 and 9.4.
    """
    require_target(epsilon, delta, cells)
    sigma = 2 * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    require_room(epsilon, delta, cells, sigma)
    if not table_delta(noise_table(sigma * cells / 2), cells, epsilon) <= delta:
        raise ValueError(
            f"epsilon must be below {_classical_limit(delta):.4g} at delta {delta}, not {epsilon}: "
            "beyond, the classical formula spends more; gaussian_analytic has no such limit"
        )
    return Gaussian(epsilon, delta, cells, sigma)


def _classical_limit(delta: float) -> float:
    """The epsilon from which the classical sigma no longer keeps to a delta."""
    root = math.sqrt(2 * math.log(1.25 / delta))
    return float(brentq(lambda e: gaussian_delta(e / root, e) - delta, 1e-3, 1e3))
