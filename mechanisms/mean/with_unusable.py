"""The mean of those who have a number, when whether one has a number is as private as the number.

One more input, "unusable", and one more code that says so. A number's report says "unusable" with a
small chance a, and is else what the mechanism for numbers makes of it. The report of an unusable
value says so as often as it may, and sends each other code as rarely as it may: e^-epsilon times
what the likeliest number would. So no two inputs differ by more than epsilon, and the code is worth
as much as one bit's randomised response could make it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms import specification
from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Mechanism,
    Messages,
    checked_counts,
    reporters,
)
from mechanisms.mean.scalar import ScalarMean
from mechanisms.randomness import RandomSource
from mechanisms.sampling.grid import Grid
from mechanisms.sampling.integer_tables import AliasTable

_WORD = 1 << 64
_TRIED = 257  # means at which the envelope of variances is computed


@dataclass(frozen=True)
class UnusableLaw:
    """The integer weights of the one more input, in units of 2^-64, and of the one more code.

    Attributes:
        chance: a, how often a number's report says "unusable".
        codes: how often an unusable value's report sends each of the mechanism's codes.
    """

    chance: int
    codes: tuple[int, ...]

    @classmethod
    def of(cls, mechanism: ScalarMean) -> "UnusableLaw":
        """The law that spends the mechanism's epsilon.

        With m(y) the likeliest that any number makes code y, and H their sum: an unusable value
        sends y with probability (1 - a) m(y) / e^epsilon, and "unusable" with all that is left,
        which may be e^epsilon a; so a = (1 - H / e^epsilon) / (e^epsilon - H / e^epsilon).

        Raises:
            ValueError: some number makes a code too rare for that, as noise that is bounded does.
        """
        lower, _ = exponential_bounds(mechanism.epsilon)
        most, least, total = mechanism.extremes
        left = 1 - Fraction(sum(most), total) / lower
        # Rounded to the private side: up, and each code's weight too, which leaves less.
        chance = ceiling(_WORD * left / (lower - 1 + left))
        share = Fraction(_WORD - chance, total)
        # Hundreds of codes have a few weights, and fractions of such numbers take 10 us each.
        rounded = {weight: ceiling(share * weight / lower) for weight in {*most}}
        codes = tuple(rounded[weight] for weight in most)
        law = cls(chance, codes)
        rare = (code > lower * share * weight for code, weight in {*zip(codes, least, strict=True)})
        if not 0 < chance < law.unusable <= lower * chance or any(rare):
            raise ValueError(
                "this mechanism cannot hide whether there is a number: some number makes a code "
                "too rare, or epsilon is too small; choose another mechanism, or say what stands "
                "in the place of unusable values"
            )
        return law

    @property
    def unusable(self) -> int:
        """The weight of the one more code, given the one more input."""
        return _WORD - sum(self.codes)


@dataclass(frozen=True)
class WithUnusable(Mechanism):
    """A mechanism for numbers, and for not having one: its last input and its last code.

    Attributes:
        mechanism: what randomises numbers; one that treats a grid and its mirror image alike.

    Raises:
        ValueError: the mechanism's laws leave no room for the one more input.

    >>> from mechanisms.mean.two_point import duchi
    >>> hiding = WithUnusable(duchi(1.0, cells=4))
    >>> hiding.inputs, hiding.codes, hiding.channel(5).round(3).tolist()
    (6, 3, [0.212, 0.212, 0.576])
    """

    mechanism: ScalarMean

    def __post_init__(self) -> None:
        _ = self.law  # refuses a mechanism that leaves no room

    @cached_property
    def law(self) -> UnusableLaw:
        """The integers that are shipped."""
        return UnusableLaw.of(self.mechanism)

    @property
    def inputs(self) -> int:
        return self.mechanism.inputs + 1

    @property
    def codes(self) -> int:
        return self.mechanism.codes + 1

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report, in nats."""
        return self.mechanism.epsilon

    @property
    def cells(self) -> int:
        """N, how many cells [-1, 1] is cut into."""
        return self.mechanism.cells

    @property
    def unusable(self) -> int:
        """The input that stands for no number."""
        return self.mechanism.inputs

    @property
    def rounding(self) -> ScalarMean:
        """What takes values of [-1, 1] to cells."""
        return self.mechanism.rounding

    @property
    def guarantee(self) -> Guarantee:
        inner = self.mechanism.guarantee
        how = f"{inner.how}; an unusable value's 64-bit weights keep to e^epsilon of each number's"
        return replace(inner, how=how)

    def constants(self) -> dict[str, float]:
        return self.mechanism.constants() | {
            "unusable_given_number": self.false_alarm,
            "unusable_given_unusable": self.law.unusable / _WORD,
            "worst_variance": self.worst_variance,
        }

    # ---- the law of a report -----------------------------------------------------------------

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        array = self._checked(cells).astype(np.int64)
        missing = array == self.unusable
        # What is drawn for a number is drawn for everybody, so that nothing shows who has none.
        messages = self.mechanism.perturb(np.where(missing, 0, array), rng)
        messages[rng.words(array.size) < np.uint64(self.law.chance)] = self.mechanism.codes
        instead = self._table.draw(rng.words(array.size)).view(np.uint64)
        return np.where(missing, instead, messages)

    @property
    def specification(self) -> specification.WithUnusableSpecification | None:
        number, table = self.mechanism.specification, self._table
        if not isinstance(
            number, specification.SlidingWindowSpecification
        ):  # no other is written down yet
            return None
        return specification.WithUnusableSpecification(
            number=number, chance=str(self.law.chance), shift=table.shift,
            threshold=specification.decimals(table.threshold), alias=table.alias.tolist(),
        )  # fmt: skip

    @cached_property
    def _table(self) -> AliasTable:
        """What an unusable value's reports are drawn from."""
        return AliasTable.of([*self.law.codes, self.law.unusable])

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        cell = int(self._checked([cell])[0])
        law = self.law
        weights, total = self.mechanism.weights(min(cell, self.unusable - 1))
        if cell == self.unusable:
            # In the units of the others: rows of several such inputs share one denominator.
            return np.array([*law.codes, law.unusable], object) * total, total * _WORD
        table = weights.astype(object) * (_WORD - law.chance)
        return np.append(table, total * law.chance), total * _WORD

    def blanket(self) -> Floats:
        _, least, total = self.mechanism.extremes
        numbers = [weight * (_WORD - self.law.chance) for weight in least]
        numbers.append(total * self.law.chance)
        table = np.array(numbers, object).astype(np.float64) / float(total * _WORD)
        return np.minimum(table, self.channel(self.unusable))

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Those of numbers; and none against each number that no symmetry takes to another."""
        yield from self.mechanism.pairs()
        for cell in self.mechanism.representatives:
            yield cell, self.unusable
            yield self.unusable, cell

    # ---- what codes stand for ------------------------------------------------------------------

    @property
    def false_alarm(self) -> float:
        """a, how often a number's report says that there is none."""
        return self.law.chance / _WORD

    @property
    def contrast(self) -> float:
        """By how much likelier an unusable value's report says so."""
        return (self.law.unusable - self.law.chance) / _WORD

    @cached_property
    def sums(self) -> Floats:
        """(codes,) weights whose mean given a number is the number, and given none is 0.

        An unusable value's other codes are as likely as their mirror images, which stand for the
        opposite: they add up to 0.
        """
        return np.append(self.mechanism.decoded / (1 - self.false_alarm), 0.0)

    @cached_property
    def presence(self) -> Floats:
        """(codes,) weights whose mean given a number is 1, and given none is 0."""
        weights = np.full(self.codes, (self.law.unusable / _WORD) / self.contrast)
        weights[-1] -= 1 / self.contrast
        return weights

    @property
    def extreme_reports(self) -> Floats:
        """(k, 2) what reports add to `sums` and `presence`: all others lie between."""
        sums = self.sums[:-1]
        ends = [sums.min(), sums.max(), 0.0]
        return np.transpose([ends, self.presence[[0, 0, -1]]])

    def averages(self, counts: Counts) -> tuple[Floats, Floats]:
        """What the mean is the quotient of, over n.

        Args:
            counts: (codes,) from `count`.
        """
        share = checked_counts(counts, self.codes) / reporters(counts)
        return np.asarray(share @ self.sums), np.asarray(share @ self.presence)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """The mean of those who have a number: a quotient of two unbiased estimates, never clipped.

        Args:
            counts: (codes,) integers, from `count`.
            n: not needed: it cancels.

        Returns:
            float64 of shape (); NaN where nobody seems to have a number.

        Raises:
            ValueError: there is no report, or counts of another mechanism.
        """
        array = checked_counts(counts, self.codes).astype(np.float64)
        reporters(counts, n)
        present = float(array @ self.presence)
        return np.asarray(array @ self.sums / present if present > 0 else math.nan)

    # ---- its error -----------------------------------------------------------------------------

    @cached_property
    def moments(self) -> Floats:
        """(inputs,) the mean square of `sums`, given each input."""
        squares = self.mechanism.second_moment(np.arange(self.mechanism.inputs))
        instead = np.array(self.law.codes, np.float64) / _WORD @ self.sums[:-1] ** 2
        return np.append(squares / (1 - self.false_alarm), instead)

    @cached_property
    def presence_moments(self) -> tuple[float, float]:
        """The mean square of `presence`, given a number and given none."""
        usual, said = self.presence[0] ** 2, self.presence[-1] ** 2
        a, b = self.false_alarm, self.law.unusable / _WORD
        return float((1 - a) * usual + a * said), float((1 - b) * usual + b * said)

    def deviations(self, mean: Floats) -> Floats:
        """Variance of a report's sums - mean * presence, given each input.

        Args:
            mean: candidates for the mean, of shape (k,).

        Returns:
            (inputs, k).
        """
        points, usual = self.mechanism.grid[:, None], self.presence[0]
        present, absent = self.presence_moments
        numbers = self.moments[:-1, None] - 2 * mean * usual * points + mean**2 * present
        return np.concatenate(
            [numbers - (points - mean) ** 2, self.moments[-1] + mean[None] ** 2 * absent]
        )

    def between(self, means: Floats) -> tuple[float, Floats]:
        """The least and the largest variance of sums - mean * presence that any values could have.

        Args:
            means: in [-1, 1], of any shape.

        Returns:
            (below all of them; of the shape of `means`, what rounding adds included).
        """
        tried, least, largest = self._envelope
        # Each input's variance is convex in the mean, and so is the largest: a chord is above it.
        return least, np.interp(means, tried, largest)

    @cached_property
    def _envelope(self) -> tuple[Floats, float, Floats]:
        """`between` at some means."""
        tried = np.linspace(-1, 1, _TRIED)
        deviations = self.deviations(tried)
        return tried, float(deviations.min()), deviations.max(axis=0) + 1 / self.cells**2

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance of one report's part in a mean, where all have one number."""
        points = self.mechanism.grid
        own = np.diagonal(self.deviations(points)[:-1])
        return Grid(self.cells).largest_variance(own + points**2)

    @property
    def report_variance(self) -> float:
        """The largest variance of one report, whatever the values are."""
        return self.worst_variance
