"""Normal noise rounded to whole numbers, drawn by coins: what it is added to may be any total.

A whole total plus rounded noise is the rounded sum of the total and normal noise. So whoever sees
it learns no more than of the Gaussian mechanism, whose price is known exactly, however many totals
there are and however far one unit moves each of them.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from mechanisms.channel import AsFields, Floats
from mechanisms.randomness import RandomSource
from mechanisms.sampling.exact_geometric import survives
from mechanisms.sampling.integer_noise import LONGEST

_LARGEST = 2.0**40  # of a sigma: noise and totals are 64-bit integers
_BITS = 46  # of the fraction of a draw, so that it is a double as it is
_BEYOND = 9.3  # standard deviations; what a table leaves out has a probability below e^-44
_SMALL = 4.0  # a sigma below which a table says the variance


@dataclass(frozen=True)
class RoundedGaussian(AsFields):
    """The whole number nearest to normal noise.

    Attributes:
        sigma: the standard deviation of the noise before it is rounded.

    Source: Karney, "Sampling exactly from the normal distribution", ACM Transactions on
        Mathematical Software 42(1), 2016, Algorithm N, with fractions of 46 bits.

    >>> from mechanisms.randomness import SeededRandom
    >>> noise = RoundedGaussian(10.0)
    >>> round(noise.var(), 3), noise.isf(0.025), noise.draw(3, SeededRandom(1)).shape
    (100.083, 20.0, (3,))
    """

    sigma: float

    def __post_init__(self) -> None:
        if not 0 < self.sigma <= _LARGEST:
            raise ValueError(
                f"sigma must lie in 0 .. 2^40, not {self.sigma:g}; count in coarser units"
            )

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent noises.

        Args:
            size: how many.
            rng: the generator of this process.

        Returns:
            (size,) int64.
        """
        drawn, left, one = np.zeros(size, np.int64), np.arange(size), 1 << _BITS
        while left.size:
            whole = _survived_halves(left.size, rng)
            below = rng.integers(one, left.size).astype(np.int64)
            # e^-((k + x)^2 / 2) of k = `whole`, which came with e^-(k / 2), and x = below / one.
            kept = _all(whole * (whole - 1) // 2, np.ones_like(whole), 1, rng)
            kept &= _all(whole, below, one, rng) & survives(below, one, rng, squared=True)
            sizes = np.rint(self.sigma * ((whole * one + below + 0.5) / one)).astype(np.int64)
            minus = rng.integers(2, left.size).astype(np.bool_)
            drawn[left[kept]] = np.where(minus, -sizes, sizes)[kept]
            left = left[~kept]
        return drawn

    # ---- its law -----------------------------------------------------------------------------

    @property
    def slack(self) -> float:
        """By how much the log ratio of two of its probabilities is off, at the most.

        A number stands for so many fractions of 46 bits, of which one is missing, or too many, at
        each end: a part of 2^-46 sigma. In the tails an end holds more than its part, and the
        product of sigma and a draw is rounded, which moves an end by less than a fraction.
        """
        return max(self.sigma, 256.0) * 2.0**-41

    @property
    def law(self) -> dict[str, Any]:
        """What a release says of it: as of `published_law`, which is the discrete Gaussian."""
        said = {"name": "rounded Gaussian", "scale": self.sigma, "farthest": -self.first}
        return {**said, "falls": [0.5 / self.var(), 1 / self.var()]}

    def mean(self) -> float:
        """It is symmetric."""
        return 0.0

    def var(self) -> float:
        """That of the normal noise and of rounding, which are all but independent."""
        if self.sigma >= _SMALL:
            return self.sigma**2 + 1 / 12
        return float(self.pmf @ np.arange(self.first, 1.0 - self.first) ** 2)

    def isf(self, q: float) -> float:
        """The least integer from 0 on that is exceeded with probability at most q.

        Args:
            q: in (0, 1).
        """
        far = -self.sigma * float(scipy.special.ndtri(q))
        return float(max(math.ceil(far * (1 + 1e-12) - 0.5), 0))

    @property
    def first(self) -> int:
        """Where the table of `pmf` begins."""
        return -math.ceil(_BEYOND * self.sigma)

    @cached_property
    def pmf(self) -> Floats:
        """The probabilities from `first` on, for sums of noises.

        Raises:
            ValueError: they are too many.
        """
        if not -2 * self.first < LONGEST:
            raise ValueError(f"a law may have {LONGEST:,} outcomes at the most")
        ends = scipy.special.ndtr((np.arange(self.first, 1.0) - 0.5) / self.sigma)
        side = np.diff(ends, append=scipy.special.ndtr(0.5 / self.sigma))
        whole = np.concatenate([side, side[-2::-1]])
        return np.asarray(whole / whole.sum())


def _all(
    times: NDArray[np.int64], below: NDArray[np.int64], of: int, rng: RandomSource
) -> NDArray[np.bool_]:
    """Coins that fall heads with probability exactly e^-(times below / of)."""
    heads, left = np.ones(times.size, np.bool_), times.copy()
    while (going := np.flatnonzero(heads & (left > 0))).size:
        heads[going] = survives(below[going], of, rng)
        left[going] -= 1
    return heads


def _survived_halves(size: int, rng: RandomSource) -> NDArray[np.int64]:
    """How often a coin of odds e^-1/2 falls heads before it first falls tails."""
    times, going = np.zeros(size, np.int64), np.arange(size)
    while going.size:
        going = going[survives(np.ones(going.size, np.int64), 2, rng)]
        times[going] += 1
    return times
