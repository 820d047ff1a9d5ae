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

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import (
    Counts,
    Floats,
    Messages,
    checked_counts,
    reporters,
    require_epsilon,
    require_integer,
)
from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.randomness import RandomSource
from mechanisms.registry import register
from mechanisms.vector.cap_law import CapChannel, CapLaw, CapMoments, best_cap_size
from mechanisms.vector.directions import Codebooks, PublicDirections
from mechanisms.vector.rows import lifted, require_dimension, require_radius, rows_of_numbers

_CODES = 1 << 20
_MOST_LINES = 1 << 15


@dataclass(frozen=True)
class PrivUnit(CapChannel):
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
        require_radius(self.radius)
        require_integer("lines", self.lines, 1, _MOST_LINES)
        # With fewer lines there is room for more codebooks.
        require_integer("codebooks", self.codebooks, 1, LARGEST_ALPHABET // (2 * self.lines))
        require_integer("seed", self.seed)
        if not self.law.inside > self.law.outside:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- constants ---------------------------------------------------------------------------

    @property
    def sphere(self) -> int:
        """D = d + 1, the dimension of the directions."""
        return self.dimension + 1

    @cached_property
    def books(self) -> Codebooks:
        """The lines of all codebooks."""
        return Codebooks(self.seed, self.sphere, self.lines)

    @property
    def directions(self) -> PublicDirections:
        """The positive ends of all lines of all codebooks."""
        return self.books.directions

    @cached_property
    def cap_size(self) -> int:
        """K, the number of likelier directions at which a report points best."""
        return best_cap_size(self.epsilon, self.sphere, self.lines)

    @cached_property
    def law(self) -> CapLaw:
        """The integers that are shipped."""
        return CapLaw.within(self.epsilon, self.lines, self.cap_size)

    @cached_property
    def moments(self) -> CapMoments:
        """How well a report points at the row, over seeds."""
        return CapMoments(self.law, self.sphere)

    @property
    def length(self) -> float:
        """m, the mean of a report's component along the row; reports are divided by it."""
        return self.moments.length

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
        """The whole client, of rows no longer than `radius`: `rows.shortened` cuts them to it."""
        units = lifted(rows_of_numbers(values, self.dimension), self.radius)
        books = rng.integers(self.codebooks, len(units)).view(np.int64)
        messages = np.empty(len(units), np.uint64)
        for start in range(0, len(units), self.books.at_once):
            part = slice(start, start + self.books.at_once)
            ranked = self.books.ranked(units[part], books[part])
            messages[part] = self.picked(ranked, books[part], rng)
        return messages

    # ---- the collector -----------------------------------------------------------------------

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(dimension,) the mean row: unbiased over the seed and the reports.

        Only directions that were reported are rebuilt, in time proportional to their number.

        Args:
            counts: (codes,) from `count`.
            n: the number of users; by default as many as there are reports.
        """
        counts = checked_counts(counts, self.codes)
        n = reporters(counts, n)
        # The last coordinate only made rows unit vectors; nobody asks for it.
        return self.books.total(counts)[: self.dimension] * (self.radius / (n * self.length))

    def estimated_variance(self, counts: Counts) -> Floats:
        n = int(np.sum(counts))
        if not n > 1:
            raise ValueError("at least two reports are needed to judge a variance")
        likely = np.clip(self.estimate(counts), -self.radius, self.radius)
        return self.variance(likely) / (n - 1)

    def variance(self, value: ArrayLike) -> Floats:
        """Variance of one coordinate of one decoded report, over the seed and the report.

        The value lies in [-radius, radius]. Reports of a collection share the seed: the mean of n
        of them varies by up to `seed_variance` more.
        """
        x = np.asarray(value, np.float64)
        if not np.all(np.abs(x) <= self.radius):
            raise ValueError(f"value must lie in [-radius, radius], radius being {self.radius}")
        square = self.moments.coordinate((x / self.radius) ** 2)
        return np.asarray(square * (self.radius / self.length) ** 2 - x * x)

    @property
    def worst_variance(self) -> float:
        return float(np.max(self.variance(np.array([0.0, self.radius]))))

    @property
    def reach(self) -> Floats:
        return np.array([self.radius / self.length + self.radius])

    @property
    def largest_value(self) -> float:
        return self.radius

    @property
    def seed_variance(self) -> float:
        """What sharing one seed adds to a coordinate's variance, on average over them, at most.

        That is attained if all users hold one row. Two users share a codebook with probability
        1 / S, and then reports that point astray do so together.
        """
        return self.moments.astray * self.radius**2 / (self.codebooks * self.dimension)


@register(
    "privunit",
    task="vector",
    sends="one of a million public directions; short rows",
    source="Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, on a finite code",
    searched=True,
    seeded=True,
    small=[
        {"epsilon": 1.0, "dimension": 3, "radius": 2.0, "lines": 3, "codebooks": 2},
        {"epsilon": 4.0, "dimension": 2, "radius": 0.5, "lines": 4, "codebooks": 3},
    ],
)
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
    radius = math.sqrt(dimension) if radius is None else radius
    return PrivUnit(epsilon, dimension, radius, lines, codebooks, seed)
