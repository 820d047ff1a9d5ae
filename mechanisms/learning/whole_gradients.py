"""Clipped gradients in whole numbers, whose sum changes by exactly as much as is claimed.

In floating point a clipped gradient may be longer than the bound by some rounding errors, and
the sum of many depends on their order. Here a row's gradient is cut to a grid whose spacing is a
power of two of the bound: what goes into each layer, and what comes back, become integers, their
outer products are integers, and a matrix product in doubles adds them up without any error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.learning.objective import Layer, Objective
from mechanisms.learning.scores import Numbers

_BLOCK = 256  # rows at a time
_MARGIN = 1 - 2.0**-30  # room for the rounding of norms


@dataclass(frozen=True)
class WholeGradients:
    """The sum of clipped gradients, as integers in units of clip / 2^bits.

    Exactness: let a and d be the integer vectors of one layer and one row. No entry of the sum's
    terms exceeds |a| |d| <= 2^bits, so 256 rows stay below 2^53 and every partial sum is exact,
    in any order. The squared lengths |a|^2 |d|^2, summed over layers, are checked to be at most
    4^bits; a row that failed (none does, but for NaN) would count for nothing. So adding or
    removing a row moves the sum by at most 2^bits in l2 norm, and replacing one by twice that,
    provided that a row's layers do not depend on the rows beside it: rows go through the
    model in zero-padded blocks of one shape, where they do not (the tests compare to the bit).

    Attributes:
        objective: the model with its loss.
        clip: C, the greatest l2 length of a row's gradient.
        bits: how fine the grid is, 16 .. 40.

    >>> from mechanisms.learning.objectives import SquaredError
    >>> gradients = WholeGradients(SquaredError(inputs=2), clip=2.0)
    >>> total = gradients.total(np.zeros(2), np.array([[0.6, 0.8]]), [-5.0])
    >>> (total * gradients.unit).round(3).tolist()
    [1.2, 1.6]
    """

    objective: Objective
    clip: float
    bits: int = 30

    def __post_init__(self) -> None:
        if not 0 < self.clip < math.inf:
            raise ValueError(f"clip must be a positive, finite number, not {self.clip}")
        if self.bits not in range(16, 41):
            raise ValueError(f"bits must be an integer in 16 .. 40, not {self.bits}")

    @property
    def unit(self) -> float:
        """What 1 in the sum stands for."""
        return math.ldexp(self.clip, -self.bits)

    def total(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Counts:
        """The sum of the rows' gradients, those longer than `clip` cut to it.

        Args:
            weights: (p,) of the model.
            rows: (n, inputs), at most 2^(62 - bits) of them; n may be 0.
            targets: (n,).

        Returns:
            (p,) int64 in units of `unit`; sums of parts of the rows add up to it exactly. A row
            whose gradient is not finite counts for nothing.
        """
        answers = np.asarray(targets)
        # No row adds more than 2^bits to an entry, and the sum is to fit into 63 bits.
        if not len(rows) == len(answers) <= 1 << (62 - self.bits):
            raise ValueError(
                f"there must be as many targets as rows, at most 2^{62 - self.bits}: {len(rows)} "
                f"rows have {len(answers)}"
            )
        total = np.zeros(self.objective.parameters, np.int64)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            total += self.block(weights, rows[part], answers[part])
        return total

    def block(self, weights: Floats, rows: Numbers, targets: NDArray[np.generic]) -> Counts:
        """As `total`, of at most 256 rows."""
        used = len(rows)
        # Always a block of the same shape: products of other shapes may round a row in another way.
        x, y = np.zeros((_BLOCK, rows.shape[1]), rows.dtype), np.zeros(_BLOCK, targets.dtype)
        x[:used], y[:used] = rows, targets
        with np.errstate(over="ignore", invalid="ignore"):  # a gradient may be infinite
            layers = self._whole(self.objective.layers(weights, x, y), used)
        sums = [(layer.inputs.T @ layer.slopes).reshape(-1) for layer in layers]
        return np.concatenate(sums).astype(np.int64)

    def _whole(self, layers: list[Layer], used: int) -> list[Layer]:
        """The used rows' layers, clipped, in integers (held in doubles)."""
        cast = [Layer(a[:used].astype(np.float64), d[:used].astype(np.float64)) for a, d in layers]
        squares = [(_squares(layer.inputs), _squares(layer.slopes)) for layer in cast]
        norms = np.sqrt(np.sum([a * d for a, d in squares], axis=0))
        # Cutting towards zero only shortens, and the margin outdoes the rounding of the norms.
        factors = 2.0**self.bits * _MARGIN / np.maximum(norms, self.clip)
        finite = np.isfinite(norms) & np.isfinite(factors)
        whole = [
            _integers(layer, np.sqrt(a) * 2.0 ** -(self.bits // 2 - 1), factors, finite)
            for layer, (a, _) in zip(cast, squares, strict=True)
        ]
        lengths = np.sum([_squares(a) * _squares(d) for a, d in whole], axis=0)
        # Squares of integers below 2^53 are exact, their products and sums all but some 2^-50.
        kept = lengths <= 4.0**self.bits * (1 - 2.0**-40)
        return [Layer(layer.inputs, layer.slopes * kept[:, None]) for layer in whole]


def _integers(layer: Layer, lengths: Floats, factors: Floats, finite: NDArray[np.bool_]) -> Layer:
    """One layer in integers, cut towards zero; a power of two moves, and inputs become short."""
    # Inputs shrink and slopes grow by one power of two, which moves no digit of their product; so
    # what is cut off is small against the entries of both.
    _, places = np.frexp(np.where(finite, lengths, 0.0)[:, None])
    a = np.where(finite[:, None], layer.inputs, 0.0)
    d = np.where(finite[:, None], layer.slopes * factors[:, None], 0.0)
    return Layer(np.trunc(np.ldexp(a, -places)), np.trunc(np.ldexp(d, places)))


def _squares(table: Numbers) -> Floats:
    """(n,) the squared lengths of rows."""
    return np.asarray(np.einsum("ij,ij->i", table, table))
