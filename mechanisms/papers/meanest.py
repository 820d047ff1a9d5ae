"""Duchi's mechanism in many dimensions (MeanEST), as corrected and as published.

In an even dimension some corners are on neither side of the user's own. Whoever counts them with
both sides makes them as likely as both together, which loses ln(1 + e^epsilon) instead of epsilon.

Each number of a row is first rounded to -1 or 1, without bias: that is the grid of one cell. The
report is a corner, too: one of those on the side of the user's own corner with probability
e^epsilon / (e^epsilon + 1), else one of those on the other side. That is
what both forms have in common (`Corners`).
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Kinds,
    Messages,
    Report,
    checked_counts,
    require_epsilon,
)
from mechanisms.privacy.coordinate_laws import one_law
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register
from mechanisms.vector.base import CubeMean
from mechanisms.vector.rows import require_dimension, require_listed

_BITS = 1 << 23  # of corners treated at a time
_MOST_KINDS = 1 << 22
_WORD = 1 << 64


@dataclass(frozen=True)
class Corners(CubeMean):
    """What the mechanism as corrected and as published have in common.

    Attributes:
        epsilon: what the odds of the two sides are made of, in nats.
        dimension: d, how many numbers a row has.
    """

    epsilon: float
    dimension: int
    # One: a number becomes the sign -1 or 1 before anything else
    cells: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_dimension(self.dimension)
        if not self.keep_weight > self.flip_weight:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- constants ---------------------------------------------------------------------------

    @property
    def codes(self) -> int:
        """A message is 2 * coordinate, plus 1 if the corner is positive there."""
        return 2 * self.dimension

    @property
    def messages(self) -> float:
        return float(self.dimension)

    @property
    def outcomes(self) -> int:
        return int(2**self.dimension)

    @cached_property
    def flip_weight(self) -> int:
        """P(the other side) in units of 2^-64, rounded up."""
        return ceiling(Fraction(_WORD) / (exponential_bounds(self.epsilon)[0] + 1))

    @property
    def keep_weight(self) -> int:
        """P(the user's own side) in units of 2^-64; at most e^epsilon times `flip_weight`."""
        return _WORD - self.flip_weight

    @property
    def ties(self) -> int:
        """How many corners are on neither side of a given one."""
        d = self.dimension
        return 0 if d % 2 else math.comb(d, d // 2)

    @property
    @abstractmethod
    def side(self) -> int:
        """Twice the number of corners among which those of a side are drawn uniformly."""

    @property
    @abstractmethod
    def tie_weight(self) -> int:
        """The weight of a corner on neither side, on the scale of `keep_weight`."""

    @cached_property
    def scale(self) -> float:
        """B: a corner stands for -B and B in every coordinate."""
        # Those on one's side agree in a coordinate so many times more often than they do not.
        surplus = math.comb(self.dimension - 1, self.dimension // 2)
        return (self.side * _WORD) / (2 * surplus * (self.keep_weight - self.flip_weight))

    def constants(self) -> dict[str, float]:
        return super().constants() | {"scale": self.scale}

    # ---- the client --------------------------------------------------------------------------

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        rows = self._checked_rows(cells)
        messages = np.empty(rows.shape, np.uint64)
        step = max(1, _BITS // self.dimension)
        for start in range(0, len(rows), step):
            own = self._packed(rows[start : start + step])
            signs = np.unpackbits(
                self._corners(own, rng).view(np.uint8),
                axis=1,
                bitorder="little",
                count=self.dimension,
            )
            messages[start : start + step] = signs
        messages += np.arange(0, self.codes, 2, dtype=np.uint64)
        return messages.reshape(-1)

    def _packed(self, rows: NDArray[Any]) -> Words:
        """(n, words) the rows' signs as bits, lowest coordinate first."""
        width = -(-self.dimension // 64)
        octets = np.zeros((len(rows), 8 * width), np.uint8)
        bits = np.packbits(rows.astype(np.bool_), axis=1, bitorder="little")
        octets[:, : bits.shape[1]] = bits
        words: Words = octets.view("<u8")
        return words

    @cached_property
    def _mask(self) -> Words:
        """(words,) the bits that stand for coordinates."""
        return self._packed(np.ones((1, self.dimension), np.uint8)).reshape(-1)

    def _corners(self, own: Words, rng: RandomSource) -> Words:
        """A random corner for each user's own."""
        near, product = self._near(own, rng)
        turned = (product < 0) ^ rng.bernoulli(self.flip_weight, len(own))
        # Turning a corner round is flipping all of its signs, one exclusive or for 64 of them.
        near ^= np.where(turned[:, None], self._mask, np.uint64(0))
        return near

    def _uniform(self, own: Words, rng: RandomSource) -> tuple[Words, NDArray[np.int64]]:
        """Uniform corners, and their scalar products with the users' own."""
        corners = rng.words(own.size).astype("<u8", copy=False).reshape(own.shape) & self._mask
        apart = np.bitwise_count(corners ^ own).sum(axis=1, dtype=np.int64)
        return corners, self.dimension - 2 * apart

    def _near(self, own: Words, rng: RandomSource) -> tuple[Words, NDArray[np.int64]]:
        """Corners that are uniform among those of a side once the others are turned round."""
        return self._uniform(own, rng)

    # ---- the exact law of a report -----------------------------------------------------------

    @property
    def reports(self) -> Sequence[Report]:
        """A report is numbered as the input whose signs it has, the lowest coordinate first."""
        ends = [(2 * j, 2 * j + 1) for j in reversed(range(self.dimension))]
        return [corner[::-1] for corner in product(*ends)]

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        require_listed(self.outcomes)
        own = int(np.dot(self.row(cell), 1 << np.arange(self.dimension)))
        apart = np.bitwise_count(np.arange(self.outcomes) ^ own).astype(np.int64)
        table = np.full(self.outcomes, self.tie_weight, object)
        table[2 * apart < self.dimension] = self.keep_weight
        table[2 * apart > self.dimension] = self.flip_weight
        return table, self.side * _WORD // 2

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        messages = self.perturb(np.tile(self.row(cell), (size, 1)), rng)
        signs = messages.reshape(size, -1).astype(np.int64) & 1
        return np.bincount(signs @ (1 << np.arange(self.dimension)), minlength=self.outcomes)

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """In closed form, by how many signs a report shares with both inputs."""
        d = self.dimension
        apart = int(np.count_nonzero(self.row(one) != self.row(other)))
        if not (apart + 1) * (d - apart + 1) <= _MOST_KINDS:
            raise ValueError(f"{d} coordinates are too many to count the reports of these inputs")
        kinds: Counter[tuple[int, int]] = Counter()
        for a in range(apart + 1):
            for b in range(d - apart + 1):
                pair = self._weight(2 * (a + b) - d), self._weight(2 * (b + apart - a) - d)
                kinds[pair] += math.comb(apart, a) * math.comb(d - apart, b)
        return kinds, (self.side * _WORD // 2,) * 2

    def _weight(self, product: int) -> int:
        """The weight of a corner, by its scalar product with the input."""
        if not product:
            return self.tie_weight
        return self.keep_weight if product > 0 else self.flip_weight

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, without listing 2^d corners."""
        kinds = [self.keep_weight, self.flip_weight, *([self.tie_weight] if self.ties else [])]
        mass = Fraction(2 * self.outcomes * min(kinds), self.side * _WORD)
        return one_law(mass, Fraction(max(kinds), min(kinds)))

    # ---- the collector -----------------------------------------------------------------------

    @property
    def reach(self) -> Floats:
        return np.array([self.scale + 1])

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(dimension,) unbiased mean row; coordinates whose messages were lost are NaN.

        Args:
            counts: (codes,) from `count`.
            n: not needed: there is a message for every coordinate.
        """
        table = self._table(counts)
        if not table.sum() > 0:
            raise ValueError("there is no report to estimate from")
        with np.errstate(invalid="ignore"):
            return np.asarray((table[:, 1] - table[:, 0]) / table.sum(axis=1) * self.scale)

    def estimated_variance(self, counts: Counts) -> Floats:
        n = self._table(counts).sum(axis=1)
        if not n.min() > 1:
            raise ValueError("at least two reports are needed to judge a variance")
        # Every decoded number is -B or B, so its mean square is known and only the mean is
        # estimated.
        return np.asarray((self.scale**2 - self.estimate(counts) ** 2) / (n - 1))

    def _table(self, counts: Counts) -> Counts:
        return checked_counts(counts, self.codes).reshape(self.dimension, 2)

    def variance(self, value: ArrayLike) -> Floats:
        x = np.asarray(value, np.float64)
        if not np.all((x >= -1) & (x <= 1)):
            raise ValueError("value must lie in [-1, 1]")
        return np.asarray(self.scale**2 - x * x)

    @property
    def worst_variance(self) -> float:
        return self.scale**2


@register(
    "meanest",
    task="vector",
    sends="a corner of the cube, in d messages",
    source="Duchi, Jordan, Wainwright, JASA 2018, corrected for even dimensions",
    baseline=True,
    small=[
        {"epsilon": 2.0, "dimension": 1},
        {"epsilon": 1.0, "dimension": 2},
        {"epsilon": 0.5, "dimension": 3},
        {"epsilon": 2.0, "dimension": 4},
    ],
)
@dataclass(frozen=True)
class Meanest(Corners):
    """MeanEST with ties that stay where they are: they are as likely under every input.

    A corner is drawn uniformly, turned to the user's side if it is on the other, and turned round
    with probability 1 / (e^epsilon + 1): linear time, and no corner is ever searched for.

    Attributes:
        epsilon: privacy loss of the messages of a user together, in nats.
        dimension: d, how many numbers a row has.

    Source: Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private
        estimation", JASA 2018, section 4.2.3; MeanEST in Sun, Yang, Cheng, Su, "High-dimensional
        numeric data collection under local differential privacy based on random projection", Big
        Data Research 2020. Corrected for even d, where the published form is not private; see
        `MeanestPublished`.

    >>> mechanism = Meanest(epsilon=1.0, dimension=2)
    >>> mechanism.codes, round(mechanism.scale, 3)
    (4, 4.328)
    """

    tie_weight: ClassVar[int] = _WORD // 2

    @property
    def side(self) -> int:
        return self.outcomes

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon,
            0.0,
            "closed form: a corner's probability takes three values, by the side it is on, that of "
            "neither side between the two others, whose ratio in integers is at most e^epsilon",
        )

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: opposite corners, either way round alike.

        Between two other corners some reports are a tie for one of the two alone. As many are the
        one as the other, and together they tell less than as many that are on opposite sides.
        """
        return [(0, self.inputs - 1)]


@register(
    "meanest_published",
    task="vector",
    sends="as published, where an even d loses ln(1 + e^epsilon)",
    source="Duchi, Jordan, Wainwright, JASA 2018",
    models=["local"],
    claims_hold=False,
    small=[{"epsilon": 1.0, "dimension": dimension} for dimension in (2, 3, 4)],
)
@dataclass(frozen=True)
class MeanestPublished(Corners):
    """MeanEST as published: corners on neither side are drawn with both. For comparison only.

    Attributes:
        epsilon: the loss that the paper claims, in nats. In an even dimension it is
            ln(1 + e^epsilon).
        dimension: d, how many numbers a row has.

    Source: Duchi, Jordan, Wainwright, JASA 2018, section 4.2.3, whose sets are closed half-spaces.

    >>> MeanestPublished(epsilon=1.0, dimension=2).guarantee.model
    'none'
    """

    tie_weight: ClassVar[int] = _WORD

    @property
    def side(self) -> int:
        return self.outcomes + self.ties

    def _near(self, own: Words, rng: RandomSource) -> tuple[Words, NDArray[np.int64]]:
        corners, product = self._uniform(own, rng)
        left = np.arange(0 if self.dimension % 2 else len(own))
        # Turning round would leave ties half as likely as the others, of which half are refused.
        while (left := left[(product[left] != 0) & rng.bernoulli(_WORD // 2, left.size)]).size:
            corners[left], product[left] = self._uniform(own[left], rng)
        return corners, product

    @property
    def claimed(self) -> Guarantee:
        """What the paper says of the mechanism."""
        return Guarantee.of_report(self.epsilon, 0.0, "claimed by Duchi et al. 2018")

    @property
    def guarantee(self) -> Guarantee:
        if self.dimension % 2:
            return Guarantee.of_report(
                self.epsilon, 0.0, "closed form: an odd dimension has no ties"
            )
        return Guarantee.none(
            "as published: corners that are on neither side are as likely as both sides together, "
            "so that in an even dimension one report loses ln(1 + e^epsilon) where an epsilon of "
            f"{self.epsilon} is claimed"
        )

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One for each number of signs that differ: permuting and turning signs does the rest."""
        return [(0, (1 << apart) - 1) for apart in range(1, self.dimension + 1)]
