"""Dummies that fall into each bin on their own, whose batches are accounted for exactly."""

from __future__ import annotations

import math
from abc import abstractmethod

from mechanisms.frequency.dummy_batch import DummyBatch
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta, two_bins_epsilon

STEEPEST = 12.0  # a larger epsilon is met by meeting this one: see `batch_delta`


class IndependentBins(DummyBatch):
    """Dummies that fall into each bin on their own: the two bins of a replaced value say all."""

    @abstractmethod
    def bin_law(self, users: int) -> BinLaw:
        """What is seen in one bin among so many users' dummies; the drawing's errors included."""

    def revealing_law(self, users: int) -> BinLaw:
        """A law that tells no more than what is seen; that itself, unless it is out of reach."""
        return self.bin_law(users)

    def hiding_law(self, users: int) -> BinLaw | None:
        """A law that tells no less than what is seen, or None if none is known."""
        return self.bin_law(users)

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """delta of a shuffled batch.

        Args:
            n: how many users; any number, not only those the mechanism is made for.
            epsilon: at least 0, in nats.

        Returns:
            (lower, upper): what is lost if all users add their dummies; and a bound on what is
            lost if only the honest share does.
        """
        require_batch(n)
        require_loss(epsilon)
        everyone, counted = self.revealing_law(n), self._counted(n)
        lower = two_bins_delta(everyone, everyone, epsilon)[0]
        if counted is None:
            return lower, 1.0
        # What drawing from tables may add grows with e^epsilon; a smaller epsilon's delta holds.
        upper = min(
            two_bins_delta(counted, counted, met)[1] for met in (epsilon, min(epsilon, STEEPEST))
        )
        return min(lower, upper), upper

    def _counted(self, n: int) -> BinLaw | None:
        """The law that the guarantee for n users rests on."""
        return self.hiding_law(self.honest(n))

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """epsilon of a shuffled batch.

        Args:
            n: how many users; any number, not only those the mechanism is made for.
            delta: in (0, 1).

        Returns:
            (lower, upper), as in `batch_delta`; infinite where no law is known.
        """
        require_batch(n)
        require_delta(delta)
        lower, counted = two_bins_epsilon(self.revealing_law(n), delta)[0], self._counted(n)
        upper = two_bins_epsilon(counted, delta)[1] if counted else math.inf
        upper = min(upper, self._claimed(n, delta))
        return min(lower, upper), upper
