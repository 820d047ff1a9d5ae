"""Least squares from noisy sums of products, with the ridge that the noise calls for.

With u = (w, -1) the squared error of weights w, summed over rows, is u'S u, S being the sums of
products of a row's numbers and its target. Noise makes the error of a fit to its own sums look too
small: a fit follows the noise. By how much on average follows from the noise alone, so the ridge
that is taken is the one whose error is least after that has been put right.

With A the inverse of X'X and the ridge, Q_k the matrix in S of the k-th sum, g_k = u'Q_k u, and h_k
the first rows of Q_k u, the weights change by -A h_k with the k-th sum. So their covariance is
A M A, M the sum of var_k h_k h_k', and u'S u is 2 tr(A M) too small.

Source: Stein, "Estimation of the mean of a multivariate normal distribution", Annals of Statistics
    9(6), 1981, Lemma 2 (the error); Bellec, Zhang, "Second-order Stein", Annals of Statistics
    49(4), 2021, Theorem 2.1 (its variance). A ridge that keeps the matrix positive definite: Wang,
    "Revisiting differentially private linear regression", UAI 2018, Algorithm 2; there it is a
    bound on the noise, here the least that is tried.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.learning.baseline import BaselineComparison
from mechanisms.postprocess.intervals import normal_quantile

SURE = 5.0  # standard errors that the number of rows must be away from 0
_STEPS = 60  # ridges that are tried
_LARGEST = 1e4  # of them, in largest eigenvalues: by then nothing but the constant is left
_LARGEST_ERROR = 4.0  # squared, of a bounded target


class LinearFit(NamedTuple):
    """Weights, and what is known of them.

    Attributes:
        weights: (inputs,).
        ridge: what was added to the diagonal of X'X, but not for the constant.
        error: the mean squared error on the rows themselves, unbiased.
        slopes: (k,) how it changes with each sum, what is put right left alone.
        curvature: 4 tr((A M)^2) / n^2, the variance of the error in second order.
        covariance: (inputs, inputs) what noise gives the weights, to first order.
    """

    weights: Floats
    ridge: float
    error: float
    slopes: Floats
    curvature: float
    covariance: Floats


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Noisy sums of products, and the models that follow from them.

    Attributes:
        inputs: of a row; the last one is the constant 1, and column `inputs` is the target.
        pairs: (k, 2) the columns whose product each sum is of.
        sums: (k,) unbiased, with independent noise.
        variances: (k,) of the noise.
        ones: how many inputs, right before the constant, are 0 or 1: their squares are the sums of
            their products with it.

    >>> both = np.array([[0, 0], [0, 1], [0, 2], [1, 2], [2, 2], [1, 1]])
    >>> exact = NormalEquations(2, both, np.array([2, 0, 1, 3, 9, 4.0]), np.zeros(6))
    >>> exact.fit().weights.tolist()
    [0.5, 0.75]
    """

    inputs: int
    pairs: NDArray[np.int64]
    sums: Floats
    variances: Floats
    ones: int = 0

    @cached_property
    def rows(self) -> float:
        """How many rows there are, about."""
        return float(self.sums[self._rows])

    @cached_property
    def _rows(self) -> int:
        return int(np.flatnonzero((self.pairs == self.inputs - 1).all(axis=1))[0])

    @property
    def rows_error(self) -> float:
        """The standard error of that."""
        return math.sqrt(float(self.variances[self._rows]))

    @property
    def drowned(self) -> bool:
        """Whether noise leaves open whether there are any rows."""
        return not self.rows > SURE * self.rows_error

    @cached_property
    def _doubled(self) -> NDArray[np.bool_]:
        """(k,) which sums are squares as well: of zeros and ones with the constant."""
        values = np.arange(self.inputs - 1 - self.ones, self.inputs - 1)
        with_constant = self.pairs[:, 1] == self.inputs - 1
        return np.asarray(with_constant & np.isin(self.pairs[:, 0], values))

    @cached_property
    def matrix(self) -> Floats:
        """(inputs + 1, inputs + 1) S."""
        return self._symmetric(self.sums)

    @property
    def with_target(self) -> tuple[Floats, Floats]:
        """(inputs,) the sums of each input's products with the target, and their variances."""
        own = slice(0, self.inputs)
        variances = self._symmetric(self.variances)
        return self.matrix[own, self.inputs], variances[own, self.inputs]

    @property
    def variances_of_rows(self) -> Floats:
        """Of the sums that the target has no part in."""
        return self.variances[(self.pairs < self.inputs).all(axis=1)]

    def _symmetric(self, values: Floats) -> Floats:
        """A matrix of what there is of each pair of columns."""
        i, j = self.pairs.T
        matrix = np.zeros((self.inputs + 1, self.inputs + 1))
        matrix[i, j] = matrix[j, i] = values
        matrix[i[self._doubled], i[self._doubled]] = values[self._doubled]
        return matrix

    def _turned(self, u: Floats) -> Floats:
        """(k, inputs + 1) Q_k u of each sum."""
        i, j = self.pairs.T
        rows, sums = np.zeros((len(self.sums), self.inputs + 1)), np.arange(len(self.sums))
        rows[sums, i] = u[j]
        rows[sums, j] = u[i]
        rows[sums[self._doubled], i[self._doubled]] += u[i[self._doubled]]
        return rows

    def fit(self, penalty: float = 0.0) -> LinearFit:
        """The weights whose error is the least predicted.

        Args:
            penalty: lambda of the penalty lambda / 2 |weights|^2 on the mean squared error, which
                spares the constant.

        Raises:
            ValueError: noise leaves open whether there are any rows.
        """
        if self.drowned:
            raise ValueError("noise drowns even the number of rows")
        last, own = self.inputs - 1, slice(0, self.inputs - 1)
        mean = self.matrix[own, last] / self.rows
        centred = self.matrix[own, own] - self.rows * np.outer(mean, mean)
        eigenvalues = np.linalg.eigvalsh(centred) if last else np.ones(1)
        # What is smaller than this may be noise, even its sign. Half of it leaves runs that err by
        # two thirds more where rows are few; twice is too much where they are many.
        noise = largest_noise(last, self.variances)
        least = max(penalty * self.rows / 2, noise - float(eigenvalues[0]))
        most = _LARGEST * max(float(eigenvalues[-1]), noise, 1.0)
        more = np.geomspace(max(noise, 1e-9 * most) / 10, most, _STEPS)
        tried = [self._fitted(least + float(ridge)) for ridge in [0.0, *more]]
        return min(tried, key=lambda fit: fit.error)

    def _fitted(self, ridge: float) -> LinearFit:
        own = slice(0, self.inputs)
        left = self.matrix[own, own] + np.diag(ridge * (np.arange(self.inputs) < self.inputs - 1))
        inverse = np.linalg.inv(left)
        weights = inverse @ self.matrix[own, self.inputs]
        u = np.append(weights, -1.0)
        moved = self._turned(u)[:, own]
        spread = inverse @ (moved.T * self.variances) @ moved
        error = float(u @ self.matrix @ u) + 2 * float(np.trace(spread))
        curvature = 4 * float(np.sum(spread * spread.T)) / self.rows**2
        error /= self.rows
        return LinearFit(weights, ridge, error, self._slopes(u, error), curvature, spread @ inverse)

    def _slopes(self, u: Floats, error: float) -> Floats:
        """(k,) how u'S u / n changes with each sum."""
        slopes = self._turned(u) @ u
        slopes[self._rows] -= error
        return slopes / self.rows

    def compared(self, fit: LinearFit, unit: float, confidence: float) -> BaselineComparison:
        """A model beside the best constant, on the rows themselves.

        Args:
            fit: of these sums.
            unit: what an error of 1 is on the scale of the target.
            confidence: that a difference which is called one is no noise.
        """
        last, u = self.inputs - 1, np.zeros(self.inputs + 1)
        u[last:] = self.matrix[last, self.inputs] / self.rows, -1.0
        # Its error is put right like any fit's: that of a single weight, whose inverse is 1 / n.
        follows = 2 * float(self.variances @ self._turned(u)[:, last] ** 2) / self.rows
        error = float(u @ self.matrix @ u) / self.rows
        apart = self.standard_error(fit._replace(slopes=fit.slopes - self._slopes(u, error)))
        error += follows / self.rows
        reach = normal_quantile(confidence)
        return BaselineComparison(
            unit * fit.error, unit * error, unit * apart, reach, unit * _LARGEST_ERROR
        )

    def standard_error(self, fit: LinearFit) -> float:
        """Of the error of a fit, as an estimate of what it is on the rows themselves."""
        return math.sqrt(float(self.variances @ fit.slopes**2) + fit.curvature)


def largest_noise(inputs: int, variances: Floats) -> float:
    """About the largest eigenvalue that noise alone gives a matrix of so many inputs."""
    return 2 * math.sqrt(inputs * float(variances.max()))
