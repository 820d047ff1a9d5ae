"""Error bars for frequency estimates: one value at a time, or all of them at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from mechanisms.channel import Floats, FrequencyOracle


def standard_errors(mechanism: FrequencyOracle, estimate: ArrayLike, n: int) -> Floats:
    """The standard error of each unbiased estimate, from the mechanism's closed form.

    The unknown frequency in the variance is replaced by its estimate, moved into [0, 1].

    Args:
        mechanism: what perturbed the reports.
        estimate: (d,) unbiased frequencies.
        n: how many users reported.

    Returns:
        (d,) in frequency units.
    """
    return np.sqrt(mechanism.variance(np.clip(estimate, 0, 1), n))


def normal_quantile(confidence: float, comparisons: int = 1) -> float:
    """How many standard errors an interval reaches to either side.

    Args:
        confidence: the probability that every one of the intervals covers, in (0, 1).
        comparisons: how many intervals must cover together; the union bound (Bonferroni) shares
            the risk among them, whatever their dependence.

    Returns:
        The normal quantile; accurate once a support count is in the dozens.

    Raises:
        ValueError: confidence is not inside (0, 1), or there is nothing to compare.

    >>> round(normal_quantile(0.95), 3), round(normal_quantile(0.95, comparisons=600), 3)
    (1.96, 3.935)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if not comparisons >= 1:
        raise ValueError(f"comparisons must be at least 1, not {comparisons}")
    return -float(special.ndtri((1 - confidence) / (2 * comparisons)))


def intervals(
    estimate: ArrayLike, standard_error: ArrayLike, confidence: float, simultaneous: bool = False
) -> tuple[Floats, Floats]:
    """Confidence intervals around unbiased frequencies, cut to [0, 1].

    A frequency lies in [0, 1], so cutting loses no coverage.

    Args:
        estimate: (d,) unbiased frequencies.
        standard_error: (d,) their standard errors.
        confidence: of each interval, or of all d together if `simultaneous`.
        simultaneous: whether one risk is shared by all intervals.

    Returns:
        (lower, upper), each (d,).
    """
    centre = np.asarray(estimate, np.float64)
    comparisons = centre.size if simultaneous else 1
    reach = normal_quantile(confidence, comparisons) * np.asarray(standard_error)
    return np.clip(centre - reach, 0, 1), np.clip(centre + reach, 0, 1)


def largest_error_bound(mechanism: FrequencyOracle, n: int, confidence: float) -> float:
    """A bound on the largest error over the whole domain that holds for every n.

    Args:
        mechanism: what perturbs the reports.
        n: how many users report.
        confidence: the probability that no value's error exceeds the bound, in (0, 1).

    Returns:
        In frequency units; wider than the normal intervals and free of approximation.

    Source: Bernstein's inequality with a union bound over d values, in place of Theorem 5 of
        Zhang, Xu, Xia 2022, which lacks the union bound and uses an undefined scale.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    log_risk = math.log(2 * mechanism.domain_size / (1 - confidence))
    # The variance is linear in the frequency, so its maximum is at one of the ends.
    variance = float(np.max(mechanism.variance(np.array([0.0, 1.0]), n)))
    # One report moves a support count by at most 1, hence the estimate by 1 / (n contrast).
    return math.sqrt(2 * variance * log_risk) + 2 / 3 * log_risk / (n * mechanism.contrast)
