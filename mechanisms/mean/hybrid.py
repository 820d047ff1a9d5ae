"""A public coin between a window and two points: HM, and the best of all such mixtures.

Each side of the coin keeps its own codes, so the report shows how the coin fell and is decoded
accordingly: either side is unbiased by itself and spends (epsilon, delta) by itself.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats, Kinds, Messages, require_epsilon, require_integer
from mechanisms.mean.scalar import (
    SMALL,
    SMALL_WITH_DELTA,
    ScalarMean,
    require_alphabet,
    require_cells,
    require_slack,
)
from mechanisms.mean.two_point import TwoPoint, TwoPointLaw
from mechanisms.mean.widths import moments, piecewise
from mechanisms.mean.window import Window, WindowLaw
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register

_WORD = 1 << 64
_FINEST = 1 << 30  # words for each step of the points, so that rounding costs no accuracy

# Below this epsilon HM's coin always falls on Duchi's side: there PM's variance at 0 is Duchi's.
CROSSING = math.log(
    (
        -5
        + 2 * (6353 - 405 * math.sqrt(241)) ** (1 / 3)
        + 2 * (6353 + 405 * math.sqrt(241)) ** (1 / 3)
    )
    / 27
)


@dataclass(frozen=True)
class Hybrid(ScalarMean):
    """With a given probability a window's report, else a two-point report.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        cells: N, how many cells [-1, 1] is cut into.
        width: W, the width of the window, in codes; at most N.
        share: the probability of a window's report, in (0, 1).
        delta: the probability mass outside epsilon, spent exactly.

    >>> mechanism = Hybrid(epsilon=2.0, cells=1024, width=377, share=0.632)
    >>> mechanism.codes, round(mechanism.worst_variance, 3)
    (1403, 1.042)
    """

    epsilon: float
    cells: int
    width: int
    share: float
    delta: float = 0.0
    representatives: ClassVar[Iterable[int]] = (0,)

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_cells(self.cells)
        require_slack(self.delta)
        require_integer("width", self.width, 1, self.cells)
        if not 0 < self.share < 1:
            raise ValueError(f"share must be above 0 and below 1, not {self.share}")
        require_alphabet(self.codes, "use fewer cells")
        if not (self.window.inside > self.window.outside and self.points.step > 0):
            raise ValueError(
                f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits, or share "
                f"{self.share} too close to 0 or 1"
            )

    @cached_property
    def window(self) -> WindowLaw:
        """The window's integers; its total is its share of all words."""
        # Each side keeps to epsilon within its own words, so the coin's odds need no more care than
        # that.
        room = math.floor(self.share * _WORD)
        return WindowLaw.within(room, self.epsilon, self.delta, self.cells, self.width)

    @cached_property
    def points(self) -> TwoPointLaw:
        """The two points' integers: what the window leaves of the words."""
        # Even, for the two points share it out in halves.
        room = (_WORD - self.window.total) // 2 * 2
        return TwoPointLaw.within(room, self.epsilon, self.delta, self.cells)

    @property
    def total(self) -> int:
        """The weight of all codes."""
        return self.window.total + self.points.total

    @property
    def codes(self) -> int:
        return self.cells + self.width + 2

    derivation = (
        "closed form: a public coin between two channels whose 64-bit weights keep to epsilon "
        "and delta, rounded to the private side"
    )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "scale": float(self.points.scale),
            "slope": float(self.window.slope),
        }

    @cached_property
    def decoded(self) -> Floats:
        return np.concatenate([self.window.decoded, self.points.decoded])

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        share = self.window.total / self.total
        windows = self.window.second_moment(self._value(cells))
        return share * windows + (1 - share) * float(self.points.scale**2)

    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        draws, mass = rng.integers(self.total, cells.size), np.uint64(self.window.total)
        beyond = np.uint64(self.window.codes)
        # Below the window's mass this wraps around, and what comes of it is not chosen.
        points = self.points.pick(draws - mass, cells) + beyond
        return np.where(draws < mass, self.window.pick(draws, cells), points)

    def weights(self, cell: int) -> tuple[Words, int]:
        j = int(self._checked([cell])[0])
        return np.concatenate([self.window.weights(j), self.points.weights(j)]), self.total

    @property
    def extremes(self) -> tuple[Sequence[int], Sequence[int], int]:
        sides = self.window.extremes, self.points.extremes
        most, least = (window + points for window, points in zip(*sides, strict=True))
        return most, least, self.total

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        first, second = (int(cell) for cell in self._checked([one, other]))
        kinds = Counter(self.window.kinds(abs(first - second)))
        laws = (self.points.weights(cell).tolist() for cell in (first, second))
        kinds.update(zip(*laws, strict=True))
        return kinds, (self.total,) * 2

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: the ends of the grid differ most on either side of the coin."""
        return [(0, self.cells)]


@register(
    "hm",
    task="mean",
    sends="what `pm` or `duchi` sends, drawn at random",
    source="Wang, Xiao, Yang et al., ICDE 2019",
    small=SMALL,
)
def hm(epsilon: float, cells: int = 1024) -> ScalarMean:
    """HM, the hybrid mechanism: PM with probability 1 - e^(-epsilon/2), else Duchi's.

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism; up to epsilon = 0.609 it is Duchi's alone.

    Raises:
        ValueError: a parameter is out of range.

    Source: Wang et al., "Collecting and analyzing multidimensional data with local differential
        privacy", ICDE 2019, section III-C and Lemma 3.
    """
    require_epsilon(epsilon)
    require_cells(cells)
    if epsilon <= CROSSING:
        return TwoPoint(epsilon, cells)
    width, share = piecewise(epsilon, cells).width, -math.expm1(-epsilon / 2)
    return _mixed(epsilon, cells, width, share, 0.0)


@register(
    "hybrid_optimal",
    task="mean",
    sends="by the best coin, a code near the value or one of two",
    source="the best mixture of a window and two points",
    searched=True,
    small=SMALL + SMALL_WITH_DELTA,
)
def hybrid_optimal(epsilon: float, delta: float = 0.0, cells: int = 1024) -> ScalarMean:
    """The mixture of a window and two points of least worst-case variance.

    For a window of given width the variance does not depend on the value if the coin's probability
    is the window's slope; otherwise two points alone are best. Every width is tried.

    Args:
        epsilon: privacy loss of one report, in nats.
        delta: the probability mass outside it, in [0, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism, which spends delta exactly; at small epsilon it is two points alone.

    Raises:
        ValueError: a parameter is out of range.
    """
    require_epsilon(epsilon)
    require_slack(delta)
    require_cells(cells)
    points = TwoPoint(epsilon, cells, delta)
    square = float(points.law.scale**2)
    slope, spread = moments(epsilon, delta, cells, np.arange(1.0, cells + 1))
    mixed = slope * spread + (1 - slope) * square
    best = int(np.argmin(mixed))
    # A window that is no better than its points is only more codes.
    if not mixed[best] < square:
        return points
    return _mixed(epsilon, cells, best + 1, float(slope[best]), delta)


def _mixed(epsilon: float, cells: int, width: int, share: float, delta: float) -> ScalarMean:
    """The mixture; the window alone where too few words are left for the steps of the points."""
    if (1 - share) * _WORD < cells * _FINEST:
        return Window(epsilon, cells, width, delta)
    return Hybrid(epsilon, cells, width, share, delta)
