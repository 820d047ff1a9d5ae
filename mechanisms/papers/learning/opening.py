"""The first group of a run reports its targets in place of gradients: where they lie, how widely.

Gradients are cut at twice a standard deviation of the targets, as far as anybody knows it
beforehand. Where targets spread more widely than that, as where most lie at one of their bounds,
the cut turns a mean into something like a median; where they spread less widely it lets noise in
for nothing. So a group that takes no step reports its targets and their squares. From these the
collector reads a mean and a variance, and by them it chooses the cut, and from where the descent
begins: post-processing of reports that users have been paid for with their own epsilon, and theirs
alone.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Messages
from mechanisms.learning.absent import filled
from mechanisms.learning.objective import Objective
from mechanisms.papers.learning.schedule import SPREAD
from mechanisms.randomness import RandomSource
from mechanisms.vector.base import CubeMean

LEAST_STEPS = 10  # of gradients, beside which one group more is no more than an eleventh

_SURE = 2.0  # standard errors that a spread must be away from the usual one to count as another
_WIDEST = 1.0  # variance of numbers in [-1, 1]


class TargetEstimates(NamedTuple):
    """Estimates of the targets, which are scaled to [-1, 1], from one group.

    Attributes:
        mean: of the targets, unbiased, so that it may lie outside.
        mean_error: its standard error, noise and chance together.
        variance: of the targets, unbiased, so that it may be negative.
        variance_error: its standard error.
    """

    mean: float
    mean_error: float
    variance: float
    variance_error: float

    @property
    def scale(self) -> float:
        """How many times as widely as usual targets spread; 1 unless reports say otherwise.

        The variance is the one nearest to the usual one among those that are within two standard
        errors of what was seen: a cut too far off is paid for, so it takes evidence.
        """
        usual, off = SPREAD**2, _SURE * self.variance_error
        highest = max(self.variance, 0.0) + off
        lowest = min(self.variance - off, _WIDEST, highest)
        return math.sqrt(min(max(usual, lowest), highest)) / SPREAD

    @property
    def centre(self) -> float:
        """The mean, moved towards 0 by as much as noise has lengthened it, and within the bounds.

        Source: James, Stein, Berkeley Symposium 1961, in its positive part, with the constant 1
            for the single coordinate there is: a reading that is all noise becomes 0.
        """
        if not abs(self.mean) > self.mean_error:
            return 0.0
        shrunk = self.mean * (1 - (self.mean_error / self.mean) ** 2)
        return min(max(shrunk, -1.0), 1.0)


@dataclass(frozen=True)
class Opening:
    """What users of the first group send, and what the collector makes of it.

    Attributes:
        mechanism: for rows of two numbers in [-1, 1].
        trust: in [0, 1]: how much of the way to the mean a model of targets that spread as usual
            begins. A long descent finds the mean itself, and on the way what goes with it; a
            short one ends before it is there.

    Raises:
        ValueError: the mechanism is for rows of another length, or trust is out of range.

    >>> from mechanisms.randomness import SeededRandom
    >>> from mechanisms.vector.multi import multi_optimal
    >>> opening = Opening(multi_optimal(4.0, dimension=2), trust=0.5)
    >>> targets = np.repeat([-1.0, 1.0], 20_000)
    >>> seen = opening.seen(opening.mechanism.count(opening.report(targets, SeededRandom(1))))
    >>> round(seen.scale, 1), abs(opening.begin(seen)) < 0.05
    (4.0, True)
    """

    mechanism: CubeMean
    trust: float = 0.0

    def __post_init__(self) -> None:
        if not self.mechanism.dimension == 2:
            raise ValueError(
                "the opening needs a mechanism for rows of 2 numbers, not "
                f"{self.mechanism.dimension}"
            )
        if not 0 <= self.trust <= 1:
            raise ValueError(f"trust must lie in [0, 1], not {self.trust}")

    def report(self, targets: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client: targets to messages about them and their squares.

        Args:
            targets: (n,) numbers; those outside [-1, 1] count as the bound they are beyond, and
                NaN, of rows that cannot be used, as 0.
            rng: the generator of this process.

        Returns:
            (m,) uint64 messages.
        """
        clipped: Floats = np.clip(filled(np.asarray(targets, np.float64)), -1, 1)
        # Squares lie in [0, 1]: stretched to [-1, 1] they use all of the range that noise is made
        # for.
        return self.mechanism.report(np.column_stack([clipped, 2 * clipped**2 - 1]), rng)

    def seen(self, counts: Counts) -> TargetEstimates:
        """What reports tell.

        Args:
            counts: of the group's messages, from two users or more.

        Raises:
            ValueError: there are fewer.
        """
        mean, doubled = self.mechanism.estimate(counts).tolist()
        of_mean, of_doubled = self.mechanism.estimated_variance(counts).tolist()
        # To first order the two estimates are apart: most users reported only one.
        variance = variance_of(mean, of_mean, (doubled + 1) / 2, of_doubled / 4)
        return TargetEstimates(
            mean, math.sqrt(of_mean), variance.value, math.sqrt(variance.variance)
        )

    def begin(self, seen: TargetEstimates) -> float:
        """The intercept to begin with.

        Targets that spread less widely may be many of their spreads away from 0, further than the
        steps would go; so the narrower they are, the nearer to their mean the descent begins.
        """
        return seen.centre * max(self.trust, 1 - seen.scale)


def opens(objective: Objective, steps: int) -> bool:
    """Whether a run of so many steps is worth one group more, which tells of its targets.

    Args:
        objective: what is fitted; a linear model of numbers, whose intercept is what it says of
            a row of zeros, gains by it.
        steps: how many there are.

    >>> from mechanisms.learning.objectives import Logistic, SquaredError
    >>> opens(SquaredError(5), 10), opens(SquaredError(5), 9), opens(Logistic(5), 50)
    (True, False, False)
    """
    numbers = objective.loss.classes is None and len(objective.shapes) == 1
    return numbers and steps >= LEAST_STEPS


class Error(NamedTuple):
    """An estimate of how widely numbers spread.

    Attributes:
        value: of their variance.
        variance: of the value as an estimate.
    """

    value: float
    variance: float


def variance_of(mean: float, of_mean: float, square: float, of_square: float) -> Error:
    """The variance of numbers, unbiased, so that it may be negative.

    Args:
        mean: an unbiased estimate of their mean.
        of_mean: its variance.
        square: an unbiased estimate of their mean square, independent of the first.
        of_square: its variance.

    >>> variance_of(0.0, 0.0, 1 / 3, 0.0).value == 1 / 3
    True
    """
    # The square of an estimate exceeds that of the truth by the estimate's variance.
    value = square - (mean**2 - of_mean)
    return Error(value, of_square + 4 * mean**2 * of_mean + 2 * of_mean**2)
