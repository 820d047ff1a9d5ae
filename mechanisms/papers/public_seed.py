"""What mechanisms have in common that rest on a public random matrix or hash."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle, support_variance
from mechanisms.postprocess.intervals import Noise


@dataclass(frozen=True)
class Normal:
    """Without a bias.

    >>> round(Normal(2.0).isf(0.025), 3)
    3.92
    """

    deviation: float

    def mean(self) -> float:
        """0."""
        return 0.0

    def excess_kurtosis(self) -> float:
        """0."""
        return 0.0

    def ppf(self, q: float) -> float:
        """The quantile, for q in (0, 1)."""
        return self.deviation * float(scipy.special.ndtri(q))

    def isf(self, q: float) -> float:
        """What is exceeded with probability q."""
        return -self.ppf(q)


class PublicSeed(FrequencyOracle):
    """A frequency oracle whose estimates are unbiased over reports *and* a public seed.

    For one seed, values whose codes resemble each other are taken for one another by a fixed
    amount, which no number of users averages out. Over seeds that amount has mean 0, so it is an
    error, and `variance` contains it. A fresh seed for each collection keeps it from adding up.

    Attributes:
        public_seed: marks such mechanisms.
        seed: the public randomness, from which every client rebuilds the code of its value.
    """

    public_seed: ClassVar[bool] = True
    seed: int

    @property
    @abstractmethod
    def collision(self) -> float:
        """Over the seed, the mean square of what one value's estimate takes of another's share."""

    def report_variance(self, frequency: ArrayLike) -> Floats:
        """n times the variance if no two users held the same value.

        Args:
            frequency: the share of users who hold the value, in [0, 1]; any shape.

        Returns:
            In squared frequency units, of the same shape.
        """
        return support_variance(frequency, 1, self.keep, self.other)

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        """Variance of one value's estimate, over the seed and the randomness of n users' reports.

        Args:
            frequency: the share of users who hold the value, in [0, 1]. Collisions cost the
                more, the fewer values the other users hold. If the last axis has the length of
                the domain it is taken for the whole histogram, which tells; for any other shape
                all others are taken to hold one value, the worst there is.
            n: how many users report.

        Returns:
            The variance in squared frequency units, of the same shape:
            report_variance / n + collision * (the sum of f (f - 1/n) over all other values).
        """
        f = np.asarray(frequency, np.float64)
        if f.shape[-1:] == (self.domain_size,):
            others = f.sum(axis=-1, keepdims=True) - f
            squares = (f * f).sum(axis=-1, keepdims=True) - f * f
        else:
            others, squares = 1 - f, (1 - f) ** 2
        # f (f - 1/n) summed, and not f^2: a user does not collide with itself.
        shared = np.maximum(squares - others / n, 0)
        return np.asarray(self.report_variance(f) / n + self.collision * shared)

    def average_variance(self, n: int) -> float:
        """Mean squared error per value of the whole histogram if all users hold one value.

        No histogram has a larger one. Where the frequencies are known the mean of their
        `variance` is the error that they have.
        """
        alone = float(self.report_variance(1 / self.domain_size)) / n
        return alone + self.collision * (1 - 1 / self.domain_size) * (1 - 1 / n)

    def added(self, n: int) -> Noise:
        """A normal law with the largest variance of any frequency: collisions are no binomials."""
        largest = max(float(self.variance(0.0, n)), float(self.variance(1.0, n)))
        return Normal(n * math.sqrt(largest))
