"""Bands over many windows, and what has changed between two of them, from the tables alone.

A release says of each figure how far it may be off with the stated confidence, alone and together
with the others of its table. A reader of a year of windows looks at more figures than that. All
noise that is published here has a log-concave law (Laplace, Gaussian, binomial, and their sums), so
-log P(noise > x) is convex in x and 0 at 0; as a function of the logarithm of the tail, a
half-length is concave. A straight line through the two that are known lies above it beyond them,
and one through 0 and the shorter beyond that: upper bounds, for every such law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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

    def half(self, comparisons: int) -> Floats:
        """(...) half the length of intervals of which so many cover together, or more.

        Args:
            comparisons: how many there are.
        """
        more = np.log(max(comparisons, 1))
        known = self.alone[np.isfinite(self.alone)]
        # Whole noise misses an interval of length 0 as well: it is 0 one unit further in. And what
        # reaches over a part of a unit does not reach it.
        whole = bool(known.size) and bool(np.all(known == np.round(known)))
        half = self.alone + (self.alone + whole) * more / -np.log(self.miss)
        if self.figures > 1:
            beyond = max(more - np.log(self.figures), 0.0)
            slope = np.maximum(self.together - self.alone + whole, 0) / np.log(self.figures)
            half = np.fmin(half, self.together + slope * beyond)
        return np.ceil(half - 1e-9) if whole else half


@dataclass(frozen=True)
class Change:
    """What is different between two windows.

    Attributes:
        difference: (labels,) of the later less the earlier.
        half: (labels,) of intervals that cover all of them together.
    """

    difference: Floats
    half: Floats

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """(labels,) whether noise alone does not explain it."""
        return np.abs(self.difference) > self.half


def change(earlier: tuple[Floats, Floats, Floats], later: tuple[Floats, Floats, Floats]) -> Change:
    """The differences of two releases, whose noise is independent.

    The half-length of a difference, in its own standard errors, is taken for that of the worse of
    the two figures: a sum of independent noise has no heavier tail for its deviation than its
    parts, beyond two of them.

    Args:
        earlier: (labels,) of estimates, standard errors, and half-lengths that cover together.
        later: the same.
    """
    (before, error, half), (now, new_error, new_half) = earlier, later
    with np.errstate(invalid="ignore", divide="ignore"):
        times = np.fmax(half / error, new_half / new_error)
        return Change(now - before, times * np.hypot(error, new_error))
