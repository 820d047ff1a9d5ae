"""Sums of products of a row's numbers: all that a linear regression has to know.

A row is numbers in [-1, 1], categories as columns of 0 and 1, and the constant 1; beside it stands
the target, one more number. What is known of a product beforehand is not paid for: a square has no
sign, a product of zeros and ones is one of them, a row has one value of each category at the most,
and the square of the constant counts the rows.

Source: Foulds, Geumlek, Welling, Chaudhuri, "On the theory and practice of privacy-preserving
    Bayesian data analysis", UAI 2016, section 3 (noise on sufficient statistics).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats, Neighbours
from mechanisms.counters.amounts import WholeAmounts, units, whole_amounts
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Slots
from mechanisms.learning.absent import filled
from mechanisms.learning.features import Features
from mechanisms.learning.normal_equations import NormalEquations
from mechanisms.learning.row_sums import Rounds, RowSums
from mechanisms.learning.scores import Numbers
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import RandomSource


@dataclass(frozen=True)
class Products(RowSums):
    """The products of a row's numbers and its target, and their sums.

    A row without a target adds nothing, and is not among those that are counted.

    Attributes:
        features: of the rows; the target stands behind their columns.
        most: b, in so many units numbers are rounded, by a coin.

    >>> products = Products(Features((("age", 0.0, 1.0),), (("city", ("Bern", "Pavia")),)), most=7)
    >>> len(products.pairs), products.changes
    (9, 9)
    """

    features: Features
    most: int

    # ---- which products there are ------------------------------------------------------------

    @property
    def inputs(self) -> int:
        """How many columns rows have; the last one is the constant, and the target is behind it."""
        return self.features.inputs

    @cached_property
    def _numbers(self) -> list[int]:
        """The columns of numbers in [-1, 1]."""
        return [*range(len(self.features.numbers)), self.inputs]

    @cached_property
    def _categories(self) -> list[range]:
        """The columns of each category that has any."""
        sizes = [len(values) - 1 for _, values in self.features.categories if len(values) > 1]
        ends = np.cumsum([len(self.features.numbers), *sizes]).tolist()
        return [range(start, end) for start, end in pairwise(ends)]

    @property
    def categories(self) -> int:
        """How many categories have columns: a row is 1 in one column of each at the most."""
        return len(self._categories)

    @property
    def ones(self) -> int:
        """How many columns are 0 or 1, right before the constant."""
        return self.inputs - 1 - len(self.features.numbers)

    @cached_property
    def _kinds(self) -> tuple[list[tuple[int, int]], ...]:
        """The columns of products with a sign, of squares, and of products of zeros and ones."""
        last = self.inputs - 1
        values = [column for columns in self._categories for column in columns]
        signed = [
            *combinations(self._numbers, 2),
            *((number, last) for number in self._numbers),
            *product(self._numbers, values),
        ]
        both = combinations(self._categories, 2)
        ones = [(last, last), *((value, last) for value in values)]
        ones += [pair for one, other in both for pair in product(one, other)]
        return signed, [(number, number) for number in self._numbers], ones

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """(k, 2) the columns of each product; a zero or one is its own square."""
        return np.array([pair for kind in self._kinds for pair in kind], np.int64)

    @cached_property
    def parts(self) -> tuple[WholeAmounts, ...]:
        """The totals of each kind."""
        m, c = len(self._numbers), len(self._categories)
        signed, squares, ones = map(len, self._kinds)
        return (
            WholeAmounts(signed, m * (m + 1) // 2 + m * c, self.most, least=-self.most),
            WholeAmounts(squares, m, self.most),
            WholeAmounts(ones, 1 + c + c * (c - 1) // 2),
        )

    # ---- sums ----------------------------------------------------------------------------

    def contributions(
        self, rows: Numbers, targets: ArrayLike, rng: RandomSource, weights: Floats | None = None
    ) -> Sequence[Sequence[tuple[Slots, Slots]]]:
        """As of `RowSums`; no model is looked at."""
        n, m, first = len(rows), len(self._numbers), len(self.features.numbers)
        numbers = np.column_stack([rows[:, :first], filled(targets)]).astype(np.float64)
        chosen = self.chosen(rows)
        left, right = np.triu_indices(m, 1)
        both, one = left.size + m, np.ones((1, 1), np.int64)
        by_value = chosen[:, None, :] + (both + self.ones * np.arange(m))[:, None]
        by_value = np.where(chosen[:, None, :] < 0, -1, by_value).reshape(n, -1)
        signed = np.empty((n, both + by_value.shape[1]))
        np.multiply(numbers[:, left], numbers[:, right], out=signed[:, : left.size])
        signed[:, left.size : both] = numbers
        signed[:, both:] = np.repeat(numbers, chosen.shape[1], axis=1)
        whole = self._whole(signed, rng)
        return (
            ((np.arange(both), whole[:, :both]), (by_value, whole[:, both:])),
            ((np.arange(m), self._whole(numbers**2, rng)),),
            ((np.zeros(1, np.int64), np.ones((n, 1), np.int64)), (self._ones(chosen), one)),
        )

    def _whole(self, numbers: Floats, rng: RandomSource) -> Slots:
        return whole_amounts(numbers, 1.0, self.most, rng)

    def chosen(self, rows: Numbers) -> Slots:
        """(n, categories) which of all columns of zeros and ones is 1, counted from 0, or -1."""
        first = len(self.features.numbers)
        columns = [
            np.where(own.any(axis=1), own.argmax(axis=1) + columns.start - first, -1)
            for columns in self._categories
            for own in [rows[:, columns.start : columns.stop] != 0]
        ]
        return np.column_stack([np.empty((len(rows), 0), np.int64), *columns])

    def _ones(self, chosen: Slots) -> Slots:
        """(n, k) which products of zeros and ones are 1, that of the constant left out."""
        first, start = len(self.features.numbers), 1 + self.ones
        groups = [np.where(chosen < 0, -1, chosen + 1)]
        for (i, one), (j, other) in combinations(enumerate(self._categories), 2):
            a, b = chosen[:, i] - (one.start - first), chosen[:, j] - (other.start - first)
            place = start + a * len(other) + b
            groups.append(np.where((chosen[:, [i, j]] < 0).any(axis=1), -1, place)[:, None])
            start += len(one) * len(other)
        return np.hstack(groups)

    def equations(self, sums: Floats, variances: Floats) -> NormalEquations:
        """The models that follow from sums with so much noise."""
        return NormalEquations(self.inputs, self.pairs, sums, variances, self.ones)

    def solve(self, design: JobTotals, counts: ArrayLike) -> NormalEquations:
        """The models that follow from counts; see `sums`."""
        sums = self.sums(design, counts)
        # The sum of the constant's squares counts the rows, which roundings grow with.
        rows = float(sums[-len(self._kinds[2])])
        return self.equations(sums, self.variances(design, max(rows, 0.0)))


def central_noise(features: Features, epsilon: float, delta: float) -> float:
    """The standard deviation of central Gaussian noise on each sum, users being added or removed.

    Args:
        features: of the rows.
        epsilon, delta: of all sums together.
    """
    return math.sqrt(Products(features, 1).changes) / gaussian_mu(epsilon, delta)


def finest(noise: float, n: int) -> int:
    """In how many units numbers in [-1, 1] are rounded, so that rounding is lost in noise.

    Args:
        noise: the standard deviation of a sum's.
        n: how many numbers it is of.
    """
    # As many digits as that takes, all of them full: finer units are free.
    return (1 << units(noise, n, 1.0).bit_length()) - 1


def products_for(
    features: Features, n: int, neighbours: Neighbours, epsilon: float, delta: float
) -> tuple[Products, JobTotals]:
    """The products, rounded as finely as noise makes sense of, and their noise.

    Args:
        features: of the rows.
        n: how many rows are planned for; a public number.
        neighbours, epsilon, delta: see `JobTotals`.
    """
    products = Products(features, finest(central_noise(features, epsilon, delta), n))
    return products, Rounds((products,)).meeting(neighbours, epsilon, delta)
