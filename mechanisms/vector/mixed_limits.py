"""How far off estimates from rows of numbers and categories may be, number by number.

Only some users report an attribute. That they are a sample of all is in every error here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.choice import AUTO, publish
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.postprocess.intervals import intervals, normal_quantile
from mechanisms.postprocess.simplex import project
from mechanisms.vector.attribute_reports import AttributeEstimate
from mechanisms.vector.limits import RowEstimate, half_widths
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.quotients import JUDGED_FROM, Quotients


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
