"""What a model is fitted to: the loss of a single row, its gradient, and what training needs of it.

The gradient of one row's loss is what a user reports or what a curator clips. Training asks for
its norm, for a few of its coordinates or for weighted sums over rows, so that the gradients of many
rows need not be laid out side by side.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from mechanisms.channel import Floats
from mechanisms.learning.absent import filled, present
from mechanisms.learning.scores import Numbers, ScoreLoss
from mechanisms.randomness import RandomSource

# The longest weights of a unit that make sense, by whether the targets are numbers.
_REACH = {True: 10.0, False: 100.0}


class Layer(NamedTuple):
    """One layer of a model as one row after another saw it.

    The gradient of a row's loss by the layer's weights is the outer product of the two.

    Attributes:
        inputs: (n, inputs of the layer) what went in.
        slopes: (n, outputs of the layer) the derivatives of the losses by what came out.
    """

    inputs: Numbers
    slopes: Numbers


class Objective(ABC):
    """A model with its loss: what training, private or not, has to know of it.

    Rows are (n, inputs) floats, float32 or float64, and what is computed of each has their
    precision; the last column is the constant 1, so that its weight is the intercept. Targets are
    (n,) numbers, or classes 0, 1, ... Weights are (parameters,) float64: layer by layer, and of a
    layer with b outputs that of input i and output j at i * b + j. The last input of every layer
    is the constant 1.

    Attributes:
        inputs: how many numbers a row has, the constant included.
        penalty: lambda of the penalty lambda / 2 |weights|^2, which spares intercepts.
    """

    inputs: int
    penalty: float

    @property
    @abstractmethod
    def loss(self) -> ScoreLoss:
        """The loss of the model's scores."""

    @property
    @abstractmethod
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """The (inputs, outputs) of every layer."""

    @abstractmethod
    def start(self, rng: RandomSource) -> Floats:
        """(parameters,) weights to begin with."""

    @abstractmethod
    def scores(self, weights: Floats, rows: Numbers) -> Numbers:
        """(n, outputs) the model's scores of rows."""

    @abstractmethod
    def layers(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> list[Layer]:
        """What went through each layer, and back: the gradients of all rows, not multiplied out."""

    @property
    def parameters(self) -> int:
        """How many weights there are."""
        return sum(inputs * outputs for inputs, outputs in self.shapes)

    @property
    def penalised(self) -> NDArray[np.bool_]:
        """(parameters,) which weights the penalty is on: all but those of the constants."""
        return np.concatenate(
            [
                np.arange(inputs * outputs) < (inputs - 1) * outputs
                for inputs, outputs in self.shapes
            ]
        )

    def matrices(self, weights: Floats, like: Numbers) -> list[Numbers]:
        """The weights as one (inputs, outputs) matrix a layer, in the precision of `like`."""
        ends = np.cumsum([inputs * outputs for inputs, outputs in self.shapes])
        parts = np.split(weights.astype(like.dtype, copy=False), ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    # ---- gradients ---------------------------------------------------------------------------

    def gradients(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Numbers:
        """(n, parameters) the gradient of each row's loss, without the penalty."""
        parts = [
            (layer.inputs[:, :, None] * layer.slopes[:, None, :]).reshape(len(rows), -1)
            for layer in self.layers(weights, rows, targets)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def weighted_gradient(
        self, weights: Floats, rows: Numbers, targets: ArrayLike, factors: ArrayLike
    ) -> Floats:
        """(parameters,) the sum of the rows' gradients, each times its own of (n,) factors."""
        column = np.asarray(factors, rows.dtype)[:, None]
        parts = [
            layer.inputs.T @ (layer.slopes * column)
            for layer in self.layers(weights, rows, targets)
        ]
        return np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in parts])

    def mean_gradient(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Floats:
        """(parameters,) the mean of the gradients of one row or more, without the penalty."""
        return self.weighted_gradient(weights, rows, targets, np.full(len(rows), 1 / len(rows)))

    def penalty_gradient(self, weights: Floats) -> Floats:
        """(parameters,) the gradient of the penalty: it looks at nobody's row."""
        return np.asarray(self.penalty * weights * self.penalised)

    def diverged(self, weights: Floats) -> bool:
        """Whether weights are so long that no fit of rows in [-1, 1] could have wanted them.

        Args:
            weights: (parameters,).
        """
        units = sum(outputs for _, outputs in self.shapes)
        reach = _REACH[self.loss.classes is None] * math.sqrt(units)
        # The negative form catches NaN, which every comparison fails.
        return not float(np.linalg.norm(weights)) <= reach

    # ---- what the model says, and how wrong that is ------------------------------------------

    def predict(self, weights: Floats, rows: Numbers) -> NDArray[Any]:
        """(n,) numbers, or classes 0, 1, ..."""
        return self.loss.answers(self.scores(weights, rows))

    def losses(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Numbers:
        """(n,) the loss of each row, without the penalty."""
        return self.loss.values(self.scores(weights, rows), targets)

    def errors(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Numbers:
        """(n,) squared errors of predicted numbers; of classes, 1 for a wrong one."""
        return self.loss.errors(self.scores(weights, rows), filled(targets))

    def bounded_errors(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Floats:
        """(n,) errors as parts of the largest, in [0, 1]; 0 of rows that cannot be used.

        Predicted numbers beyond the bounds count as the bound, and what is no number as wrong as
        can be.
        """
        off = self.loss.errors(self.scores(weights, rows), filled(targets)).astype(np.float64)
        if self.loss.classes is None:
            predictions = self.predict(weights, rows).astype(np.float64).clip(-1, 1)
            off = (predictions - np.clip(filled(np.asarray(targets, np.float64)), -1, 1)) ** 2
        shares = np.nan_to_num(off / self.loss.baseline.largest, nan=1.0).clip(0, 1)
        return np.asarray(np.where(present(targets), shares, 0.0))

    def objective(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> float:
        """The mean loss of one row or more, with the penalty."""
        squares = float(np.sum(weights[self.penalised] ** 2))
        return float(np.mean(self.losses(weights, rows, targets))) + self.penalty / 2 * squares

    def fit_exactly(self, rows: Numbers, targets: ArrayLike, begin: Floats) -> Floats:
        """Weights that minimise `objective` without any privacy: what there is to compare with.

        Args:
            rows: (n, inputs), one or more.
            targets: (n,).
            begin: (parameters,) weights to begin with.

        Returns:
            (parameters,): a minimum, or where 500 iterations of L-BFGS came to.
        """
        x = rows.astype(np.float64, copy=False)

        def both(weights: Floats) -> tuple[float, Floats]:
            slope = self.mean_gradient(weights, x, targets) + self.penalty_gradient(weights)
            return self.objective(weights, x, targets), slope

        optimum, _, _ = optimize.fmin_l_bfgs_b(both, begin, factr=1e5, pgtol=1e-6, maxiter=500)
        return np.asarray(optimum)


def by_row(rows: Numbers, matrix: Numbers) -> Numbers:
    """(n, outputs) the product, each row of it computed by itself: by (1, k) @ (k, outputs).

    One product of all rows is up to five times faster, but on some processors its last bits depend
    on where a row stands, so that leaving one row out moves the rounding of others. What one row
    may change would then exceed its clip.
    """
    return np.asarray(np.matmul(rows[:, None, :], np.ascontiguousarray(matrix))[:, 0, :])
