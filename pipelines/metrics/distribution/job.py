"""`hushbeam distribution`: the histogram, the quantiles and the mean of a column of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechanisms.channel import Guarantee
from mechanisms.distribution import fitting
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.distribution.quantiles import USUAL
from mechanisms.mean_planner import MeanTarget
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SecureRandom
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.numbers import open_numbers, read_bounds
from pipelines.terms import (
    cautioned,
    drowned,
    least_reports,
    next_to_nothing,
    require_proven,
    target_terms,
)
from transforms.blocks import Generator
from transforms.encode_numbers import Bounds

_MOST_QUANTILES = 1000
_HALF = "a half, which a cumulative share said to be a half is never off by more than"


@dataclass(frozen=True)
class DistributionJob:
    """A request held against its input: everything that is decided before a row is read.

    Attributes:
        options: what was asked.
        telemetry: the files.
        bounds: what numbers are clipped to.
        probabilities: of the quantiles that are published.
        fitted: the mechanism, what it guarantees, and how its limits are made.
        min_reports: the least batch that is published.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: DistributionOptions
    telemetry: inputs.Telemetry
    bounds: Bounds
    probabilities: tuple[float, ...]
    fitted: fitting.DistributionDesign
    min_reports: int
    open_rng: Generator = SecureRandom

    @property
    def estimator(self) -> DistributionEstimator:
        """The collector."""
        return self.fitted.estimator(self.options.smooth)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""
        return self.fitted.design.release, self.fitted.design.local

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        reports = self.min_reports if self.options.model == "shuffle" else self.telemetry.rows
        expected = _expected_reports(self.options, self.telemetry.rows)
        error = self.fitted.expected_length / normal_quantile(0.95)  # of a half
        return [
            *cautioned(self.guarantees[0].delta, reports),
            *next_to_nothing(self.guarantees[0].epsilon),
            *drowned(error, expected if expected > 1 else 0, _HALF),
        ]


def prepare(
    options: DistributionOptions,
    open_rng: Generator = SecureRandom,
    given: inputs.Given = inputs.ALONE,
) -> DistributionJob:
    """Check a request against its input and choose the mechanism; reads footers only.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    bounds, probabilities = read_bounds(options.bounds), read_quantiles(options.quantiles)
    telemetry = open_numbers(options, given)
    least = least_reports(options, options.model, telemetry.rows)
    expected = _expected_reports(options, telemetry.rows)
    try:
        target = MeanTarget(**target_terms(options, options.model, least, options.unit))
        bins = options.bins or fitting.default_bins(expected)
        fitted = fitting.design(target, bins, expected, options.mechanism)
    except ValueError as error:
        raise RequestError(str(error)) from None
    job = DistributionJob(options, telemetry, bounds, probabilities, fitted, least, open_rng)
    require_proven(options, job.guarantees[0])
    return job


def read_quantiles(text: str | None) -> tuple[float, ...]:
    """The probabilities in "P,P,...", rising and each once; the usual ones if nobody asks.

    Raises:
        RequestError: they are not numbers between 0 and 1, or too many.

    >>> read_quantiles("0.9,0.5")
    (0.5, 0.9)
    """
    if text is None:
        return USUAL
    try:
        asked = sorted({float(part) for part in text.split(",")})
    except ValueError:
        asked = []
    if not (asked and all(0 < p < 1 for p in asked)):
        raise RequestError(
            "--quantiles must be probabilities above 0 and below 1 with commas, as in "
            f"0.5,0.9,0.99, not {text!r}"
        )
    if not len(asked) <= _MOST_QUANTILES:
        raise RequestError(f"--quantiles: {len(asked):,} are more than {_MOST_QUANTILES:,}")
    return tuple(asked)


def _expected_reports(options: DistributionOptions, rows: int) -> int:
    """For how many reports bins are chosen: never for more than come, as far as is known."""
    return options.min_reports or max(1, math.floor(0.9 * rows))
