"""What every mechanism that estimates a mean has in common: a grid, its rounding, its decoding.

A value in [-1, 1] is rounded to one of cells + 1 grid points by a coin that makes the rounding
unbiased; the finite channel randomises the grid point; each code stands for a number whose
average, given the grid point, is that point. So the average of the decoded codes is an unbiased
estimate of the mean of the values, and its variance is a closed form.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Mechanism,
    Messages,
    checked_counts,
    reporters,
    require_integer,
)
from mechanisms.randomness import RandomSource, Words
from mechanisms.sampling.grid import Grid

LARGEST_ALPHABET = 1 << 24  # codes
LARGEST_GRID = 1 << 20  # cells; a position on the grid then fits a double to 2^-32 of a cell
_EXPONENTS = (1e-30, 300.0)  # e^epsilon is not followed further where only accuracy is at stake
_BLOCK = 1 << 15  # values treated at a time, so that they stay in a core's cache

SMALL: tuple[dict[str, float], ...] = tuple(
    {"epsilon": epsilon, "cells": cells}
    for epsilon, cells in ((0.5, 5), (1.0, 8), (2.5, 7), (6.0, 4))
)
SMALL_WITH_DELTA: tuple[dict[str, float], ...] = tuple(
    {"epsilon": epsilon, "delta": delta, "cells": cells}
    for epsilon, delta, cells in ((0.5, 0.01, 5), (1.0, 1e-6, 8), (2.5, 0.05, 7))
)
"""Parameters at which the reports of most means can be listed, without and with a delta."""


def require_cells(cells: int) -> None:
    """Refuse a grid that is not an integer number of cells, or of too many."""
    require_integer("cells", cells, 1, LARGEST_GRID)


def require_slack(delta: float) -> None:
    """Refuse a delta that is not a number of [0, 1) (NaN included)."""
    try:
        meant = 0 <= delta < 1
    except TypeError:
        meant = False
    if not meant:
        raise ValueError(f"delta must be a number of at least 0 and below 1, not {delta!r}")


def require_alphabet(codes: int, remedy: str) -> None:
    """Refuse more codes than a collector counts, with what to do about it."""
    if not codes <= LARGEST_ALPHABET:
        raise ValueError(f"{codes} codes are more than {LARGEST_ALPHABET}; {remedy}")


def rise(epsilon: float) -> float:
    """e^epsilon - 1 where only accuracy depends on it: neither 0 nor infinite."""
    least, most = _EXPONENTS
    return math.expm1(min(max(epsilon, least), most))


class ScalarMean(Mechanism):
    """A mechanism that estimates the mean of values in [-1, 1] from one report each.

    Subclasses are frozen dataclasses with at least these two fields.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        cells: N, how many cells [-1, 1] is cut into; cell numbers are the grid points 0 .. N.
    """

    epsilon: float
    cells: int

    @property
    def inputs(self) -> int:
        return self.cells + 1

    @property
    def representatives(self) -> Iterable[int]:
        """Cells whose laws, mirrored or their codes permuted, are those of all, or mix to them.

        Whoever tells a number from what treats all likeliest codes alike need try these alone. The
        default prunes nothing.
        """
        return range(self.inputs)

    @property
    def extremes(self) -> tuple[Sequence[int], Sequence[int], int]:
        """The largest and the least weight of each code over all cells, and their denominator.

        The one may be said too large and the other too small, at a cost in accuracy alone.
        """
        first, total = self.weights(0)
        most, least = first, first
        for cell in range(1, self.inputs):
            weights, _ = self.weights(cell)
            most, least = np.maximum(most, weights), np.minimum(least, weights)
        return [int(x) for x in most], [int(x) for x in least], total

    def blanket(self) -> Floats:
        _, least, total = self.extremes
        return np.array(least, object).astype(np.float64) / float(total)

    @property
    @abstractmethod
    def decoded(self) -> Floats:
        """(codes,) what each code stands for; its mean given a cell is `grid` there."""

    @property
    def sums(self) -> Floats:
        """(codes,) weights whose mean given a number is the number: as `decoded`."""
        return self.decoded

    @abstractmethod
    def second_moment(self, cells: NDArray[Any]) -> Floats:
        """The mean square of the decoded report given each cell, in closed form.

        Args:
            cells: integers in 0 .. N, of any shape.

        Returns:
            float64 of the same shape.
        """

    @property
    def moments(self) -> Floats:
        """(inputs,) the mean square of `sums`, given each input."""
        return self.second_moment(np.arange(self.inputs))

    @abstractmethod
    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        """`perturb` for a block that fits into a core's cache; the cells are in range."""

    @property
    def influence(self) -> float:
        """By how much one user's report, made up or not, can move the mean; n times that.

        Of values in [-1, 1], which honest users move by 2. Some report attains it.
        """
        return float(np.ptp(self.decoded))

    @property
    def extreme_reports(self) -> Floats:
        """(k, 2) what reports add to the two averages of `averages`: all others lie between."""
        decoded = self.decoded
        return np.array([[decoded.min(), 1.0], [decoded.max(), 1.0]])

    def averages(self, counts: Counts) -> tuple[Floats, Floats]:
        """What the mean is the quotient of: the unbiased sum, and how many have a number, over n.

        Args:
            counts: (codes,) from `count`.
        """
        return self.estimate(counts), np.asarray(1.0)

    def constants(self) -> dict[str, float]:
        return super().constants() | {"worst_variance": self.worst_variance}

    @property
    def grid(self) -> Floats:
        """(inputs,) the values that the cells stand for: 2 j / N - 1."""
        return Grid(self.cells).points

    def _value(self, cells: NDArray[Any]) -> Floats:
        return Grid(self.cells).values(cells)

    # ---- the client --------------------------------------------------------------------------

    def encode(self, values: ArrayLike, rng: RandomSource) -> NDArray[np.uint32]:
        """Round values to the grid without bias: see `Grid.encode`.

        Args:
            values: (n,) numbers in [-1, 1]; whoever calls has clipped them.
            rng: the generator of this process.

        Returns:
            (n,) uint32 cells in 0 .. N.

        Raises:
            ValueError: a value is outside [-1, 1] or not a number. The message never holds it.
        """
        return Grid(self.cells).encode(values, rng)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        array = self._checked(cells)
        messages = np.empty(array.size, np.uint64)
        for start in range(0, array.size, _BLOCK):
            block = array[start : start + _BLOCK].astype(np.uint64)
            messages[start : start + _BLOCK] = self._perturb_block(block, rng)
        return messages

    # ---- the collector -----------------------------------------------------------------------

    def decode(self, codes: ArrayLike) -> Floats:
        """What reports stand for, one by one: unbiased, and far outside [-1, 1].

        Args:
            codes: unsigned integers in 0 .. codes - 1, of any shape.

        Returns:
            float64 of the same shape.

        Raises:
            ValueError: a code is out of range.
        """
        array = np.asarray(codes)
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(f"codes must be integers, not {array.dtype}")
        outside = np.count_nonzero((array < 0) | (array >= self.codes))
        if outside:
            raise ValueError(f"{outside} of {array.size} codes lie outside 0 .. {self.codes - 1}")
        return np.asarray(self.decoded[array.astype(np.int64)])

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """The unbiased mean of a batch: never clipped.

        Args:
            counts: (codes,) integers, from `count`.
            n: the number of users; by default as many as there are reports.

        Returns:
            float64 of shape (): `float(...)` of it is the mean.

        Raises:
            ValueError: there is no report, or counts of another mechanism.
        """
        counts = checked_counts(counts, self.codes)
        n = reporters(counts, n)
        return np.asarray(np.dot(counts.astype(np.float64), self.decoded) / n)

    # ---- its error ---------------------------------------------------------------------------

    def variance(self, value: ArrayLike) -> Floats:
        """Variance of one decoded report, the rounding to the grid included.

        The mean of n reports has the sum of their variances over n^2, relative to the mean of the
        n values.

        Args:
            value: what the user holds, in [-1, 1]; any shape.

        Returns:
            The variance in squared units of the value, of the same shape.

        Raises:
            ValueError: a value is outside [-1, 1] or not a number.
        """
        x = np.asarray(value, np.float64)
        if not np.all((x >= -1) & (x <= 1)):
            raise ValueError("value must lie in [-1, 1]")
        position = (x + 1) * (self.cells / 2)
        # The value 1 belongs to the last cell's right end, not to a cell beyond it.
        below = np.minimum(np.floor(position), self.cells - 1).astype(np.int64)
        share = position - below
        low, high = self.second_moment(below), self.second_moment(below + 1)
        return np.asarray((1 - share) * low + share * high - x * x)

    @property
    def rounding(self) -> "ScalarMean":
        """What takes values of [-1, 1] to cells."""
        return self

    @property
    def report_variance(self) -> float:
        """The largest variance of one report, whatever the values are."""
        return self.worst_variance

    @cached_property
    def worst_variance(self) -> float:
        """The largest `variance` of any value in [-1, 1]."""
        return Grid(self.cells).largest_variance(self.second_moment(np.arange(self.inputs)))
