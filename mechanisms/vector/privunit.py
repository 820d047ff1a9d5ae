"""Rows of bounded length as directions on a sphere: PrivUnit on a finite, public code.

PrivUnit reports a random point of the sphere, likelier in the cap around the user's own. Points
are not finitely many, and how large a cap is in floating point is anybody's guess. Here a user
draws one of many public codebooks, whatever the row, each of H random lines through 0, and ranks
these lines by how near they are to the row. The near ends of the first K lines are the cap. Every
cap has K of 2 H directions, so the exact law of a report takes two values, integers whose ratio is
at most e^epsilon, however the lines were drawn or ranked; nothing else bears on privacy.

What the random lines decide is accuracy. Over the seed the code looks the same from everywhere, so
the mean report is the user's row. With one seed it is off by an amount that no number of users
averages out; it is stated, and shrinks with the number of codebooks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Kinds,
    Messages,
    require_epsilon,
    require_integer,
)
from mechanisms.mean.scalar import LARGEST_ALPHABET, rise
from mechanisms.privacy.coordinate_laws import one_law
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource
from mechanisms.vector.base import VectorMean
from mechanisms.vector.cap_law import CapLaw
from mechanisms.vector.directions import PublicDirections
from mechanisms.vector.rows import require_dimension, require_listed, rows_of_numbers
from mechanisms.vector.sphere import largest_projections

_NUMBERS = 1 << 22  # of directions treated at a time
_SLACK = 1e-9  # by which rounding may make a row longer than the radius
_CODES = 1 << 20
_MOST_LINES = 1 << 15


@dataclass(frozen=True)
class PrivUnit(VectorMean):
    """A random direction of a public codebook, likelier one of the K nearest to the row.

    Rows are made unit vectors in one dimension more: (row, sqrt(radius^2 - |row|^2)) / radius.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        dimension: d, how many numbers a row has.
        radius: the length that no row exceeds.
        lines: H, how many lines a codebook has; a client ranks them all.
        codebooks: S. A message is (codebook * H + line) * 2, plus 1 for the negative end.
        seed: the public randomness of the lines, the same for all clients of a collection.

    Source: Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its
        applications in private federated learning", 2018, Algorithm 1 (PrivUnit). That random
        directions may be pseudorandom and public is from Feldman, Talwar, "Lossless compression of
        efficient private local randomizers", ICML 2021. Caps of equal size replace its caps of
        equal height, which no finite set of directions would keep equally likely.

    >>> mechanism = PrivUnit(1.0, dimension=199, radius=1.0, lines=32, codebooks=1024)
    >>> mechanism.cap_size, mechanism.codes, round(1 / mechanism.length**2 - 1)
    (22, 65536, 1278)
    """

    epsilon: float
    dimension: int
    radius: float
    lines: int = 32
    codebooks: int = 1 << 14
    seed: int = 0

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_dimension(self.dimension)
        if not 0 < self.radius < math.inf:
            raise ValueError(f"radius must be a positive, finite number, not {self.radius}")
        for name in ("lines", "codebooks", "seed"):
            require_integer(name, getattr(self, name))
        if not 1 <= self.lines <= _MOST_LINES:
            raise ValueError(f"lines must lie in 1 .. {_MOST_LINES}, not {self.lines}")
        most = LARGEST_ALPHABET // (2 * self.lines)
        if not 1 <= self.codebooks <= most:
            raise ValueError(
                f"codebooks must lie in 1 .. {most} with {self.lines} lines, not {self.codebooks}"
            )
        if not self.law.inside > self.law.outside:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- constants ---------------------------------------------------------------------------

    @property
    def sphere(self) -> int:
        """D = d + 1, the dimension of the directions."""
        return self.dimension + 1

    @property
    def ends(self) -> int:
        """2 H, how many directions a codebook has."""
        return 2 * self.lines

    @property
    def codes(self) -> int:
        return self.codebooks * self.ends

    @cached_property
    def directions(self) -> PublicDirections:
        """The positive ends of all lines of all codebooks."""
        return PublicDirections(self.seed, self.sphere)

    @cached_property
    def cap_size(self) -> int:
        """K, the number of likelier directions at which a report points best."""
        k, growth = np.arange(1, self.lines + 1), rise(self.epsilon)
        sums = largest_projections(self.sphere, self.lines)[0]
        return int(k[np.argmax(growth / (k * growth + self.ends) * sums)])

    @cached_property
    def law(self) -> CapLaw:
        """The integers that are shipped."""
        return CapLaw.within(self.epsilon, self.lines, self.cap_size)

    @cached_property
    def length(self) -> float:
        """m, the mean of a report's component along the row, over seeds; reports are divided by it.

        Outside the cap are the far ends of its lines, and both ends of all others, which cancel.
        """
        near = largest_projections(self.sphere, self.lines)[0][self.cap_size - 1]
        return float((self.law.inside - self.law.outside) / self.law.total * near)

    @cached_property
    def along(self) -> float:
        """The mean square of a report's component along the row."""
        near = largest_projections(self.sphere, self.lines)[1][self.cap_size - 1]
        every = self.lines / self.sphere
        squares = self.law.inside * near + self.law.outside * (2 * every - near)
        return float(squares / self.law.total)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            "local",
            self.epsilon,
            0.0,
            "report",
            "closed form: whatever the row, K of a codebook's directions have one probability and "
            "the others another, whose ratio in integers is at most e^epsilon",
        )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "cap_size": self.cap_size,
            "inside": self.law.inside / self.law.total,
            "outside": self.law.outside / self.law.total,
            "length": self.length,
            "seed_variance": self.seed_variance,
        }

    # ---- the client --------------------------------------------------------------------------

    def report(self, values: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client.

        Args:
            values: (n, dimension) numbers; no row longer than `radius`, to which `rows.shortened`
                cuts them.
            rng: the generator of this process.

        Returns:
            (n,) uint64.

        Raises:
            ValueError: rows of another dimension, too long, or of what is no number. The message
                never holds them.
        """
        units = self._lifted(rows_of_numbers(values, self.dimension))
        books = rng.integers(self.codebooks, len(units)).view(np.int64)
        messages = np.empty(len(units), np.uint64)
        step = max(1, _NUMBERS // (self.lines * self.sphere))
        for start in range(0, len(units), step):
            part = slice(start, start + step)
            ranked = self._ranked(units[part], books[part])
            messages[part] = self._picked(ranked, books[part], rng)
        return messages

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        """The channel behind the ranking, for tests and audits.

        Args:
            cells: (n, lines) directions of a codebook, of whichever codebook will be drawn: those
                of the cap, then an end of each other line.
            rng: the generator of this process.

        Returns:
            (n,) uint64.
        """
        ranked = np.asarray(cells)
        shaped = ranked.ndim == 2 and ranked.shape[1] == self.lines and ranked.dtype.kind in "iu"
        if not (shaped and np.all(np.sort(ranked // 2, axis=1) == np.arange(self.lines))):
            raise ValueError(f"cells must be rows of an end of each of {self.lines} lines")
        books = rng.integers(self.codebooks, len(ranked)).view(np.int64)
        return self._picked(ranked.astype(np.int64), books, rng)

    def _lifted(self, rows: NDArray[Any]) -> Floats:
        """(n, sphere) rows as unit vectors, or a ValueError that tells how many are too long."""
        rows = rows / self.radius
        squares = np.einsum("ij,ij->i", rows, rows)
        admitted = np.count_nonzero(squares <= (1 + _SLACK) ** 2)
        if admitted < len(rows):
            raise ValueError(
                f"{len(rows) - admitted} of {len(rows)} rows are longer than radius, or hold what "
                "is no number"
            )
        rest = np.sqrt(np.maximum(1 - squares, 0))
        return np.concatenate([rows, rest[:, None]], axis=1)

    def _ranked(self, units: Floats, books: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, lines) for each unit vector the near ends of a codebook's lines, nearest first."""
        numbers = (books * self.lines)[:, None] + np.arange(self.lines)
        lines = self.directions.rows(numbers.ravel()).reshape(len(units), self.lines, -1)
        projections = np.einsum("nhd,nd->nh", lines, units)
        order = np.argsort(-np.abs(projections), axis=1, kind="stable")
        return 2 * order + (np.take_along_axis(projections, order, axis=1) < 0)

    def _picked(
        self, ranked: NDArray[np.int64], books: NDArray[np.int64], rng: RandomSource
    ) -> Messages:
        """Messages, given the codebooks and each one's directions, those of the cap first."""
        ends = self.law.pick(rng.integers(self.law.total, len(ranked)), ranked)
        return (books * self.ends + ends).view(np.uint64)

    # ---- the exact law of a report -----------------------------------------------------------

    @property
    def inputs(self) -> int:
        """How many caps there are: sets of K lines, and an end of each."""
        return self.law.caps

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        require_listed(self.codes)
        table = self.law.weights(self.law.cap(cell))
        return np.tile(table, self.codebooks), self.law.total * self.codebooks

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        cap = self.law.cap(cell)
        others = np.setdiff1d(np.arange(self.lines), cap // 2) * 2
        return self.count(self.perturb(np.tile(np.append(cap, others), (size, 1)), rng))

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        shared = np.intersect1d(self.law.cap(one), self.law.cap(other)).size
        kinds = {pair: self.codebooks * n for pair, n in self.law.kinds(shared).items()}
        return kinds, (self.law.total * self.codebooks,) * 2

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: a cap and the one opposite, which share no direction; others share some."""
        return [(0, (1 << self.cap_size) - 1)]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals: every direction is as likely as one outside the cap."""
        law = self.law
        ratio = Fraction(law.inside, law.outside)
        mass = Fraction(law.outside * law.ends, law.total)
        return one_law(mass, ratio)

    # ---- the collector -----------------------------------------------------------------------

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(dimension,) the mean row: unbiased over the seed and the reports.

        Only directions that were reported are rebuilt, in time proportional to their number.

        Args:
            counts: (codes,) from `count`.
            n: the number of users; by default as many as there are reports.
        """
        counts = np.asarray(counts)
        if counts.shape != (self.codes,):
            raise ValueError(f"counts must be of shape ({self.codes},), not {counts.shape}")
        n = int(counts.sum()) if n is None else n
        if not n > 0:
            raise ValueError("there is no report to estimate from")
        surplus = counts[::2] - counts[1::2]
        lines, total = np.flatnonzero(surplus), np.zeros(self.sphere)
        step = max(1, _NUMBERS // self.sphere)
        for start in range(0, lines.size, step):
            part = lines[start : start + step]
            total += surplus[part].astype(np.float64) @ self.directions.rows(part)
        return total[: self.dimension] * (self.radius / (n * self.length))

    def estimated_variance(self, counts: Counts) -> Floats:
        n = int(np.sum(counts))
        if not n > 1:
            raise ValueError("at least two reports are needed to judge a variance")
        likely = np.clip(self.estimate(counts), -self.radius, self.radius)
        return self.variance(likely) / (n - 1)

    def variance(self, value: ArrayLike) -> Floats:
        """Variance of one coordinate of one decoded report, over the seed and the report.

        Args:
            value: what the user holds in that coordinate, in [-radius, radius]; any shape.

        Returns:
            In squared units of the value, of the same shape. Reports of a collection share the
            seed: the mean of n of them varies by up to `seed_variance` more.

        Raises:
            ValueError: a value is out of range or not a number.
        """
        x = np.asarray(value, np.float64)
        if not np.all(np.abs(x) <= self.radius):
            raise ValueError(f"value must lie in [-radius, radius], radius being {self.radius}")
        own = (x / self.radius) ** 2
        square = self.along * own + (1 - self.along) * (1 - own) / (self.sphere - 1)
        return np.asarray(square * (self.radius / self.length) ** 2 - x * x)

    @property
    def worst_variance(self) -> float:
        return float(np.max(self.variance(np.array([0.0, self.radius]))))

    @property
    def seed_variance(self) -> float:
        """What sharing one seed adds to a coordinate's variance, on average over them, at most.

        That is attained if all users hold one row. Two users share a codebook with probability
        1 / S, and then reports that point astray do so together.
        """
        k, (sums, squares) = self.cap_size, largest_projections(self.sphere, self.lines)
        astray = k + (k - 1) * squares[k - 1]  # no less than |sum of the cap's directions|^2
        ratio = float(astray / sums[k - 1] ** 2) - 1
        return ratio * self.radius**2 / (self.codebooks * self.dimension)


def privunit(
    epsilon: float,
    dimension: int,
    radius: float | None = None,
    lines: int | None = None,
    codebooks: int | None = None,
    seed: int = 0,
) -> PrivUnit:
    """PrivUnit on a finite code, whose size suits epsilon unless it is given.

    Args:
        epsilon: privacy loss of one report, in nats.
        dimension: d, how many numbers a row has.
        radius: the length that no row exceeds; by default sqrt(d), that of the corners of a cube.
        lines: H; by default 32 up to an epsilon of 2, 128 up to 5, else 512: up to an epsilon of
            8 the variance is then at most 3.5 % above PrivUnit's own.
        codebooks: S; by default what makes a million codes.
        seed: the public randomness of the lines.

    Returns:
        The mechanism.

    Raises:
        ValueError: a parameter is out of range.
    """
    require_epsilon(epsilon)
    require_dimension(dimension)
    if lines is None:
        lines = 32 if epsilon <= 2 else 128 if epsilon <= 5 else 512
    else:
        require_integer("lines", lines)
    if codebooks is None:
        codebooks = max(1, _CODES // (2 * max(1, lines)))
    return PrivUnit(
        epsilon,
        dimension,
        math.sqrt(dimension) if radius is None else radius,
        lines,
        codebooks,
        seed,
    )
