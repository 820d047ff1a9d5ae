"""A small multilayer perceptron, in numpy, whose gradients are had row by row.

The gradient of one row's loss by the weights of a layer is the outer product of what went into the
layer and of what came back through it. So neither norms nor clipped sums need the gradients of all
rows at once, which for a lot of 500 rows and 80,000 weights would be 40 million numbers.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats, require_integer
from mechanisms.learning.objective import Layer, Objective, by_row
from mechanisms.learning.scores import CrossEntropy, Numbers, ScoreLoss, Square, slopes
from mechanisms.randomness import RandomSource

Activation = Literal["tanh", "relu"]


@dataclass(frozen=True)
class Perceptron(Objective):
    """Layers of units, each a function of the sum of its weighted inputs.

    Attributes:
        inputs: how many numbers a row has, the constant 1 included.
        hidden: the number of units of each hidden layer, first to last.
        classes: how many the targets tell apart, by softmax and cross entropy; None if the targets
            are numbers, by squared error.
        activation: "tanh", which bounds what goes into the next layer and with it the gradients,
            or "relu".
        penalty: lambda; the weights of constants are spared.

    Raises:
        ValueError: a size is not a positive integer, or the activation is unknown.

    Source: for tanh where gradients are clipped: Papernot, Thakurta, Song, Chien, Erlingsson,
        "Tempered sigmoid activations for deep learning with differential privacy", AAAI 2021.

    >>> Perceptron(inputs=785, hidden=(100,), classes=10).parameters
    79510
    """

    inputs: int
    hidden: tuple[int, ...]
    classes: int | None = None
    activation: Activation = "tanh"
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for name, size in [("inputs", self.inputs), *(("hidden", units) for units in self.hidden)]:
            require_integer(name, size)
            if not size >= 1:
                raise ValueError(f"{name} must be at least 1, not {size}")
        if self.activation not in ("tanh", "relu"):
            raise ValueError(f"activation must be 'tanh' or 'relu', not {self.activation!r}")
        if not 0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be a finite number of at least 0, not {self.penalty}")
        if not self.loss.outputs >= 1:
            raise ValueError("a model needs an output")

    @property
    def loss(self) -> ScoreLoss:
        return Square() if self.classes is None else CrossEntropy(self.classes)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        sources = (self.inputs, *(units + 1 for units in self.hidden))
        return tuple(zip(sources, (*self.hidden, self.loss.outputs), strict=True))

    def start(self, rng: RandomSource) -> Floats:
        """Uniform weights, the fewer inputs and outputs the larger; 0 for the constants.

        Source: Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural
            networks", AISTATS 2010, eq. 16.
        """
        parts = []
        for inputs, outputs in self.shapes:
            uniform = (rng.words((inputs - 1) * outputs) >> np.uint64(11)) * 2.0**-52 - 1
            reach = math.sqrt(6 / (inputs - 1 + outputs))
            parts += [uniform * reach, np.zeros(outputs)]
        return np.concatenate(parts)

    def scores(self, weights: Floats, rows: Numbers) -> Numbers:
        *inner, last = self.matrices(weights, rows)
        for matrix in inner:
            rows = self._onward(rows, matrix)
        return np.asarray(rows @ last)

    def layers(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> list[Layer]:
        matrices = self.matrices(weights, rows)
        inputs = [rows]
        for matrix in matrices[:-1]:
            inputs.append(self._onward(inputs[-1], matrix))
        # Row by row: see `by_row` for what one row could do to another's rounding.
        last = slopes(self.loss, by_row(inputs[-1], matrices[-1]), targets)
        layers = [Layer(inputs[-1], last)]
        for entered, matrix in zip(reversed(inputs[:-1]), reversed(matrices[1:]), strict=True):
            # The constant that was put in has no slope to hand back.
            back = by_row(layers[-1].slopes, matrix[:-1].T) * self._steepness(
                layers[-1].inputs[:, :-1]
            )
            layers.append(Layer(entered, back))
        return layers[::-1]

    def _onward(self, rows: Numbers, matrix: Numbers) -> Numbers:
        """What a hidden layer hands to the next one, the constant 1 last."""
        out = np.ones((len(rows), matrix.shape[1] + 1), rows.dtype)
        out[:, :-1] = by_row(rows, matrix)
        if self.activation == "tanh":
            np.tanh(out[:, :-1], out=out[:, :-1])
        else:
            np.maximum(out[:, :-1], 0, out=out[:, :-1])
        return out

    def _steepness(self, units: Numbers) -> Numbers:
        """The derivative of the activation, by the values that it took."""
        return np.asarray(1 - units**2 if self.activation == "tanh" else units > 0, units.dtype)
