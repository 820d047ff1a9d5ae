"""PrivKV: key-value data, of which a user reports one key: whether it is held, and a noisy sign.

A user holds some of d keys, each with a number in [-1, 1]. One key is drawn whatever the user
holds. Whether it is there is told by randomised response; who says yes tells a sign, drawn from the
number, by randomised response, too. Who lies that a key is there tells a sign drawn from a number
made up. So a report is one of three codes of a coordinate that may lack its number, and it is the
coordinates of `mechanisms.vector.limits` by another scalar law.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Counts, Floats, Guarantee
from mechanisms.mean.two_point import duchi
from mechanisms.mean.with_unusable import UnusableLaw, WithUnusable
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.registry import register
from mechanisms.vector.limits import UsableCoordinates
from mechanisms.vector.rows import require_dimension

_WORD = 1 << 64
_SAFE = 1 - 1e-12  # of a root in doubles, so that it is on the private side


@dataclass(frozen=True)
class KeyedNumber(WithUnusable):
    """One key, and its number if it is there: PrivKV's local perturbation protocol.

    Attributes:
        mechanism: what randomises the sign of a number that is there, or made up.
        key_epsilon: of the randomised response on whether the key is there; 0 tells nothing.
        fake: the mean of numbers that are made up, in [-1, 1]; 0 is a uniform number's.

    Source: Ye, Hu, Meng, Zheng, "PrivKV: key-value data collection with local differential
        privacy", S&P 2019, Algorithms 1 and 2. It is priced there as the sum of the two epsilons;
        what it loses is less, as Gu et al. 2020 (PCKV) saw, for who lacks the key has a fair sign.

    >>> one = KeyedNumber(duchi(1.0, cells=1), key_epsilon=1.0)
    >>> one.codes, round(one.epsilon, 4)
    (3, 1.3799)
    """

    key_epsilon: float = 0.0
    fake: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.key_epsilon < math.inf:
            raise ValueError(f"key_epsilon must be a finite number >= 0, not {self.key_epsilon}")
        if not -1 <= self.fake <= 1:
            raise ValueError("fake must be a number of [-1, 1]")
        if self.key_epsilon and not 2 * self.law.chance < _WORD:
            raise ValueError(f"key_epsilon {self.key_epsilon} is too small to be told from 0")

    @cached_property
    def law(self) -> UnusableLaw:
        lower, _ = exponential_bounds(self.key_epsilon)
        lie = ceiling(Fraction(_WORD) / (lower + 1) / 2) * 2
        low, high = (weight / Fraction(self.mechanism.weights(0)[1]) for weight in self._made_up)
        first = math.floor(lie * low / (low + high))
        return UnusableLaw(lie, (first, lie - first))

    @property
    def _made_up(self) -> tuple[Fraction, Fraction]:
        """What a number made up has each sign with, in the units of the mechanism."""
        ends = [self.mechanism.weights(cell)[0] for cell in (0, self.mechanism.cells)]
        share = (1 + Fraction(self.fake)) / 2
        low, high = ((1 - share) * int(ends[0][i]) + share * int(ends[1][i]) for i in (0, 1))
        return low, high

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report, in nats, as it is."""
        return tight_epsilon(self)

    @property
    def guarantee(self) -> Guarantee:
        how = (
            "enumeration of the three codes: two numbers are told apart by their sign alone, and "
            "that a key is there by both answers together"
        )
        return Guarantee.of_report(self.epsilon, 0.0, how)

    def constants(self) -> dict[str, float]:
        return super().constants() | {"key_epsilon": self.key_epsilon}

    def pairs(self) -> Iterable[tuple[int, int]]:
        """The two ends, and each end and no key: all other numbers' laws lie between the ends'."""
        yield from self.mechanism.pairs()
        for end in (0, self.mechanism.cells):
            yield end, self.unusable
            yield self.unusable, end


@register(
    "privkv",
    task="key value",
    sends="one of the d keys: whether it is there, and a noisy sign if so",
    source="Ye, Hu, Meng, Zheng, S&P 2019",
    small=[
        {"epsilon": 1.0, "dimension": 2, "cells": 1},
        {"epsilon": 2.5, "dimension": 1, "cells": 3},
    ],
)
def privkv(epsilon: float, dimension: int, cells: int = 1) -> "PrivKv":
    """PrivKV with as much for the key as for the number, and all of epsilon spent.

    As published both get epsilon / 2 and the report loses less than is claimed; here both get the a
    for which a + ln(2 e^a / (e^a + 1)), what a report loses in truth, is epsilon.

    Args:
        epsilon: privacy loss of one user's report, in nats: of any row to any other.
        dimension: d, how many keys there are.
        cells: how many cells [-1, 1] is cut into; the sign's law does not depend on it.

    Raises:
        ValueError: a parameter is out of range.

    Source: as `KeyedNumber`.

    >>> mechanism = privkv(1.0, dimension=100)
    >>> mechanism.codes, round(mechanism.mechanism.key_epsilon, 4)
    (300, 0.7075)
    """
    require_dimension(dimension)
    half = even_share(epsilon)
    return PrivKv.of(epsilon, dimension, half, half, cells)


def even_share(epsilon: float) -> float:
    """The a for which a key and a number that spend a each lose epsilon together."""
    duchi(epsilon)  # refuses an epsilon that means nothing
    part = 2 * math.expm1(-epsilon) / (math.sqrt(1 + 8 * math.exp(-epsilon)) + 3)
    return (epsilon + math.log1p(part)) * _SAFE


@dataclass(frozen=True)
class PrivKv(UsableCoordinates):
    """One of d keys, by `KeyedNumber`; NaN stands for a key that a user lacks."""

    @classmethod
    def of(
        cls, epsilon: float, dimension: int, of_key: float, of_number: float, cells: int = 1
    ) -> "PrivKv":
        """With what the key and the number spend each, such as epsilon / 2, as published.

        Raises:
            ValueError: together they lose more than epsilon.
        """
        one: Any = KeyedNumber(duchi(of_number, cells), of_key)
        return cls(epsilon, dimension, 1, one)

    def frequencies(self, counts: Counts) -> Floats:
        """(d,) the unbiased share of users who hold each key, of those who reported it."""
        return self.quotients(counts).presence

    def frequency_variance(self, frequency: float, n: int) -> float:
        """Of that share, of n / d users who report the key and hold it with chance `frequency`."""
        present, absent = self.scalar.presence_moments
        square = frequency * present + (1 - frequency) * absent
        return (square - frequency**2) * self.scale / n
