"""Which masked Laplace noise meets a target with the fewest messages, or the least variance."""

import math
from functools import lru_cache

from mechanisms.channel import require_epsilon
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.masked_laplace import MaskedLaplace
from mechanisms.privacy.search import private_end
from mechanisms.privacy.two_bins import two_bins_delta

DEFAULT_SHARE = 0.8
LEAST_SHARE, LARGEST_SHARE = 0.25, 0.95
_LEAST_EPSILON = 0.005  # below, the mask's law takes millions of counts
_PATTERN = 0.25  # smaller epsilons share the mask's form of this one: all lengths scale with it
ROUGH, FINE = 1e-3, 1e-9  # relative tolerance of the mask's size
_CLOSE = 1e-3  # of the share of epsilon, in a search for it


@lru_cache(maxsize=64)
def fewest_messages(
    epsilon: float, delta: float, share: float = DEFAULT_SHARE, tolerance: float = FINE
) -> MaskedLaplace:
    """The noise with the fewest messages among those of one variance.

    Args:
        epsilon: of a replaced value, in nats; at least 0.005.
        delta: in (0, 1).
        share: how much of epsilon goes into the Laplace noise, in [0.25, 0.95]; its variance is
            about 1 / share^2 times that of the central mechanism, and the mask hides the rest.
        tolerance: relative, of the mask's size.

    Returns:
        The noise: the target was met when it was evaluated. Which mask needs the fewest messages
        is searched for to a part in a hundred.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require_epsilon(epsilon)
    require_delta(delta)
    if not epsilon >= _LEAST_EPSILON:
        raise ValueError(
            f"epsilon must be at least {_LEAST_EPSILON} for correlated noise, not {epsilon}"
        )
    if not LEAST_SHARE <= share <= LARGEST_SHARE:
        raise ValueError(f"share must lie in [{LEAST_SHARE}, {LARGEST_SHARE}], not {share}")
    slope = _slope(max(epsilon, _PATTERN), delta, share)
    return _met(epsilon, delta, share, slope, tolerance)


def least_variance(epsilon: float, delta: float, messages: float) -> MaskedLaplace:
    """The noise with the least variance among those of few messages.

    Args:
        epsilon: of a replaced value, in nats; at least 0.005.
        delta: in (0, 1).
        messages: how many there may be in a bin on average, besides true ones.

    Raises:
        ValueError: an argument is out of range, or so few messages cannot meet the target.
    """
    least = fewest_messages(epsilon, delta, LEAST_SHARE)
    if not messages >= least.messages:
        raise ValueError(
            f"correlated noise needs at least {math.ceil(least.messages)} messages in each bin "
            f"for epsilon {epsilon} and delta {delta}, not {messages:.6g}"
        )
    best, low, high = least, LEAST_SHARE, LARGEST_SHARE
    share = high
    while high - low > _CLOSE:
        design = fewest_messages(epsilon, delta, share)
        if design.messages <= messages:
            best, low = design, share
        else:
            high = share
        # The number of messages is nearly inverse to the share of epsilon that is left.
        aim = 1 - (1 - share) * design.messages / messages
        middle = (low + high) / 2
        share = aim if abs(aim - middle) < (high - low) * 0.45 else middle
    return best


@lru_cache(maxsize=64)  # smaller epsilons share one
def _slope(epsilon: float, delta: float, share: float) -> float:
    """1 - ratio of the best mask, in units of what epsilon leaves to it."""

    def messages(log_slope: float) -> float:
        return _met(epsilon, delta, share, math.exp(log_slope), ROUGH).messages

    room = -math.expm1(-(1 - share) * epsilon)
    # From 1 / room on the mask's ratio would not be positive.
    bounds = (math.log(0.1), math.log(min(8.0, 0.99 / room)))
    from scipy.optimize import minimize_scalar  # a fifth of a second, which few need

    optimum = minimize_scalar(messages, bounds=bounds, method="bounded", options={"xatol": 0.03})
    return math.exp(float(optimum.x))


def _met(
    epsilon: float, delta: float, share: float, slope: float, tolerance: float
) -> MaskedLaplace:
    """The least mask of one form with which the target is met."""
    decay = math.exp(-share * epsilon / 2)
    ratio = 1 + slope * math.expm1(-(1 - share) * epsilon)

    def delta_at(shape: float) -> float:
        law = MaskedLaplace(decay, shape, ratio).bin_law()
        return 1.0 if law is None else two_bins_delta(law, law, epsilon)[1]

    # More of the mask, at the same ratio, is one more independent part: delta cannot rise.
    high = 32.0
    while not delta_at(high) <= delta:
        high *= 2
        if not high < 1e9:
            raise ValueError(f"no mask meets epsilon {epsilon} at delta {delta}")
    shape = private_end(delta_at, delta, high, 0.0, high / 2, tolerance)[0]
    return MaskedLaplace(decay, shape, ratio)
