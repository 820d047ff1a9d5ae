"""The noise of a counter that the shuffler draws: mu + Z, Z on -mu .. mu, as exact tables.

A number of dummies cannot be negative, hence the offset and the two ends. What lies at an end
shows a user for certain, and is part of delta. The law that is priced is the table itself, so
nothing is lost between the two.

Laws of noise as records, for statements: what a reader draws by himself, in any language.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import AsFields, Floats, require_integer
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, Words
from mechanisms.sampling.integer_noise import IntegerNoise
from mechanisms.sampling.integer_tables import AliasTable

if TYPE_CHECKING:
    from typing_extensions import Self

LARGEST_MU = 1 << 20
STEEPEST = 40.0
"""Of slopes: less is left of steeper noise than tables of 2^-64 can hold."""
LEAST_SIGMA = 0.112
"""Whose first step is as steep."""

_BITS = 128  # to which terms are computed, for weights of 64
_WORD = 1 << 64
_UNIT = 2.0**-53
_BLOCK = 1 << 20  # draws at a time
_ALIKE = 512  # parts of a standard deviation that searches tell apart


def recorded(noise: Any) -> Any:
    """A law of noise, or several, as JSON: the name of each and its parameters.

    Args:
        noise: of counters: a frozen dataclass of numbers, of laws, or of tuples of either.

    >>> from mechanisms.counters.noise import Gaussian
    >>> recorded((Gaussian(mu=20, sigma=2.5),))
    [{'law': 'gaussian', 'mu': 20, 'sigma': 2.5}]
    """
    if isinstance(noise, tuple):
        return [recorded(part) for part in noise]
    if not is_dataclass(noise):
        return noise
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(noise).__name__).lower()
    return {"law": name} | {
        field.name: recorded(getattr(noise, field.name)) for field in fields(noise) if field.init
    }


def laws_in(record: Any) -> Iterator[tuple[str, dict[str, float]]]:
    """(name, parameters) of every law in a record that is made of no others.

    >>> [*laws_in({"law": "independent", "laws": [{"law": "laplace", "mu": 4, "slope": 2.0}]})]
    [('laplace', {'mu': 4, 'slope': 2.0})]
    """
    if isinstance(record, list):
        for part in record:
            yield from laws_in(part)
    elif isinstance(record, dict):
        inner = [part for part in record.values() if isinstance(part, (dict, list))]
        inner_laws = [law for part in inner for law in laws_in(part)]
        own = {name: part for name, part in record.items() if isinstance(part, (int, float))}
        yield from inner_laws or [(record["law"], own)]


@dataclass(frozen=True)
class ShufflerNoise(AsFields):
    """A law on -mu .. mu, symmetric and falling on either side, in multiples of 2^-64.

    Attributes:
        mu: the offset, and the farthest that the noise goes; at most 2^20.
    """

    mu: int

    def __post_init__(self) -> None:
        require_integer("mu", self.mu)
        if not 0 < self.mu <= LARGEST_MU:
            raise ValueError(
                f"a counter would need {self.mu:,} dummies, and mu must lie in 1 .. "
                f"{LARGEST_MU:,}; choose a larger epsilon or delta (1e-12 is small for any number "
                "of people), or let a user raise fewer counters"
            )

    @property
    @abstractmethod
    def falls(self) -> tuple[float, float]:
        """(x, y): P(k) / P(k - 1) is e^-(x + (k - 1) y) for k = 1 .. mu."""

    @cached_property
    def weights(self) -> Words:
        """(2 mu + 1,) how often each of -mu .. mu comes in 2^64 draws."""
        return _weights(*self.falls, self.mu)

    @cached_property
    def pmf(self) -> Floats:
        """(2 mu + 1,) the same as probabilities."""
        return np.asarray(self.weights.astype(np.float64) * 2.0**-64)

    @property
    def mean(self) -> int:
        """Of the dummies: Z is symmetric."""
        return self.mu

    @cached_property
    def variance(self) -> float:
        """Of Z, and of the dummies."""
        return float(self.pmf @ np.arange(-self.mu, self.mu + 1.0) ** 2)

    def seen(self, shift: int = 1) -> BinLaw:
        """What is seen of the counter if a user raises it, and if not.

        Args:
            shift: by how much at the most.
        """
        # Whoever raises it by less shows less, for the law is log-concave: the best tests of every
        # step are thresholds, and these compose. So raising two counters that share the shift shows
        # less, too: a test of one after the other gains no more than two steps of this one. But for
        # what rounding moved: a quarter of this distance for each law of the two counters.
        distance = self.rounded(shift)
        apart = np.zeros(shift)
        raised, free = np.append(apart, self.pmf), np.append(self.pmf, apart)
        return BinLaw(raised, free, relative=_UNIT, distance=distance)

    def rounded(self, shift: int) -> float:
        """How far the table is from a law of which more than a step shows no more; see `seen`."""
        return 8 * self.mu * 2.0**-64 if shift > 1 else 0.0

    def nearly(self, shift: int = 1) -> BinLaw:
        """`seen` in doubles: for searches, which make many laws and keep one."""
        side = self._side
        whole = np.concatenate([side[:0:-1], side])
        apart = np.zeros(shift)
        return BinLaw(np.append(apart, whole), np.append(whole, apart))

    @property
    def rough_variance(self) -> float:
        """`variance` in doubles, to choose among laws by."""
        return float(2 * self._side @ np.arange(float(self.mu + 1)) ** 2)

    @property
    def _side(self) -> Floats:
        """(mu + 1,) the probabilities of 0 .. mu in doubles."""
        return _falling(*self.falls, self.mu)

    @abstractmethod
    def widened(self, factor: float, shift: int = 1) -> "Self":
        """The law that is so many times as wide, whose ends are about as unlikely.

        Args:
            factor: above 0.
            shift: as of `seen`.
        """

    def shortened(self, ends: float) -> "Self":
        """The same law with as few dummies as its ends allow; itself if it has none too many.

        Args:
            ends: of the outermost value on one side, in (0, 1): its probability at the most.
        """
        side = self._side
        met = np.flatnonzero(side <= ends * (2 * side.cumsum() - side[0]))
        return replace(self, mu=max(1, int(met[0]))) if met.size else self

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Numbers of dummies.

        Args:
            size: of how many counters.
            rng: the generator of the shuffler's process.

        Returns:
            (size,) int64 in 0 .. 2 mu, independent.
        """
        drawn = np.empty(size, np.int64)
        for start in range(0, size, _BLOCK):
            words = rng.words(min(_BLOCK, size - start))
            drawn[start : start + _BLOCK] = self._alias.draw(words)
        return drawn

    @cached_property
    def _alias(self) -> AliasTable:
        return AliasTable.of(self.weights)


@dataclass(frozen=True)
class Laplace(ShufflerNoise):
    """Truncated discrete Laplace noise, P(z) proportional to e^(-slope |z|).

    Attributes:
        slope: the loss of a counter that is raised by one, in nats.

    Source: Ghosh, Roughgarden, Sundararajan, STOC 2009, drawn by the shuffler as in Murakami, Sei,
        Eriguchi, "Augmented shuffle protocols for accurate and robust frequency estimation under
        differential privacy", 2025, arXiv 2504.07362.

    >>> noise = Laplace(14, slope=1.0)
    >>> round(noise.variance, 4)
    1.8412
    """

    slope: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.slope < math.inf:
            raise ValueError(f"slope must be a positive, finite number, not {self.slope}")

    @classmethod
    def ending(cls, slope: float, ends: float, shift: int = 1) -> "Laplace":
        """The noise with the fewest dummies whose end has no more than a given probability.

        Args:
            slope: as above.
            ends: of the outermost values on one side, in (0, 1).
            shift: how many values are an end: by how much a user may raise the counter.
        """
        decay = math.exp(-slope)
        # Without a middle the law would not be one, whatever its ends may hold.
        mu = max(shift, 1)
        tail = -math.expm1(-slope * shift) / (1 + decay)
        mu = max(mu, shift - 1 + math.floor(math.log(tail / ends) / slope))
        while True:
            whole = 1 - 2 * math.exp(-slope * (mu + 1)) / (1 + decay)
            if tail * math.exp(-slope * (mu + 1 - shift)) <= ends * whole * (1 - 1e-9):
                return cls(mu, slope)
            mu += 1

    def widened(self, factor: float, shift: int = 1) -> "Laplace":
        decay = math.exp(-self.slope)
        tail = -math.expm1(-self.slope * shift) / (1 + decay)
        whole = 1 - 2 * math.exp(-self.slope * (self.mu + 1)) / (1 + decay)
        ends = tail * math.exp(-self.slope * (self.mu + 1 - shift)) / whole
        return Laplace.ending(min(self.slope / factor, STEEPEST), ends, shift)

    @property
    def falls(self) -> tuple[float, float]:
        return self.slope, 0.0

    def nearly(self, shift: int = 1) -> BinLaw:
        # Most outcomes tell alike: left of all that a user moves, and right of it.
        if not self.mu >= shift:
            return super().nearly(shift)
        slope, rest = self.slope, self.mu - shift
        moved = np.exp(-slope * np.arange(shift + 1.0))
        flat = math.expm1(-slope * (rest + 1)) / math.expm1(-slope)
        end = math.exp(-slope * (rest + 1)) * math.expm1(-slope * shift) / math.expm1(-slope)
        free = np.concatenate([[end, flat], moved[1:-1], [flat * moved[-1], 0.0]])
        free /= free.sum()
        return BinLaw(free[::-1], free)


@dataclass(frozen=True)
class Gaussian(ShufflerNoise):
    """Truncated discrete Gaussian noise, P(z) proportional to e^(-z^2 / (2 sigma^2)).

    Attributes:
        sigma: the standard deviation, nearly.

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
        2020, Definition 1.

    >>> round(Gaussian(90, sigma=10.0).variance, 3)
    100.0
    """

    sigma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.05 <= self.sigma < math.inf:
            raise ValueError(f"sigma must be at least 0.05 and finite, not {self.sigma}")

    @classmethod
    def ending(cls, sigma: float, ends: float) -> "Gaussian":
        """The noise whose end has about a given probability, at most; see `Laplace.ending`."""
        # Mills' ratio: P(mu) is below e^(-mu^2 / 2 sigma^2) / sigma, and above 1 nobody is counted.
        reach = math.sqrt(2 * max(math.log(max(1.0, 1 / sigma) / ends), 1.0))
        return cls(math.ceil(reach * sigma) + 1, sigma)

    def widened(self, factor: float, shift: int = 1) -> "Gaussian":
        sigma = max(factor * self.sigma, LEAST_SIGMA)
        return Gaussian(math.ceil((self.mu - 1) / self.sigma * sigma) + 1, sigma)

    @property
    def falls(self) -> tuple[float, float]:
        return 0.5 / self.sigma**2, 1 / self.sigma**2

    def nearly(self, shift: int = 1) -> BinLaw:
        # Outcomes a small part of a standard deviation apart tell nearly alike, and together they
        # are sooner composed.
        law, alike = super().nearly(shift), int(self.sigma // _ALIKE)
        end = law.free.size - shift
        if alike < 2 or not end > shift:
            return law
        # But for those that give a user away: beside others they would be a loss far from all
        # others, and windows that reach there took a search at epsilon 0.001 six CPU seconds.
        starts = np.concatenate([[0], np.arange(shift, end, alike), [end]])
        return BinLaw(np.add.reduceat(law.occupied, starts), np.add.reduceat(law.free, starts))


def nearly(law: ShufflerNoise, shift: int = 1) -> BinLaw:
    """`ShufflerNoise.nearly` as each family has it."""
    return law.nearly(shift)


@lru_cache(maxsize=64)
def _weights(first: float, more: float, mu: int) -> Words:
    """A symmetric table of ratios that fall as a geometric series, rounded down; see `falls`."""
    # In integers, so that whoever prices the table and whoever draws from it have the same one.
    ratio, step = (int(exponential_bounds(-min(x, 1e4))[0] * (1 << _BITS)) for x in (first, more))
    side, term = [], 1 << _BITS
    for _ in range(mu):
        term = term * ratio >> _BITS
        if not term >> 64:
            break  # what is left is less than a part in 2^64 of the middle
        ratio = ratio * step >> _BITS
        side.append(term)
    total = (1 << _BITS) + 2 * sum(side)
    outer = np.zeros(mu, np.uint64)
    outer[: len(side)] = [(term << 64) // total for term in side]
    # What rounding leaves goes to the middle, where it changes the ratios least.
    middle = _WORD - 2 * sum(outer.tolist())
    if not middle < _WORD:
        raise ValueError("the noise is nothing but its middle; a smaller epsilon has more")
    return np.concatenate([outer[::-1], np.array([middle], np.uint64), outer])


def published_law(farthest: int, falls: Sequence[float]) -> IntegerNoise:
    """The law of noise whose table a release describes, in doubles.

    Args:
        farthest: mu.
        falls: as of `ShufflerNoise`.

    Raises:
        ValueError: no noise is described so.

    >>> round(published_law(14, [1.0, 0.0]).var(), 4)
    1.8412
    """
    require_integer("farthest", farthest)
    if not 0 < farthest <= LARGEST_MU:
        raise ValueError(f"noise goes as far as 1 .. {LARGEST_MU:,}, not {farthest:,}")
    x, y = map(float, falls)
    if not (0 <= min(x, y) and 0 < x + y < math.inf):
        raise ValueError("probabilities must fall on either side")
    side = _falling(x, y, farthest)
    return IntegerNoise(-farthest, np.concatenate([side[:0:-1], side]))


def _falling(x: float, y: float, mu: int) -> Floats:
    """(mu + 1,) the probabilities of 0 .. mu in doubles."""
    k = np.arange(float(mu + 1))
    side = np.exp(-np.minimum(x * k + y * k * (k - 1) / 2, 700))
    return np.asarray(side / (2 * side.sum() - side[0]))
