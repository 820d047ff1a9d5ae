"""`hushbeam distribution`: the histogram, the quantiles and the mean of a column of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Mechanism
from mechanisms.distribution import MOST_BINS, MOST_COUNTED, fitting
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.distribution.quantiles import USUAL
from mechanisms.mean.task import MeanTask
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SecureRandom
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import are_whole, open_numbers, read_bounds, read_fill
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.distribution import result, view
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.metric import FRESH, Coins, MetricReports
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import (
    drowned,
    least_batch,
    least_reports,
    require_proven,
    target_terms,
)
from pipelines.releases import release
from pipelines.releases.schema import read_own
from pipelines.views.headline import MIDDLE, QUANTILE
from transforms.encoders.bounds import Bounds, Rounding
from transforms.encoders.numbers import NumberEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect import Distribution
    from transforms.elements.blocks import Generator

_MOST_QUANTILES = 1000
_HALF = "a half, which a cumulative share said to be a half is never off by more than"


@dataclass(frozen=True, kw_only=True)
class DistributionOfNumbers(Randomised):
    """Shares, quantiles and mean of a column of numbers.

    Attributes:
        bounds: what numbers are clipped to.
        probabilities: of the quantiles that are published.
        fitted: the design again, and how its limits are made.
        fill: the number in the place of those that cannot be used, or None.
    """

    kind = "distribution"
    Options = DistributionOptions
    unstated = frozenset({"quantiles"})

    options: DistributionOptions
    bounds: Bounds
    probabilities: tuple[float, ...]
    fitted: fitting.DistributionDesign
    fill: float | None = None

    @classmethod
    def resolve(
        cls,
        options: DistributionOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_randomised(options)
        if options.bins is not None and options.bins > MOST_BINS:
            raise RequestError(
                f"--bins must be a number of at most {MOST_BINS:,}, not {options.bins:,}: one "
                "randomised report tells no more apart; with --dummies shuffler it may be "
                f"{MOST_COUNTED:,}"
            )
        bounds, probabilities = read_bounds(options.bounds), read_quantiles(options.quantiles)
        telemetry = open_numbers(options, source)
        least = least_reports(options, options.model, telemetry.rows)
        expected = _expected_reports(options, telemetry.rows)
        try:
            target = Target(
                **target_terms(options, options.model, least, options.unit), task=MeanTask()
            )
            bins = options.bins or fitting.default_bins(expected)
            fitted = fitting.design(target, bins, expected, options.mechanism, options.hides)
        except ValueError as error:
            raise RequestError(str(error)) from None
        require_proven(options, fitted.design.release)
        return cls(
            options=options, telemetry=telemetry, min_reports=least, open_rng=open_rng,
            design=fitted.design, bounds=bounds, probabilities=probabilities, fitted=fitted,
            fill=read_fill(options),
        )  # fmt: skip

    @property
    def resolved(self) -> tuple[Mechanism, Rounding]:
        return self.mechanism, self.fitted.rounding

    @property
    def estimator(self) -> DistributionEstimator:
        """The collector."""
        return self.fitted.estimator(self.options.smooth)

    @property
    def cautions(self) -> list[str]:
        expected = _expected_reports(self.options, self.answering_rows)
        error = self.fitted.sure_length / normal_quantile(0.95)  # of a half
        return super().cautions + drowned(error, expected if expected > 1 else 0, _HALF)

    @property
    def expected_error(self) -> str:
        """The length of the limits of the cumulative distribution."""
        return f"share below ± {50 * self.fitted.expected_length:.2g} %"

    @property
    def hiding_cost(self) -> float | None:
        if not self.options.hides:
            return None
        target = self.design.target.asking(MeanTask())
        expected = _expected_reports(self.options, self.answering_rows)
        without = fitting.design(target, self.fitted.bins, expected, self.design.name)
        return self.fitted.expected_length / without.expected_length

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.options.column: pa.float64()}

    def encoder(self, coins: Coins = FRESH) -> NumberEncoder:
        rounding = coins.rounding(self.fitted.rounding)
        none = rounding.inputs if self.options.hides else None
        return NumberEncoder(self.options.column, self.bounds, rounding, None, none, self.fill)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.collector.collect import CollectDistribution

        confidence = self.options.confidence
        collect = CollectDistribution(self.estimator, confidence, self.probabilities)
        return reports.messages | "Collect" >> collect

    @property
    def figures(self) -> dict[str, str]:
        return {result.TABLE: "share", result.QUANTILES: QUANTILE}

    @property
    def title(self) -> str:
        return f"{self.options.column}: distribution"

    @property
    def headline(self) -> dict[str, str]:
        return {"table": result.QUANTILES, "rows": MIDDLE}

    def tables(self, estimate: Distribution) -> dict[str, pa.Table]:
        return {
            result.TABLE: result.distribution_table(estimate.known, self.bounds),
            result.QUANTILES: result.quantile_table(
                self.probabilities,
                estimate.known,
                self.bounds,
                are_whole(self.telemetry, self.options.column, self.bounds),
            ),
        }

    def unusable_share(self, estimate: Distribution) -> dict[str, float]:
        return result.unusable_share(estimate.known)

    def poisoning(self, estimate: Distribution) -> Poisoning:
        known, reach = estimate.known, None
        if self.collects:
            reach = self.estimator.forged_reach(known, LIARS)
        return result.poisoning(self.probabilities, known, self.bounds, reach)

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s number is replaced by {self.another('finite number')}"

    @property
    def request(self) -> dict[str, Any]:
        return super().request | {"bounds": list(self.bounds)}

    def own_statement(self, estimate: Distribution) -> dict[str, Any]:
        smooth = self.options.smooth
        return result.own_statement(estimate.known, self.bounds, self.fitted, smooth, self.unit)

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(tables[result.TABLE], tables[result.QUANTILES], statement)

    def show(self, screen: Console) -> None:
        folder = self.options.output
        statement = release.statement_of(folder)
        quantiles = read_own(folder, result.QUANTILES)
        view.show(screen, quantiles, statement["mean"], self.options.confidence)


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
        probabilities = sorted({float(part) for part in text.split(",")})
    except ValueError:
        probabilities = []
    if not (probabilities and all(0 < p < 1 for p in probabilities)):
        raise RequestError(
            "--quantiles must be probabilities above 0 and below 1 with commas, as in "
            f"0.5,0.9,0.99, not {text!r}"
        )
    if not len(probabilities) <= _MOST_QUANTILES:
        raise RequestError(f"--quantiles: {len(probabilities):,} are more than {_MOST_QUANTILES:,}")
    return tuple(probabilities)


def _expected_reports(options: DistributionOptions, rows: int) -> int:
    """For how many reports bins are chosen: never for more than come, as far as is known.

    Raises:
        RequestError: users are protected, whose rows are nobody's business, and nobody says how
            many there are.
    """
    if options.min_reports is None and options.user_column is not None:
        return least_batch(options, rows, "bins are chosen for that number")
    return options.min_reports or max(1, math.floor(0.9 * rows))
