"""A cell plus discrete Gaussian noise of the least sigma that will do."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import Floats, Guarantee, require_epsilon
from mechanisms.mean.additive import FILLED, WORD, Additive, symmetric_table
from mechanisms.mean.scalar import LARGEST_ALPHABET, SMALL_WITH_DELTA, require_cells
from mechanisms.privacy.search import gaussian_mu, least_integer
from mechanisms.randomness import Words
from mechanisms.registry import register

_LEAST_DELTA = 1e-12  # less is lost in what 64-bit weights cut off
_UNIT = 2.0**-53  # the rounding unit of a double
_LARGEST_RATIO = 500.0  # a smaller multiplier only makes delta larger
_FINE = 16  # bits of sigma that are searched


@dataclass(frozen=True)
class Gaussian(Additive):
    """Discrete Gaussian noise, cut off where its weights fall below 2^-64.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        delta: the most probability mass outside it, in [1e-12, 1).
        cells: N, how many cells [-1, 1] is cut into.
        sigma: standard deviation of the noise, in units of the value.

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
        2020, Definition 1. Its delta is computed here from the table itself.

    >>> mechanism = Gaussian(epsilon=1.0, delta=1e-6, cells=1024, sigma=8.46)
    >>> round(mechanism.worst_variance, 1), f"{mechanism.guarantee.delta:.2e}"
    (71.6, '9.74e-07')
    """

    epsilon: float
    delta: float
    cells: int
    sigma: float

    def __post_init__(self) -> None:
        require_target(self.epsilon, self.delta, self.cells)
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be a positive, finite number, not {self.sigma}")
        require_room(self.epsilon, self.delta, self.cells, self.sigma)
        if not self.spent <= self.delta:
            raise ValueError(
                f"sigma {self.sigma} is too small: at epsilon {self.epsilon} it spends a delta of "
                f"{self.spent:.3g}, more than {self.delta}"
            )

    @cached_property
    def half_table(self) -> Words:
        return noise_table(self.sigma * self.cells / 2)

    @property
    def reach(self) -> int:
        return self.half_table.size - 1

    @cached_property
    def spent(self) -> float:
        """The table's delta at epsilon, rounded up."""
        return table_delta(self.half_table, self.cells, self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon,
            self.spent,
            "enumeration: the hockey-stick divergence of the noise table and the table shifted by "
            "the whole grid, rounded up",
        )

    @cached_property
    def decoded(self) -> Floats:
        return np.asarray(np.arange(1.0 - self.codes, self.codes, 2) / self.cells)

    @cached_property
    def _noise_variance(self) -> float:
        """Variance of the table's noise, in squared units of the value."""
        places = np.arange(self.half_table.size) * (2 / self.cells)
        return 2 * float(np.dot(self.half_table.astype(np.float64), places**2)) / WORD

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        return np.asarray(self._value(cells) ** 2 + self._noise_variance)


@register(
    "gaussian_analytic",
    task="mean",
    sends="the same with the least noise that keeps to its delta",
    source="Balle, Wang, ICML 2018, as discrete noise",
    models=["local"],
    searched=True,
    small=SMALL_WITH_DELTA,
)
def gaussian_analytic(epsilon: float, delta: float, cells: int = 1024) -> Gaussian:
    """The Gaussian mechanism with the least sigma whose noise table keeps to (epsilon, delta).

    Args:
        epsilon: privacy loss of one report, in nats.
        delta: the probability mass outside it, in [1e-12, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism; its sigma is a part in 2^15 above the least, at the most.

    Raises:
        ValueError: a parameter is out of range.

    Source: Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018,
        Theorem 8, from which the search sets out; it ends by the exact delta of the table.
    """
    require_target(epsilon, delta, cells)
    guess = 2 / gaussian_mu(epsilon, delta)
    require_room(epsilon, delta, cells, guess)
    # sigma is a multiple of a power of two, so that it has the same few bits on every machine.
    quantum = 2.0 ** (math.frexp(guess)[1] - _FINE)

    def private(multiple: int) -> bool:
        sigma = multiple * quantum
        return table_delta(noise_table(sigma * cells / 2), cells, epsilon) <= delta

    quanta = least_integer(private, round(guess / quantum))
    return Gaussian(epsilon, delta, cells, quanta * quantum)


def require_target(epsilon: float, delta: float, cells: int) -> None:
    """Refuse what no table of Gaussian noise is made for."""
    require_epsilon(epsilon)
    require_cells(cells)
    try:
        meant = _LEAST_DELTA <= delta < 1
    except TypeError:
        meant = False
    if not meant:
        raise ValueError(f"delta must be at least {_LEAST_DELTA} and below 1, not {delta!r}")


def require_room(epsilon: float, delta: float, cells: int, sigma: float) -> None:
    """Refuse noise that is too wide for a table on this grid."""
    most = math.floor(LARGEST_ALPHABET / (1 + 10 * sigma))
    if not cells <= most:
        advice = f"use at most {most}" if most else "use a larger epsilon or delta"
        raise ValueError(
            f"{cells} cells are too many at epsilon {epsilon} and delta {delta}, where sigma is "
            f"{sigma:.4g}: the noise would need more than {LARGEST_ALPHABET} codes; {advice}"
        )


def noise_table(sigma: float) -> Words:
    """The half table of noise whose standard deviation is sigma cells."""
    # Beyond this a weight of about 2^64 / sigma has fallen below one unit.
    bits = 64 * math.log(2) - math.log(max(sigma, 1.0))
    places = np.arange(math.ceil(sigma * math.sqrt(2 * bits)) + 1) / sigma
    falling = np.exp(places**2 / -2)
    falling *= FILLED / (2 * falling[1:].sum() + 1)
    return symmetric_table(np.floor(np.minimum.accumulate(falling)).astype(np.uint64))


def table_delta(half: Words, cells: int, epsilon: float) -> float:
    """The hockey-stick divergence of a noise table and the table moved by `cells`, rounded up."""
    noise = np.concatenate([half[:0:-1], half]).astype(np.float64)
    # Every rounding below is taken towards a larger delta: the multiplier down, the surplus up.
    multiplier = float(exponential_bounds(min(epsilon, _LARGEST_RATIO))[0]) * (1 - 2 * _UNIT)
    surplus = np.append(noise, np.zeros(cells)) * (1 + 4 * _UNIT)
    surplus[cells:] -= noise * (multiplier * (1 - 8 * _UNIT))
    total = float(np.maximum(surplus, 0).sum())
    return min(1.0, total * (1 + 2.0**-40) / WORD)
