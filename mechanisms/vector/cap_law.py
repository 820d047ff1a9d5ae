"""Directions of which some are likelier, equally many for everybody: PrivUnit's exact law.

A codebook has H lines and so 2 H directions, the ends of its lines. A user's cap is an end of each
of K lines. Direction e is numbered 2 * line, plus 1 for the negative end.

`CapChannel` is what is private of it, whatever rows and directions are. A user has ranked the lines
of a codebook and reports one of its 2 H directions, those of the cap, the near ends of the first K
lines, being likelier. Nothing else bears on privacy.

How well a report points at the row, on average over public seeds, are order statistics on the
sphere (`CapMoments`): they decide accuracy alone.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations, islice
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import Counts, Floats, Kinds, Messages
from mechanisms.mean.scalar import rise
from mechanisms.privacy.coordinate_laws import one_law
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource, Words
from mechanisms.vector.base import VectorMean
from mechanisms.vector.rows import require_listed

_WORD = 1 << 64
_NODES = 600
_FARTHEST = 14.0  # times 1 / sqrt(D): no coordinate of a uniform unit vector gets there


@dataclass(frozen=True)
class CapLaw:
    """The integer weights of the directions, and what follows from them.

    Attributes:
        lines: H.
        size: K, how many directions a cap has; at most H.
        inside: the weight of each of them.
        outside: the weight of each other direction.

    >>> CapLaw(lines=2, size=1, inside=5, outside=1).weights(np.array([3])).tolist()
    [1, 1, 1, 5]
    """

    lines: int
    size: int
    inside: int
    outside: int

    @classmethod
    def within(cls, epsilon: float, lines: int, size: int) -> "CapLaw":
        """The weights whose ratio is epsilon's or a little less, as large as fit into 2^64."""
        lower, _ = exponential_bounds(epsilon)
        others = 2 * lines - size
        # Integers from a lower bound of e^epsilon; both are rounded down, the ratio last.
        outside = max(1, math.floor(_WORD / (size * lower + others)))
        inside = min(math.floor(outside * lower), (_WORD - others * outside) // size)
        return cls(lines, size, inside, outside)

    @property
    def ends(self) -> int:
        """2 H, how many directions there are."""
        return 2 * self.lines

    @property
    def total(self) -> int:
        """The weight of all directions."""
        return self.size * self.inside + (self.ends - self.size) * self.outside

    @property
    def caps(self) -> int:
        """How many caps there are: sets of K lines, and an end of each."""
        return int(math.comb(self.lines, self.size) << self.size)

    def cap(self, number: int) -> NDArray[np.int64]:
        """(size,) the directions of a cap by its number: that of its lines, then of its ends.

        Raises:
            ValueError: the number is out of range.
        """
        if not 0 <= number < self.caps:
            raise ValueError("1 of 1 cells lie outside the inputs")
        which, ends = number >> self.size, number & ((1 << self.size) - 1)
        lines = next(islice(combinations(range(self.lines), self.size), which, None))
        return np.array([2 * line + (ends >> i & 1) for i, line in enumerate(lines)])

    def weights(self, cap: NDArray[np.int64]) -> Words:
        """(ends,) the weights of all directions, given a cap."""
        table = np.full(self.ends, self.outside, np.uint64)
        table[cap] = self.inside
        return table

    def kinds(self, shared: int) -> Mapping[tuple[int, int], int]:
        """How many directions have each pair of weights, given two caps that share some."""
        a, b, only = self.inside, self.outside, self.size - shared
        neither = self.ends - 2 * self.size + shared
        kinds = {(a, b): only, (b, a): only, (a, a): shared, (b, b): neither}
        return {pair: count for pair, count in kinds.items() if count}

    def pick(self, draws: Words, ranked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Directions from integers that are uniform below the total.

        Args:
            draws: (n,) uint64.
            ranked: (n, lines) an end of each line; the first `size` of them are the cap.

        Returns:
            (n,) directions.
        """
        mass = np.uint64(self.size * self.inside)
        hit = draws < mass
        near = (draws // np.uint64(self.inside)).astype(np.int64)
        far = ((draws - mass) // np.uint64(self.outside)).view(np.int64)
        # Outside are first the far ends of the cap's lines, then both ends of all others.
        beyond = far - self.size
        others = beyond >= 0
        place = np.where(hit, near, np.where(others, self.size + beyond // 2, far))
        turned = np.where(hit, 0, np.where(others, beyond & 1, 1))
        ends: NDArray[np.int64] = np.take_along_axis(ranked, place[:, None], axis=1)[:, 0] ^ turned
        return ends


@lru_cache(maxsize=16)
def largest_projections(sphere: int, lines: int) -> tuple[Floats, Floats]:
    """What the k of some random lines that are nearest to a vector come to, for every k.

    Args:
        sphere: D, the dimension of the space, at least 2.
        lines: H, how many independent lines through 0 are drawn uniformly.

    Returns:
        ((H,), (H,)): entry k - 1 is the mean of the sum of the k largest |<c, u>|, and of the sum
        of their squares, for any unit vector u.

    >>> sums, squares = largest_projections(3, 2)
    >>> sums.round(3).tolist(), squares.round(3).tolist()  # of two uniform numbers of [0, 1]
    ([0.667, 1.0], [0.5, 0.667])
    """
    farthest = min(math.pi / 2, _FARTHEST / math.sqrt(sphere))
    nodes, rule = _rule()
    angles = (nodes + 1) * (farthest / 2)
    # The angle's density is cos^(D - 2); as an exponential it does not vanish for large D.
    masses = rule * np.exp((sphere - 2) * np.log(np.cos(angles)))
    masses /= masses.sum()
    x = np.sin(angles)
    below = scipy.special.betainc(0.5, (sphere - 1) / 2, x * x)
    k = np.arange(1, lines)[:, None]
    # P(fewer than k of the other lines are nearer)
    among = np.concatenate([scipy.special.betainc(lines - k, k, below), np.ones((1, _NODES))])
    return lines * (among @ (masses * x)), lines * (among @ (masses * x * x))


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """Gauss and Legendre's nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def best_cap_size(epsilon: float, sphere: int, lines: int) -> int:
    """K, the number of likelier directions at which a report points best.

    Args:
        epsilon: privacy loss of one report, in nats.
        sphere: D, the dimension of the directions.
        lines: H, how many lines a codebook has.
    """
    k, growth = np.arange(1, lines + 1), rise(epsilon)
    sums = largest_projections(sphere, lines)[0]
    # The mean component along the row, in which all but K and the sum of its projections is fixed.
    return int(k[np.argmax(growth / (k * growth + 2 * lines) * sums)])


@dataclass(frozen=True)
class CapMoments:
    """Moments of a reported direction's components along the row and across it.

    Attributes:
        law: of the directions of a codebook.
        sphere: D, the dimension of the directions.

    >>> moments = CapMoments(CapLaw(lines=2, size=1, inside=5, outside=1), sphere=3)
    >>> round(moments.length, 3), round(moments.along, 3)  # the nearest of two lines: 2/3, 1/2
    (0.333, 0.417)
    """

    law: CapLaw
    sphere: int

    @cached_property
    def length(self) -> float:
        """m, the mean of a report's component along the row.

        Outside the cap are the far ends of its lines, and both ends of all others, which cancel.
        """
        near = largest_projections(self.sphere, self.law.lines)[0][self.law.size - 1]
        return float((self.law.inside - self.law.outside) / self.law.total * near)

    @cached_property
    def along(self) -> float:
        """The mean square of a report's component along the row."""
        near = largest_projections(self.sphere, self.law.lines)[1][self.law.size - 1]
        every = self.law.lines / self.sphere
        squares = self.law.inside * near + self.law.outside * (2 * every - near)
        return float(squares / self.law.total)

    def coordinate(self, own: Floats) -> Floats:
        """The mean square of a coordinate of a report.

        Args:
            own: the square of the unit row's own number there, in [0, 1]; any shape.
        """
        return np.asarray(self.along * own + (1 - self.along) * (1 - own) / (self.sphere - 1))

    @property
    def astray(self) -> float:
        """By how much, of the squared row, two reports from one codebook point astray together."""
        k, (sums, squares) = self.law.size, largest_projections(self.sphere, self.law.lines)
        most = k + (k - 1) * squares[k - 1]  # no less than |sum of the cap's directions|^2
        return float(most / sums[k - 1] ** 2) - 1


class CapChannel(VectorMean):
    """A direction of a public codebook, drawn whatever the row, likelier one of the user's cap.

    Attributes:
        lines: H, how many lines a codebook has.
        codebooks: S. A message is (codebook * H + line) * 2, plus 1 for the negative end.
    """

    lines: int
    codebooks: int

    @property
    @abstractmethod
    def law(self) -> CapLaw:
        """The integers that are shipped."""

    @property
    def ends(self) -> int:
        """2 H, how many directions a codebook has."""
        return 2 * self.lines

    @property
    def codes(self) -> int:
        return self.codebooks * self.ends

    derivation = (
        "closed form: whatever the row, K of a codebook's directions have one probability and "
        "the others another, whose ratio in integers is at most e^epsilon"
    )

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
        # Drawn without the row: which codebook it is tells nothing.
        books = rng.integers(self.codebooks, len(ranked)).view(np.int64)
        return self.picked(ranked.astype(np.int64), books, rng)

    def picked(
        self, ranked: NDArray[np.int64], books: NDArray[np.int64], rng: RandomSource
    ) -> Messages:
        """Messages, given the codebooks and each one's directions, those of the cap first.

        Args:
            ranked: (n, lines) directions, an end of each line.
            books: (n,) codebooks.
            rng: the generator of this process.

        Returns:
            (n,) uint64.
        """
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
        return [(0, (1 << self.law.size) - 1)]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals: every direction is as likely as one outside the cap."""
        law = self.law
        ratio = Fraction(law.inside, law.outside)
        # The blanket is exact: every direction is outside of somebody's cap.
        mass = Fraction(law.outside * law.ends, law.total)
        return one_law(mass, ratio)
