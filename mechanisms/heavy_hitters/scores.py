"""How much a bucket's count speaks for a prefix, and how much chance alone would say.

The public hash puts a prefix that nobody holds into a uniform random bucket, whatever the reports
are. So the counts of *all* buckets of a group are, as they stand, the law of the count that such a
prefix gets: noise, frequent strings that happen to share its bucket, and all. No model of the
noise and no assumption on the population is needed to say how often chance goes as far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from mechanisms.channel import Counts, Floats

Scores = NDArray[np.int32]

_STEPS = 256  # of a score per standard deviation of the largest group
_ROUNDING = 1e-13  # more than what Fourier transforms of probabilities are off by, when summed
_FAR = 6.0  # standard deviations: where the tail is held most exactly


class Row(NamedTuple):
    """What one group of users says.

    Attributes:
        n: how many users reported.
        estimates: (width,) unbiased shares of the buckets among them.
        scores: (width,) the same as normal scores, in whole steps.
    """

    n: int
    estimates: Floats
    scores: Scores


def row(estimates: Floats, n: int, largest: int) -> Row:
    """One group's estimates with their scores.

    A score is where a bucket stands among all buckets, on the scale of the normal law: those that
    are equal share the mean of the places they take. It is weighted by the root of the group's
    size, as estimates of one frequency would be.

    Args:
        estimates: (width,) of one group.
        n: how many users it has.
        largest: how many users the largest group has.
    """
    _, place, ties = np.unique(estimates, return_inverse=True, return_counts=True)
    # The mean of the normal law between two of its quantiles is the difference of the densities
    # there, over the probability between them.
    ends = np.concatenate([[0.0], np.cumsum(ties) / estimates.size])
    density = np.exp(-(special.ndtri(ends) ** 2) / 2) / np.sqrt(2 * np.pi)
    mean = -np.diff(density) * estimates.size / ties
    scale = _STEPS * np.sqrt(n / max(largest, 1))
    return Row(n, estimates, np.rint(scale * mean)[place].astype(np.int32))


@dataclass(frozen=True)
class Chance:
    """The law of the sum of the scores that several groups give a prefix nobody holds.

    Attributes:
        least: the least possible sum.
        tail: (sums,) P(sum >= least + i), rounded up; by convolution, so exact for a hash that is
            an ideal random function.
    """

    least: int
    tail: Floats

    @staticmethod
    def of(rows: Iterable[Row]) -> Chance:
        """The law of a sum over these groups, whose hashes are independent."""
        scores = [scored.scores for scored in rows]
        least = sum(int(score.min()) for score in scores)
        spread = math.sqrt(sum(float(np.var(score)) for score in scores))
        # Rounding is relative to the bulk of a law, so the far tail is looked at tilted.
        tilts = (0.0, _FAR / spread) if spread else (0.0,)
        return Chance(least, np.min([_tail(scores, tilt) for tilt in tilts], axis=0))

    def exceeding(self, sums: ArrayLike) -> Floats:
        """P(a sum at least as large), for each of some sums."""
        place = np.asarray(sums) - self.least
        inside = np.clip(place, 0, self.tail.size - 1)
        return np.where(place < self.tail.size, self.tail[inside], 0.0)

    def threshold(self, probability: float) -> int:
        """The least sum that chance reaches with at most this probability."""
        return self.least + int(np.searchsorted(-self.tail, -probability))


def _tail(scores: list[Scores], tilt: float) -> Floats:
    """P(sum >= least + i) for uniform, independent buckets, rounded up.

    Args:
        scores: of each group, (width,).
        tilt: theta of the weight e^(theta sum) under which the sums are convolved.
    """
    least = sum(int(score.min()) for score in scores)
    sums = least + np.arange(sum(int(np.ptp(score)) for score in scores) + 1)
    padded = fft.next_fast_len(sums.size, real=True)
    transform, log_mass = np.ones(padded // 2 + 1, np.complex128), 0.0
    for score in scores:
        law = np.bincount(score - score.min()) / score.size
        law *= np.exp(tilt * (score.min() + np.arange(law.size)))
        log_mass += math.log(law.sum())
        transform *= fft.rfft(law / law.sum(), padded)
    tilted = np.maximum(fft.irfft(transform, padded)[: sums.size], 0)
    weight = np.exp(log_mass - tilt * sums)
    tail: Floats = (weight * tilted)[::-1].cumsum()[::-1] + _ROUNDING * weight
    return np.minimum(tail, 1)


def rows_of(estimates: Iterable[Floats], users: Counts) -> list[Row]:
    """The rows of all groups, weighted alike.

    Args:
        estimates: of each group, (width,).
        users: (groups,) how many each has.
    """
    largest = int(users.max(initial=0))
    return [row(estimate, int(n), largest) for estimate, n in zip(estimates, users, strict=True)]
