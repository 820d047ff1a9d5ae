"""Histograms from several messages a user: the true value among random dummies.

Replacing one user's value moves one message from one bin to another, so all that changes is the
dummy counts of two bins: (X + 1, Y) against (X, Y + 1). Independent counts with any law are
accounted exactly. (A fixed number of uniform dummies makes them dependent: `papers.uniform_crowd`.)
"""

from collections.abc import Callable

from mechanisms.channel import require_epsilon
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.dummy_laws import LARGEST_MEAN, DummyLaw, binomial, poisson
from mechanisms.privacy.search import gaussian_mu, private_end
from mechanisms.privacy.two_bins import two_bins_delta

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
