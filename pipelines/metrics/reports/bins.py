"""One report of the bin of one number: a distribution by expectation maximisation, and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution import MOST_BINS, MOST_COUNTED, fitting
from mechanisms.distribution.estimator import DistributionEstimator, NumberSummary
from mechanisms.distribution.quantiles import quantiles
from mechanisms.mean.intervals import HONEST, NOBODY, quotient_reach
from mechanisms.mean.task import MeanTask
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.logs.numbers import read_fill
from pipelines.metrics import terms
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.metric import FRESH, Coins, MetricReports
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.protection import Protection
from pipelines.metrics.reports.by_reports import ByReports
from pipelines.metrics.statistics.evidence import Accuracy, PrefixEvidence
from pipelines.views import report
from pipelines.views.digits import digits
from pipelines.wording import upward
from transforms.encoders.bounds import Bounds
from transforms.encoders.numbers import NumberEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect import CollectedNumbers

_LIKELIEST = "expectation maximisation, stopped where it begins to fit the noise"
_SMOOTHED = "EMS, smoothed: biased, closer on smooth data and far off at spikes"
_HALF = "a half, which a cumulative share said to be a half is never off by more than"
_AND_QUANTILES = (
    ", the mean by up to {mean:g}, and the quantile of a probability to one whose probability is "
    "lower or higher by what the share moves (`quantiles` has them); the estimates follow the "
    "unbiased shares, without a bound of their own"
)
_COVERS = (
    "Intervals cover with the stated probability, each for itself, whatever the distribution: the "
    "randomisation of the reports, and the choice of users too if these are a random sample of a "
    "population. Those of quantiles, of the mean and the sure ones of cumulative shares hold for "
    "the numbers as they were, clipped to the bounds; those of single bins for numbers moved at "
    "random by up to half a bin. So do the shorter ones of cumulative shares, for the numbers of "
    "those who reported: they hold for these as they were where they lie evenly between the "
    "middles of bins, and a spike may lie outside. Standard errors of shares cover the "
    "randomisation alone."
)
_QUOTIENT = (
    " All is of the numbers that can be used: shares, sums of shares and the mean are quotients, "
    "whose intervals are Fieller's; where nobody may have a number they are all that there is."
)


@dataclass(frozen=True, kw_only=True)
class BinsByReports(ByReports):
    """Shares, quantiles and mean of a column of numbers, each rounded to a bin and randomised.

    Attributes:
        fitted: the design again, and how its limits are made.
        fill: the number in the place of those that cannot be used, or None.
    """

    fitted: fitting.DistributionDesign
    fill: float | None = None

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        options = given.statistic.options
        if options.bins is not None and options.bins > MOST_BINS:
            raise RequestError(
                f"--bins must be a number of at most {MOST_BINS:,}, not {options.bins:,}: one "
                "randomised report tells no more apart; with --drawn-by shuffler it may be "
                f"{MOST_COUNTED:,}"
            )
        least = terms.least_reports(
            options, options.model, terms.rows_needed(options, given.telemetry)
        )
        expected = _expected_reports(options, terms.rows_needed(options, given.telemetry))
        try:
            known = terms.target_terms(options, options.model, least, options.unit)
            target = Target(**known, task=MeanTask())
            bins = options.bins or fitting.default_bins(expected)
            fitted = fitting.design(target, bins, expected, options.mechanism, options.hides)
        except ValueError as error:
            raise RequestError(str(error)) from None
        terms.require_proven(options, fitted.design.release)
        fields = {**given.fields, "min_reports": least, "fill": read_fill(options)}
        return cls(**fields, design=fitted.design, fitted=fitted)

    @property
    def protection(self) -> Protection:
        return super().protection._replace(made=(self.mechanism, self.fitted.rounding))

    @property
    def bounds(self) -> Bounds:
        """What numbers are clipped to."""
        return self.statistic.bounds

    @property
    def estimator(self) -> DistributionEstimator:
        """The collector."""
        return self.fitted.estimator(self.options.smooth)

    @property
    def _expected(self) -> int:
        declared = self.options.min_reports is not None
        return _expected_reports(self.options, 0 if declared else terms.answering_rows(self))

    @property
    def error(self) -> float:
        """The standard error of a cumulative share of a half, as limits say that are sure."""
        return self.fitted.sure_length / normal_quantile(0.95)

    @property
    def cautions(self) -> list[str]:
        expected = self._expected
        return super().cautions + terms.drowned(self.error, expected if expected > 1 else 0, _HALF)

    @property
    def expected_error(self) -> str:
        """The length of the limits of the cumulative distribution."""
        return f"share below ± {50 * self.fitted.expected_length:.2g} %"

    @property
    def hiding_cost(self) -> float | None:
        if not self.options.hides:
            return None
        target = self.design.target.asking(MeanTask())
        expected = self._expected
        without = fitting.design(target, self.fitted.bins, expected, self.design.name)
        return self.fitted.expected_length / without.expected_length

    def encoder(self, coins: Coins = FRESH) -> NumberEncoder:
        rounding = coins.rounding(self.fitted.rounding)
        none = rounding.inputs if self.options.hides else None
        return NumberEncoder(self.options.column, self.bounds, rounding, None, none, self.fill)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.collector.collect import CollectDistribution

        known = self.options.confidence, self.statistic.probabilities
        return reports.messages | "Collect" >> CollectDistribution(self.estimator, *known)

    def evidence(self, estimate: CollectedNumbers) -> PrefixEvidence:
        """Bins hold numbers as rounding moved them; the first and the last are half as wide."""
        known, n, bounds = estimate.known, float(estimate.n), self.bounds
        evenly = known.cumulative_lower, known.cumulative_upper
        names = ("unbiased", "standard_error", "lower", "upper")
        return PrefixEvidence(
            n * _present(known) * known.unbiased, np.array([n]),
            Accuracy(FigureError(None, n * self.error)), lambda *_: None, known.estimate,
            edges=scaled(known.edges, bounds), bins={name: getattr(known, name) for name in names},
            cumulative=known.cumulative, quantiles=scaled(known.quantiles, bounds),
            limits={"": evenly, "_sure": (known.sure_lower, known.sure_upper)},
        )  # fmt: skip

    def unusable_cautions(self, estimate: CollectedNumbers, confidence: float) -> list[str]:
        return self.statistic.cautions(self.evidence(estimate))

    def unusable_share(self, estimate: CollectedNumbers) -> dict[str, float]:
        unusable = estimate.known.unusable
        return {} if unusable is None else unusable._asdict()

    def poisoning(self, estimate: CollectedNumbers) -> Poisoning:
        known, bounds, hides = estimate.known, self.bounds, self.options.hides
        present = _present(known)
        some = np.concatenate([HONEST, NOBODY]) if hides else HONEST
        averages = np.array([known.mean.estimate * present, present])
        mean = float(quotient_reach((averages[0], averages[1]), some, LIARS))
        left = present - LIARS * hides
        lies = LIARS / left if left > 0 else math.inf
        forged, forged_mean = None, mean
        if self.collects:
            forged, forged_mean = self.estimator.forged_reach(known, LIARS)
        moved = lies if forged is None else forged
        levels = np.clip(np.add(self.statistic.probabilities, [[-moved], [moved]]), 0, 1)
        lower, upper = (
            scaled(quantiles(level, known.estimate, known.edges), bounds).tolist()
            for level in levels
        )
        more, also = (
            _AND_QUANTILES.format(mean=upward(bounds.half * min(distance, 2.0), 3))
            for distance in (mean, forged_mean)
        )
        ends = {"lower": lower, "upper": upper}
        beside = {"quantiles": ends, "mean": bounds.half * min(forged_mean, 2.0)}
        return Poisoning("any unbiased cumulative share", lies, forged, more=more, also=also,
                         beside=beside)  # fmt: skip

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s number is replaced by {self.another('finite number')}"

    @property
    def request(self) -> dict[str, Any]:
        return super().request | {"bounds": list(self.bounds)}

    def own_statement(self, estimate: CollectedNumbers) -> dict[str, Any]:
        known, fitted = estimate.known, self.fitted
        estimation = {
            "bins": len(known.estimate), "method": _SMOOTHED if self.options.smooth else _LIKELIEST,
            "iterations": known.iterations, "converged": known.converged, "span": fitted.span,
        }  # fmt: skip
        error = {
            "expected_length_of_cumulative_intervals": fitted.expected_length,
            "covers": covers(self.unit) + _QUOTIENT * fitted.hides,
        }
        mean = _mean(known, self.bounds)
        return {"mean": mean, "estimation": estimation, "error": error}

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        return report.page_words(_reading(statement), _facts(statement))


def scaled(values: Floats, bounds: Bounds) -> Floats:
    """Numbers of [-1, 1] in the units of the bounds, and inside them."""
    inside = np.clip(bounds.low + (values + 1) * bounds.half, *bounds)
    return np.asarray(np.where(values >= 1, bounds.high, inside))


def covers(unit: str) -> str:
    """What intervals account for."""
    drawn = "" if unit == "row" else f" Of each {unit} one number was drawn; they hold for these."
    return _COVERS + drawn


def _expected_reports(options: Any, rows: int) -> int:
    """For how many reports bins are chosen: never for more than come, as far as is known."""
    if options.min_reports is None and options.user_column is not None:
        return terms.least_batch(options, rows, "bins are chosen for that number")
    return options.min_reports or max(1, math.floor(0.9 * rows))


def _present(summary: NumberSummary) -> float:
    """The share of units that have a number, unbiased."""
    return 1 - (0.0 if summary.unusable is None else summary.unusable.unbiased)


def _mean(summary: NumberSummary, bounds: Bounds) -> dict[str, float | None]:
    """The mean in the units of the bounds."""
    mean, half = summary.mean, bounds.half
    known = math.isfinite(mean.estimate)  # of nobody who can be seen to have a number there is none
    unbiased = bounds.low + (mean.estimate + 1) * half if known else None
    middle = bounds.unscale(summary.mean_of_estimate) if unbiased is None else unbiased
    return {
        "estimate": min(max(middle, bounds.low), bounds.high),
        "unbiased": unbiased,
        "standard_error": mean.standard_error * half if known else None,
        "lower": float(scaled(np.array(mean.lower), bounds)),
        "upper": float(scaled(np.array(mean.upper), bounds)),
        "of_the_estimated_shares": float(scaled(np.array(summary.mean_of_estimate), bounds)),
    }


def _reading(statement: Mapping[str, Any]) -> list[str]:
    """How a distribution from randomised reports is to be read."""
    mean, method = statement["mean"], statement["estimation"]["method"]
    low, high = (digits(mean[end], mean["standard_error"]) for end in ("lower", "upper"))
    return [
        "Numbers were stochastically rounded to a grid (unbiased); then every report was "
        f"randomised by itself. The shares were found by {method}. They are nonnegative, add up "
        "to 1 and are slightly biased; the unbiased ones stand beside them.",
        f"The mean is {digits(mean['estimate'], mean['standard_error'])}, with a standard error of "
        f"{digits(mean['standard_error'], mean['standard_error'])} and the interval {low} to "
        f"{high}. It is straight from the reports and unbiased; the estimated shares have the mean "
        f"{digits(mean['of_the_estimated_shares'], mean['standard_error'])}.",
    ]


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    estimation = statement["estimation"]
    rest = "" if estimation["converged"] else ", not at rest"
    return [
        ("bins", str(estimation["bins"])),
        ("estimate", f"{estimation['method']} ({estimation['iterations']} iterations{rest})"),
        ("cumulative intervals", f"by averages over {estimation['span']} bins"),
    ]
