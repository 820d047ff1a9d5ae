"""Laplace noise on every coordinate of a row: the baseline that all others are held against."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, require_epsilon
from mechanisms.papers.laplace import Laplace
from mechanisms.registry import register
from mechanisms.vector.rows import equal_share, require_dimension
from mechanisms.vector.sampled import SampledCoordinates

_FINEST, _CODES = 1024, 1 << 20  # cells at most, and about how many codes of one coordinate
_CODES_A_CELL = 24  # over epsilon: what `Laplace` needs


@dataclass(frozen=True)
class LaplaceVector(SampledCoordinates):
    """All d coordinates, each with epsilon / d and two-sided geometric noise.

    Noise of that size has far more codes than a table for every coordinate would hold, but all
    codes save the outermost two decode linearly. So a collector keeps three integers a coordinate:
    how many messages came, the sum of their codes as distances from the middle, and how many more
    of them were at the upper end than at the lower one.
    """

    mechanism: Laplace
    chooses: ClassVar[bool] = False

    def reporters(self, counts: Counts, n: int) -> Counts:
        return np.full(self.dimension, n)

    def _require_room(self) -> None:
        """A collector does not count codes."""
        if not self.sampled == self.dimension:
            raise ValueError(f"sampled must be dimension = {self.dimension}, not {self.sampled}")

    @property
    def middle(self) -> int:
        """The code that stands for 0, times 2."""
        return self.mechanism.codes - 1

    def count(self, messages: ArrayLike) -> Counts:
        """(3, dimension) int64: messages; sums of 2 * code - middle; upper less lower ends."""
        coordinates, codes = np.divmod(self._codes(messages), self.mechanism.codes)
        ends = np.where(codes == self.middle, 1, 0) - np.where(codes == 0, 1, 0)
        state = np.zeros((3, self.dimension), np.int64)
        state[0] = np.bincount(coordinates, minlength=self.dimension)
        np.add.at(state[1], coordinates, 2 * codes - self.middle)
        np.add.at(state[2], coordinates, ends)
        return state

    def users(self, counts: Counts) -> float:
        return int(np.asarray(counts)[0].sum()) / self.dimension

    def sums(self, counts: Counts, power: int = 1) -> Floats:
        if power != 1:
            raise ValueError("of squares nothing is kept")
        counts = np.asarray(counts)
        if counts.shape != (3, self.dimension):
            raise ValueError(f"counts must be of shape (3, {self.dimension}), not {counts.shape}")
        # The outermost codes stand for more than their place: the mean of all noise that lies
        # beyond.
        beyond = self.mechanism.decoded[-1] - self.middle / self.cells
        return np.asarray(counts[1] / self.cells + counts[2] * beyond)

    def estimated_variance(self, counts: Counts) -> Floats:
        users = self.users(counts)
        if not users > 0:
            raise ValueError("there is no report to judge a variance by")
        return np.full(self.dimension, self.worst_variance / users)

    def pairs(self) -> Iterable[tuple[int, int]]:
        return [(0, self.inputs - 1)]


@register(
    "laplace_vector",
    task="vector",
    sends="every coordinate with epsilon / d",
    source="Dwork, McSherry, Nissim, Smith, TCC 2006, as discrete noise",
    baseline=True,
    small={"epsilon": 2.0, "dimension": 2, "cells": 1},
    own=("cells",),
)
def laplace_vector(epsilon: float, dimension: int, cells: int | None = None) -> LaplaceVector:
    """The Laplace mechanism for rows: variance 8 d^2 / epsilon^2 in every coordinate.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        dimension: d, how many numbers a row has; so many messages does a user send.
        cells: how many cells [-1, 1] is cut into; by default 1024 or, where the noise is far
            wider than [-1, 1], few enough for a table of the noise to stay small.

    Raises:
        ValueError: a parameter is out of range.

    Source: Dwork, McSherry, Nissim, Smith, TCC 2006, with an l1 sensitivity of 2 d; the baseline
        of Sun, Yang, Cheng, Su, Big Data Research 2020.

    >>> round(laplace_vector(1.0, dimension=10).worst_variance)
    800
    """
    require_epsilon(epsilon)
    require_dimension(dimension)
    share = equal_share(epsilon, dimension)
    if cells is None:
        fitting = max(1, int(min(_FINEST, _CODES * share / _CODES_A_CELL)))
        cells = 1 << int(math.log2(fitting))
    return LaplaceVector(epsilon, dimension, dimension, Laplace(share, cells))
