"""Two-sided geometric noise without a table: drawn exactly, however far it goes."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields, Floats, require_integer
from mechanisms.randomness import RandomSource
from mechanisms.sampling.integer_noise import LONGEST

_LARGEST = 1 << 56  # of a denominator: sums of draws below it are whole 64-bit numbers
_BEYOND = 44.0  # decays: what a table leaves out has probability e^-44


@dataclass(frozen=True)
class ExactGeometric(AsFields):
    """P(z) proportional to e^(-|z| numerator / denominator), for every integer z.

    A table would have to end somewhere, and what lies at its end would give a total away; coins
    whose odds are quotients of integers need none, so nothing is left over for a delta.

    Attributes:
        numerator, denominator: of how fast the log probability falls, per unit of noise.

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
        2020, Algorithms 1 and 2.

    >>> from mechanisms.randomness import SeededRandom
    >>> noise = ExactGeometric.falling(Fraction(1, 2))
    >>> noise.decay, round(noise.var(), 2), noise.draw(3, SeededRandom(1)).shape
    (Fraction(1, 2), 7.84, (3,))
    """

    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        require_integer("numerator", self.numerator)
        require_integer("denominator", self.denominator)
        if not (self.numerator > 0 and 0 < self.denominator <= _LARGEST):
            raise ValueError(
                f"noise must fall by a quotient of positive integers, the second at most 2^56, not "
                f"{self.numerator} / {self.denominator}; count in coarser units"
            )

    @classmethod
    def falling(cls, decay: Fraction) -> "ExactGeometric":
        """The noise whose log probability falls by so much per unit.

        Args:
            decay: positive.
        """
        return cls(decay.numerator, decay.denominator)

    @property
    def decay(self) -> Fraction:
        """How fast the log probability falls, per unit of noise."""
        return Fraction(self.numerator, self.denominator)

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent noises.

        Args:
            size: how many.
            rng: the generator of this process.

        Returns:
            (size,) int64.
        """
        drawn = np.zeros(size, np.int64)
        left = np.arange(size)
        while left.size:
            below = rng.integers(self.denominator, left.size).astype(np.int64)
            kept = survives(below, self.denominator, rng)
            places, below = left[kept], below[kept]
            whole = _survived(places.size, rng)
            # (below + whole * denominator) // numerator, whose product need not fit into 64 bits.
            times, rest = divmod(self.denominator, self.numerator)
            steps = whole * times + (whole * rest + below) // self.numerator
            minus = rng.bernoulli(1 << 63, places.size)
            drawn[places] = np.where(minus, -steps, steps)
            again = minus & (steps == 0)  # there is one 0, and not two
            left = np.concatenate([left[~kept], places[again]])
        return drawn

    # ---- its law -----------------------------------------------------------------------------

    @property
    def law(self) -> dict[str, Any]:
        """What a release says of it: as of `published_law`, less than e^-44 of it left out."""
        slope = float(self.decay)
        said = {"name": "discrete Laplace", "scale": 1 / slope}
        return {**said, "farthest": -self.first, "falls": [slope, 0.0]}

    def mean(self) -> float:
        """It is symmetric."""
        return 0.0

    def var(self) -> float:
        """2 a / (1 - a)^2, with a = e^-decay."""
        slope = float(self.decay)
        return 2 * math.exp(-slope) / math.expm1(-slope) ** 2

    def isf(self, q: float) -> float:
        """The least integer from 0 on that is exceeded with probability at most q.

        Args:
            q: in (0, 1).
        """
        slope = float(self.decay)
        # P(Z > k) = a^(k + 1) / (1 + a).
        steps = -(math.log(q) + math.log1p(math.exp(-slope))) / slope
        return float(max(math.ceil(steps * (1 - 1e-12)) - 1, 0))

    def below(self, k: int) -> float:
        """P(Z <= k)."""
        slope = float(self.decay)
        beyond = math.exp(-slope * abs(k if k < 0 else k + 1)) / (1 + math.exp(-slope))
        return beyond if k < 0 else 1 - beyond

    @property
    def first(self) -> int:
        """Where the table of `pmf` begins."""
        return -math.ceil(_BEYOND / float(self.decay))

    @cached_property
    def pmf(self) -> Floats:
        """The probabilities from `first` on, for sums of noises.

        Raises:
            ValueError: they are too many.
        """
        if not -2 * self.first < LONGEST:
            raise ValueError(f"a law may have {LONGEST:,} outcomes at the most")
        side = np.exp(-float(self.decay) * np.arange(1.0 - self.first))
        whole = np.concatenate([side[:0:-1], side])
        return np.asarray(whole / whole.sum())


def survives(
    below: NDArray[np.int64], of: int, rng: RandomSource, squared: bool = False
) -> NDArray[np.bool_]:
    """Coins that fall heads with probability exactly e^-x, x = below / of; or e^-(x^2 / 2).

    The first of the coins of odds x, x / 2, x / 3, ... that falls tails is an odd one so often.

    Args:
        below: (n,) at most `of`.
        of: at most 2^56.
        rng: the generator of this process.
        squared: whether it is the second.
    """
    heads = np.zeros(below.size, np.bool_)
    going = np.arange(below.size)
    number = 1
    while going.size:
        on = rng.integers(of, going.size).astype(np.int64) < below[going]
        if squared:
            on &= rng.integers(of, going.size).astype(np.int64) < below[going]
            on &= rng.integers(2, going.size) == 0
        on &= rng.integers(number, going.size) == 0
        heads[going[~on]] = number % 2 == 1
        going, number = going[on], number + 1
    return heads


def _survived(size: int, rng: RandomSource) -> NDArray[np.int64]:
    """How often a coin of odds e^-1 falls heads before it first falls tails.

    So many as powers of e^-1 a uniform number lies below: its first 64 bits tell, but for a chance
    of 2^-58, and then as many more as are needed. By coins it took ten times as long.
    """
    words, times = rng.words(size), np.zeros(size, np.int64)
    going, own, undecided = np.arange(size), words, list[int]()
    for power in _powers(64):
        undecided += going[own == np.uint64(power)].tolist()
        below = own < np.uint64(power)
        going, own = going[below], own[below]
        times[going] += 1
        if not going.size:
            break
    for place in (*undecided, *going.tolist()):  # those left are 0 so far
        times[place] = _decided(int(words[place]), rng)
    return times


def _decided(number: int, rng: RandomSource) -> int:
    """How many powers of e^-1 a number lies below whose first 64 bits are those of one, or 0."""
    powers, bits = _powers(64), 64
    while number in {*powers, 0}:
        bits += 64
        number, powers = number << 64 | int(rng.words(1)[0]), _powers(bits)
    return sum(number < power for power in powers)


@lru_cache(2)
def _powers(bits: int) -> tuple[int, ...]:
    """The first bits of e^-1, e^-2, ... behind the point, as integers above 0."""
    with localcontext() as context:
        context.prec = bits  # digits: far more than the bits have
        fine = ((Decimal(-k).exp() * (1 << bits)) for k in count(1))
        return tuple(takewhile(bool, map(int, fine)))
