"""The least worst-case variance that a locally private, unbiased mean of scalars can have.

Over all unbiased channels the best has P(y|x) = m(y) (1 + (e^epsilon - 1) 1[y in A(x)]) with A(x)
an interval that always holds the same share of m. Cut m into codes of equal mass, and A is a
window that slides over them: the privacy of the optimum is that of any window, two integers whose
ratio is at most e^epsilon. What remains to be found is what each code stands for, and whatever
that is, the privacy stays the same and the mean exact: position i of the window stands for the
mean of its codes. So nothing that is computed in floating point needs to be trusted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms import specification
from mechanisms.channel import Floats, Messages, require_epsilon
from mechanisms.mean.optimal_table import WORD, Table, best_table
from mechanisms.mean.scalar import SMALL, ScalarMean, require_cells
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register

_LEAST, _LARGEST = 0.05, 8.0  # epsilon


@register(
    "optimal",
    task="mean",
    sends="a code of the window of least worst-case variance; epsilon 0.05 to 8",
    source="the least worst variance of all unbiased channels, within 0.3 %",
    searched=True,
    largest_epsilon=_LARGEST,
    small=SMALL,
)
@dataclass(frozen=True)
class Optimal(ScalarMean):
    """A sliding window whose codes stand for what makes the worst variance least.

    A grid point between two positions of the window takes either with the odds that keep its mean.
    What the codes stand for is computed where it is needed, in 0.1 s, once in a process for each
    epsilon: client and collector agree on it to some 10^-12, and nothing is kept on disk.

    Attributes:
        epsilon: privacy loss of one report, in nats; 0.05 .. 8.
        cells: N, how many cells [-1, 1] is cut into.

    Source: the linear programme "least worst variance over all unbiased channels with bounded
        likelihood ratios", of which this is within 0.3 %. Its solutions have likelihoods of two
        values, like the staircase mechanisms of Kairouz, Oh, Viswanath, "Extremal mechanisms for
        local differential privacy", JMLR 2016.

    >>> mechanism = Optimal(epsilon=1.0)
    >>> round(mechanism.worst_variance, 2), mechanism.codes
    (3.99, 123)
    """

    epsilon: float
    cells: int = 1024
    representatives: ClassVar[Iterable[int]] = (0,)

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_cells(self.cells)
        if not _LEAST <= self.epsilon <= _LARGEST:
            nearest = min(max(self.epsilon, _LEAST), _LARGEST)
            raise ValueError(
                f"epsilon must lie in {_LEAST} .. {_LARGEST} for the optimal mean, not "
                f"{self.epsilon}; the nearest that works is {nearest}"
            )
        best_table(float(self.epsilon))  # one that does not verify stops here

    @property
    def table(self) -> Table:
        """The window that this epsilon has."""
        return best_table(float(self.epsilon))

    @property
    def codes(self) -> int:
        return self.table.steps + self.table.width

    @property
    def decoded(self) -> Floats:
        return self.table.decoded

    derivation = (
        "closed form: a code's probability takes two values, whose ratio in integers is at "
        "most e^epsilon, and mixtures of these"
    )

    def constants(self) -> dict[str, float]:
        table = self.table
        return super().constants() | {
            "steps": table.steps,
            "width": table.width,
            "outside": table.outside / WORD,
            "inside": table.inside / WORD,
            "worst_variance": self.worst_variance,
        }

    # ---- positions of the window -------------------------------------------------------------

    @cached_property
    def _lower(self) -> NDArray[np.uint16]:
        """(inputs,) the last position at or below each grid point."""
        low = np.searchsorted(self.table.points, self.grid, side="right") - 1
        low = np.clip(low, 0, self.table.steps)
        # The ends of the grid are the first and the last position by construction, whatever
        # rounding says.
        low[[0, -1]] = [0, self.table.steps]
        return low.astype(np.uint16)

    @cached_property
    def _chance(self) -> Words:
        """(inputs,) P(the next position), in units of 2^-64, that makes the mean the grid point."""
        points, low = self.table.points, np.minimum(self._lower, self.table.steps - 1)
        share = (self.grid - points[low]) / (points[low + 1] - points[low])
        share[[0, -1]] = 0.0  # the ends are positions, whatever rounding says
        chance: Words = np.ldexp(np.clip(share, 0, 1 - 2.0**-53), 64).astype(np.uint64)
        return chance

    @cached_property
    def _first_bits(self) -> NDArray[np.uint16]:
        """(inputs,) the first 16 bits of `_chance`."""
        return (self._chance >> np.uint64(48)).astype(np.uint16)

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        share, low = self._chance[cells] / WORD, self._lower[cells]
        after = np.minimum(low + 1, self.table.steps)
        return np.asarray((1 - share) * self.table.moments[low] + share * self.table.moments[after])

    # ---- client and collector ----------------------------------------------------------------

    @property
    def specification(self) -> specification.SlidingWindowSpecification:
        table = self.table
        return specification.SlidingWindowSpecification(
            cells=self.cells, steps=table.steps, width=table.width,
            outside=str(table.outside), inside=str(table.inside),
            lower=self._lower.tolist(), chance=specification.decimals(self._chance),
        )  # fmt: skip

    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        start = self._starts(cells.view(np.int64), rng)
        slot = self._slots(cells.size, rng)
        # The first `steps` slots are the codes outside the window, the others those inside.
        steps, width = np.uint16(self.table.steps), np.uint16(self.table.width)
        outside = slot + width * (slot >= start)
        return np.where(slot < steps, outside, start + (slot - steps)).astype(np.uint64)

    def _starts(self, cells: NDArray[np.int64], rng: RandomSource) -> NDArray[np.uint16]:
        """Where windows start: a 16-bit coin between two positions, continued where it ties."""
        dice, chance = _dice(cells.size, rng), self._first_bits.take(cells)
        after = dice < chance
        tied = np.flatnonzero(dice == chance)
        after[tied] = rng.words(tied.size) < self._chance[cells[tied]] << np.uint64(16)
        return self._lower.take(cells) + after

    def _slots(self, size: int, rng: RandomSource) -> NDArray[np.uint16]:
        """Slots of their exact weights: a table of 16 bits, more of them drawn where it is open."""
        dice = _dice(size, rng)
        slots = self._guide.take(dice)
        # The 16 bits drawn already stay the leading bits of the word: a new word would change the
        # law.
        undecided = np.flatnonzero(slots == self.codes)
        words = dice[undecided].astype(np.uint64) << np.uint64(48)
        slots[undecided] = self._slot(words | rng.words(undecided.size) >> np.uint64(16))
        return slots

    def _slot(self, words: Words) -> NDArray[np.uint16]:
        steps, outside = np.uint64(self.table.steps), np.uint64(self.table.outside)
        inside = steps + (words - steps * outside) // np.uint64(self.table.inside)
        return np.where(words < steps * outside, words // outside, inside).astype(np.uint16)

    @cached_property
    def _guide(self) -> NDArray[np.uint16]:
        """(2^16,) the slot of all words with the same first 16 bits, or `codes` if they differ."""
        first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
        lowest, highest = self._slot(first), self._slot(first | np.uint64((1 << 48) - 1))
        return np.where(lowest == highest, lowest, np.uint16(self.codes))

    def _window(self, position: int) -> NDArray[Any]:
        """The law of the codes at a position, as Python integers in units of 2^-64."""
        law = np.full(self.codes, self.table.outside, object)
        law[position : position + self.table.width] = self.table.inside
        return law

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        index = int(self._checked([cell])[0])
        low, share = int(self._lower[index]), int(self._chance[index])
        law = self._window(low) * (WORD - share)
        # Position and slot are drawn with words of their own, so weights are in units of 2^-128,
        # which no machine integer holds.
        return (law + self._window(low + 1) * share if share else law), WORD * WORD

    def channel(self, cell: int) -> Floats:
        numerators, denominator = self.weights(cell)
        return np.array([x / denominator for x in numerators.tolist()])

    @property
    def extremes(self) -> tuple[Sequence[int], Sequence[int], int]:
        """What every code inside of a window weighs, and every one outside."""
        return [self.table.inside] * self.codes, [self.table.outside] * self.codes, WORD

    def pairs(self) -> Iterable[tuple[int, int]]:
        """The two ends of the grid, either way round alike: no pair is easier to tell apart.

        Hockey-stick divergences are jointly convex, so positions are worse than mixtures of them.
        For two positions take a code of both windows and one of neither: further apart, each
        would be a code of one window alone, and the likelihood ratios p/q and q/p spread the
        excess more than 1 and 1 do, at the same mean. That holds for one report and, against
        the blanket of the other users, for a shuffled batch.
        """
        return [(0, self.cells)]


def _dice(size: int, rng: RandomSource) -> NDArray[np.uint16]:
    """Uniform 16-bit integers."""
    return rng.words(-(-size // 4)).view(np.uint16)[:size]
