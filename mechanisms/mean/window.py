"""A window of likelier codes that slides with the value: PM, square wave (NM), IM, and the best.

Cell j of 0 .. N has its window at the codes [j + margin, j + margin + width); each code in it has
one probability, each other code another. Moving the window by s cells changes min(s, width) codes
at either end and nothing else, so what the channel reveals about any two cells it reveals about
cells 0 and N. The mean of the code is linear in the cell, so decoding is affine and unbiased.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import Floats, Kinds, Messages, require_epsilon, require_integer
from mechanisms.mean.scalar import ScalarMean, require_alphabet, require_cells, require_slack
from mechanisms.postprocess.channel_products import SlidingWindow
from mechanisms.randomness import RandomSource, Words

_WORD = 1 << 64


@dataclass(frozen=True)
class WindowLaw:
    """The integer weights of a window channel, and what follows from them.

    Attributes:
        cells: N.
        width: W, how many codes a window has.
        margin: codes beyond the outermost windows, at either end.
        inside: the weight of each code of the window.
        outside: the weight of each other code.
    """

    cells: int
    width: int
    margin: int
    inside: int
    outside: int

    @classmethod
    def within(
        cls, room: int, epsilon: float, delta: float, cells: int, width: int, margin: int = 0
    ) -> "WindowLaw":
        """The weights that spend (epsilon, delta), as large as fit into a total of `room`.

        With M = min(W, N) and R codes outside a window, the hockey-stick divergence is
        M (inside - e^epsilon outside) / (W inside + R outside), which delta bounds.
        """
        lower, _ = exponential_bounds(epsilon)
        # Rationals, from a lower bound of e^epsilon: nothing here is rounded before the integers
        # are.
        slack, overlap, rest = Fraction(delta), min(width, cells), cells + 2 * margin
        ratio = (lower * overlap + slack * rest) / (overlap - slack * width)
        # The larger the integers, the nearer their ratio comes to the one allowed; it never exceeds
        # it.
        outside = max(1, math.floor(room / (width * ratio + rest)))
        inside = min(math.floor(outside * ratio), (room - rest * outside) // width)
        return cls(cells, width, margin, inside, outside)

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return self.cells + self.width + 2 * self.margin

    @property
    def inside_mass(self) -> int:
        """The weight of the whole window."""
        return self.width * self.inside

    @property
    def total(self) -> int:
        """The weight of all codes."""
        return self.inside_mass + (self.codes - self.width) * self.outside

    @property
    def products(self) -> SlidingWindow:
        """As expectation maximisation needs it."""
        inside, outside = self.inside / self.total, self.outside / self.total
        return SlidingWindow(self.cells, self.width, inside, outside, self.margin)

    @cached_property
    def slope(self) -> Fraction:
        """By how much the mean code moves when the cell moves by one."""
        return Fraction(self.width * (self.inside - self.outside), self.total)

    @cached_property
    def spread(self) -> Fraction:
        """Mean square of the decoded report at value 0; at x it is this plus x^2 / slope."""
        w, n = self.width, self.codes
        squares = (self.inside - self.outside) * (w**3 - w) + self.outside * (n**3 - n)
        return Fraction(squares, 3 * self.total) / (self.cells * self.slope) ** 2

    def second_moment(self, values: Floats) -> Floats:
        """Mean square of the decoded report, given grid points."""
        return np.asarray(float(self.spread) + values * values * float(1 / self.slope))

    @property
    def decoded(self) -> Floats:
        """(codes,) what each code stands for."""
        twice = np.arange(1 - self.codes, self.codes, 2, dtype=np.float64)
        return np.asarray(twice * float(1 / (self.cells * self.slope)))

    def weights(self, cell: int) -> Words:
        """(codes,) the weights given a cell."""
        table = np.full(self.codes, self.outside, np.uint64)
        start = cell + self.margin
        table[start : start + self.width] = self.inside
        return table

    @property
    def extremes(self) -> tuple[list[int], list[int]]:
        """The largest and the least weight of each code over all cells."""
        code = np.arange(self.codes) - self.margin
        some = (code >= 0) & (code < self.cells + self.width)
        all_ = (code >= self.cells) & (code < self.width)
        most, least = ([self.inside if x else self.outside for x in near] for near in (some, all_))
        return most, least

    def kinds(self, shift: int) -> Kinds:
        """How many codes have each pair of weights, given two cells `shift` apart."""
        only, a, b = min(shift, self.width), self.inside, self.outside
        both, neither = self.width - only, self.codes - self.width - only
        kinds = {(a, b): only, (b, a): only, (a, a): both, (b, b): neither}
        return {pair: count for pair, count in kinds.items() if count}

    def pick(self, draws: Words, cells: Words) -> Messages:
        """Codes from integers that are uniform below the total."""
        start, mass = cells + np.uint64(self.margin), np.uint64(self.inside_mass)
        near = draws // np.uint64(self.inside)
        near += start
        far = draws - mass
        far //= np.uint64(max(1, self.outside))
        # Draws beyond the window's mass wrap around below it; `where` picks the side in the end.
        np.add(far, np.uint64(self.width), out=far, where=far >= start)
        return np.where(draws < mass, near, far)


@dataclass(frozen=True)
class Window(ScalarMean):
    """A window of given width; `mechanisms.mean.widths` has the widths of the literature.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        cells: N, how many cells [-1, 1] is cut into.
        width: W, how many codes are likelier given a cell.
        delta: the probability mass outside epsilon, spent exactly.
        margin: codes at either end that are in no window.

    Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and analyzing
        multidimensional data with local differential privacy", ICDE 2019, Algorithm 2 (PM); Li,
        Wang, Lopuhaa-Zwakenberg, Skoric, Li, "Estimating numerical distributions under local
        differential privacy", SIGMOD 2020 (square wave). Here both are one channel on integers.

    >>> mechanism = Window(epsilon=1.0, cells=1024, width=795)
    >>> mechanism.codes, round(mechanism.worst_variance, 3)
    (1819, 5.066)
    """

    epsilon: float
    cells: int
    width: int
    delta: float = 0.0
    margin: int = 0
    representatives: ClassVar[Iterable[int]] = (0,)

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_cells(self.cells)
        require_slack(self.delta)
        for name, least in (("width", 1), ("margin", 0)):
            require_integer(name, getattr(self, name), least)
        require_alphabet(
            self.cells + self.width + 2 * self.margin, "use fewer cells or a narrower window"
        )
        if not self.delta * self.width < min(self.width, self.cells):
            raise ValueError(
                f"delta must be below {self.cells / self.width} for a window of {self.width} "
                f"codes on {self.cells} cells, not {self.delta}"
            )
        if not self.law.inside > self.law.outside:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    @cached_property
    def law(self) -> WindowLaw:
        """The integers that are shipped."""
        return WindowLaw.within(
            _WORD - 1, self.epsilon, self.delta, self.cells, self.width, self.margin
        )

    @property
    def codes(self) -> int:
        return self.law.codes

    derivation = (
        "closed form: two cells' windows differ in at most min(width, cells) codes at either "
        "end, whose integer weights keep to epsilon and delta, rounded to the private side"
    )

    def constants(self) -> dict[str, float]:
        law = self.law
        return super().constants() | {
            "inside": law.inside_mass / law.total,
            "slope": float(law.slope),
        }

    @cached_property
    def decoded(self) -> Floats:
        return self.law.decoded

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        return self.law.second_moment(self._value(cells))

    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        return self.law.pick(rng.integers(self.law.total, cells.size), cells)

    def weights(self, cell: int) -> tuple[Words, int]:
        return self.law.weights(int(self._checked([cell])[0])), self.law.total

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        first, second = (int(cell) for cell in self._checked([one, other]))
        return self.law.kinds(abs(first - second)), (self.law.total,) * 2

    @property
    def extremes(self) -> tuple[Sequence[int], Sequence[int], int]:
        return *self.law.extremes, self.law.total

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: the ends differ in the most codes, and mirroring the grid swaps them."""
        return [(0, self.cells)]
