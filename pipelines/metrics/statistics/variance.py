"""`variance`: how far a column of numbers scatters, of everybody or of each group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, MomentEvidence
from pipelines.metrics.statistics.labels import label_columns, with_labels
from pipelines.metrics.statistics.mean import Mean
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.variance.options import VarianceOptions

_ERRORS = ErrorTerms(
    "A variance is a noisy sum of squares over a noisy count, less the square of a mean. Standard "
    "errors, by the delta method, stand beside it: the fewer take part, the larger. The expected "
    "error is of the standard deviation of numbers that are spread evenly between the bounds.",
    divides=True,
)
_EVEN = 1 / 3  # the variance of numbers that are spread evenly over [-1, 1]


@dataclass(frozen=True, kw_only=True)
class Variance(Mean):
    """The variance, its root, and the mean of those who have a number; totals are as of `Mean`."""

    kind = "variance"

    options: VarianceOptions  # type: ignore[assignment]

    @property
    def workload(self) -> Workload:
        return replace(super().workload, squares=True)

    @property
    def heading(self) -> Heading:
        mean, column = super().heading, self.options.column
        title = f"{column}: standard deviation" + mean.title.removeprefix(f"{column}: mean")
        names = {"deviation": "standard deviation", "variance": "variance", "mean": "mean"}
        figures = {f"{name}.parquet": figure for name, figure in names.items()}
        return mean._replace(title=title, figures=figures)

    @property
    def wording(self) -> Wording:
        options = self.options
        users = options.unit == "user" and not options.by_row
        whose = "The average of all rows of a user" if users else "The number of a row"
        groups = ", in each of its groups," * (users and bool(self.domains))
        words = (
            f"{whose}{groups} counts once, clipped to {self.bounds.low:g} .. "
            f"{self.bounds.high:g}. The variance is the population variance of these numbers; that "
            "of a sample is n / (n - 1) times as large. Intervals hold for the noise, not for "
            "numbers that might have been drawn instead. The bound on poisoning is for the sum of "
            "squares, in halves of the distance of bounds."
        )
        return Wording(_ERRORS, [words])

    def tables(self, evidence: MomentEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        confidence, labels = self.options.confidence, label_columns(self.heading.labels, self.domains)
        means = self.columns(evidence, confidence)
        unit = "row" if self.options.by_row else self.options.unit
        people = {name: means[name] for name in (f"{unit}s", f"{unit}s_standard_error")}
        made = self._spreads(evidence, confidence)
        if evidence.people.size > 1:
            wider = self._spreads(evidence, evidence.alone(confidence))
            for name, columns in made.items():
                ends = {f"{end}_simultaneous": wider[name][end] for end in ("lower", "upper")}
                made[name] = columns | ends
        made = {name: columns | people for name, columns in made.items()} | {"mean": means}
        return {f"{name}.parquet": with_labels(labels, one) for name, one in made.items()}

    def _spreads(self, evidence: MomentEvidence, confidence: float) -> dict[str, dict[str, Any]]:
        """Table -> columns, in the units of the bounds: of roots, and of variances."""
        found, half = evidence.variances(confidence), self.bounds.half
        variance = np.clip(found.ratio, found.lower, found.upper)
        # How far a standard error of the variance takes its root up: finite where it is near 0.
        error = np.sqrt(variance + found.error) - np.sqrt(variance)
        names = "estimate", "lower", "upper"
        figures = dict(zip(names, (variance, found.lower, found.upper), strict=True))
        roots = {name: half * np.sqrt(values) for name, values in figures.items()}
        squares = {name: half**2 * values for name, values in figures.items()}
        return {
            "deviation": roots | {"standard_error": half * error},
            "variance": squares
            | {"standard_error": half**2 * found.error, "unclipped": half**2 * found.ratio},
        }

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of a standard deviation of all who are expected, or of a group with its part of them."""
        if accuracy.moments is None:
            raise ValueError("no squares were added up")
        half, of_group = self.bounds.half, people / self.encoder.size
        weights = np.array([-_EVEN, 0, 1])
        own = float(weights @ accuracy.moments @ weights)
        spread = math.hypot(math.sqrt(own), 2 * accuracy.rounding(people))
        noise = half * spread / of_group / (2 * math.sqrt(_EVEN))
        error = min(noise / self.options.rows_per_user, half)
        deviation = f"standard deviation ± {error:.3g} of {people:,}"
        return Forecast(half * math.sqrt(_EVEN), noise, error, deviation)

    def statement(self, evidence: MomentEvidence) -> Mapping[str, Any]:  # type: ignore[override]
        return {}
