"""What the best constant prediction gets wrong: the least that a model has to beat.

A constant looks at no row, so its error follows from a few averages over rows, each of a number in
[0, 1]: of numbers the mean and the mean square, of classes the share of each. A row that cannot be
used answers 0 to everything, also to how wrong the model is, and the averages are held against the
share of rows that can be: so neither side is scored on targets that nobody has. Whoever can have
means estimated privately can have both errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats
from mechanisms.learning.absent import filled, present
from mechanisms.postprocess.intervals import normal_quantile

_SURE = 3.0  # standard errors that the share of usable rows must be away from 0
_STEP = 1e-6  # of an average, for the slope of what follows from it


class BaselineComparison(NamedTuple):
    """A model beside the best constant, in the same unit of error.

    Attributes:
        model: its error, unbiased to first order, so that it may lie outside of what errors can be.
        constant: that of the best constant.
        standard_error: of the difference.
        reach: standard errors within which a difference may be noise.
        largest: that an error can be.
    """

    model: float
    constant: float
    standard_error: float
    reach: float
    largest: float

    @property
    def gained(self) -> bool | None:
        """Whether the model errs less than the constant; None where noise leaves that open."""
        difference = self.constant - self.model
        # The negative form catches NaN.
        if not abs(difference) > self.reach * self.standard_error:
            return None
        return difference > 0


@dataclass(frozen=True)
class Baseline:
    """The best constant prediction of a kind of target.

    Attributes:
        classes: how many the targets tell apart; None if they are numbers in [-1, 1].

    >>> found = Baseline(3).compared([0.2, 0.3, 0.5, 0.2], [1e-4] * 4, unit=1.0, confidence=0.95)
    >>> found.constant, found.gained
    (0.5, True)
    """

    classes: int | None

    @property
    def questions(self) -> int:
        """How many averages the error follows from."""
        return 3 if self.classes is None else self.classes

    @property
    def largest(self) -> float:
        """The largest error: of numbers between bounds of -1 and 1, 2 squared."""
        return 4.0 if self.classes is None else 1.0

    @property
    def moved(self) -> int:
        """The most by which another row in its place changes its answers, and its error, in L1."""
        return 1 + (3 if self.classes is None else 2)

    def answers(self, targets: ArrayLike) -> Floats:
        """(n, questions) numbers in [0, 1] whose averages are asked for.

        Args:
            targets: (n,) numbers, of which those outside [-1, 1] count as the bound they are
                beyond; or classes 0 .. classes - 1. Of rows that cannot be used, see `absent`.
        """
        if self.classes is not None:
            classes: NDArray[Any] = np.arange(self.classes)
            return np.asarray(np.asarray(targets)[:, None] == classes, np.float64)
        there = present(targets).astype(np.float64)
        clipped: Floats = np.clip(filled(np.asarray(targets, np.float64)), -1, 1)
        return np.column_stack([there, there * (clipped + 1) / 2, there * clipped**2])

    def usable(self, answers: Floats) -> float:
        """The share of rows that can be used, by averages of the answers or by their variances."""
        return float(answers[0] if self.classes is None else answers.sum())

    def compared(
        self, averages: Sequence[float], variances: Sequence[float], unit: float, confidence: float
    ) -> BaselineComparison | None:
        """A model beside the best constant.

        None where next to no row can be used, or the model's error is no number.

        Args:
            averages: unbiased and independent estimates: of the model's error over the largest, 0
                of rows that cannot be used; and then (questions,) of `answers`.
            variances: of these estimates.
            unit: what an error of 1 is on the scale of the target.
            confidence: that a difference which is called one is no noise.
        """
        errors, spread = np.asarray(averages, np.float64), np.asarray(variances, np.float64)
        share, of_share = self.usable(errors[1:]), self.usable(spread[1:])
        if not share > _SURE * math.sqrt(of_share) or not np.isfinite(errors).all():
            return None
        model, constant = self._errors(errors)
        if self.classes is None:  # the square of an estimate exceeds that of the truth
            constant += 4 * float(spread[2]) / share**2
        slopes = np.array([self._slope(errors, place) for place in range(len(errors))])
        error = math.sqrt(float(np.sum(slopes**2 * spread)))
        # The commonest of several classes was picked by looking.
        reach = normal_quantile(1 - (1 - confidence) / (self.classes or 1))
        return BaselineComparison(
            unit * model, unit * constant, unit * error, reach, unit * self.largest
        )

    def _errors(self, averages: Floats) -> tuple[float, float]:
        """Of the model, and of the best constant."""
        share = self.usable(averages[1:])
        model = self.largest * float(averages[0]) / share
        if self.classes is not None:
            return model, 1 - float(averages[1:].max()) / share
        mean = 2 * float(averages[2]) / share - 1
        return model, float(averages[3]) / share - mean**2

    def _slope(self, averages: Floats, place: int) -> float:
        """How the difference of the errors changes with one of the averages."""
        moved = averages.copy()
        moved[place] += _STEP
        (model, constant), (later, constantly) = self._errors(averages), self._errors(moved)
        return ((later - constantly) - (model - constant)) / _STEP
