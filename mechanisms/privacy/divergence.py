"""How far apart a mechanism's output laws are: the exact audit, by enumeration.

Every mechanism is a finite channel with rational probabilities, so its true privacy loss can be
computed rather than believed. Codes that are equally likely under both inputs of a pair are
counted together; a linear hash with millions of codes then has four kinds of them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import Mechanism

_LARGEST_ALPHABET = 1 << 26  # codes; some ten seconds and a gigabyte
_UNIT = 2.0**-53  # the rounding unit of a double


def require_loss(epsilon: float) -> None:
    """Refuse an epsilon that is not a finite number of at least 0 (NaN included)."""
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be at least 0 and finite, not {epsilon}")


def require_batch(n: int) -> None:
    """Refuse a number of reports that is not an integer in 1 .. 2^40 (NaN included)."""
    if isinstance(n, bool) or not (1 <= n <= 1 << 40 and n == int(n)):
        raise ValueError(f"n must be a whole number of reports in 1 .. 2^40, not {n}")


def require_delta(delta: float) -> None:
    """Refuse a delta that is not a number strictly between 0 and 1 (NaN included)."""
    try:
        meant = 0 < delta < 1
    except TypeError:
        meant = False
    if not meant:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta!r}")


@dataclass(frozen=True)
class _Pair:
    """Two output laws, as kinds of codes: `count` codes have weights (first, second)."""

    inputs: tuple[int, int]
    first: list[int]
    second: list[int]
    count: list[int]
    denominators: tuple[int, int]

    def largest_ratio(self) -> Fraction | None:
        """sup P(code | first) / P(code | second), or None if it is unbounded."""
        if any(a > 0 and b == 0 for a, b in zip(self.first, self.second, strict=True)):
            return None
        ratios = (Fraction(a, b) for a, b in zip(self.first, self.second, strict=True) if b)
        return max(ratios) * Fraction(self.denominators[1], self.denominators[0])

    def excess(self, multiplier: Fraction) -> Fraction:
        """sum over codes of (P(code | first) - multiplier P(code | second))_+, exactly."""
        scale = multiplier * Fraction(self.denominators[0], self.denominators[1])
        up, down = scale.numerator, scale.denominator
        # In integers: a sum of doubles could round a small surplus away, and a false claim would
        # pass.
        total = sum(
            n * surplus
            for a, b, n in zip(self.first, self.second, self.count, strict=True)
            if (surplus := a * down - b * up) > 0
        )
        return Fraction(total, down * self.denominators[0])


def _pairs(mechanism: Mechanism) -> Iterator[_Pair]:
    """Every representative pair of the mechanism, grouped."""
    for one, other in mechanism.pairs():
        kinds, denominators = mechanism.kinds(one, other)
        first, second = zip(*kinds, strict=True)
        yield _Pair((one, other), list(first), list(second), list(kinds.values()), denominators)


@dataclass(frozen=True)
class Spectrum:
    """What any pair of inputs can be told apart by: a channel, enumerated once.

    Attributes:
        pairs: the mechanism's representative pairs, at least one.
    """

    pairs: tuple[_Pair, ...]

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Spectrum":
        """Enumerate a mechanism.

        Raises:
            ValueError: it has no pair of inputs to tell apart, or too many codes.
        """
        if not mechanism.codes <= _LARGEST_ALPHABET:
            raise ValueError(
                f"{mechanism.codes:,} codes are more than the {_LARGEST_ALPHABET:,} that can be "
                "enumerated; choose a smaller domain or hash range"
            )
        pairs = tuple(_pairs(mechanism))
        if not pairs:
            raise ValueError("a mechanism needs at least two inputs to have a privacy loss")
        return cls(pairs)

    @property
    def epsilon(self) -> float:
        """As `tight_epsilon`."""
        ratios = [pair.largest_ratio() for pair in self.pairs]
        bounded = [ratio for ratio in ratios if ratio is not None]
        return log_up(max(bounded)) if len(bounded) == len(ratios) else math.inf

    def worst(self, epsilon: float) -> tuple[tuple[int, int], float]:
        """The pair with the largest hockey-stick divergence at an epsilon, and that divergence."""
        require_loss(epsilon)
        multiplier, _ = exponential_bounds(epsilon)  # below e^epsilon, by less than 10^-50 of it
        scored = ((pair.inputs, pair.excess(multiplier)) for pair in self.pairs)
        inputs, excess = max(scored, key=lambda item: item[1])
        return inputs, double_up(excess)


def tight_epsilon(mechanism: Mechanism) -> float:
    """The least epsilon for which one report is epsilon-LDP.

    Args:
        mechanism: any finite channel.

    Returns:
        sup over pairs and codes of the log likelihood ratio, in nats, from exact integers and
        rounded up to the next double; infinite if some code gives an input away.

    Raises:
        ValueError: the mechanism has no pair of inputs to tell apart.
    """
    return Spectrum.of(mechanism).epsilon


def tight_delta(mechanism: Mechanism, epsilon: float) -> float:
    """The least delta for which one report is (epsilon, delta)-LDP.

    Args:
        mechanism: any finite channel.
        epsilon: at least 0, in nats.

    Returns:
        The hockey-stick divergence, maximised over pairs of inputs, from exact rationals and
        rounded up: never below the truth, and at most a few units in the last place above.

    Raises:
        ValueError: epsilon is negative, infinite or not a number.
    """
    return Spectrum.of(mechanism).worst(epsilon)[1]


def worst_pair(mechanism: Mechanism, epsilon: float) -> tuple[int, int]:
    """The ordered pair of inputs whose hockey-stick divergence at epsilon is the largest.

    Args:
        mechanism: any finite channel.
        epsilon: at least 0, in nats.

    Returns:
        (input, other input); the first of the mechanism's representatives in case of a tie.

    Raises:
        ValueError: epsilon is negative, infinite or not a number.
    """
    return Spectrum.of(mechanism).worst(epsilon)[0]


def log_up(ratio: Fraction) -> float:
    """The least double x >= 0 that is certain to satisfy e^x >= ratio.

    Args:
        ratio: a positive rational.

    Returns:
        The logarithm, rounded up; 0 for ratios up to 1.
    """
    if ratio <= 1:
        return 0.0
    near = math.log1p(float(ratio - 1)) if ratio < 2 else math.log(ratio)
    # From surely too small upwards, one double at a time, until an exact bound of e^x agrees.
    x = near * (1 - 8 * _UNIT)
    while exponential_bounds(x)[0] < ratio:
        x = math.nextafter(x, math.inf)
    return x


def double_up(value: Fraction) -> float:
    """The least double that is not below a rational."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
