"""One noisy sign of a random row of a public matrix: what SHist and TreeHist's oracle share."""

import itertools
from abc import abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Guarantee, Kinds, Messages, require_epsilon, require_integer
from mechanisms.papers.public_seed import PublicSeed
from mechanisms.privacy.pair_law import ShuffleLaws, linear_hash_laws
from mechanisms.randomness import RandomSource, Words

_WORD = 1 << 64
_BLOCK = 1 << 15  # reports perturbed at a time, so that they stay in a core's cache
_COMPARED = 64  # values of which every two are compared, sign by sign


class NoisySign(PublicSeed):
    """The sign of the value in a uniform random row, by randomised response on two symbols.

    The code of a report is 2 row + (1 if the noisy sign is negative). A report supports the
    values whose sign in that row it tells: the holder's with probability e^epsilon / (e^epsilon +
    1), and any other value, over the public seed, with probability 1/2.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        seed: the public randomness that the signs come from.
    """

    epsilon: float
    domain_size: int
    seed: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_integer("domain_size", self.domain_size, 2)
        require_integer("seed", self.seed)
        if not self.keep_weight > self.miss_weight:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    @property
    @abstractmethod
    def height(self) -> int:
        """How many rows the matrix has."""

    @abstractmethod
    def negative(self, rows: Words, cells: NDArray[Any]) -> NDArray[np.bool_]:
        """Which entries of the matrix are -1; the others are 1.

        Args:
            rows: integers in 0 .. height - 1, of a shape that broadcasts with `cells`.
            cells: integers in 0 .. domain_size - 1.

        Returns:
            bool, of the common shape.
        """

    @property
    def codes(self) -> int:
        """2 x height: the code of a report is 2 row + sign."""
        return 2 * self.height

    # ---- randomised response on a sign -------------------------------------------------------

    @cached_property
    def miss_weight(self) -> int:
        """P(the wrong sign) in units of 2^-64, rounded up: away from the truth."""
        lower, _ = exponential_bounds(self.epsilon)
        return ceiling(Fraction(_WORD) / (lower + 1))

    @cached_property
    def keep_weight(self) -> int:
        """P(the right sign) in units of 2^-64; at most e^epsilon times `miss_weight`."""
        return _WORD - self.miss_weight

    @cached_property
    def keep(self) -> float:
        """P(support | holder), e^epsilon / (e^epsilon + 1)."""
        return self.keep_weight / _WORD

    @property
    def other(self) -> float:
        """P(support | not holder), over the public seed: exactly 1/2."""
        return 0.5

    @cached_property
    def contrast(self) -> float:
        """keep - 1/2, without cancellation."""
        return (self.keep_weight - self.miss_weight) / (2 * _WORD)

    @property
    def collision(self) -> float:
        """1/height: the mean square of the average of so many random signs."""
        return 1 / self.height

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon,
            0.0,
            "closed form: the row is drawn without looking at the value, and a sign's "
            "probabilities differ by at most e^epsilon; the 64-bit thresholds are rounded to the "
            "private side; that the signs are public costs nothing",
        )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "height": self.height,
            "collision": self.collision,
            "keep": self.keep,
            "other": self.other,
        }

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        values = self._checked(cells)
        messages = np.empty(values.size, np.uint64)
        for start in range(0, values.size, _BLOCK):
            block = values[start : start + _BLOCK]
            # The row is drawn without the value: what it says of the value is in the noisy sign
            # alone.
            rows = rng.integers(self.height, block.size)
            lies = rng.bernoulli(self.miss_weight, block.size)
            messages[start : start + _BLOCK] = 2 * rows + (self.negative(rows, block) ^ lies)
        return messages

    # ---- the exact channel -------------------------------------------------------------------

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        truth = self._column(int(self._checked([cell])[0])).astype(np.intp)
        table = np.full((self.height, 2), self.miss_weight, np.uint64)
        table[np.arange(self.height), truth] = self.keep_weight
        return table.ravel(), _WORD * self.height

    def _column(self, cell: int) -> NDArray[np.bool_]:
        """(height,) which of a value's signs are -1."""
        return self.negative(np.arange(self.height, dtype=np.uint64), np.array(cell))

    def differing(self, one: int, other: int) -> int:
        """In how many rows two values have different signs."""
        signs = self._compared
        first, second = (
            signs[cell] if cell < len(signs) else np.packbits(self._column(cell))
            for cell in (one, other)
        )
        # Packed, a comparison of 2^20 signs reads 128 KiB and not a MiB.
        return int(np.bitwise_count(first ^ second).sum(dtype=np.int64))

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """In closed form: rows in which the two signs differ tell the values apart, others not."""
        keep, miss = self.keep_weight, self.miss_weight
        apart = self.differing(one, other)
        alike = self.height - apart
        kinds = {(keep, keep): alike, (miss, miss): alike, (keep, miss): apart, (miss, keep): apart}
        denominator = _WORD * self.height
        return {kind: count for kind, count in kinds.items() if count}, (denominator, denominator)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair for each number of rows that tell two values apart, the largest first.

        Only that number matters: either order of the pair has the same kinds of codes. In a
        domain of more than 64 values the one pair of the first 64 is taken that differs in most
        rows. Another may differ in a few more; the loss at delta 0 is that of any two that differ.
        """
        ranked = [pair for _, pair in sorted(self._apart.items(), reverse=True)]
        return ranked if self.domain_size <= _COMPARED else ranked[:1]

    @cached_property
    def _compared(self) -> NDArray[np.uint8]:
        """(up to 64, height / 8) the signs of the first values, packed."""
        cells = range(min(self.domain_size, _COMPARED))
        return np.stack([np.packbits(self._column(cell)) for cell in cells])

    @cached_property
    def _apart(self) -> dict[int, tuple[int, int]]:
        """Number of differing rows -> a pair of the first values that has it."""
        first_pairs: dict[int, tuple[int, int]] = {}
        for one, other in itertools.combinations(range(len(self._compared)), 2):
            first_pairs.setdefault(self.differing(one, other), (one, other))
        return first_pairs

    @property
    def farthest(self) -> int:
        """In how many rows two values may differ: in a domain too large to compare all, in each."""
        return max(self._apart) if self.domain_size <= _COMPARED else self.height

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, in closed form: for the shuffle accountant.

        From above, two values that differ in as many rows as any two may. From below, two that
        were compared, all other users holding one of them.
        """
        attained = self._laws(max(self._apart)).attained[:2]
        return ShuffleLaws(self._laws(self.farthest).dominating, attained, self.epsilon)

    def _laws(self, apart: int) -> ShuffleLaws:
        """The laws of two values that differ in so many rows."""
        keep, miss = Fraction(self.keep_weight, _WORD), Fraction(self.miss_weight, _WORD)
        alike = Fraction(self.height - apart, self.height)
        # All three of a triple agree in as few rows as they can; the laws that use it are left.
        triple = max((3 * alike - 1) / 2, Fraction(0))
        return linear_hash_laws(self.epsilon, keep, miss, 2, (alike, triple), self.domain_size)
