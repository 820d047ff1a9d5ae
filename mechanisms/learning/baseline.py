"""What the best constant prediction gets wrong: the least that a model has to beat.

A constant looks at no row, so its error follows from a few averages over targets, each of them of a
number in [0, 1]: of numbers the mean and the mean square, of classes the share of each but one.
Whoever can have a mean estimated privately can have that error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats
from mechanisms.learning.absent import filled


class Error(NamedTuple):
    """How wrong predictions are, as `ScoreLoss.errors` counts it.

    Attributes:
        value: mean squared error on the scale on which the bounds are -1 and 1, or the share of
            wrong classes.
        variance: of the value as an estimate.
    """

    value: float
    variance: float


@dataclass(frozen=True)
class Baseline:
    """The best constant prediction of a kind of target.

    Attributes:
        classes: how many the targets tell apart; None if they are numbers in [-1, 1].

    >>> Baseline(None).error([0.5, 0.25], [0.0, 0.0])
    Error(value=0.25, variance=0.0)
    >>> Baseline(3).error([0.3, 0.5], [0.0, 0.0])
    Error(value=0.5, variance=0.0)
    """

    classes: int | None

    @property
    def questions(self) -> int:
        """How many averages the error follows from."""
        return 2 if self.classes is None else self.classes - 1

    def answers(self, targets: ArrayLike) -> Floats:
        """(n, questions) numbers in [0, 1] whose averages are asked for.

        Args:
            targets: (n,) numbers, of which those outside [-1, 1] count as the bound they are
                beyond; or classes 0 .. classes - 1.
        """
        if self.classes is None:
            clipped: Floats = np.clip(filled(np.asarray(targets, np.float64)), -1, 1)
            return np.column_stack([(clipped + 1) / 2, clipped**2])
        asked: NDArray[Any] = np.arange(1, self.classes)
        return np.asarray(np.asarray(targets)[:, None] == asked, np.float64)

    def error(self, means: ArrayLike, variances: ArrayLike) -> Error:
        """The error of the best constant.

        Args:
            means: (questions,) unbiased estimates of the averages of `answers`, independent.
            variances: (questions,) of these estimates.
        """
        estimates, spread = np.asarray(means, np.float64), np.asarray(variances, np.float64)
        if self.classes is None:
            mean, of_mean = 2 * float(estimates[0]) - 1, 4 * float(spread[0])
            return variance_of(mean, of_mean, float(estimates[1]), float(spread[1]))
        # The first class is the one that is left.
        shares = np.concatenate([[1 - estimates.sum()], estimates])
        of_shares = np.concatenate([[spread.sum()], spread])
        commonest = int(shares.argmax())
        return Error(1 - float(shares[commonest]), float(of_shares[commonest]))


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


class Comparison(NamedTuple):
    """A model beside the best constant, in the same unit of error.

    Attributes:
        model: its error.
        constant: that of the best constant, known as well as users can tell it under the promise.
        standard_error: of the difference.
        reach: standard errors within which a difference may be noise.
    """

    model: float
    constant: float
    standard_error: float
    reach: float

    @property
    def gained(self) -> bool | None:
        """Whether the model errs less than the constant; None where noise leaves that open."""
        difference = self.constant - self.model
        # The negative form catches NaN.
        if not abs(difference) > self.reach * self.standard_error:
            return None
        return difference > 0


def compared(model: Error, constant: Error, unit: float, reach: float) -> Comparison:
    """A model beside a constant.

    Args:
        model: its error.
        constant: the constant's, estimated independently.
        unit: what an error of 1 is on the scale of the target.
        reach: standard errors within which a difference may be noise.

    >>> compared(Error(0.2, 1e-4), Error(0.3, 1e-4), 1.0, 1.96).gained
    True
    >>> compared(Error(0.29, 1e-4), Error(0.3, 1e-4), 1.0, 1.96).gained is None
    True
    """
    spread = unit * math.sqrt(model.variance + constant.variance)
    return Comparison(unit * model.value, unit * constant.value, spread, reach)
