"""How many dummies fall into a bin: laws on counts, with bounds on what their tables leave out.

Histograms from several messages a user: the true value among random dummies.

Replacing one user's value moves one message from one bin to another, so all that changes is the
dummy counts of two bins: (X + 1, Y) against (X, Y + 1). Independent counts with any law are
accounted exactly. (A fixed number of uniform dummies makes them dependent: `papers.uniform_crowd`.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechanisms.channel import Floats, require_epsilon
from mechanisms.privacy.divergence import require_batch, require_delta
from mechanisms.privacy.search import gaussian_mu, private_end
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta

LARGEST_MEAN = 1e10
_UNIT = 2.0**-53
_TAIL = 1e-40  # relative to the mode: where a law is cut off


@dataclass(frozen=True)
class DummyLaw:
    """The law of the number of dummies in one bin, over a window of counts.

    Attributes:
        first: the least count of the window.
        pmf: (window,) probabilities.
        missing: bound on the probability outside the window; it is added to delta.
        relative: bound on the relative error of each probability.
        distance: bound on the total variation from the law meant, besides those two errors.
    """

    first: int
    pmf: Floats
    missing: float = 0.0
    relative: float = 0.0
    distance: float = 0.0

    def __post_init__(self) -> None:
        pmf = np.asarray(self.pmf, np.float64)
        if not (pmf.ndim == 1 and pmf.size and np.all(pmf >= 0) and np.all(pmf <= 1)):
            raise ValueError("pmf must be a non-empty vector of probabilities")
        errors = (self.missing, self.relative, self.distance)
        if not (self.first >= 0 and all(0 <= error < 1 for error in errors)):
            raise ValueError("first must be at least 0; missing, relative, distance in [0, 1)")
        if not abs(pmf.sum() - 1) <= sum(errors) + 1e-9:
            raise ValueError(f"pmf must add up to 1 within its stated error, not {pmf.sum()}")
        object.__setattr__(self, "pmf", pmf)

    @cached_property
    def bin_law(self) -> BinLaw:
        """The bin's count, with and without one user's message among the dummies."""
        raised = np.concatenate([[0.0], self.pmf])  # P(X + 1 = k) over a window one longer
        free = np.concatenate([self.pmf, [0.0]])
        return BinLaw(raised, free, self.missing, self.relative, self.distance)

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
    if not 0 < mean <= LARGEST_MEAN:
        raise ValueError(f"the mean must lie in (0, {LARGEST_MEAN:g}], not {mean}")
    return _from_ratio(math.floor(mean), lambda k: mean / k, None)


def binomial(n: int, chance: float, tail: float = _TAIL) -> DummyLaw:
    """Binomial dummies: n users who each send one to the bin with a given probability.

    Args:
        n: how many users, in 1 .. 2^40.
        chance: in (0, 1).
        tail: relative to the mode, where the law is cut off.

    Raises:
        ValueError: an argument is out of range, or not a number.

    Source: Balcer, Cheu, "Separating local and shuffled differential privacy via histograms",
        ITC 2020 (the protocol called AUE).
    """
    require_batch(n)
    if not 0 < chance < 1:
        raise ValueError(f"the chance must lie strictly between 0 and 1, not {chance}")
    odds, mode = chance / (1 - chance), min(n, math.floor((n + 1) * chance))
    # Where a normal law of the same variance would have fallen off so far.
    reach = math.ceil(math.sqrt(-2.2 * math.log(tail) * n * chance * (1 - chance))) + 64
    return _from_ratio(mode, lambda k: (n - k + 1) / k * odds, n, tail, reach)


def negative_binomial(shape: float, ratio: float) -> DummyLaw:
    """Negative binomial dummies, P(k) proportional to Gamma(shape + k) / k! ratio^k.

    Args:
        shape: positive, up to 10^10.
        ratio: in (0, 1 - 10^-6]; the mean is shape ratio / (1 - ratio), up to 10^10.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    if not 0 < shape <= LARGEST_MEAN:
        raise ValueError(f"the shape must lie in (0, {LARGEST_MEAN:g}], not {shape}")
    if not 0 < ratio <= 1 - 1e-6:
        raise ValueError(f"the ratio must lie in (0, 1 - 1e-6], not {ratio}")
    if not shape * ratio / (1 - ratio) <= LARGEST_MEAN:
        raise ValueError(f"the mean must be at most {LARGEST_MEAN:g}")
    mode = max(0, math.floor((shape - 1) * ratio / (1 - ratio)))
    return _from_ratio(mode, lambda k: (k + (shape - 1)) / k * ratio, None)


def _from_ratio(
    mode: int,
    ratio: Callable[[Floats], Floats],
    last: int | None,
    tail: float = _TAIL,
    reach: int = 64,
) -> DummyLaw:
    """A log-concave law from P(k) / P(k - 1): products from the mode, normalised at the end."""

    def side(step: int, reach: int) -> Floats:
        """Probabilities relative to the mode's, on one side of it, until they are negligible."""
        while True:
            counts = mode + step * np.arange(1.0, reach)
            counts = counts[(counts >= 0) & (counts <= (math.inf if last is None else last))]
            factors = ratio(counts) if step > 0 else 1 / ratio(counts + 1)
            weights: Floats = np.cumprod(factors, dtype=np.float64)
            if counts.size < reach - 1 or weights[-1] < tail:
                return weights
            reach *= 2

    # Ratios of neighbours need no factorials, which overflow, and rounding grows with the distance
    # from the mode only, where the probabilities are small.
    below, above = side(-1, reach), side(1, reach)
    weights = np.concatenate([below[::-1], [1.0], above])
    # Beyond the window each probability is below a tenth of the window's last, as a geometric
    # series bounds it: so far from the mode the ratio of neighbours is well below 1 - 10^-6.
    missing = 1e7 * tail
    relative = 8 * _UNIT * (weights.size + 8) + missing
    return DummyLaw(mode - below.size, weights / weights.sum(), missing, relative)


__all__ = ["DummyLaw", "binomial", "dummies_delta", "least_mean", "least_poisson_mean", "poisson"]


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
    bin_law = law.bin_law
    return two_bins_delta(bin_law, bin_law, epsilon)[1]


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
    return least_mean(lambda mean: dummies_delta(poisson(mean), epsilon), epsilon, delta)


def least_mean(
    delta_at: Callable[[float], float], epsilon: float, delta: float, limit: float | None = None
) -> float:
    """The least mean that meets a target, starting from the central Gaussian's 2 / mu^2.

    Args:
        delta_at: delta of dummies of a mean, which falls with it.
        epsilon: positive, in nats.
        delta: in (0, 1).
        limit: the largest mean, which meets the target; None if it is to be searched for.

    Raises:
        ValueError: an argument is out of range, or no mean up to 10^10 suffices.
    """
    require_epsilon(epsilon)
    require_delta(delta)
    guess = 2 / gaussian_mu(epsilon, delta) ** 2
    high = limit if limit is not None else max(4 * guess, 16.0)
    while limit is None and not (high <= LARGEST_MEAN and delta_at(high) <= delta):
        if not guess < high < LARGEST_MEAN:
            raise ValueError(f"no mean up to {LARGEST_MEAN:g} meets epsilon {epsilon}")
        high = min(4 * high, LARGEST_MEAN)
    return private_end(delta_at, delta, high, 0.0, min(guess, high / 2), tolerance=1e-9)[0]
