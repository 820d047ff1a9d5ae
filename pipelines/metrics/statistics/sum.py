"""`sum`: the total of a column of numbers, of everybody or of each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.counting.design import declared
from pipelines.metrics.counting.options import SumOptions, require_bounded, require_pairs
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import OF_TOTALS, Statistic, Workload
from pipelines.metrics.unusable.share import MANY
from pipelines.views.digits import three_digits
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import UNUSABLE

_UNKNOWN = "of how many is not published"


@dataclass(frozen=True, kw_only=True)
class Sum(Statistic):
    """How much there is, its numbers clipped to bounds."""

    kind = "sum"
    Options = SumOptions
    reading = OF_TOTALS
    grouped = True

    options: SumOptions
    bounds: Bounds

    @classmethod
    def read(cls, options: SumOptions, source: inputs.Source) -> tuple[Sum, inputs.Telemetry]:
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        require_pairs(pair)
        bounds = read_bounds(options.bounds)
        telemetry = open_numbers(options, source, empty=True, moments=False)
        statistic = cls(options=options, domains=declared(telemetry, pair), bounds=bounds)
        require_bounded(options, statistic.encoder.size)
        return statistic, telemetry

    @property
    def workload(self) -> Workload:
        options, groups = self.options, self.encoder.size
        return Workload(
            groups, options.rows_per_user, amount=self.bounds, whole=options.whole_numbers,
            limited=True,
        )  # fmt: skip

    @property
    def encoder(self) -> GroupEncoder:
        return GroupEncoder(self.domains, self.options.column, self.options.whole_numbers)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return super().line_types | {self.options.column: pa.float64()}

    @property
    def figure(self) -> str:
        return "sum"

    @property
    def title(self) -> str:
        by = f" by {self.options.group_by}" if self.options.group_by else ""
        return f"{self.options.column}: sum{by}"

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        return evidence.columns(confidence)

    def foretold(self, accuracy: Accuracy, expected: int) -> tuple[float, float]:
        bound = max(abs(self.bounds.low), abs(self.bounds.high))
        return expected / self.encoder.size * bound, accuracy.total.standard_error

    def error_in_words(self, error: float, expected: int) -> str:
        return f"sum ± {three_digits(error)}"

    def cautions(self, accuracy: Accuracy, expected: int) -> list[str]:
        noise, rounding = accuracy.total.sigma * accuracy.total.unit, accuracy.total.rounding
        if rounding <= noise:
            return []
        # No refusal: finer units would err more, and nobody knows here how many there will be.
        return [
            f"--expected: the sum of {expected:,} rounded numbers would be off by {rounding:.3g}, "
            f"and noise by {noise:.3g}: say --whole-numbers if they are, or how many are expected "
            "if they are fewer"
        ]

    def unusable_cautions(self, evidence: Evidence, confidence: tuple[float, float]) -> list[str]:
        many, some = (evidence.beside(UNUSABLE, sure) for sure in confidence)
        if many is None or some is None:
            return []
        declared = self.options.expected or self.options.enrolled
        # Without a number that was declared nobody knows of how many they are.
        count, far = some if declared is None else many
        if not count - far > MANY * (declared or 0):
            return []
        known = f"of {declared:,} that were declared" if declared else _UNKNOWN
        return [
            f"about {count:,.0f} {self.options.unit}s, give or take {far:,.0f}, have a number that "
            f"cannot be used, which adds nothing to the sum; {known}"
        ]

    def words(self, influence: float) -> list[str]:
        users = self.options.unit == "user"
        whose = "What all rows of a user add up to" if users else "A row's number"
        where = ", in each of its groups," if self.domains and users else ""
        return [f"{whose}{where} was clipped to {self.bounds.low:g} .. {self.bounds.high:g}."]
