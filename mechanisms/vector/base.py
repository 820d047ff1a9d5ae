"""What every mechanism has in common that estimates the mean of vectors.

A user's row of `dimension` numbers becomes one report, which is one or several messages; an
estimate is a row again. A message is one word, coordinate * codes of a coordinate + code, unless
the mechanism says otherwise. Input numbers, which audits go by, are rows of cells read as the
digits of one integer, the first coordinate being the lowest digit.

What a mechanism for rows errs by on average over the coordinates, whatever the rows are.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Mechanism, Messages
from mechanisms.randomness import RandomSource
from mechanisms.sampling.grid import Grid
from mechanisms.vector.coordinates import cells_in_range
from mechanisms.vector.rows import ACCOUNTING, rows_in_cube

_TRIED = 257  # values of a coordinate


def average_variance(
    variance: Callable[[Floats], Floats], largest: float, mean_square: float
) -> float:
    """The largest variance of a report, averaged over the coordinates of a row.

    Args:
        variance: of a report, by the value of the coordinate.
        largest: the most that a coordinate may be.
        mean_square: the most that the squares of a row's numbers average, in (0, 1].

    Returns:
        The largest average of the variance over any law of numbers of [-1, 1] whose squares average
        to at most that: it needs two of them, and those tried are a fine grid.
    """
    values = np.sqrt(np.linspace(0, 1, _TRIED)) * largest
    values = np.sort(np.append(values, np.sqrt(mean_square)))
    variances = np.maximum(variance(values), variance(-values))
    squares = values**2
    low, high = squares <= mean_square, squares > mean_square
    best = float(variances[low].max())
    if not high.any():
        return best
    one, other = squares[low][:, None], squares[high][None, :]
    # Of laws with a given mean square the worst has at most two values: a linear programme with two
    # constraints has a solution with two.
    share = (mean_square - one) / (other - one)
    mixed = (1 - share) * variances[low][:, None] + share * variances[high][None, :]
    return max(best, float(mixed.max()))


class VectorMean(Mechanism):
    """A mechanism that estimates the mean of rows of numbers from one report each.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        dimension: d, how many numbers a row has.
    """

    epsilon: float
    dimension: int

    accounting: ClassVar[str] = ACCOUNTING

    @abstractmethod
    def report(self, values: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client: rows of numbers to messages.

        Args:
            values: (n, dimension) numbers that the mechanism admits; whoever calls has clipped
                them.
            rng: the generator of this process.

        Returns:
            (m,) uint64 messages; those of a row follow one another.

        Raises:
            ValueError: rows of another length, or numbers out of range. The message never holds
                them.
        """

    @abstractmethod
    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """The mean row of a batch: never clipped.

        Args:
            counts: from `count`.
            n: the number of users; by default as many as the messages stand for.

        Returns:
            (dimension,) float64.

        Raises:
            ValueError: there is no report.
        """

    @abstractmethod
    def estimated_variance(self, counts: Counts) -> Floats:
        """The variance of each coordinate of `estimate`, judged by the reports themselves.

        Args:
            counts: from `count`, of two users or more.

        Returns:
            (dimension,) float64, relative to the mean of the users' rows.
        """

    @abstractmethod
    def variance(self, value: ArrayLike) -> Floats:
        """Variance of one coordinate of one decoded report.

        The mean of n reports has the sum of their variances over n^2, relative to the mean of the
        n rows.

        Args:
            value: what the user holds in that coordinate; any shape.

        Returns:
            In squared units of the value, of the same shape.

        Raises:
            ValueError: a value is out of range or not a number.
        """

    @property
    @abstractmethod
    def worst_variance(self) -> float:
        """The largest `variance` of any admissible value."""

    @property
    @abstractmethod
    def reach(self) -> Floats:
        """(d,) or (1,) how far one decoded report can be from its mean, in each coordinate."""

    @property
    def influence(self) -> Floats:
        """(d,) or (1,) by how much one user's report can move a coordinate at most; n times that.

        Of any report that some client may send, made up or not.
        """
        return 2 * (self.reach - self.largest_value)

    def forged_reach(self, share: float) -> tuple[float, float]:
        """How far a share of made-up reports can move a coordinate, at most; and a category, by 0.

        Args:
            share: of the users who make their reports up.
        """
        return float(share * np.max(self.influence)), 0.0

    @property
    def largest_value(self) -> float:
        """The largest absolute value that a coordinate can have."""
        return 1.0

    @property
    def seed_variance(self) -> float:
        """What sharing one public seed adds to a coordinate's variance, on average, at most."""
        return 0.0

    def reporters(self, counts: Counts, n: int) -> Counts:
        """(d,) how many of n users' reports speak for each coordinate.

        Args:
            counts: from `count`.
            n: how many users reported.
        """
        return np.full(self.dimension, n)

    def worst_error(self, mean_square: float, n: int) -> float:
        """The largest mean squared error of a coordinate, averaged over a row's coordinates.

        Args:
            mean_square: the most that the squares of a row's numbers average, in (0, 1].
            n: how many users report.

        Returns:
            In squared units of the value, bias and public seeds included.
        """
        return (
            average_variance(self.variance, self.largest_value, mean_square) / n
            + self.seed_variance
        )

    def channel(self, cell: int) -> Floats:
        numerators, denominator = self.weights(cell)
        # Of several messages together, weights outgrow every word: Python divides them.
        return np.asarray(numerators.astype(object) / denominator, np.float64)

    def constants(self) -> dict[str, float]:
        return super().constants() | {"worst_variance": self.worst_variance}


class CubeMean(VectorMean):
    """A mechanism for rows of numbers in [-1, 1], each rounded to a grid by a coin of its own.

    Attributes:
        cells: N, how many cells [-1, 1] is cut into; a field or a property.
    """

    @property
    @abstractmethod
    def cells(self) -> int: ...

    @property
    def places(self) -> int:
        """How many cells a coordinate takes."""
        return self.cells + 1

    @property
    def inputs(self) -> int:
        return int(self.places**self.dimension)

    def number(self, cells: ArrayLike) -> int:
        """The input number of a row of cells.

        Args:
            cells: (dimension,) integers in 0 .. places - 1.
        """
        number, base = 0, self.places
        for cell in reversed(self._checked_rows(np.asarray(cells)[None])[0].tolist()):
            number = number * base + cell
        return number

    def uniform(self, cell: int) -> int:
        """The input number of the row all of whose cells are alike."""
        return cell * ((self.inputs - 1) // (self.places - 1))

    def row(self, number: int) -> NDArray[np.int64]:
        """(dimension,) the row of cells of an input number.

        Raises:
            ValueError: the number is out of range.
        """
        if not 0 <= number < self.inputs:
            raise ValueError("1 of 1 cells lie outside the inputs")
        alike, rest = divmod(number, (self.inputs - 1) // (self.places - 1))
        if not rest:  # not worth many divisions of a long integer
            return np.full(self.dimension, alike)
        digits = []
        for _ in range(self.dimension):
            number, digit = divmod(number, self.places)
            digits.append(digit)
        return np.array(digits)

    def encode(self, values: ArrayLike, rng: RandomSource) -> NDArray[np.uint32]:
        """Round every number of every row to the grid, without bias: see `Grid.encode`.

        Args:
            values: (n, dimension) numbers in [-1, 1].
            rng: the generator of this process.

        Returns:
            (n, dimension) uint32 cells in 0 .. N.

        Raises:
            ValueError: as `report`.
        """
        rows = rows_in_cube(values, self.dimension)
        return Grid(self.cells).encode(rows.reshape(-1), rng).reshape(rows.shape)

    def report(self, values: ArrayLike, rng: RandomSource) -> Messages:
        return self.perturb(self.encode(values, rng), rng)

    def _checked_rows(self, cells: ArrayLike) -> NDArray[Any]:
        """Rows of cells as a matrix, or a ValueError that tells how many are out of range."""
        return cells_in_range(cells, np.full(self.dimension, self.places))
