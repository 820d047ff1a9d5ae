"""`mean`: the average of a column of numbers, of everybody or of each group: a sum over a count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.counting.design import divided
from pipelines.metrics.counting.options import (
    SPLIT_MIX,
    require_bounded,
)
from pipelines.metrics.heading import Heading
from pipelines.metrics.mean.options import MeanOptions, require_sense
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import group_names
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.unusable.share import Share
from pipelines.wording import moment_of, of_moments
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import UNUSABLE

_ERRORS = ErrorTerms(
    "A mean is a noisy sum over a noisy count, and its standard error, by the delta method, stands "
    "beside it: the fewer take part, the larger.",
    divides=True,
)
_USUAL = 0.5  # how far from the middle a mean may be expected, of half the range


@dataclass(frozen=True, kw_only=True)
class Mean(Statistic):
    """The average number of those who have one.

    Totals are of numbers from the middle of the bounds, in halves of the range.
    """

    kind = "mean"
    liars: ClassVar[str] = (
        "The bound on poisoning is for the sum; for a mean, divide it by the number of {unit}s. "
    )

    options: MeanOptions
    bounds: Bounds

    @classmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Self, inputs.Telemetry]:
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        counted = options.hides_presence
        if not counted and isinstance(options, MeanOptions):
            require_sense(options)
        bounds = read_bounds(options.bounds)
        telemetry = open_numbers(options, source, empty=counted)
        statistic = cls(options=options, domains=divided(telemetry, options, pair), bounds=bounds)
        if counted:
            require_bounded(options, statistic.encoder.size)
        return statistic, telemetry

    @property
    def workload(self) -> Workload:
        groups, k = self.encoder.size, self.options.rows_per_user
        rows = self.options.rows
        k = k if rows is None else 1
        return Workload(groups, k, amount=self.bounds, people="groups", limited=True, rows=rows)

    @property
    def encoder(self) -> GroupEncoder:
        drops = self.options.undeclared == "drop"
        return GroupEncoder(self.domains, self.options.column, drops=drops)

    @property
    def heading(self) -> Heading:
        by = f" by {self.options.group_by}" if self.options.group_by else ""
        title, figures = f"{self.options.column}: mean{by}", {f"{self.kind}.parquet": "mean"}
        return Heading(title, figures, group_names(self.domains))

    @property
    def wording(self) -> Wording:
        users = self.options.unit == "user" and not self.options.by_row
        whose = "The average of all rows of a user" if users else "The number of a row"
        groups = ", in each of its groups," * (users and bool(self.domains))
        liars = self.liars.format(unit=self.options.unit)
        words = (
            f"{whose}{groups} counts once, clipped to {self.bounds.low:g} .. "
            f"{self.bounds.high:g}. {liars * (self.options.mechanism != SPLIT_MIX)}"
            "Intervals are Fieller's: where nobody may have a number they are all between the "
            "bounds."
        )
        return Wording(_ERRORS, [words])

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        people = evidence.people
        unit = "row" if self.options.by_row else self.options.unit

        def within(confidence: float) -> dict[str, Any]:
            means = evidence.means(confidence)
            ends = np.clip(means.ratio, -1, 1), means.lower, means.upper, means.ratio
            low, half = self.bounds.low, self.bounds.half
            estimate, lower, upper, unclipped = (low + (x + 1) * half for x in ends)
            columns = {"estimate": estimate, "standard_error": means.error * half}
            return columns | {"lower": lower, "upper": upper, "unclipped": unclipped}

        table = within(confidence)
        unclipped = table.pop("unclipped")
        if people.size > 1:
            wider = within(evidence.alone(confidence))
            table |= {f"{name}_simultaneous": wider[name] for name in ("lower", "upper")}
        numbers = {f"{unit}s": people, f"{unit}s_standard_error": evidence.people_errors}
        return table | {"unclipped": unclipped} | numbers

    def statement(self, evidence: Evidence) -> dict[str, Any]:
        """Of timestamps, when the means are, as people write it."""
        if not of_moments(self.options.bounds):
            return {}
        (table,) = self.tables(evidence).values()
        return {"timestamps": [_moments(row) for row in table.to_pylist()]}

    def unusable(self, evidence: Evidence, confidence: float) -> Mapping[str, Share]:
        """Of all that were counted: a user is without a number where no row has one."""
        half, others = (1 + confidence) / 2, evidence.accuracy.others
        none = evidence.beside(UNUSABLE, half)
        if none is None or others is None:
            return {}
        far = others.times(evidence.people.size).half(half)
        return {"": Share.of_counts(none, (float(evidence.people.sum()), far))}

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of a mean of all who are expected, or of a group that has its part of them."""
        half, of_group = self.bounds.half, people / self.encoder.size
        spread = math.hypot(accuracy.noise, accuracy.rounding(people), _USUAL * accuracy.people)
        noise = half * spread / of_group
        error = min(noise / self.options.rows_per_user, 2 * half)
        return Forecast(half, noise, error, f"mean ± {error:.3g}", of=f"{people:,}")


def _moments(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of the table says of when, where numbers are seconds since 1970."""
    names = ("estimate", "lower", "upper")
    said = {name: row[name] and moment_of(row[name]) for name in names}
    return ({"group": row["group"]} if "group" in row else {}) | said
