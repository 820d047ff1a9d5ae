"""How far off each coordinate of an estimated row may be: alone, and all of them together.

All is relative to the mean of the rows that were reported: the reports' randomisation is what
varies. Where few reports speak for a coordinate their own spread tells little, and the worst case
takes its place.

A few of a row's coordinates where each may have no number, which is as private as one is.

A coordinate's cell may be one more, "unusable", and its report may say so: see
`mechanisms.mean.with_unusable`. Which coordinates are reported depends on nothing, so the report of
k of them spends what it did. Each coordinate's mean is of those who have a number there: a quotient
of the sum of numbers and the share of users who have one, among those who reported it.

How far off estimates from rows of numbers and categories may be, number by number.

Only some users report an attribute. That they are a sample of all is in every error here.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Messages, checked_counts
from mechanisms.frequency.choice import AUTO, publish
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.postprocess.intervals import intervals, normal_quantile
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import RandomSource
from mechanisms.vector.attribute_reports import AttributeEstimate
from mechanisms.vector.base import VectorMean
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.quotients import JUDGED_FROM, Quotients, UnusableShares
from mechanisms.vector.sampled import SampledCoordinates

_NORMAL_FROM = 10.0  # squares of the farthest that one report can be off, in the variance of a sum


@dataclass(frozen=True)
class UsableCoordinates(SampledCoordinates):
    """k of d coordinates, in each of which a user may have no number.

    >>> from mechanisms.mean.two_point import duchi
    >>> one = UsableCoordinates.hiding(SampledCoordinates(1.0, 10, 1, duchi(1.0)))
    >>> one.codes, one.unusable == one.places - 1
    (30, True)
    """

    mechanism: WithUnusable  # type: ignore[assignment]

    @classmethod
    def hiding(cls, rows: SampledCoordinates) -> "UsableCoordinates":
        """The same, with absence as one more input of each coordinate.

        Raises:
            ValueError: its mechanism leaves no room for that.
        """
        return cls(rows.epsilon, rows.dimension, rows.sampled, WithUnusable(rows.mechanism))

    @property
    def scalar(self) -> WithUnusable:
        """What reports one coordinate."""
        return self.mechanism

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


class RowEstimate(NamedTuple):
    """What a batch of reports says about the mean row, on the scale of the values.

    Attributes:
        n: how many users.
        reports: (d,) how many reports speak for each coordinate.
        unbiased: (d,) straight from the counts.
        standard_error: (d,) of `unbiased`.
        alone: (d,) half the width of an interval for this coordinate.
        together: (d,) the same, of intervals that cover all coordinates at once.
        judged: (d,) the variance of `unbiased` that the reports show, however few they are: rough
            in each coordinate, and not too large on average over many, as the worst case is.
        unusable: (d,) shares of users who have no number there; None if that is not hidden.
        quotients: behind it, where it is.
    """

    n: int
    reports: Counts
    unbiased: Floats
    standard_error: Floats
    alone: Floats
    together: Floats
    judged: Floats
    unusable: UnusableShares | None = None
    quotients: Quotients | None = None

    @classmethod
    def of_usable(
        cls, quotients: Quotients, n: int, confidence: float, comparisons: int
    ) -> "RowEstimate":
        """The means of those who have a number.

        Args:
            quotients: what reports say of each coordinate.
            n: how many users reported.
            confidence: of each interval, and of all of the wider ones together, in (0, 1).
            comparisons: how many of these there are.
        """
        alone, together = (quotients.half_widths(confidence, shared) for shared in (1, comparisons))
        return cls(
            n, quotients.reports, quotients.means, quotients.errors, alone, together,
            quotients.variances, quotients.unusable(confidence), quotients,
        )  # fmt: skip


def estimate_row(mechanism: VectorMean, counts: Counts, n: int, confidence: float) -> RowEstimate:
    """The mean row of a batch, with its errors.

    Args:
        mechanism: what perturbed the reports.
        counts: from its `count`.
        n: how many users reported, at least 2.
        confidence: of each interval, and of all of the wider ones together, in (0, 1).

    Returns:
        The estimate. A coordinate with 100 reports or more has the standard error that they show,
        another that of the worst case.

    Raises:
        ValueError: fewer than two reports, or confidence is not inside (0, 1).

    >>> from mechanisms.mean.two_point import TwoPoint
    >>> rows = SampledCoordinates(1.0, 1, 1, TwoPoint(1.0, cells=1))
    >>> estimate = estimate_row(rows, np.array([4000, 6000]), 10_000, 0.95)
    >>> estimate.unbiased.round(3).tolist(), estimate.standard_error.round(4).tolist()
    ([0.433], [0.0212])
    """
    if not n > 1:
        raise ValueError("at least two reports are needed to judge an error")
    if isinstance(mechanism, UsableCoordinates):
        quotients = mechanism.quotients(counts)
        return RowEstimate.of_usable(quotients, n, confidence, mechanism.dimension)
    reports = mechanism.reporters(counts, n)
    worst = mechanism.worst_variance / n
    shown = mechanism.estimated_variance(counts)
    # One public seed for all is off by as much again, whatever the number of users.
    seed = mechanism.seed_variance
    # A spread seen in few reports may be far too small, and an interval of it would not cover.
    variance = np.where(reports >= JUDGED_FROM, np.minimum(shown, worst), worst) + seed
    largest = np.array([worst + seed])
    limits = [
        half_widths(variance, largest, mechanism.reach / n, confidence, comparisons)
        for comparisons in (1, mechanism.dimension)
    ]
    unbiased = mechanism.estimate(counts, n)
    return RowEstimate(n, reports, unbiased, np.sqrt(variance), limits[0], limits[1], shown + seed)


def half_widths(
    variance: Floats, largest: Floats, reach: Floats, confidence: float, comparisons: int
) -> Floats:
    """How far intervals reach: normal ones where many reports add up, else Bernstein's.

    Args:
        variance: (d,) of the estimates.
        largest: (d,) or (1,) a bound on them that does not come from the reports.
        reach: (d,) or (1,) by how much one report can move an estimate from its mean.
        confidence: in (0, 1).
        comparisons: how many intervals share the risk.

    Source: Bernstein's inequality, as in Boucheron, Lugosi, Massart, "Concentration inequalities",
        2013, eq. 2.10. Normal tails are trusted the less the farther out they are: Cramer's series
        for them goes by fourth powers of the quantile over the number of reports.
    """
    quantile = normal_quantile(confidence, comparisons)
    risk = math.log(2 * comparisons / (1 - confidence))
    linear = reach * risk / 3
    sure = linear + np.sqrt(linear**2 + 2 * largest * risk)
    many = variance >= max(_NORMAL_FROM, quantile**4) * reach**2
    return np.asarray(np.where(many, quantile * np.sqrt(variance), sure))


class Shares(NamedTuple):
    """What a batch says of one category.

    Attributes:
        reports: how many users reported it.
        estimate: (size,) shares that are nonnegative and add up to 1.
        unbiased: (size,) straight from the counts; NaN where there is no report.
        standard_error: (size,) of `unbiased`.
        alone: lower and upper ends of intervals, (2, size), each for itself.
        together: the same, of intervals that cover everything that is published at once.
    """

    reports: int
    estimate: Floats
    unbiased: Floats
    standard_error: Floats
    alone: Floats
    together: Floats


def estimate_mixed(
    mechanism: MixedRows, counts: Counts, n: int, confidence: float
) -> tuple[RowEstimate, list[Shares]]:
    """The means of the numbers of a batch and the shares of its categories, with their errors.

    Args:
        mechanism: what perturbed the reports.
        counts: (codes,) from its `count`.
        n: how many users reported.
        confidence: of each interval, and of all of the wider ones together, in (0, 1).

    Returns:
        The numbers' estimates and the categories', each in the order of the attributes. What fewer
        than 100 users reported has the error of the worst case, and of shares nothing is said.
    """
    estimates = list(zip(mechanism.attributes, mechanism.estimates(counts), strict=True))
    numbers = [(m, estimate) for m, estimate in estimates if isinstance(m, ScalarMean)]
    hidden = [x for x in zip(mechanism.attributes, mechanism.parts(counts), strict=True)
              if isinstance(x[0], WithUnusable)]  # fmt: skip
    others = [(m, estimate) for m, estimate in estimates if isinstance(m, FrequencyOracle)]
    # All that is published at once shares one risk, numbers and categories alike.
    comparisons = len(numbers) + len(hidden) + sum(oracle.domain_size for oracle, _ in others)
    if hidden:
        randomisers, parts = zip(*hidden, strict=True)
        quotients = Quotients.of(randomisers, parts, mechanism.scale)
        row = RowEstimate.of_usable(quotients, n, confidence, comparisons)
    else:
        row = _row(numbers, n, confidence, comparisons)
    return row, [_shares(*other, confidence, comparisons, mechanism.hides) for other in others]


def _row(
    numbers: list[tuple[ScalarMean, AttributeEstimate]], n: int, confidence: float, comparisons: int
) -> RowEstimate:
    """The means of all numbers."""
    reports = np.array([estimate.reports for _, estimate in numbers])
    unbiased = np.array([float(estimate.estimate) for _, estimate in numbers])
    spread = np.array([float(estimate.variance) for _, estimate in numbers])
    farthest = {m: 1 + float(np.abs(m.decoded).max()) for m, _ in numbers}
    with np.errstate(divide="ignore"):
        # Values differ by at most 2, so that who happens to report adds at most 1.
        worst = np.array([m.worst_variance + 1 for m, _ in numbers]) / reports
        reach = np.array([farthest[m] for m, _ in numbers]) / reports
    variance = np.where(reports >= JUDGED_FROM, np.fmin(spread, worst), worst)
    alone, together = (
        half_widths(variance, worst, reach, confidence, shared) for shared in (1, comparisons)
    )
    judged = np.where(np.isfinite(spread), spread, worst)
    return RowEstimate(n, reports, unbiased, np.sqrt(variance), alone, together, judged)


def _shares(
    oracle: FrequencyOracle,
    part: AttributeEstimate,
    confidence: float,
    comparisons: int,
    hides: bool,
) -> Shares:
    """The shares of one category."""
    size, n = oracle.domain_size, part.reports
    if n < JUDGED_FROM:
        unknown, nothing = np.stack([np.zeros(size), np.ones(size)]), np.full(size, np.nan)
        # Of a category that nobody reported even shares favour no value.
        even = np.full(size, 1 / size)
        return Shares(n, project(part.estimate) if n else even, part.estimate, nothing, unknown,
                      unknown)  # fmt: skip
    error = np.sqrt(part.variance)
    shares = publish(AUTO, oracle, part.estimate, n, apart=hides).shares
    ends = []
    for shared in (1, comparisons):
        exact = intervals(oracle, part.estimate, n, 1 - (1 - confidence) / shared)
        half = normal_quantile(confidence, shared) * error
        # Of two intervals, one for few reports and one for the choice of who reports, the hull;
        # and of the published share, which post-processing may have moved out of both.
        ends.append(
            np.stack(
                [
                    np.minimum.reduce([exact[0], np.clip(part.estimate - half, 0, 1), shares]),
                    np.maximum.reduce([exact[1], np.clip(part.estimate + half, 0, 1), shares]),
                ]
            )
        )
    return Shares(n, shares, part.estimate, error, ends[0], ends[1])
