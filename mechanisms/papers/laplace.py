"""A cell plus discrete Laplace noise, lumped together beyond either end."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import Floats, Guarantee, require_epsilon
from mechanisms.mean.additive import FILLED, WORD, Additive, symmetric_table
from mechanisms.mean.scalar import LARGEST_ALPHABET, SMALL, require_cells
from mechanisms.randomness import Words
from mechanisms.registry import register

_DECAYS = 12  # factors of e by which Laplace noise has fallen where it is lumped together
_UNIT = 2.0**-53  # the rounding unit of a double
_LARGEST_RATIO = 45.0  # its exponential is more than any two weights differ by


@dataclass(frozen=True)
class Laplace(Additive):
    """Two-sided geometric noise: the Laplace mechanism on the grid, at delta 0.

    Noise that leaves the codes is lumped together at the end it leaves by, so that every code can
    come from every cell and no delta is spent. Geometric noise has no memory: how far it would
    have gone beyond the end does not depend on the cell, so the end stands for the mean of all
    that lies beyond, and the estimate stays unbiased. The variance is that of the Laplace
    mechanism, 8 / epsilon^2, less a few parts in a million.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        cells: N, how many cells [-1, 1] is cut into.

    Source: Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data
        analysis", TCC 2006; Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing
        privacy mechanisms", STOC 2009, for the integers and their ends.

    >>> mechanism = Laplace(epsilon=1.0, cells=1024)
    >>> mechanism.codes, round(mechanism.worst_variance, 3)
    (25601, 8.0)
    """

    epsilon: float
    cells: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_cells(self.cells)
        least = 2 * _DECAYS * self.cells / (LARGEST_ALPHABET - self.cells - 3)
        if not self.epsilon >= least:
            raise ValueError(
                f"epsilon must be at least {least:.4g} for {self.cells} cells, not "
                f"{self.epsilon}: more than {LARGEST_ALPHABET} codes are needed below; use fewer "
                "cells"
            )

    @property
    def reach(self) -> int:
        return math.ceil(_DECAYS * self.cells / self.epsilon)

    @cached_property
    def _decay_and_table(self) -> tuple[float, Words]:
        """How fast the log probability falls, per cell, and the table that falls so.

        Rounding makes some ratios too large. The decay is lowered until none is.
        """
        last = math.tanh(self.epsilon / self.cells / 2) * WORD * math.exp(-_DECAYS)
        # Rounding up by one unit matters most for the last weight, the smallest: so much may be
        # off.
        slack = 2.0**-40 + 1 / (last * self.epsilon)
        while slack < 0.1:
            decay = self.epsilon * (1 - slack) / self.cells
            table = self._rounded(decay)
            if self._keeps(table):
                return decay, table
            slack *= 4
        raise ArithmeticError("no noise table of 64-bit weights keeps to epsilon")

    def _rounded(self, decay: float) -> Words:
        """Geometric weights, rounded up; the last one is what is left for all that lies beyond."""
        size = self.cells + self.reach
        scale = (FILLED - 2.0 * size) * math.tanh(decay / 2)
        # exp is not monotone to the last bit, and the proof asks for weights that never rise.
        falling = np.minimum.accumulate(np.exp(np.arange(size) * -decay) * scale)
        rounded = np.floor(falling).astype(np.uint64) + np.uint64(1)
        left = WORD + int(rounded[0]) - 2 * int(rounded.sum())
        return symmetric_table(np.append(rounded, np.uint64(max(1, left // 2))))

    def _keeps(self, table: Words) -> bool:
        """Whether noise N further out is at most e^epsilon times less likely, and so the ends."""
        near, far = table[: self.reach], table[self.cells : -1]
        bound = exponential_bounds(min(self.epsilon, _LARGEST_RATIO))[0]
        # Doubles are rounded up by more than they err; the ends, being sums, are compared as
        # integers.
        ratio = near.astype(np.float64) / far.astype(np.float64)
        # The code at the end has all noise from there on: nearer cells reach it by N more weights.
        ends = int(table[self.reach :].sum()) <= bound * int(table[-1])
        return ends and bool(np.all(ratio * (1 + 8 * _UNIT) <= float(bound)))

    @property
    def decay(self) -> float:
        """How fast the log probability falls, per cell of noise."""
        return self._decay_and_table[0]

    @property
    def half_table(self) -> Words:
        return self._decay_and_table[1]

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon,
            0.0,
            "enumeration: no weight of the noise table is more than e^epsilon times the one N "
            "cells further out, nor is the weight at either end",
        )

    @cached_property
    def decoded(self) -> Floats:
        twice = np.arange(1.0 - self.codes, self.codes, 2)
        # By how much geometric noise exceeds the end on average, on either side.
        twice[-1] += 2 / math.expm1(self.decay)
        twice[0] = -twice[-1]
        return twice / self.cells

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        # At either end a geometric excess is replaced by its mean, which saves its variance.
        excess = math.exp(-self.decay) / math.expm1(-self.decay) ** 2
        below, above = np.asarray(cells) + self.reach, self.cells - np.asarray(cells) + self.reach
        ends = np.exp(-self.decay * below) + np.exp(-self.decay * above)
        saved = ends / (1 + math.exp(-self.decay))
        return np.asarray(self._value(cells) ** 2 + (2 - saved) * excess * (2 / self.cells) ** 2)


@register(
    "laplace",
    task="mean",
    sends="the value plus discrete Laplace noise",
    source="Dwork, McSherry, Nissim, Smith, TCC 2006, as discrete noise",
    small=SMALL,
)
def laplace(epsilon: float, cells: int = 1024) -> Laplace:
    """The Laplace mechanism on the grid: see `Laplace`.

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range.
    """
    return Laplace(epsilon, cells)
