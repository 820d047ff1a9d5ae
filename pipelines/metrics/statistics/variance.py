"""`variance`: how far a column of numbers scatters, of everybody or of each group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import Self

from pipelines.logs import inputs
from pipelines.logs.numbers import of_squares, read_bounds
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, MomentEvidence
from pipelines.metrics.statistics.labels import label_columns, with_labels
from pipelines.metrics.statistics.mean import Mean
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.variance.options import VarianceOptions

_ERRORS = ErrorTerms(
    "A variance is a noisy mean of squares less the square of a noisy mean, and its standard "
    "error, by the delta method, stands beside it: the fewer take part, the larger. The expected "
    "error is of the standard deviation of numbers that are spread evenly between the bounds.",
    divides=True,
)
_POPULATION = (
    "The variance is that of the numbers that count, as of a whole population; as of a sample it "
    "is n / (n - 1) times as large. Intervals are for what the noise may have moved."
)
_EVEN = 1 / 3  # the variance of numbers that are spread evenly over [-1, 1]


@dataclass(frozen=True, kw_only=True)
class Variance(Mean):
    """The variance, its root, and the mean of those who have a number; totals are as of `Mean`."""

    kind = "variance"
    liars = "The bound on poisoning is for the sum of squared distances from the bounds' middle. "

    options: VarianceOptions  # type: ignore[assignment]

    @classmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Self, inputs.Telemetry]:
        of_squares(read_bounds(options.bounds))
        return super().read(options, source)

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
        return Wording(_ERRORS, [*super().wording.words, _POPULATION])

    def tables(self, evidence: MomentEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        confidence = self.options.confidence
        means, made = self.columns(evidence, confidence), self._spreads(evidence, confidence)
        wider = self._spreads(evidence, evidence.alone(confidence))
        people = {name: x for name, x in means.items() if name.startswith(("rows", "users"))}
        for name, columns in made.items():
            ends = {f"{end}_simultaneous": wider[name][end] for end in ("lower", "upper")}
            made[name] = columns | (ends if evidence.people.size > 1 else {}) | people
        labels, made["mean"] = label_columns(self.heading.labels, self.domains), means
        return {f"{name}.parquet": with_labels(labels, one) for name, one in made.items()}

    def _spreads(self, evidence: MomentEvidence, confidence: float) -> dict[str, dict[str, Any]]:
        """Table -> columns, in the units of the bounds: of roots, and of variances."""
        spread, half = evidence.variances(confidence), self.bounds.half
        variance = np.clip(spread.ratio, spread.lower, spread.upper)
        squares = {"estimate": variance, "lower": spread.lower, "upper": spread.upper}
        roots = {name: half * np.sqrt(values) for name, values in squares.items()}
        # How far a standard error of the variance takes its root up: finite where it is near 0.
        roots["standard_error"] = half * np.sqrt(variance + spread.error) - roots["estimate"]
        squares |= {"standard_error": spread.error, "unclipped": spread.ratio}
        return {"deviation": roots, "variance": {n: half**2 * x for n, x in squares.items()}}

    def statement(self, evidence: MomentEvidence) -> dict[str, Any]:  # type: ignore[override]
        return {}

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of a standard deviation of all who are expected, or of a group with its part of them."""
        half, weights = self.bounds.half, np.array([-_EVEN, 0, 1])
        noise = math.sqrt(weights @ accuracy.moments @ weights)
        spread = math.hypot(noise, 2 * accuracy.rounding(people)) / (2 * math.sqrt(_EVEN))
        error = half * spread / (people / self.encoder.size)
        stated = min(error / self.options.rows_per_user, half)
        words = f"standard deviation ± {stated:.3g}"
        return Forecast(half * math.sqrt(_EVEN), error, stated, words, of=f"{people:,}")
