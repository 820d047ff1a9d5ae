"""What a wrong score costs, and how the cost changes with the score.

A model turns a row into one score, or into one for each class. The loss of a score and its slope
are all that training has to know of the question.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from mechanisms.channel import require_integer
from mechanisms.learning.absent import filled, present
from mechanisms.learning.baseline import Baseline

Numbers = NDArray[np.floating[Any]]


class ScoreLoss(ABC):
    """A loss of scores, row by row.

    In what follows scores are (n, outputs) floats and targets are (n,) numbers.
    """

    @property
    def outputs(self) -> int:
        """How many scores a row has."""
        return 1

    @property
    @abstractmethod
    def classes(self) -> int | None:
        """How many classes the targets tell apart; None if they are numbers."""

    @abstractmethod
    def values(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        """(n,) the loss of each row."""

    @abstractmethod
    def slopes(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        """(n, outputs) the derivatives of each row's loss by its scores."""

    @abstractmethod
    def answers(self, scores: Numbers) -> NDArray[Any]:
        """(n,) what the scores mean: numbers, or classes 0 .. classes - 1."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The most that a slope changes when a score changes by 1."""

    @property
    @abstractmethod
    def ignorance(self) -> float:
        """Roughly the loss of a model that knows nothing: the scale that losses are seen on."""

    @property
    def baseline(self) -> Baseline:
        """What a model has to beat."""
        return Baseline(self.classes)

    def errors(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        """(n,) what papers report: squared errors of numbers, 0 or 1 of classes."""
        off = self.answers(scores) - np.asarray(targets)
        return np.asarray(off**2 if self.classes is None else off != 0, np.float64)


@dataclass(frozen=True)
class Square(ScoreLoss):
    """(score - target)^2, which a mean minimises.

    >>> Square().slopes(np.array([[0.5]]), [1.0]).tolist()
    [[-1.0]]
    """

    classes: ClassVar[None] = None
    curvature: ClassVar[float] = 2.0
    # Of targets scaled to [-1, 1]: evenly spread ones vary by 1 / 3, real ones by less.
    ignorance: ClassVar[float] = 0.06

    def values(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        return np.asarray((scores[:, 0] - _as(targets, scores)) ** 2)

    def slopes(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        return np.asarray(2 * (scores - _as(targets, scores)[:, None]))

    def answers(self, scores: Numbers) -> NDArray[Any]:
        return scores[:, 0]


@dataclass(frozen=True)
class LogLoss(ScoreLoss):
    """ln(1 + e^-margin): the margin is the score, of label 0 with the opposite sign.

    >>> LogLoss().slopes(np.array([[0.0]]), [1]).tolist()
    [[-0.5]]
    """

    classes: ClassVar[int] = 2
    curvature: ClassVar[float] = 0.25
    ignorance: ClassVar[float] = math.log(2)

    def values(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        return np.asarray(np.logaddexp(0, -_margins(scores, targets)))

    def slopes(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        return np.asarray(special.expit(scores) - _as(targets, scores)[:, None])

    def answers(self, scores: Numbers) -> NDArray[Any]:
        return (scores[:, 0] > 0).astype(np.int64)


@dataclass(frozen=True)
class HingeLoss(ScoreLoss):
    """max(0, 1 - margin), whose corner may be rounded.

    Attributes:
        rounding: over how wide a range of margins below 1 the slope goes from 0 to 1; 0 for the
            loss of the linear support vector machine. The loss is at most half of it too low.

    >>> HingeLoss().values(np.array([[0.25], [2.0]]), [1, 1]).tolist()
    [0.75, 0.0]
    """

    rounding: float = 0.0
    classes: ClassVar[int] = 2
    ignorance: ClassVar[float] = 1.0

    @property
    def curvature(self) -> float:
        # Of the corner itself there is no curvature; averaged over margins some 2 wide it is 1 / 2.
        return 1 / max(self.rounding, 2.0)

    def values(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        short = np.maximum(1 - _margins(scores, targets), 0)
        if not self.rounding:
            return np.asarray(short)
        inside = np.minimum(short, self.rounding)
        return np.asarray(short - inside + inside**2 / (2 * self.rounding))

    def slopes(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        short = 1 - _margins(scores, targets)
        # At the corner itself the slope is taken to be 0, one of those that the loss allows.
        steep = np.clip(short / self.rounding, 0, 1) if self.rounding else short > 0
        return np.asarray(_signs(targets, scores) * -1 * steep)[:, None]

    def answers(self, scores: Numbers) -> NDArray[Any]:
        return (scores[:, 0] > 0).astype(np.int64)


@dataclass(frozen=True)
class CrossEntropy(ScoreLoss):
    """-ln of the share that the target's class has of the exponentials of all scores.

    Attributes:
        size: how many classes, at least 2; one score each.

    >>> CrossEntropy(2).slopes(np.zeros((1, 2)), [1]).tolist()
    [[0.5, -0.5]]
    """

    size: int
    curvature: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        require_integer("classes", self.size, 2)

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def classes(self) -> int:
        return self.size

    @property
    def ignorance(self) -> float:
        return math.log(self.size)

    def values(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        own = np.take_along_axis(scores, np.asarray(targets, np.int64)[:, None], axis=1)[:, 0]
        return np.asarray(special.logsumexp(scores, axis=1) - own)

    def slopes(self, scores: Numbers, targets: ArrayLike) -> Numbers:
        slopes = special.softmax(scores, axis=1)
        slopes[np.arange(len(slopes)), np.asarray(targets, np.int64)] -= 1
        return np.asarray(slopes)

    def answers(self, scores: Numbers) -> NDArray[Any]:
        return np.asarray(scores.argmax(axis=1))


def slopes(loss: ScoreLoss, scores: Numbers, targets: ArrayLike) -> Numbers:
    """(n, outputs) of a loss, 0 where there is no target."""
    derivatives, there = loss.slopes(scores, filled(targets)), present(targets)
    return derivatives if there.all() else derivatives * there[:, None].astype(derivatives.dtype)


def _as(targets: ArrayLike, scores: Numbers) -> Numbers:
    """Targets as numbers of the scores' precision."""
    return np.asarray(targets, scores.dtype)


def _signs(targets: ArrayLike, scores: Numbers) -> Numbers:
    """Labels 0 and 1 as -1 and 1."""
    return np.asarray(2 * _as(targets, scores) - 1)


def _margins(scores: Numbers, targets: ArrayLike) -> Numbers:
    """(n,) the scores, of label 0 with the opposite sign."""
    return np.asarray(scores[:, 0] * _signs(targets, scores))
