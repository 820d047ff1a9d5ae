"""Rows projected on a random subspace before coordinates are sampled: Multi-RPHM.

Fewer coordinates mean less noise in each, at the price of everything outside the subspace, which
no number of users brings back. Whoever multiplies Multi-HM's estimate by q / d does better with
any data, and `mechanisms.postprocess.shrinkage` better than that; this is here to compare with.

Anybody can rebuild a subspace from its public seed.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Kinds,
    Messages,
    Report,
    require_epsilon,
    require_integer,
)
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.vector.base import VectorMean
from mechanisms.vector.multi import multi_hm
from mechanisms.vector.rows import require_dimension, rows_in_cube
from mechanisms.vector.sampled import SampledCoordinates

_LARGEST_MATRIX = 1 << 24  # entries of 8 bytes each
_NUMBERS = 1 << 22  # gathered at a time
_USUAL = 0.3  # q / d in the paper's experiments


@lru_cache(maxsize=4)
def orthonormal(rows: int, columns: int, seed: int) -> Floats:
    """A random matrix with orthonormal columns, which everybody can rebuild from a public seed.

    Its column space is uniform among all subspaces (Haar). No privacy rests on it, so that the last
    digits, in which machines may differ, do not matter.

    Args:
        rows: d.
        columns: q, at most d.
        seed: any integer.

    Returns:
        (rows, columns) float64, not writeable.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups", Notices
        of the AMS 2007, section 5.

    >>> matrix = orthonormal(5, 2, seed=1)
    >>> bool(np.allclose(matrix.T @ matrix, np.eye(2)))
    True
    """
    label = hashlib.sha256(b"hushbeam public projection %d" % seed).digest()
    words = SeededRandom(int.from_bytes(label, "big")).words(rows * columns)
    normal = scipy.special.ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
    factor, triangle = np.linalg.qr(normal.reshape(rows, columns))
    # A QR factorisation fixes signs in its own way; only with these is the matrix Haar distributed.
    matrix: Floats = factor * np.where(np.diag(triangle) < 0, -1.0, 1.0)
    matrix.flags.writeable = False
    return matrix


def cut_off(mean_square_of_means: float, mean_square: float) -> tuple[float, float]:
    """What cutting off at -1 and 1 does to a projected coordinate, taken for normal.

    Args:
        mean_square_of_means: of the coordinates of the mean row.
        mean_square: of all numbers of all users; at least as large, and positive.

    Returns:
        (mean square of what is left, mean square of the shift of a coordinate's mean).

    >>> tuple(round(x, 6) for x in cut_off(0.110914, 0.172978))
    (0.167943, 0.000131)
    """
    inner, spread = math.sqrt(mean_square_of_means), mean_square - mean_square_of_means
    edge = 1 / math.sqrt(mean_square)
    tail = scipy.special.erfc(edge / math.sqrt(2))
    within = (1 - tail) - 2 * edge * _density(edge)

    def integrand(z: float) -> float:
        return float(_shift(inner * z, math.sqrt(spread)) ** 2 * _density(z))

    from scipy import integrate  # a fifth of a second, for the few who name this mechanism

    shift = integrate.quad(integrand, -12, 12, epsrel=1e-10, limit=200)[0] if spread > 0 else 0.0
    return float(mean_square * within + tail), float(shift)


def _shift(mean: float, deviation: float) -> float:
    """By how much cutting off at -1 and 1 moves the mean of a normal number."""
    low, high = (-1 - mean) / deviation, (1 - mean) / deviation
    below = deviation * (_density(low) + low * scipy.special.ndtr(low))
    above = deviation * (_density(high) - high * scipy.special.ndtr(-high))
    return float(below - above)


def _density(z: float) -> float:
    """Of the normal law."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class MultiRphm(VectorMean):
    """Multi-HM on the q coordinates of a random subspace, cut off at -1 and 1.

    The estimate is that of the mean row's projection on the subspace. Over the public seed its
    mean is q / d of the mean row; with one seed it is the projection, whatever the number of users.

    Attributes:
        epsilon: privacy loss of one user's report, in nats.
        dimension: d, how many numbers a row has.
        projected: q, the dimension of the subspace, at most d.
        seed: the public randomness of the subspace, the same for all clients of a collection.
        cells: how many cells [-1, 1] is cut into.

    Source: Sun, Yang, Cheng, Su, "High-dimensional numeric data collection under local
        differential privacy based on random projection", Big Data Research 2020, 6(1), Algorithm 2
        (Multi-RPHM). Its matrix has orthonormal columns, so that the pseudo-inverse is the
        transpose.

    >>> mechanism = MultiRphm(epsilon=1.0, dimension=100, projected=30)
    >>> mechanism.codes, mechanism.crossover(mean_square_of_means=0.11, mean_square=0.17) > 5000
    (49410, True)
    """

    epsilon: float
    dimension: int
    projected: int
    seed: int = 0
    cells: int = 1024

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_dimension(self.dimension)
        require_integer("projected", self.projected, 1, self.dimension)
        require_integer("seed", self.seed)
        if not self.dimension * self.projected <= _LARGEST_MATRIX:
            raise ValueError(
                f"projected must be at most {_LARGEST_MATRIX // self.dimension} at dimension "
                f"{self.dimension}, not {self.projected}: the matrix would be too large"
            )
        _ = self.inner  # refuses what Multi-HM refuses

    @cached_property
    def inner(self) -> SampledCoordinates:
        """Multi-HM in the subspace."""
        return multi_hm(self.epsilon, self.projected, self.cells)

    @property
    def reach(self) -> Floats:
        # One message is one coordinate of the subspace; k of them add up.
        k = self.inner.sampled
        farthest = np.abs(self.matrix).max(axis=1) * k * (self.inner.reach[0] - 1)
        return np.asarray(farthest + 1)

    def worst_error(self, mean_square: float, n: int) -> float:
        """With all that lies outside of the subspace, which no number of users brings back."""
        return self.error(mean_square, mean_square, n)

    @property
    def matrix(self) -> Floats:
        """(dimension, projected) R, whose columns are orthonormal."""
        return orthonormal(self.dimension, self.projected, self.seed)

    @property
    def kept(self) -> float:
        """rho = q / d, the share of a row's square that the subspace holds on average."""
        return self.projected / self.dimension

    @property
    def guarantee(self) -> Guarantee:
        inner = self.inner.guarantee
        how = f"the projection is public and its result cut off by the client; {inner.how}"
        return replace(inner, how=how)

    # ---- the client --------------------------------------------------------------------------

    def project(self, values: ArrayLike) -> Floats:
        """Rows in the coordinates of the subspace, cut off at -1 and 1.

        Args:
            values: (n, dimension) numbers in [-1, 1].

        Returns:
            (n, projected) float64.

        Raises:
            ValueError: as `report`.
        """
        # The client cuts off, so that epsilon holds whatever the public matrix does to a row.
        return np.clip(rows_in_cube(values, self.dimension) @ self.matrix, -1, 1)

    def encode(self, values: ArrayLike, rng: RandomSource) -> NDArray[np.uint32]:
        """`project`, rounded to the grid without bias: (n, projected) cells."""
        return self.inner.encode(self.project(values), rng)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        return self.inner.perturb(cells, rng)

    def report(self, values: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client; only the coordinates of the subspace that are sent are computed."""
        rows = rows_in_cube(values, self.dimension)
        coordinates, columns = self.inner.choose(len(rows), rng), self.matrix.T
        chosen = np.empty(coordinates.shape)
        step = max(1, _NUMBERS // (self.dimension * self.inner.sampled))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            chosen[part] = np.einsum("nd,nkd->nk", rows[part], columns[coordinates[part]])
        return self.inner.send(coordinates, np.clip(chosen, -1, 1), rng)

    # ---- the channel is that of Multi-HM -----------------------------------------------------

    @property
    def inputs(self) -> int:
        return self.inner.inputs

    @property
    def codes(self) -> int:
        return self.inner.codes

    @property
    def messages(self) -> float:
        return self.inner.messages

    @property
    def outcomes(self) -> int:
        return self.inner.outcomes

    @property
    def reports(self) -> Sequence[Report]:
        return self.inner.reports

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        return self.inner.weights(cell)

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        return self.inner.kinds(one, other)

    def pairs(self) -> Iterable[tuple[int, int]]:
        return self.inner.pairs()

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        return self.inner.tally(cell, size, rng)

    def shuffle_laws(self) -> ShuffleLaws:
        """Those of the coordinates in the subspace: the projection is public."""
        return self.inner.shuffle_laws()

    # ---- the collector -----------------------------------------------------------------------

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(dimension,) the mean row's projection on the subspace: biased by all that lies outside.

        Args:
            counts: (codes,) from `count`.
            n: the number of users; by default as many as the messages stand for.
        """
        return self.matrix @ self.inner.estimate(counts, n)

    def estimated_variance(self, counts: Counts) -> Floats:
        """As the contract says, of the randomised coordinates: without what lies outside."""
        return self.matrix**2 @ self.inner.estimated_variance(counts)

    def variance(self, value: ArrayLike) -> Floats:
        """Variance of one coordinate of one decoded report, on average over the public seed.

        Args:
            value: the root mean square of the user's row; any shape.

        Returns:
            Of the same shape; without what lies outside the subspace, see `error`.
        """
        return np.asarray(self.kept * self.inner.variance(value))

    @property
    def worst_variance(self) -> float:
        return self.kept * self.inner.worst_variance

    # ---- its error ---------------------------------------------------------------------------

    def error(self, mean_square_of_means: float, mean_square: float, n: int) -> float:
        """Mean squared error of a coordinate, over the public seed and the reports.

        Args:
            mean_square_of_means: of the coordinates of the mean row.
            mean_square: of all numbers of all users.
            n: how many users.

        Returns:
            (1 - rho) mean_square_of_means, which stays for ever, and rho times the noise and the
            square of what cutting off shifts. Projected coordinates are taken for normal.
        """
        second, shift = cut_off(mean_square_of_means, mean_square)
        noise = float(self.inner.variance(math.sqrt(second))) / n
        return (1 - self.kept) * mean_square_of_means + self.kept * (shift + noise)

    def crossover(self, mean_square_of_means: float, mean_square: float) -> float:
        """The number of users from which Multi-HM without any projection is better.

        Args:
            mean_square_of_means: of the coordinates of the mean row.
            mean_square: of all numbers of all users.

        Returns:
            (1 + rho) d (V + mean_square) / mean_square_of_means, where one coordinate is sampled;
            what is cut off is left out.
        """
        if self.projected == self.dimension:
            return 0.0
        value = math.sqrt(mean_square)
        whole = multi_hm(self.epsilon, self.dimension, self.cells).variance(value)
        saved = float(whole - self.kept * self.inner.variance(value))
        return saved / ((1 - self.kept) * mean_square_of_means)


@register(
    "multi_rphm",
    task="vector",
    sends="one coordinate of a random projection on 0.3 d dimensions; biased",
    source="Sun, Yang, Cheng, Su, Big Data Research 2020",
    seeded=True,
    biased=True,
    small={"epsilon": 1.0, "dimension": 4, "projected": 2, "cells": 2},
)
def multi_rphm(
    epsilon: float, dimension: int, projected: int | None = None, seed: int = 0, cells: int = 1024
) -> MultiRphm:
    """Multi-RPHM; without a q, with the paper's 0.3 d or as much as a matrix has room for.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        dimension: d, how many numbers a row has.
        projected: q, the dimension of the subspace.
        seed: the public randomness of the subspace.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range.
    """
    require_dimension(dimension)
    q = projected
    if q is None:
        q = max(1, min(round(_USUAL * dimension), _LARGEST_MATRIX // dimension))
    return MultiRphm(epsilon, dimension, q, seed, cells)
