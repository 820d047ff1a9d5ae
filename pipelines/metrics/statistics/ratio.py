"""`ratio`: the sum of one column over that of another, or over the number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mechanisms.mean.fieller import quotients
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.heading import Heading
from pipelines.metrics.ratio.options import RatioOptions
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.row_evidence import nullable
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.sum import Sum
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from transforms.encoders.bounds import Bounds
from transforms.encoders.pairs import PairEncoder

_ERRORS = ErrorTerms(
    "A ratio is one noisy sum over another; standard errors are the delta method's, intervals "
    "Fieller's: without an end where what it is divided by may be nothing. The expected error is "
    "that of units with half of what may count.",
    divides=True,
)


@dataclass(frozen=True, kw_only=True)
class Ratio(Sum):
    """Two sums of each group, in parts of the largest number that counts of each."""

    kind = "ratio"

    options: RatioOptions  # type: ignore[assignment]
    below: Bounds

    @classmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Ratio, inputs.Telemetry]:
        below = read_bounds(options.over_bounds)
        if below.low != 0 or not read_bounds(options.bounds).low <= 0 < read_bounds(options.bounds).high:
            raise RequestError(
                "--over-bounds and --bounds: of a ratio they hold what a unit may add, from 0 on "
                "(or below, where numbers are divided): write 0,100"
            )
        if options.over is not None:
            asked = options.model_copy(update={"column": options.over})
            open_numbers(asked, source, empty=True, moments=False)
        return super().read(options, source, below=below)

    @property
    def _unit(self) -> float:
        return max(abs(self.bounds.low), self.bounds.high)

    @property
    def workload(self) -> Workload:
        work, one = super().workload, self._unit
        bounds = Bounds(self.bounds.low / one, self.bounds.high / one)
        twice = {"rows": work.rows and 2 * work.rows, "most_groups": work.most_groups * (2 - bool(work.rows))}
        return replace(work, groups=2 * work.groups, amount=bounds, **twice)

    @property
    def encoder(self) -> PairEncoder:
        one, scales = super().encoder, (1 / self._unit, self.bounds.high / self._unit / self.below.high)
        return PairEncoder(one.domains, one.number, drops=one.drops, over=self.options.over, scales=scales)

    @property
    def heading(self) -> Heading:
        column = self.options.column
        by = super().heading.title.removeprefix(f"{column}: sum")
        title = f"{column} per {self.options.over or 'row'}{by}"
        return super().heading._replace(title=title, figures={"ratio.parquet": "ratio"})

    @property
    def wording(self) -> Wording:
        words = [
            *super().wording.words,
            f"What it is divided by was likewise clipped to 0 .. {self.below.high:g}. A number that is "
            "missing adds nothing, and the other of its row counts. Where a user has more rows or "
            "groups than count, those of either column are drawn by themselves.",
        ]
        return Wording(_ERRORS, words)

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        one, scales = evidence.accuracy.total, self.encoder.scales
        a, b = (part / s for part, s in zip(np.split(evidence.totals, 2), scales, strict=True))
        errors = [one.standard_error / scale for scale in scales]

        def within(confidence: float) -> dict[str, Any]:
            # The tails of one noise are heavier than those of sums of two.
            found = quotients(a, b, *errors, one.far(confidence), most=math.inf)
            lower = np.maximum(found.lower, 0) if self.bounds.low >= 0 else found.lower
            names = ("estimate", "standard_error", "lower", "upper")
            ends = found.ratio, found.error, np.fmin(lower, found.ratio), found.upper
            return dict(zip(names, ends, strict=True))

        made = within(confidence)
        if a.size > 1:
            wide = within(confidence ** (1 / a.size))
            made |= {f"{end}_simultaneous": wide[end] for end in ("lower", "upper")}
        sums = zip(("sum", "divisor"), (a, b), errors, strict=True)
        for name, total, error in sums:
            made |= {name: total, f"{name}_standard_error": np.full_like(total, error)}
        return nullable(made)

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of all who are expected, or of a group with its part of them."""
        ratio = self.bounds.high / self.below.high
        sums = people / self.encoder.size / 2 * self.bounds.high / self._unit
        error = ratio * math.sqrt(2) * accuracy.total.standard_error / sums
        return Forecast(ratio, error, error, f"ratio ± {error:.3g} of {people:,}")
