"""Which powers of two hold nearly all numbers: the bins of a first look, and what to make of it."""

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.postprocess.intervals import normal_quantile

_LEAST, _LARGEST = -16, 48  # exponents; numbers beyond share the outermost bins
OUTSIDE = 0.001
"""The share of units whose numbers bounds may clip, where noise does not hide more."""
# Of 10,000 first rounds without a number, at epsilon 0.1, 3 saw one; at 0.99, 35 did.
_SURE = 1 - 1e-6
_TAILS = 2.0  # geometric noise reaches 1.4 times as far as normal noise, as often
_NEAR = 2.5  # standard deviations: noise alone exceeds them once in 70 bins


def edges() -> Floats:
    """(bins + 1,) where bins begin and end: ... -2, -1, ..., -2^-16, 0, 2^-16, ..., 1, 2, ...

    >>> edges().size
    131
    """
    powers = 2.0 ** np.arange(_LEAST, _LARGEST + 1)
    return np.concatenate([-powers[::-1], [0.0], powers])


def bins() -> int:
    """How many bins there are; numbers of less than 2^-16 have one on either side of 0."""
    return edges().size - 1


def bin_of(values: NDArray[np.floating]) -> NDArray[np.uint32]:
    """(n,) the bin of each finite number; an edge belongs to the bin nearer to 0, and 0 below it.

    >>> inner = edges()
    >>> at = int(bin_of(np.array([3.0]))[0])
    >>> inner[at : at + 2].tolist()
    [2.0, 4.0]
    """
    numbers, limits = np.asarray(values, np.float64), edges()
    below = np.searchsorted(limits, numbers, side="left") - 1
    above = np.searchsorted(limits, numbers, side="right") - 1
    # Bounds are closed: 4 lies within [-4, 4] and must not call for [-8, 8].
    bin_ = np.where(numbers > 0, below, above)
    return np.clip(bin_, 0, limits.size - 2).astype(np.uint32)


def chosen_bounds(counts: Floats, error: float) -> tuple[float, float]:
    """The narrowest powers of two beyond which noisy counts do not show more than a few numbers.

    From either end bins are left out until some run of neighbours among them holds more than
    noise explains; from there on a bin's own noise decides. Far off a false alarm would spoil the
    answer, and is all but excluded; next to what is sure it costs a factor of two of the error,
    and to miss a bin costs a bias that no interval covers.

    Args:
        counts: (bins,) unbiased.
        error: the standard deviation of the geometric noise of each.

    Returns:
        (low, high), low < high. Where nothing stands out, the bin of the largest count.

    >>> counts = np.zeros(bins())
    >>> counts[bin_of(np.array([5.0, 100.0]))] = 500
    >>> chosen_bounds(counts, 1.0)
    (4.0, 128.0)
    """
    limits, few = edges(), OUTSIDE / 2 * max(float(counts.sum()), 1.0)
    from_left, from_right = (_left_out(one, few, error) for one in (counts, counts[::-1]))
    # Nothing stood out from one end or the other, so noise decides: the likeliest is the guess.
    if from_left + from_right >= counts.size:
        from_left = int(np.argmax(counts))
        from_right = counts.size - 1 - from_left
    near = counts > few + _NEAR * error
    while from_left > 0 and near[from_left - 1]:
        from_left -= 1
    while from_right > 0 and near[counts.size - from_right]:
        from_right -= 1
    return float(limits[from_left]), float(limits[limits.size - 1 - from_right])


def _left_out(counts: Floats, few: float, error: float) -> int:
    """How many bins from the start show next to nothing."""
    sums, place = np.append(0, np.cumsum(counts)), np.arange(counts.size + 1)
    # Entry (j, i): the run of bins i .. j, if i <= j.
    runs, lengths = sums[1:, None] - sums[None, :-1], place[1:, None] - place[None, :-1]
    # Every run of neighbours is a test, and the bounds may widen for none of them by chance.
    demanded = normal_quantile(_SURE, comparisons=counts.size * (counts.size + 1) // 2)
    errors = error * np.sqrt(_TAILS * np.maximum(lengths, 0))
    stands_out = np.tril(runs > few + demanded * errors).any(axis=1)
    return int(np.argmax(stands_out)) if stands_out.any() else counts.size
