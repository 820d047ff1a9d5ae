"""Linear models: regression, logistic regression, the support vector machine, softmax.

The gradient of a linear model's loss is the row times the slope of the loss, so its norm and any
one of its coordinates cost a few operations.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats, require_integer
from mechanisms.learning.objective import Layer, Objective
from mechanisms.learning.scores import CrossEntropy, HingeLoss, LogLoss, Numbers, Square, slopes
from mechanisms.randomness import RandomSource

_ROUNDINGS = (1.0, 0.1, 0.01, 0.001)  # of the hinge, each start being the end of the one before


@dataclass(frozen=True)
class Linear(Objective):
    """Scores that are sums of a row's numbers, each times a weight; the last number is 1.

    Attributes:
        inputs: how many numbers a row has, the constant 1 included.
        penalty: lambda; the weights of the constant are spared.
    """

    inputs: int
    penalty: float = 0.0

    def __post_init__(self) -> None:
        require_integer("inputs", self.inputs, 1)
        if not 0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be a finite number of at least 0, not {self.penalty}")

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        return ((self.inputs, self.loss.outputs),)

    def start(self, rng: RandomSource) -> Floats:
        """Zeros: a convex loss needs no chance to begin with."""
        return np.zeros(self.parameters)

    def scores(self, weights: Floats, rows: Numbers) -> Numbers:
        return np.asarray(rows @ self.matrices(weights, rows)[0])

    def layers(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> list[Layer]:
        return [Layer(rows, slopes(self.loss, self.scores(weights, rows), targets))]

    def fit_exactly(self, rows: Numbers, targets: ArrayLike, begin: Floats | None = None) -> Floats:
        """As `Objective.fit_exactly`; from 0 by default."""
        return super().fit_exactly(
            rows, targets, np.zeros(self.parameters) if begin is None else begin
        )


@dataclass(frozen=True)
class SquaredError(Linear):
    """Linear regression: (score - target)^2; with a penalty, ridge regression.

    >>> model = SquaredError(inputs=2)
    >>> model.gradients(np.array([0.5, 0.0]), np.array([[1.0, 1.0]]), [0.0]).tolist()
    [[1.0, 1.0]]
    >>> model.fit_exactly(np.array([[1.0, 1.0], [0.0, 1.0]]), [3.0, 1.0]).round(6).tolist()
    [2.0, 1.0]
    """

    loss: ClassVar[Square] = Square()

    def fit_exactly(self, rows: Numbers, targets: ArrayLike, begin: Floats | None = None) -> Floats:
        """The normal equations; among several minima, the shortest."""
        x, y = rows.astype(np.float64, copy=False), np.asarray(targets, np.float64)
        left = 2 * (x.T @ x) / len(x) + np.diag(self.penalty * self.penalised)
        return np.asarray(np.linalg.lstsq(left, 2 * (x.T @ y) / len(x), rcond=1e-12)[0])


@dataclass(frozen=True)
class Logistic(Linear):
    """Logistic regression of labels 0 and 1.

    >>> Logistic(inputs=1).gradients(np.zeros(1), np.ones((1, 1)), [1]).tolist()
    [[-0.5]]
    """

    loss: ClassVar[LogLoss] = LogLoss()


@dataclass(frozen=True)
class Hinge(Linear):
    """The linear support vector machine, for labels 0 and 1.

    Attributes:
        rounding: of the corner of the loss; see `HingeLoss`.

    >>> Hinge(inputs=1).gradients(np.zeros(1), np.ones((1, 1)), [0]).tolist()
    [[1.0]]
    """

    rounding: float = 0.0

    @property
    def loss(self) -> HingeLoss:
        return HingeLoss(self.rounding)

    def fit_exactly(self, rows: Numbers, targets: ArrayLike, begin: Floats | None = None) -> Floats:
        """With the corner rounded ever less, at last by 0.001: the loss is at most 0.0005 off."""
        weights = begin
        for rounding in _ROUNDINGS:
            weights = Linear.fit_exactly(replace(self, rounding=rounding), rows, targets, weights)
        return np.asarray(weights)


@dataclass(frozen=True)
class Softmax(Linear):
    """Multinomial logistic regression of classes 0 .. classes - 1.

    Attributes:
        classes: how many, at least 2.

    >>> Softmax(inputs=3, classes=10).parameters
    30
    """

    classes: int = 2

    @property
    def loss(self) -> CrossEntropy:
        return CrossEntropy(self.classes)
