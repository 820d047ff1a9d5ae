"""Error bars for frequency estimates: one value at a time, or all of them at once."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats


class Noise(Protocol):
    """A law on the integers, as far as intervals need it."""

    def mean(self) -> float:
        """The expectation."""

    def excess_kurtosis(self) -> float:
        """At least 0: how much heavier its tails are than a normal law's; 3 of a Laplace law."""

    def ppf(self, q: float) -> float:
        """The quantile: the least integer that is not exceeded with probability q."""

    def isf(self, q: float) -> float:
        """The least integer that is exceeded with probability at most q."""


class Estimator(Protocol):
    """What intervals ask: a frequency oracle answers it, and a central release as well."""

    @property
    def domain_size(self) -> int: ...

    @property
    def keep(self) -> float: ...

    @property
    def other(self) -> float: ...

    @property
    def contrast(self) -> float: ...

    def variance(self, frequency: ArrayLike, n: int) -> Floats: ...

    def added(self, n: int) -> Noise | None: ...


def standard_errors(mechanism: Estimator, estimate: ArrayLike, n: int) -> Floats:
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
        The normal quantile; `intervals` serves small support counts too.

    Raises:
        ValueError: confidence is not inside (0, 1), or there is nothing to compare.

    >>> round(normal_quantile(0.95), 3), round(normal_quantile(0.95, comparisons=600), 3)
    (1.96, 3.935)
    """
    from scipy import special  # which a request that is refused needs not

    return -float(special.ndtri(_tail(confidence, comparisons)))


def intervals(
    mechanism: Estimator,
    estimate: ArrayLike,
    n: int,
    confidence: float,
    simultaneous: bool = False,
) -> tuple[Floats, Floats]:
    """Confidence intervals around unbiased frequencies, inside [0, 1].

    They cover at least as often as they say, however few reports support a value; counts being
    whole, they cover a little more often where there are few.
    Around an estimate far outside of [0, 1] they may be a single point: see `opened`.

    Args:
        mechanism: what perturbed the reports.
        estimate: (..., d) unbiased frequencies.
        n: how many users reported.
        confidence: of each interval, or of all d together if `simultaneous`; in (0, 1).
        simultaneous: whether one risk is shared by all d intervals (Bonferroni).

    Returns:
        (lower, upper), each (..., d). Neither falls as the estimate grows, and an estimate in
        [0, 1] lies between them.

    Raises:
        ValueError: confidence is not inside (0, 1), n is not positive, or an estimate is NaN.
    """
    tail = _tail(confidence, mechanism.domain_size if simultaneous else 1)
    centre = np.asarray(estimate, np.float64)
    if not n > 0:
        raise ValueError(f"n must be positive, not {n}")
    if np.isnan(centre).any():
        raise ValueError("an estimate is not a number")
    noise = mechanism.added(n)
    if noise is not None:
        return _without(noise, n, centre, tail)
    from mechanisms.postprocess.holders import SupportLaw  # scipy's, as above

    keep, other = np.clip([mechanism.keep, mechanism.other], 0, 1)  # rounding may leave [0, 1]
    law = SupportLaw(n, float(keep), float(other), mechanism.contrast)
    support = np.clip(np.rint(n * (law.other + centre * law.contrast)), 0, n).astype(np.int64)
    distinct, place = np.unique(support, return_inverse=True)
    most = law.most_holders(distinct, tail)
    # Few supporters for many holders is many non-supporters for few: one routine serves both ends.
    fewest = n - law.complement.most_holders(n - distinct[::-1], tail)[::-1]
    place, middle = place.reshape(centre.shape), np.clip(centre, 0, 1)
    return np.minimum((fewest / n)[place], middle), np.maximum((most / n)[place], middle)


def opened(
    lower: Floats, upper: Floats, below: Floats, above: Floats, low: float = 0.0, high: float = 1.0
) -> tuple[Floats, Floats]:
    """Limits none of which is a point, at the ends of what is possible.

    An interval around an estimate far outside of what is possible is cut to its end, and would
    read as if that were certain. It then goes some way inwards; being wider, it covers no less.

    Args:
        lower, upper: (...) limits, in low .. high.
        below: how far under `high` an interval has to reach.
        above: how far over `low`.
        low, high: between which the truth lies.

    Returns:
        (lower, upper), each (...).
    """
    return (
        np.minimum(lower, np.maximum(high - below, low)),
        np.maximum(upper, np.minimum(low + above, high)),
    )


def _without(noise: Noise, n: int, centre: Floats, tail: float) -> tuple[Floats, Floats]:
    """Limits where the estimate is the holders' share plus noise of a known law, for any n."""
    below = (noise.mean() - noise.ppf(tail)) / n
    above = (noise.isf(tail) - noise.mean()) / n
    middle = np.clip(centre, 0, 1)
    lower, upper = np.clip(centre - above, 0, 1), np.clip(centre + below, 0, 1)
    return np.minimum(lower, middle), np.maximum(upper, middle)


def _tail(confidence: float, comparisons: int) -> float:
    """The risk of either end of one interval."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if not comparisons >= 1:
        raise ValueError(f"comparisons must be at least 1, not {comparisons}")
    return (1 - confidence) / (2 * comparisons)


def largest_error_bound(mechanism: Estimator, n: int, confidence: float) -> float:
    """A bound on the largest error over the whole domain that holds for every n.

    Args:
        mechanism: what perturbs the reports.
        n: how many users report.
        confidence: the probability that no value's error exceeds the bound, in (0, 1).

    Returns:
        In frequency units; wider than the intervals and known before the collection.

    Source: Bernstein's inequality with a union bound over d values, in place of Theorem 5 of
        Zhang, Xu, Xia 2022, which lacks the union bound and uses an undefined scale.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    noise = mechanism.added(n)
    if noise is not None:
        tail = _tail(confidence, mechanism.domain_size)
        return max(noise.isf(tail) - noise.mean(), noise.mean() - noise.ppf(tail)) / n
    log_risk = math.log(2 * mechanism.domain_size / (1 - confidence))
    # The variance is linear in the frequency, so its maximum is at one of the ends.
    variance = float(np.max(mechanism.variance(np.array([0.0, 1.0]), n)))
    # One report moves a support count by at most 1, hence the estimate by 1 / (n contrast).
    return math.sqrt(2 * variance * log_risk) + 2 / 3 * log_risk / (n * mechanism.contrast)
