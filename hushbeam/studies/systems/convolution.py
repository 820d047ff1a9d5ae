"""A small convolutional network for images, in numpy, whose gradients are had row by row.

One layer of filters that slide over the image, tanh, averages of neighbouring places, softmax. A
filter's gradient is a sum over places, and so no outer product; but filters have few weights, and
their gradient is laid out for each row, as an outer product with 1. So all that clips, sums and
rounds the gradients of a perceptron does it to these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats, require_integer
from mechanisms.learning.objective import Layer, Objective, by_row
from mechanisms.learning.scores import CrossEntropy, Numbers, slopes
from mechanisms.randomness import RandomSource


@dataclass(frozen=True)
class Convolution(Objective):
    """Filters, tanh, averages and softmax.

    Attributes:
        inputs: how many numbers a row has: the pixels of a square, line by line, and the constant.
        classes: how many the targets tell apart.
        filters: how many.
        kernel: pixels along a side of a filter.
        stride: pixels between the places where a filter is put.
        pooled: places along a side of a square that is averaged.
        penalty: lambda; the weights of constants are spared.

    Raises:
        ValueError: a size is no positive integer, the pixels make no square, or filters do not fit.

    Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document
        recognition", Proc. IEEE 1998; tanh, where gradients are clipped: see `Perceptron`.

    >>> Convolution(inputs=785, classes=10).parameters  # of them 208 the filters'
    3098
    """

    inputs: int
    classes: int
    filters: int = 8
    kernel: int = 5
    stride: int = 2
    pooled: int = 2
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for name in ("inputs", "filters", "kernel", "stride", "pooled"):
            require_integer(name, getattr(self, name))
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.side**2 + 1 != self.inputs:
            raise ValueError(f"inputs must be a square and the constant, not {self.inputs}")
        if not 0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be a finite number of at least 0, not {self.penalty}")
        if not (self.side >= self.kernel and self.averages >= 1):
            raise ValueError(f"an image of {self.side} pixels a side is too small for such filters")
        _ = self.loss  # refuses a number of classes that means nothing

    @property
    def loss(self) -> CrossEntropy:
        return CrossEntropy(self.classes)

    @property
    def side(self) -> int:
        """Pixels along a side."""
        return math.isqrt(self.inputs - 1)

    @property
    def places(self) -> int:
        """Along a side, where filters are put."""
        return (self.side - self.kernel) // self.stride + 1

    @property
    def averages(self) -> int:
        """Along a side; places that are left over at the end count for nothing."""
        return self.places // self.pooled

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of the filters their weights laid out; pixel, then filter, the constants' last."""
        last = self.averages**2 * self.filters + 1
        return ((self.kernel**2 + 1) * self.filters, 1), (last, self.classes)

    @property
    def penalised(self) -> NDArray[np.bool_]:
        spared = np.zeros(self.filters, np.bool_), np.zeros(self.classes, np.bool_)
        (first, _), (last, outputs) = self.shapes
        weighed = np.ones(first - self.filters, np.bool_), np.ones((last - 1) * outputs, np.bool_)
        return np.concatenate([weighed[0], spared[0], weighed[1], spared[1]])

    def start(self, rng: RandomSource) -> Floats:
        """Uniform weights, as those of `Perceptron`; 0 for the constants."""
        parts = []
        inner = self.averages**2 * self.filters
        for inputs, outputs in ((self.kernel**2, self.filters), (inner, self.classes)):
            uniform = (rng.words(inputs * outputs) >> np.uint64(11)) * 2.0**-52 - 1
            parts += [uniform * math.sqrt(6 / (inputs + outputs)), np.zeros(outputs)]
        return np.concatenate(parts)

    def scores(self, weights: Floats, rows: Numbers) -> Numbers:
        first, last = self.matrices(weights, rows)
        return np.asarray(self._averaged(self._lit(self._patches(rows), first)) @ last)

    def layers(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> list[Layer]:
        first, last = self.matrices(weights, rows)
        patches = self._patches(rows)
        lit = self._lit(patches, first)
        averaged = self._averaged(lit)
        slopes_of_loss = slopes(self.loss, by_row(averaged, last), targets)
        back = self._spread(by_row(slopes_of_loss, last[:-1].T)) * (1 - lit**2)
        # One product a row: see `by_row` for what one row could do to another's rounding.
        laid_out = np.matmul(patches.transpose(0, 2, 1), back).reshape(len(rows), -1)
        return [
            Layer(laid_out, np.ones((len(rows), 1), rows.dtype)),
            Layer(averaged, slopes_of_loss),
        ]

    def _patches(self, rows: Numbers) -> Numbers:
        """(n, places^2, kernel^2 + 1) what each filter sees at each place, the constant 1 last."""
        images = rows[:, :-1].reshape(-1, self.side, self.side)
        seen = sliding_window_view(images, (self.kernel, self.kernel), axis=(1, 2))
        seen = seen[:, :: self.stride, :: self.stride]
        patches = np.ones((len(rows), self.places**2, self.kernel**2 + 1), rows.dtype)
        patches[:, :, :-1] = seen.reshape(len(rows), self.places**2, -1)
        return patches

    def _lit(self, patches: Numbers, matrix: Numbers) -> Numbers:
        """(n, places^2, filters) how strongly each filter answers at each place."""
        return np.asarray(np.tanh(np.matmul(patches, matrix.reshape(-1, self.filters))))

    def _averaged(self, lit: Numbers) -> Numbers:
        """(n, averages^2 filters + 1) averages of neighbouring places, the constant 1 last."""
        used, width = self.averages * self.pooled, self.pooled
        square = lit.reshape(-1, self.places, self.places, self.filters)[:, :used, :used]
        blocks = square.reshape(-1, self.averages, width, self.averages, width, self.filters)
        out = np.ones((len(lit), self.shapes[1][0]), lit.dtype)
        out[:, :-1] = blocks.mean(axis=(2, 4), dtype=lit.dtype).reshape(len(lit), -1)
        return out

    def _spread(self, back: Numbers) -> Numbers:
        """(n, places^2, filters) each place's share of the slope of its average."""
        square = back.reshape(-1, self.averages, self.averages, self.filters) / self.pooled**2
        used, width = self.averages * self.pooled, self.pooled
        out = np.zeros((len(back), self.places, self.places, self.filters), back.dtype)
        out[:, :used, :used] = square.repeat(width, axis=1).repeat(width, axis=2)
        return out.reshape(len(back), -1, self.filters)
