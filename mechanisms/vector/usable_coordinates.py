"""A few of a row's coordinates where each may have no number, which is as private as one is.

A coordinate's cell may be one more, "unusable", and its report may say so: see
`mechanisms.mean.with_unusable`. Which coordinates are reported depends on nothing, so the report of
k of them spends what it did. Each coordinate's mean is of those who have a number there: a quotient
of the sum of numbers and the share of users who have one, among those who reported it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Messages, checked_counts
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.randomness import RandomSource
from mechanisms.vector.quotients import Quotients
from mechanisms.vector.sampled import SampledCoordinates


@dataclass(frozen=True)
class UsableCoordinates(SampledCoordinates):
    """k of d coordinates, in each of which a user may have no number.

    >>> from mechanisms.mean.two_point import duchi
    >>> one = UsableCoordinates.hiding(SampledCoordinates(1.0, 10, 1, duchi(1.0)))
    >>> one.codes, one.unusable == one.places - 1
    (30, True)
    """

    @classmethod
    def hiding(cls, rows: SampledCoordinates) -> UsableCoordinates:
        """The same, with absence as one more input of each coordinate.

        Raises:
            ValueError: its mechanism leaves no room for that.
        """
        hidden = WithUnusable(rows.mechanism)
        return cls(rows.epsilon, rows.dimension, rows.sampled, cast("ScalarMean", hidden))

    @property
    def scalar(self) -> WithUnusable:
        """What reports one coordinate."""
        return cast("WithUnusable", self.mechanism)

    @property
    def places(self) -> int:
        return self.mechanism.inputs

    @property
    def unusable(self) -> int:
        """The cell of a coordinate without a number."""
        return self.scalar.unusable

    def report(self, values: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client; NaN stands for no number."""
        rows = np.asarray(values, np.float64)
        missing = np.isnan(rows)
        cells = self.encode(np.where(missing, 0.0, rows), rng)
        cells[missing] = self.unusable
        return self.perturb(cells, rng)

    # ---- the collector -----------------------------------------------------------------------

    def quotients(self, counts: Counts) -> Quotients:
        """What the reports of each coordinate say."""
        table = checked_counts(counts, self.codes).reshape(self.dimension, -1)
        return Quotients.of([self.scalar] * self.dimension, list(table), self.scale)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        if not self.users(counts) > 0:
            raise ValueError("there is no report to estimate from")
        return self.quotients(counts).means

    def estimated_variance(self, counts: Counts) -> Floats:
        return self.quotients(counts).variances

    def variance(self, value: ArrayLike) -> Floats:
        """As elsewhere, where everybody has a number."""
        x, inner = np.asarray(value, np.float64), self.scalar.mechanism
        usual = (inner.variance(x) + x * x) / (1 - self.scalar.false_alarm)
        return np.asarray(self.scale * usual - x * x)

    @property
    def reach(self) -> Floats:
        sums, presence = (float(np.abs(x).max()) for x in (self.scalar.sums, self.scalar.presence))
        return np.array([self.scale * (sums + presence) + 1])
