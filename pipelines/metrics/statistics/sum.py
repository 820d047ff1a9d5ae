"""`sum`: the total of a column of numbers, of everybody or of each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.counting.design import divided
from pipelines.metrics.counting.options import (
    SumOptions,
    require_bounded,
)
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.labels import group_names
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import OF_TOTALS, ErrorTerms, Forecast, Wording
from pipelines.views.digits import three_digits
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder


@dataclass(frozen=True, kw_only=True)
class Sum(Statistic):
    """How much there is, its numbers clipped to bounds."""

    kind = "sum"

    options: SumOptions
    bounds: Bounds

    @classmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Self, inputs.Telemetry]:
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        bounds = read_bounds(options.bounds)
        telemetry = open_numbers(options, source, empty=True, moments=False)
        statistic = cls(options=options, domains=divided(telemetry, options, pair), bounds=bounds)
        require_bounded(options, statistic.encoder.size)
        return statistic, telemetry

    @property
    def workload(self) -> Workload:
        options, groups = self.options, self.encoder.size
        return Workload(
            groups, 1 if options.by_row else options.rows_per_user, amount=self.bounds,
            whole=options.whole_numbers, limited=True, rows=options.rows,
        )  # fmt: skip

    @property
    def encoder(self) -> GroupEncoder:
        options = self.options
        drops = options.undeclared == "drop"
        return GroupEncoder(self.domains, options.column, options.whole_numbers, drops)

    @property
    def heading(self) -> Heading:
        by = f" by {self.options.group_by}" if self.options.group_by else ""
        title, figures = f"{self.options.column}: sum{by}", {f"{self.kind}.parquet": "sum"}
        return Heading(title, figures, group_names(self.domains))

    @property
    def wording(self) -> Wording:
        users = self.options.unit == "user" and not self.options.by_row
        low, high = self.bounds
        whose = "What all rows of a user add up to" if users else "A row's number"
        where = ", in each of its groups," if self.domains and users else ""
        words = f"{whose}{where} was clipped to {low:g} .. {high:g}."
        return Wording(ErrorTerms(OF_TOTALS), [words])

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        bound = max(abs(self.bounds.low), abs(self.bounds.high))
        figure, error = people / self.encoder.size * bound, accuracy.total.standard_error
        noise, rounding = accuracy.total.sigma * accuracy.total.unit, accuracy.total.rounding
        # No refusal: finer units would err more, and nobody knows here how many there will be.
        coarse = (
            f"--expected: the sum of {people:,} rounded numbers would be off by {rounding:.3g}, "
            f"and noise by {noise:.3g}: say --whole-numbers if they are, or how many are expected "
            "if they are fewer"
        )
        cautions = [coarse] * (rounding > noise)
        return Forecast(figure, error, error, f"sum ± {three_digits(error)}", cautions)
