"""Searches that end on the private side."""

import math
from collections.abc import Callable

import scipy

from mechanisms.compat.roots import brentq

TOLERANCE = 2e-5  # relative width of the bracket at which a search stops
_BEYOND = (0.3, 0.7, 1.2, 2.0, 3.0)  # what is promised, in standard deviations of the loss


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of the Gaussian mechanism with sensitivity / sigma = mu.

    Source: Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018,
        Theorem 8.
    """
    if mu > 30:
        return float(scipy.special.ndtr(mu / 2 - epsilon / mu))
    left = float(scipy.special.ndtr(mu / 2 - epsilon / mu))
    return max(
        0.0, left - math.exp(epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))
    )


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon at which that mechanism has a given delta; 0 if it always has: a first guess."""
    if not mu > 0 or not gaussian_delta(mu, 0.0) > delta:
        return 0.0
    if mu > 30:  # delta is then all but a step at mu^2 / 2
        return mu * mu / 2
    high = mu * mu / 2 + mu * abs(float(scipy.special.ndtri(delta))) + 1e-9
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, 2 * high))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu at which that mechanism has a given (epsilon, delta): a first guess."""

    def gap(mu: float) -> float:
        return gaussian_delta(mu, epsilon) - delta

    high = 1.0
    while gap(high) < 0:
        high *= 2
    return float(brentq(gap, 1e-12, high))


def around(epsilon: float, delta: float) -> list[float]:
    """Where to look at the profile of what is promised: evenly up to it, and some way beyond.

    Losses of large batches are nearly normal: in their deviations the curve has one shape.
    """
    below = [epsilon * k / 16 for k in range(17)]
    mu = gaussian_mu(epsilon, delta) if 0 < delta < 1 else None
    return below if mu is None else below + [epsilon + mu * far for far in _BEYOND]


def straight(delta: float) -> float:
    """log of the normal quantile of 1 - delta: nearly a line in log epsilon and log n."""
    # From a half on the quantile is not negative, and from 0 on not finite: neither has a
    # logarithm.
    return math.log(-float(scipy.special.ndtri(min(max(delta, 1e-300), 0.45))))


def least_integer(holds: Callable[[int], bool], guess: int) -> int:
    """A positive integer that meets a condition, above one that does not; from a guess on."""
    low, high, step = 0, max(1, guess), 1
    while not holds(high):
        low, high, step = high, high + step, 2 * step
    if not low:
        while (low := max(0, high - step)) and holds(low):
            high, step = low, 2 * step
    # A delta need not fall monotonously with the integer, so what is returned was itself tried.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def private_end(
    delta_at: Callable[[float], float],
    delta: float,
    private: float,
    exposed: float,
    guess: float,
    tolerance: float = TOLERANCE,
) -> tuple[float, float]:
    """Where a monotone delta crosses a target, from both sides.

    A secant on a scale on which Gaussian mechanisms are straight lines in log epsilon, kept inside
    a bracket and aimed just past the crossing from either side. Four or five evaluations.

    Args:
        delta_at: monotone; evaluated between the two ends only.
        delta: the target, in (0, 1).
        private: an end known to meet the target: delta_at(private) <= delta.
        exposed: the other end, not known to meet it.
        guess: where to start.
        tolerance: relative width at which to stop.

    Returns:
        (private, exposed): points no further apart than the tolerance. The first met the target
        when evaluated (or is the end given); the second did not (or is the end given).
    """
    target = straight(delta)
    x, last = guess, (math.nan, math.nan)
    for attempt in range(200):
        low, high = sorted((private, exposed))
        if high - low <= tolerance * high or high <= 1e-12:
            break
        if not low < x < high:
            x = (low + high) / 2
        reached = delta_at(x)
        if reached <= delta:
            private = x
        else:
            exposed = x
        now = (math.log(x), straight(reached)) if 0 < reached else (math.nan, math.nan)
        slope = (now[1] - last[1]) / (now[0] - last[0]) if now[0] != last[0] else math.nan
        # Such a slope is rounding or a flat stretch, and a step along it would leave the bracket.
        if math.isnan(slope) or not 0.2 <= abs(slope) <= 20:
            slope = 1.0 if private > exposed else -x / 2
        goal = now[0] + (target - now[1]) / slope
        margin = tolerance * 0.4 * (1 if reached > delta else -1) * (1 if private > exposed else -1)
        # A secant that has not settled by then may creep for ever; halving does not.
        regular = attempt < 12 and not math.isnan(goal)
        x = math.exp(min(goal, 700.0)) * (1 + margin) if regular else (private + exposed) / 2
        last = now
    return private, exposed
