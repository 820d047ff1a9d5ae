"""Which powers of two hold nearly all numbers: the bins of a first look, and what to make of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.postprocess.intervals import normal_quantile

_LEAST, _LARGEST = -16, 48  # exponents; numbers beyond share the outermost bins
_SURE = 0.99  # probability that noise alone widens no bounds


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


@dataclass(frozen=True)
class BoundsRule:
    """The narrowest powers of two beyond which reports do not show more than a few numbers.

    Attributes:
        outside: the share of users whose numbers may be clipped, in (0, 1); half of it at
            either end. Noise may hide more: see `hidden`.

    >>> shares = np.zeros(bins())
    >>> shares[bin_of(np.array([5.0, 100.0]))] = 0.5
    >>> BoundsRule(0.001)(shares, np.full(bins(), 1e-9))
    (4.0, 128.0)
    """

    outside: float

    def __post_init__(self) -> None:
        if not 0 < self.outside < 1:
            raise ValueError(f"outside must lie between 0 and 1, not {self.outside}")

    def __call__(self, shares: Floats, variances: Floats) -> tuple[float, float]:
        """Bounds from noisy shares.

        From either end bins are left out until some run of neighbours among them is seen to hold
        more than half of `outside`: that many standard errors above it, that no run of empty bins
        is likely to be.

        Args:
            shares: (bins,) unbiased.
            variances: (bins,) of these.

        Returns:
            (low, high), low < high. Where nothing stands out, the bin of the largest share.
        """
        limits = edges()
        from_left = self._left_out(shares, variances)
        from_right = self._left_out(shares[::-1], variances[::-1])
        # Nothing stood out from one end or the other, so noise decides: the likeliest bin is the
        # guess.
        if from_left + from_right >= shares.size:
            from_left = int(np.argmax(shares))
            from_right = shares.size - 1 - from_left
        return float(limits[from_left]), float(limits[limits.size - 1 - from_right])

    def hidden(self, variance: float) -> float:
        """The share of users in one bin that noise may hide.

        Args:
            variance: of the estimated share of a bin that few users are in.
        """
        return self.outside / 2 + 2 * _demanded() * float(np.sqrt(variance))

    def _left_out(self, shares: Floats, variances: Floats) -> int:
        """How many bins from the start show next to nothing."""
        sums, squares = np.append(0, np.cumsum(shares)), np.append(0, np.cumsum(variances))
        # Entry (j, i): the run of bins i .. j, if i <= j.
        runs = sums[1:, None] - sums[None, :-1]
        errors = np.sqrt(np.maximum(squares[1:, None] - squares[None, :-1], 0))
        stands_out = np.tril(runs > self.outside / 2 + _demanded() * errors).any(axis=1)
        return int(np.argmax(stands_out)) if stands_out.any() else shares.size


def _demanded() -> float:
    """How many standard errors no run of empty bins is likely to stand out by."""
    # Every run of neighbours is a test, and the bounds may widen for none of them by chance.
    return normal_quantile(_SURE, comparisons=bins() * (bins() + 1) // 2)
