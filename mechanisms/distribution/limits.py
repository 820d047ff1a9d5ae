"""Confidence limits for the mean of a number of [0, 1] that is reported with noise.

Each user holds some r of [0, 1] and sends a report whose weight has mean r and a variance that
depends on what the user holds. The limits are Wilson's: the variance is that of the value tested,
not that of the estimate, so they cover where the mean is close to 0 or to 1. They take no larger
n for granted: how skewed a weight of bounded range can be is added at either end.

Where some users hold nothing, r is the mean of those who hold something: a quotient. Whether it may
be r is asked of the reports' weight - r * presence, whose mean is then 0 (Fieller), so that nothing
is divided by a share that may be 0 itself.
"""

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution.noise import NoiseBound
from mechanisms.postprocess.intervals import normal_quantile, opened


def limits(
    estimate: Floats,
    bound: NoiseBound,
    n: int,
    confidence: float,
    share: float = 1.0,
    drawn: bool = True,
) -> tuple[Floats, Floats]:
    """The means that the reports do not contradict.

    Args:
        estimate: (k,) averages of the weights of n reports.
        bound: on the reports' variance.
        n: how many reports, at least 1.
        confidence: of each pair of limits, in (0, 1); either limit alone errs half as often.
        share: of users who hold something, unbiased: the average of their presence.
        drawn: whether users are a sample, whose means vary with them.

    Returns:
        (lower, upper), each (k,), in [0, 1]. They cover the mean r of the users who reported and
        hold something, and of the population too if `drawn` and these are a random sample of it.

    Raises:
        ValueError: there is no report, or the confidence is out of range.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA
        1927, with the reports' noise added to r (1 - r); the correction for skewness is of the
        Cornish-Fisher expansion's order, with range times variance for the third moment.
    """
    if not n >= 1:
        raise ValueError(f"n must be at least 1, not {n}")
    z = normal_quantile(confidence)
    skew = skewness(bound, n, z)
    low, high = estimate - skew, estimate + skew
    # Nothing contradicts a mean from below that lies above the estimate, nor the reverse.
    lower = np.minimum(_root(low, share, bound, n / z**2, -1, drawn), _within(low, share))
    upper = np.maximum(_root(high, share, bound, n / z**2, +1, drawn), _within(high, share))
    return lower, upper


def opened_limits(
    estimate: Floats, bound: NoiseBound, n: int, confidence: float, share: float = 1.0
) -> tuple[Floats, Floats]:
    """As `limits`, none of them a point; arguments as there."""
    ends = limits(estimate, bound, n, confidence, share)
    z = normal_quantile(confidence)
    below, above = (
        z / 2 * np.sqrt(bound.variance(np.full_like(estimate, end), n, max(share, 1 / n)))
        for end in (1.0, 0.0)
    )
    return opened(*ends, below, above)


def skewness(bound: NoiseBound, n: int, z: float) -> Floats:
    """(k,) what skewness may add to normal limits of z standard errors."""
    return np.asarray((z * z + 2) / 6 * bound.width / n)


def _within(centre: Floats, share: float) -> Floats:
    """The quotient, in [0, 1]; there is none where nobody seems to hold anything."""
    return np.clip(centre / share, 0, 1) if share > 0 else np.full(centre.shape, 0.5)


def _root(
    centre: Floats, share: float, bound: NoiseBound, precision: float, side: int, drawn: bool
) -> Floats:
    """The r on one side with precision * (centre - share r)^2 = level + slope r + curve r^2.

    Where users are drawn, share * r (1 - r) is added, by which their own means vary.
    """
    spread = share if drawn else 0.0
    square = precision * share**2 + spread - bound.curve
    linear = 2 * precision * centre * share + spread + bound.slope
    constant = precision * centre**2 - bound.level
    inner = np.maximum(linear**2 - 4 * square * constant, 0)
    # Where the share may be 0, no mean is contradicted.
    known = (square > 0) & (share > 0)
    root = (linear + side * np.sqrt(inner)) / (2 * np.where(known, square, 1.0))
    return np.asarray(np.where(known, np.clip(root, 0, 1), (1 + side) / 2))
