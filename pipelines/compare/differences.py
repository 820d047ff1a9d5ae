"""How far off many figures may be together, and which of two differ, from the tables alone.

A release says of each figure how far it may be off with the stated confidence, alone and together
with the others of its table. Who lays releases side by side looks at more figures than that. All
noise that is published here has a log-concave law (Laplace, Gaussian, binomial, and their sums), so
-log P(noise > x) is convex in x and 0 at 0; as a function of the logarithm of the tail, a
half-length is concave. A straight line through the two that are known lies above it beyond them,
and one through 0 and the shorter beyond that: upper bounds, for every such law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum
from pipelines.views.selected import LOWER, UPPER

Floats = NDArray[np.float64]

CENTRE = "centre"
NAMES = ("estimate", "standard_error", "lower", "upper", LOWER, UPPER, CENTRE)

# How many standard deviations noise exceeds, to one side, once in ten times at the most: where it
# has one mode and is symmetric (Gauss 1823: P(|X| > k) <= 4 / 9k^2), and whatever its law (Cantelli
# 1928: P(X > k) <= 1 / (1 + k^2)). Of normal noise it is 1.28.
_DETECTED = 0.9
_ONE_MODE, _ANY = math.sqrt(4 / 9 / 0.2), 3.0


def columns(table: pa.Table) -> dict[str, Floats]:
    """What a table says of its figures.

    Args:
        table: with the columns that all kinds share.

    Returns:
        Column -> (rows,) floats, NaN where nothing is known; `centre` is what intervals and
        standard errors are of.
    """
    # Before anything was moved, where estimates are.
    names = ("unbiased", "unclipped", "estimate")
    centre = next(name for name in names if name in table.column_names)
    columns_of = {
        name: table[centre if name == CENTRE else name].to_numpy(zero_copy_only=False)
        for name in NAMES
    }
    return {name: column.astype(np.float64) for name, column in columns_of.items()}


def selected(known: Mapping[str, Floats], places: NDArray[np.int64]) -> dict[str, Floats]:
    """The same of some figures, in an order of their own."""
    return {name: column[places] for name, column in known.items()}


@dataclass(frozen=True)
class Reach:
    """How far off figures may be, at two levels.

    Attributes:
        alone: (...) half the length of the interval of each, with the stated confidence.
        together: (...) the same of intervals that cover all of a table.
        miss: the probability that one of the former misses; in (0, 1).
        figures: how many the latter cover.
    """

    alone: Floats
    together: Floats
    miss: float
    figures: int

    @classmethod
    def of(cls, known: Mapping[str, Floats], confidence: float, rows: int) -> Reach:
        """What the two intervals of a table's figures say.

        Args:
            known: as from `columns`; of any shape.
            confidence: of the intervals.
            rows: of the table.
        """
        centre = known[CENTRE]
        alone, together = (
            np.maximum(centre - known[low], known[high] - centre)  # unknown where an end is open
            for low, high in (("lower", "upper"), (LOWER, UPPER))
        )
        return cls(alone, together, 1 - confidence, rows if np.isfinite(together).any() else 1)

    @cached_property
    def whole(self) -> bool:
        """Whether figures and their noise are whole numbers."""
        known = self.alone[np.isfinite(self.alone)]
        return bool(known.size) and bool(np.all(known == np.round(known)))

    def half(self, comparisons: float) -> Floats:
        """(...) half the length of intervals of which so many cover together, or more.

        Args:
            comparisons: how many there are.
        """
        more = np.log(max(comparisons, 1))
        # Whole noise misses an interval of length 0 as well: it is 0 one unit further in. And what
        # reaches over a part of a unit does not reach it.
        half = self.alone + (self.alone + self.whole) * more / -np.log(self.miss)
        if self.figures > 1:
            beyond = max(more - np.log(self.figures), 0.0)
            slope = np.maximum(self.together - self.alone + self.whole, 0) / np.log(self.figures)
            half = np.fmin(half, self.together + slope * beyond)
        return np.ceil(half - 1e-9) if self.whole else half

    def compared(self, comparisons: float) -> Floats:
        """(...) the same where figures were picked by what they are, as the largest, or as found.

        Among all of a table there are some with the kindest noise, so no interval is shorter than
        those that cover all of it.
        """
        return np.fmax(self.half(comparisons), self.together)


@dataclass(frozen=True)
class FigureChange:
    """What is different between two series of figures.

    Attributes:
        difference: (labels,) of the later less the earlier.
        error: (labels,) its standard error, or more.
        half: (labels,) of intervals that cover all of them together.
        detectable: (labels,) the least true difference that is told from noise nine times in ten.
    """

    difference: Floats
    error: Floats
    half: Floats
    detectable: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """(labels,) whether there is something to compare."""
        return np.isfinite(self.half) & np.isfinite(self.difference)

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """(labels,) whether noise alone does not explain it."""
        return np.abs(self.difference) > self.half

    @cached_property
    def clearness(self) -> Floats:
        """(labels,) how many half-lengths a difference has; above 1 it is beyond noise."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(np.abs(self.difference) / self.half)

    @property
    def order(self) -> NDArray[np.int64]:
        """(known,) the places of what was compared, the clearest difference first."""
        places = np.flatnonzero(self.known)
        return places[np.argsort(-self.clearness[places], kind="stable")]


@dataclass(frozen=True)
class Side:
    """One of two series of figures that are compared.

    Attributes:
        centre: (labels,) unbiased estimates.
        error: (labels,) their standard errors.
        half: (labels,) half-lengths of intervals that cover as many as are compared.
        whole: whether all of these are whole numbers.
        law: of the noise of each, which is its own, where the release says it.
    """

    centre: Floats
    error: Floats
    half: Floats
    whole: bool = False
    law: IntegerNoise | None = None

    @classmethod
    def of(
        cls,
        known: Mapping[str, Floats],
        reach: Reach,
        comparisons: float,
        law: IntegerNoise | None = None,
    ) -> Side:
        """Figures among so many that are compared."""
        half = reach.compared(comparisons)
        return cls(known[CENTRE], known["standard_error"], half, reach.whole, law)


def _errors(side: Side, grain: float) -> Floats:
    """(labels,) how many of its errors a half-length is; 0 of what is known as it is."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(side.error > 0, (side.half + grain) / side.error, 0.0)


def change(earlier: Side, later: Side, miss: float, independent: bool = True) -> FigureChange:
    """The differences of two series of figures.

    Where noise is independent, the half-length of a difference, in its own standard errors, is that
    of the worse of the two figures: a sum of independent noise has no heavier tail for its
    deviation than its parts, beyond two of them. Of whole noise that is true of the first number
    that an interval leaves out: the difference reaches up to, and not to, as many of its errors.
    Nor is it ever less than that of normal noise: an interval that was cut off where figures end
    says too little. Where releases say the law of their noise, the law of a difference is had from
    both: what is detectable is exact, and so are intervals of figures of two releases. Of one
    release two figures may have been picked by a look at all, so half-lengths add up there.

    Args:
        earlier: the first.
        later: the second.
        miss: the probability that one difference may be off by more than its half-length.
        independent: whether the noise of one says nothing about that of the other; else both may
            be off at once, in opposite directions, and half-lengths and errors add up. They then
            have to be of intervals that miss half as often.
    """
    if earlier.law is not None and later.law is not None:
        return _exactly(earlier, later, miss, independent)
    least = normal_quantile(1 - (miss if independent else miss / 2))
    one, other = earlier.error, later.error
    grain = float(earlier.whole and later.whole)
    difference = later.centre - earlier.centre
    if not independent:
        half = sum(np.maximum(side.half, least * side.error) for side in (earlier, later))
        error = one + other
        return FigureChange(difference, error, np.asarray(half), half + _ANY * error)
    error = np.hypot(one, other)
    times = np.maximum(*(_errors(side, grain) for side in (earlier, later)))
    half = np.maximum(times, least) * error
    if grain:
        half = np.maximum(np.ceil(half - 1e-9) - 1, 0)
    # Whole noise has one mode among the whole numbers: spread over units, it has one.
    smooth = _ONE_MODE * np.hypot(error, grain / math.sqrt(12)) + grain / 2
    return FigureChange(difference, error, half, half + smooth)


def _exactly(earlier: Side, later: Side, miss: float, releases: bool) -> FigureChange:
    """The differences of figures with noise of known laws, each of its own; as `change`."""
    one, other = ((int(law.first), law.pmf) for law in (earlier.law, later.law) if law is not None)
    law = weighted_sum([(*one, -1), (*other, 1)])
    difference, error = later.centre - earlier.centre, np.hypot(earlier.error, later.error)
    # A value that is missing on one side is missing from the difference.
    half = 0 * difference + law.isf(miss / 2) if releases else earlier.half + later.half
    # The least whole number that reaches beyond the interval with nine of ten noises.
    return FigureChange(difference, error, half, half + 1 + law.ppf(_DETECTED))
