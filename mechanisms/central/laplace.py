"""Counts with two-sided geometric noise: the Laplace mechanism without real numbers."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Counts, Guarantee, require_epsilon
from mechanisms.randomness import RandomSource

_WORD = 1 << 64
_PRECISION = 128  # bits of the decay rate
_LONGEST_TABLE = 1 << 20  # noise values on one side of zero
_LARGEST_COUNT = 1 << 62


@dataclass(frozen=True)
class DiscreteLaplace:
    """Adds integer noise z with probability proportional to e^(-epsilon |z| / sensitivity).

    Noise is drawn from a table of integer weights, so the guarantee is that of the table: every
    weight is at most e^(epsilon/sensitivity) times the next one out, and the support ends where
    that rule, in integers, no longer lets the weights fall.

    Attributes:
        epsilon: privacy loss, in nats.
        sensitivity: the most by which one unit changes the counts, in L1 norm; an integer. A
            histogram has 1 when neighbours differ by adding a unit, 2 by replacing one.

    Source: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms",
        STOC 2009, section 2. Continuous noise in doubles would give the value away: Mironov, "On
        significance of the least significant bits for differential privacy", CCS 2012.

    >>> mechanism = DiscreteLaplace(epsilon=0.5, sensitivity=2)
    >>> round(mechanism.variance(), 2), mechanism.guarantee.delta < 1e-17
    (31.83, True)
    """

    epsilon: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if not 1 <= self.sensitivity < math.inf or self.sensitivity != int(self.sensitivity):
            raise ValueError(f"sensitivity must be a positive integer, not {self.sensitivity}")
        if not 48 / self.decay <= _LONGEST_TABLE:
            raise ValueError(
                f"epsilon {self.epsilon} at sensitivity {self.sensitivity} needs a noise table "
                f"of more than {_LONGEST_TABLE} entries; count in coarser units"
            )

    @property
    def decay(self) -> float:
        """How fast the log probability falls, per unit of noise; rounded down."""
        return math.nextafter(self.epsilon / self.sensitivity, 0)

    @cached_property
    def half_table(self) -> list[int]:
        """Weights of the noise values 0, 1, 2, ..., B; those of -1, -2, ... mirror them."""
        # Rounded up, as each weight is below: the next one out may only be too likely.
        step = ceiling((1 << _PRECISION) / exponential_bounds(self.decay)[0])
        # tanh(decay/2) is the ideal mass of zero; the rest of the room is for rounding up.
        weights = [int((_WORD - (1 << 58)) * math.tanh(self.decay / 2))]
        while (following := -(-weights[-1] * step >> _PRECISION)) < weights[-1]:
            weights.append(following)
        return weights

    @cached_property
    def weights(self) -> tuple[NDArray[np.uint64], int]:
        """The exact noise distribution: numerators for -B .. B, and their sum."""
        whole = self.half_table[:0:-1] + self.half_table
        table, total = np.array(whole, np.uint64), sum(whole)
        if not total < _WORD:
            raise ArithmeticError("the noise table does not fit into 64 bits")
        return table, total

    @cached_property
    def _cumulative(self) -> NDArray[np.uint64]:
        """Running sums of the noise weights: a draw falls below the one of its noise value."""
        return self.weights[0].cumsum()

    @property
    def bound(self) -> int:
        """B, the largest noise."""
        return len(self.half_table) - 1

    @property
    def guarantee(self) -> Guarantee:
        """Exact: where both supports overlap the ratio is bounded; what sticks out is delta."""
        table, total = self.weights
        # Shifted by the sensitivity, the tables have these ends for themselves: what sticks out is
        # delta.
        outermost = int(table[: int(self.sensitivity)].sum())
        return Guarantee(
            "central",
            self.epsilon,
            min(1.0, math.nextafter(outermost / total, 1)),
            "record",
            "closed form: neighbouring noise weights differ by at most e^(epsilon/sensitivity) "
            "in integer arithmetic; delta is the mass at the ends of the noise table",
        )

    def perturb(self, counts: ArrayLike, rng: RandomSource) -> Counts:
        """Add independent noise to each count.

        Args:
            counts: integers of any shape, |count| <= 2^62.
            rng: the generator of this process.

        Returns:
            int64 of the same shape; may be negative, and is never clipped.

        Raises:
            ValueError: the counts are not integers or too large.
        """
        array = np.asarray(counts)
        if array.dtype.kind not in "iu":
            raise ValueError(f"counts must be integers, not {array.dtype}")
        if array.size and not (array.min() >= -_LARGEST_COUNT and array.max() <= _LARGEST_COUNT):
            raise ValueError(f"counts must lie within +-{_LARGEST_COUNT}")
        draws = rng.integers(self.weights[1], array.size)
        noise = np.searchsorted(self._cumulative, draws, side="right") - self.bound
        return array.astype(np.int64) + noise.reshape(array.shape)

    def variance(self) -> float:
        """Variance of one count, 2 a / (1 - a)^2 with a = e^-decay, in squared counts."""
        return 2 * math.exp(-self.decay) / math.expm1(-self.decay) ** 2
