"""Histograms from several messages a user: the true value among random dummies.

Replacing one user's value moves one message from one bin to another, so all that changes is the
dummy counts of two bins: (X + 1, Y) against (X, Y + 1). Independent counts with any law are
accounted exactly. (A fixed number of uniform dummies makes them dependent: `uniform_dummies`.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mechanisms.channel import Floats, require_epsilon
from mechanisms.privacy.blanket import require_batch, require_delta
from mechanisms.privacy.divergence import require_loss
from mechanisms.privacy.search import gaussian_epsilon, gaussian_mu, private_end

_UNIT = 2.0**-53
_TAIL = 1e-40  # relative to the mode: where a law is cut off
_LARGEST_MEAN = 1e10


@dataclass(frozen=True)
class DummyLaw:
    """The law of the number of dummies in one bin, over a window of counts.

    Attributes:
        first: the least count of the window.
        pmf: (window,) probabilities.
        missing: bound on the probability outside the window; it is added to delta.
        relative: bound on the relative error of each probability.
    """

    first: int
    pmf: Floats
    missing: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        pmf = np.asarray(self.pmf, np.float64)
        if not (pmf.ndim == 1 and pmf.size and np.all(pmf >= 0) and np.all(pmf <= 1)):
            raise ValueError("pmf must be a non-empty vector of probabilities")
        if not (0 <= self.missing < 1 and 0 <= self.relative < 1 and self.first >= 0):
            raise ValueError("first, missing and relative must be at least 0, the last two below 1")
        if not abs(math.fsum(pmf) - 1) <= self.missing + self.relative + 1e-9:
            raise ValueError(f"pmf must add up to 1 within its stated error, not {math.fsum(pmf)}")
        object.__setattr__(self, "pmf", pmf)

    @property
    def mean(self) -> float:
        """Dummies per bin, on average."""
        return float(self.pmf @ (self.first + np.arange(self.pmf.size)))

    @property
    def variance(self) -> float:
        """Variance of the bin's estimated count."""
        return float(self.pmf @ (self.first + np.arange(self.pmf.size) - self.mean) ** 2)


def poisson(mean: float) -> DummyLaw:
    """Poisson dummies: what many users' uniform dummies add up to.

    Args:
        mean: dummies per bin, in (0, 10^10].

    Raises:
        ValueError: the mean is out of range, or not a number.
    """
    if not 0 < mean <= _LARGEST_MEAN:
        raise ValueError(f"the mean must lie in (0, {_LARGEST_MEAN:g}], not {mean}")
    return _from_ratio(math.floor(mean), lambda k: mean / k, None)


def binomial(n: int, chance: float) -> DummyLaw:
    """Binomial dummies: n users who each send one to the bin with a given probability.

    Args:
        n: how many users, in 1 .. 2^40.
        chance: in (0, 1).

    Raises:
        ValueError: an argument is out of range, or not a number.

    Source: Balcer, Cheu, "Separating local and shuffled differential privacy via histograms",
        ITC 2020 (the protocol called AUE).
    """
    require_batch(n)
    if not 0 < chance < 1:
        raise ValueError(f"the chance must lie strictly between 0 and 1, not {chance}")
    odds = chance / (1 - chance)
    return _from_ratio(min(n, math.floor((n + 1) * chance)), lambda k: (n - k + 1) / k * odds, n)


def _from_ratio(mode: int, ratio: Callable[[Floats], Floats], last: int | None) -> DummyLaw:
    """A log-concave law from P(k) / P(k - 1): products from the mode, normalised at the end."""

    def side(step: int) -> Floats:
        """Probabilities relative to the mode's, on one side of it, until they are negligible."""
        reach = 64
        while True:
            counts = mode + step * np.arange(1.0, reach)
            counts = counts[(counts >= 0) & (counts <= (math.inf if last is None else last))]
            factors = ratio(counts) if step > 0 else 1 / ratio(counts + 1)
            weights: Floats = np.cumprod(factors, dtype=np.float64)
            if counts.size < reach - 1 or weights[-1] < _TAIL:
                return weights
            reach *= 2

    below, above = side(-1), side(1)
    weights = np.concatenate([below[::-1], [1.0], above])
    # Beyond the window each probability is below a tenth of the window's last, as a geometric
    # series bounds it: at 10^-40 of the mode the ratio of neighbours is well below 1 - 10^-6.
    missing = 1e7 * _TAIL
    relative = 8 * _UNIT * (weights.size + 8) + missing
    return DummyLaw(mode - below.size, weights / weights.sum(), missing, relative)


def dummies_delta(law: DummyLaw, epsilon: float) -> float:
    """delta of one replaced value among independent dummies in each bin, rounded up.

    Args:
        law: of the dummies in each of the two bins that change.
        epsilon: at least 0, in nats.

    Returns:
        The hockey-stick divergence of (X + 1, Y) from (X, Y + 1): attained, not just a bound.

    Raises:
        ValueError: epsilon is negative, infinite or not a number.
    """
    require_loss(epsilon)
    odds = math.exp(epsilon)
    with_one = np.concatenate([[0.0], law.pmf])  # P(X + 1 = k) over a window one longer
    without = np.concatenate([law.pmf, [0.0]])
    with np.errstate(divide="ignore", over="ignore"):
        gain = np.where(without > 0, with_one / np.maximum(without, math.ulp(0.0)), math.inf)
    # (x, y) favours the first batch if gain(x) > e^epsilon gain(y): for each x, a prefix of the
    # ys sorted by gain. We take a prefix that rounding cannot have made too short; what is in it
    # wrongly subtracts no more than the slack, which is added back.
    slack = 2 * law.relative + 8 * _UNIT * (law.pmf.size + 8)
    order = np.argsort(gain)
    reach = np.searchsorted(gain[order], gain / odds * (1 + 2 * slack), side="right")
    stays = np.concatenate([[0.0], np.cumsum(without[order])])[reach]
    moves = np.concatenate([[0.0], np.cumsum(with_one[order])])[reach]
    yes, false = float(with_one @ stays), float(without @ moves)
    together = yes * (1 + 4 * slack) - odds * false * (1 - slack)
    return min(1.0, max(together, math.ulp(0.0)) + 2 * law.missing)


def dummies_epsilon(law: DummyLaw, delta: float) -> float:
    """epsilon of one replaced value among independent dummies, on the private side.

    Args:
        law: of the dummies in each bin.
        delta: in (0, 1).

    Returns:
        An epsilon at which delta is met; infinite if none below 512 does.

    Raises:
        ValueError: delta is out of range, or not a number.
    """
    require_delta(delta)
    limit = 1.0
    while not dummies_delta(law, limit) <= delta:
        limit *= 2
        if limit > 512:
            return math.inf
    guess = gaussian_epsilon(math.sqrt(2 / max(law.variance, 1e-3)), delta)

    def delta_at(epsilon: float) -> float:
        return dummies_delta(law, epsilon)

    return private_end(delta_at, delta, limit, 0.0, guess, tolerance=1e-9)[0]


def least_poisson_mean(epsilon: float, delta: float) -> float:
    """The least mean of Poisson dummies per bin for a target; also the count's variance.

    Args:
        epsilon: positive, in nats.
        delta: in (0, 1).

    Returns:
        c, on the private side: delta(epsilon) was evaluated there.

    Raises:
        ValueError: an argument is out of range, or no mean up to 10^10 suffices.
    """
    return _least(lambda mean: dummies_delta(poisson(mean), epsilon), epsilon, delta)


def least_binomial_chance(epsilon: float, delta: float, n: int) -> float:
    """The least probability with which each of n users sends a dummy to a bin, for a target.

    Args:
        epsilon: positive, in nats.
        delta: in (0, 1).
        n: how many users.

    Returns:
        The chance, at most 1/2 (more dummies than that are fewer missing ones), on the private
        side.

    Raises:
        ValueError: an argument is out of range, or not even 1/2 suffices for so few users.
    """
    require_batch(n)
    if not dummies_delta(binomial(n, 0.5), epsilon) <= delta:
        raise ValueError(f"{n} users are too few for epsilon {epsilon} at delta {delta}")

    def delta_at(mean: float) -> float:
        return dummies_delta(binomial(n, mean / n), epsilon)

    return _least(delta_at, epsilon, delta, limit=n / 2) / n


def _least(
    delta_at: Callable[[float], float], epsilon: float, delta: float, limit: float | None = None
) -> float:
    """The least mean that meets a target, starting from the central Gaussian's 2 / mu^2."""
    require_epsilon(epsilon)
    require_delta(delta)
    guess = 2 / gaussian_mu(epsilon, delta) ** 2
    high = limit if limit is not None else max(4 * guess, 16.0)
    while limit is None and not delta_at(high) <= delta:
        high *= 4
        if high > _LARGEST_MEAN:
            raise ValueError(f"no mean up to {_LARGEST_MEAN:g} meets epsilon {epsilon}")
    return private_end(delta_at, delta, high, 0.0, min(guess, high / 2), tolerance=1e-9)[0]
