"""A few of a row's coordinates, chosen at random, each through a mechanism for single numbers.

Which coordinates a user reports does not depend on the row, so the report of k of them is k
reports of the scalar mechanism, each with epsilon / k, and loses epsilon in all. Scaled by d / k
it is unbiased. While epsilon is small one coordinate is best: d / k users fewer speak for each,
but the noise of a report grows with the square of k.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Kinds,
    Messages,
    Report,
    checked_counts,
    require_epsilon,
    require_integer,
)
from mechanisms.mean.scalar import LARGEST_ALPHABET, ScalarMean
from mechanisms.privacy.coordinate_laws import sampled_laws
from mechanisms.privacy.divergence import double_up
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource
from mechanisms.sampling.sparse_bits import chosen_coordinates
from mechanisms.vector.base import CubeMean
from mechanisms.vector.coordinates import largest_scaled, together
from mechanisms.vector.rows import (
    chosen,
    equal_share,
    require_dimension,
    require_listed,
    rows_in_cube,
)


@dataclass(frozen=True)
class SampledCoordinates(CubeMean):
    """k of d coordinates, each reported by one message of a scalar mechanism.

    Attributes:
        epsilon: privacy loss of all messages of a user together, in nats.
        dimension: d, how many numbers a row has.
        sampled: k, how many of them are reported.
        mechanism: what reports one of them; it may spend epsilon / k.

    Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and analyzing multidimensional
        data with local differential privacy", ICDE 2019, Algorithm 4.

    >>> from mechanisms.mean.two_point import duchi
    >>> mechanism = SampledCoordinates(1.0, dimension=10, sampled=1, mechanism=duchi(1.0))
    >>> mechanism.codes, round(mechanism.worst_variance, 2)
    (20, 46.83)
    """

    epsilon: float
    dimension: int
    sampled: int
    mechanism: ScalarMean
    # Whether coordinates are chosen before anything is counted: who reports all keeps rows whole.
    chooses: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_dimension(self.dimension)
        require_integer("sampled", self.sampled, 1, self.dimension)
        promise = self.mechanism.guarantee
        if not (
            promise.model == "local"
            # In rationals: doubles would let k shares exceed epsilon by a rounding error.
            and self.sampled * Fraction(promise.epsilon) <= Fraction(self.epsilon)
        ):
            raise ValueError(
                f"a mechanism for one of {self.sampled} coordinates may spend an epsilon of "
                f"{equal_share(self.epsilon, self.sampled)}, not {promise.epsilon}"
            )
        self._require_room()

    def _require_room(self) -> None:
        if not self.codes <= LARGEST_ALPHABET:
            raise ValueError(
                f"{self.dimension} coordinates of {self.mechanism.codes} codes each are more than "
                f"{LARGEST_ALPHABET}; use fewer cells"
            )

    @property
    def cells(self) -> int:
        return self.mechanism.cells

    @property
    def rounding(self) -> ScalarMean:
        """What takes the number in a coordinate to cells."""
        return self.mechanism.rounding

    @property
    def codes(self) -> int:
        return self.dimension * self.mechanism.codes

    @property
    def messages(self) -> float:
        return float(self.sampled)

    @property
    def scale(self) -> float:
        """d / k, by which a decoded message is multiplied."""
        return self.dimension / self.sampled

    @property
    def guarantee(self) -> Guarantee:
        once = self.mechanism.guarantee
        delta = double_up(self.sampled * Fraction(once.delta))
        return Guarantee.of_report(
            self.epsilon,
            min(1.0, delta),
            f"composition of {self.sampled} of {self.dimension} coordinates, chosen whatever the "
            f"row; of each: {once.how}",
        )

    def constants(self) -> dict[str, float]:
        inner = {f"coordinate_{key}": x for key, x in self.mechanism.constants().items()}
        own = {"epsilon": self.epsilon, "dimension": self.dimension, "sampled": self.sampled}
        return inner | own | {"worst_variance": self.worst_variance}

    # ---- the client --------------------------------------------------------------------------

    def choose(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """Which coordinates each of n users reports: all that a client needs to look up.

        Args:
            n: how many users.
            rng: the generator of this process.

        Returns:
            (n, sampled) coordinates, those of a user ascending and distinct.
        """
        return chosen_coordinates(n, self.dimension, self.sampled, rng)

    def send(self, coordinates: ArrayLike, values: ArrayLike, rng: RandomSource) -> Messages:
        """The messages of users for whom it has been drawn what they report.

        Args:
            coordinates: (n, sampled) from `choose`.
            values: (n, sampled) the numbers there, in [-1, 1].
            rng: the generator of this process.

        Returns:
            (n * sampled,) uint64.

        Raises:
            ValueError: a value is outside [-1, 1] or not a number. The message never holds it.
        """
        numbers = np.asarray(values)
        if numbers.shape != np.shape(coordinates):
            raise ValueError("values must be of the shape of coordinates")
        return self._sent(coordinates, self.rounding.encode(numbers.reshape(-1), rng), rng)

    def report(self, values: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client, for rows that are at hand as a block; only what is sent is rounded.

        All of a row is looked at, lest a broken number be noticed only when it is chosen. A client
        that can look up single coordinates is faster with `choose` and `send`.
        """
        rows = rows_in_cube(values, self.dimension)
        coordinates = self.choose(len(rows), rng)
        return self.send(coordinates, np.take_along_axis(rows, coordinates, axis=1), rng)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        rows = self._checked_rows(cells)
        coordinates = self.choose(len(rows), rng)
        picked = np.take_along_axis(rows, coordinates, axis=1)
        return self._sent(coordinates, picked.reshape(-1), rng)

    def _sent(self, coordinates: ArrayLike, cells: NDArray[Any], rng: RandomSource) -> Messages:
        """Messages of cells of given coordinates, row by row."""
        messages = np.array(coordinates, np.uint64).reshape(-1)
        messages *= np.uint64(self.mechanism.codes)
        messages += self.mechanism.perturb(cells, rng)
        return messages

    # ---- the exact law of a report -----------------------------------------------------------

    @property
    def outcomes(self) -> int:
        return int(math.comb(self.dimension, self.sampled) * self.mechanism.codes**self.sampled)

    @property
    def reports(self) -> Sequence[Report]:
        """Ordered by their coordinates, then by their codes."""
        size = self.mechanism.codes
        of = [range(j * size, (j + 1) * size) for j in range(self.dimension)]
        return [report for chosen in combinations(of, self.sampled) for report in product(*chosen)]

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        require_listed(self.outcomes)
        laws: dict[int, NDArray[Any]] = {}
        total = 1
        for inner in (row := self.row(cell).tolist()):
            if inner not in laws:
                numerators, total = self.mechanism.weights(inner)
                laws[inner] = numerators.astype(object)
        parts = [
            reduce(together, (laws[cell] for cell in subset))
            for subset in combinations(row, self.sampled)
        ]
        return np.concatenate(parts), math.comb(self.dimension, self.sampled) * total**self.sampled

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        messages = self.perturb(np.tile(self.row(cell), (size, 1)), rng).astype(np.int64)
        coordinates, codes = np.divmod(messages.reshape(size, -1), self.mechanism.codes)
        subsets = combinations(range(self.dimension), self.sampled)
        places = {subset: index for index, subset in enumerate(subsets)}
        index = np.array([places[tuple(row)] for row in coordinates.tolist()], np.int64)
        for code in codes.T:
            index = index * self.mechanism.codes + code
        return np.bincount(index, minlength=self.outcomes)

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """In closed form: coordinates that hold the same two cells are put together."""
        pairs = Counter(zip(self.row(one).tolist(), self.row(other).tolist(), strict=True))
        # Entry i: the reports of i coordinates among those treated so far.
        sums: list[Mapping[tuple[int, int], int]] = [{(1, 1): 1}]
        totals = (1, 1)
        for pair, times in pairs.items():
            kinds, totals = self.mechanism.kinds(*pair)
            sums = chosen(sums, kinds, times, self.sampled)
        subsets = math.comb(self.dimension, self.sampled)
        first, second = (subsets * total**self.sampled for total in totals)
        return sums[self.sampled], (first, second)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Those of the mechanism, in every coordinate at once.

        A coordinate that two rows share tells nothing of them, and hockey-stick divergences are
        averages over the coordinates that are chosen.
        """
        return [(self.uniform(one), self.uniform(other)) for one, other in self.mechanism.pairs()]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, whatever the dimension: for the shuffle accountant."""
        return sampled_laws({self.mechanism: self.dimension}, self.sampled)

    # ---- the collector -----------------------------------------------------------------------

    def users(self, counts: Counts) -> float:
        """How many users the messages stand for; not an integer if some were lost."""
        return int(np.sum(counts)) / self.sampled

    def sums(self, counts: Counts, power: int = 1) -> Floats:
        """(dimension,) sums of the decoded messages of each coordinate, or of their squares.

        Raises:
            ValueError: counts of another mechanism.
        """
        table = checked_counts(counts, self.codes).reshape(self.dimension, -1).astype(np.float64)
        return np.asarray(table @ self.mechanism.decoded**power)

    @property
    def reach(self) -> Floats:
        return np.array([self.scale * float(np.abs(self.mechanism.decoded).max()) + 1])

    def reporters(self, counts: Counts, n: int) -> Counts:
        return np.asarray(counts.reshape(self.dimension, -1).sum(axis=1))

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        sums, users = self.sums(counts), self.users(counts) if n is None else n
        if not users > 0:
            raise ValueError("there is no report to estimate from")
        return np.asarray(sums * (self.scale / users))

    def estimated_variance(self, counts: Counts) -> Floats:
        squares, users = self.sums(counts, power=2), self.users(counts)
        if not users > 1:
            raise ValueError("at least two reports are needed to judge a variance")
        # Users who did not report a coordinate count as 0 in it, which scaling makes up for on
        # average.
        spread = squares * (self.scale**2 / users) - self.estimate(counts) ** 2
        return np.asarray(spread / (users - 1))

    def variance(self, value: ArrayLike) -> Floats:
        x = np.asarray(value, np.float64)
        return np.asarray(self.scale * (self.mechanism.variance(x) + x * x) - x * x)

    @property
    def worst_variance(self) -> float:
        return largest_scaled(self.mechanism, self.scale)
