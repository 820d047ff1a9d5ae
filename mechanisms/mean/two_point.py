"""Two codes whose odds are linear in the value: Duchi's mechanism, with a delta or without.

The chance of the higher code moves by one step from cell to cell. All that any two cells differ
in lies between what the ends of the grid differ in, and mirroring the grid swaps the codes.
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
from mechanisms.channel import Floats, Messages, require_epsilon
from mechanisms.mean.scalar import SMALL, ScalarMean, require_cells, require_slack
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register

_WORD = 1 << 64


@dataclass(frozen=True)
class TwoPointLaw:
    """The integer weights of a two-point channel, and what follows from them.

    Attributes:
        cells: N.
        low: the weight of the higher code at cell 0, and of the lower one at cell N.
        step: by how much the weight of the higher code grows from a cell to the next.
    """

    cells: int
    low: int
    step: int

    @classmethod
    def within(cls, room: int, epsilon: float, delta: float, cells: int) -> "TwoPointLaw":
        """The weights that spend (epsilon, delta), with a total of `room`, which is even.

        At the ends the likelier code has weight room / 2 + N step / 2 and the other the rest, so
        N step <= room (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
        """
        lower, _ = exponential_bounds(epsilon)
        most = room * (lower - 1 + 2 * Fraction(delta)) / ((lower + 1) * cells)
        # Rounded down, so that the ends of the grid keep to epsilon; even, so that both ends get
        # half.
        step = math.floor(most / 2) * 2
        return cls(cells, (room - cells * step) // 2, step)

    @property
    def total(self) -> int:
        """The weight of both codes."""
        return 2 * self.low + self.cells * self.step

    @property
    def scale(self) -> Fraction:
        """B: the codes stand for -B and B."""
        return Fraction(self.total, self.cells * self.step)

    @property
    def decoded(self) -> Floats:
        """(2,) what each code stands for."""
        return np.array([-1.0, 1.0]) * float(self.scale)

    def weights(self, cell: int) -> Words:
        """(2,) the weights given a cell."""
        high = self.low + cell * self.step
        return np.array([self.total - high, high], np.uint64)

    @property
    def extremes(self) -> tuple[list[int], list[int]]:
        """The largest and the least weight of each code over all cells: those at the two ends."""
        return [self.total - self.low] * 2, [self.low] * 2

    def pick(self, draws: Words, cells: Words) -> Messages:
        """Codes 0 and 1 from integers that are uniform below the total."""
        threshold = np.uint64(self.low) + cells * np.uint64(self.step)
        return (draws < threshold).astype(np.uint64)


@dataclass(frozen=True)
class TwoPoint(ScalarMean):
    """Reports -B or B, B with a chance that is linear in the value.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        cells: N, how many cells [-1, 1] is cut into.
        delta: the probability mass outside epsilon, spent exactly.

    >>> mechanism = TwoPoint(epsilon=1.0, cells=1024)
    >>> mechanism.codes, round(mechanism.worst_variance, 4)
    (2, 4.6827)
    """

    epsilon: float
    cells: int
    delta: float = 0.0
    codes: ClassVar[int] = 2
    representatives: ClassVar[Iterable[int]] = (0,)

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_cells(self.cells)
        require_slack(self.delta)
        if not self.law.step > 0:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    @cached_property
    def law(self) -> TwoPointLaw:
        """The integers that are shipped."""
        return TwoPointLaw.within(_WORD, self.epsilon, self.delta, self.cells)

    derivation = (
        "closed form: a code's chance is linear in the value, and between the ends of the "
        "grid its 64-bit weights keep to epsilon and delta, rounded to the private side"
    )

    def constants(self) -> dict[str, float]:
        return super().constants() | {"scale": float(self.law.scale)}

    @cached_property
    def decoded(self) -> Floats:
        return self.law.decoded

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        return np.full(np.shape(cells), float(self.law.scale**2))

    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        return self.law.pick(rng.words(cells.size), cells)

    def weights(self, cell: int) -> tuple[Words, int]:
        return self.law.weights(int(self._checked([cell])[0])), self.law.total

    @property
    def extremes(self) -> tuple[Sequence[int], Sequence[int], int]:
        return *self.law.extremes, self.law.total

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: the ends, between whose laws all others are, and the mirror swaps them."""
        return [(0, self.cells)]


@register(
    "duchi",
    task="mean",
    sends="one bit",
    source="Duchi, Jordan, Wainwright, JASA 2018",
    small=SMALL,
)
def duchi(epsilon: float, cells: int = 1024) -> TwoPoint:
    """Duchi's mechanism in one dimension: B = (e^epsilon + 1) / (e^epsilon - 1).

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range.

    Source: Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private
        estimation", JASA 2018, section 4.2.1.
    """
    return TwoPoint(epsilon, cells)
