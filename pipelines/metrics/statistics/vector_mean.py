"""`vector-mean`: the average of many numbers at once, and the shares of categories beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.row_attributes import read_attributes
from pipelines.metrics.heading import Heading
from pipelines.metrics.options import JOB
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.row_evidence import CoordinateScale, RowEvidence, nullable
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.unusable.share import Share
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.views.headline import FIRST
from transforms.encoders.attributes import Attribute, Category, categorical, numeric, width
from transforms.encoders.rows import Absence, RowEncoder

REPORTS = "reports.parquet"
"""What each unit sent, as a row, if that is published."""

OF_ALL_UNITS = "The share of a category's value is of all units, also of those without a value."
_BY_COORDINATE = "each coordinate's of those who have it"
_OF_ALL = "one of all, for who lacks a number counts with the middle of its bounds"
_ERRORS = ErrorTerms(
    f"A mean is a noisy sum over a noisy count, {_BY_COORDINATE}, and its standard error, by the "
    "delta method, stands beside it: the fewer take part, the larger. "
    f"{OF_ALL_UNITS} The expected error is on the scale on which bounds are -1 and 1.",
    "the noise of the dummies, and roundings; not what was clipped, nor, where a user has several "
    "rows, that one of them was drawn",
    of=" of a coordinate, whose bounds are -1 and 1,",
    divides=True,
)
_NAMED = 3  # columns that a title names
_USUAL = 0.5  # how far from the middle a mean may be expected, of half the range


TABLE, FREQUENCIES = "vector-mean.parquet", "frequencies.parquet"


@dataclass(frozen=True, kw_only=True)
class AverageRow(Statistic):
    """The mean of each number of a row, and how often each category has each value.

    Every noise publishes of each number and of each value: estimate (within what can be),
    standard_error, lower and upper of an interval, the same of intervals that cover the whole table
    (lower_simultaneous, upper_simultaneous), unbiased, and how many units have it, with a standard
    error. One report of each unit tells more: n, how many reports speak for it; shrunk, the mean
    moved by James and Stein, if that was requested; and, where absence is hidden, unusable, the
    share of units that lack the number, with its standard error and interval.

    Attributes:
        attributes: what a row consists of.
    """

    kind = "vector-mean"

    options: VectorMeanOptions
    attributes: tuple[Attribute, ...]

    @classmethod
    def read(
        cls, options: VectorMeanOptions, source: inputs.Source
    ) -> tuple[AverageRow, inputs.Telemetry]:
        telemetry = source.open(options, empty=options.hides_presence)
        attributes = read_attributes(options.number, options.vector, options.category, telemetry)
        if not width(attributes):
            raise RequestError(
                "--number or --vector is missing: categories alone are what `hushbeam histogram` "
                "is for"
            )
        return cls(options=options, attributes=attributes), telemetry

    @property
    def workload(self) -> Workload:
        numbers = width(self.attributes)
        return Workload(numbers, numbers, people="groups", shape="row")

    @property
    def categories(self) -> tuple[Category, ...]:
        """Those that a row has."""
        return categorical(self.attributes)

    @property
    def encoder(self) -> RowEncoder:  # type: ignore[override]
        return RowEncoder(self.attributes, None, Absence(hides=True))

    @property
    def coordinates(self) -> list[str]:
        """(dimension,) what the numbers are called."""
        return [label for number in numeric(self.attributes) for label in number.labels()]

    # What is said of it.

    @property
    def heading(self) -> Heading:
        columns = dict.fromkeys(number.column for number in numeric(self.attributes))
        names = ", ".join(columns) if len(columns) <= _NAMED else f"{len(columns):,} columns"
        figures = {TABLE: "mean", FREQUENCIES: "share"}
        return Heading(f"{names}: mean of each", figures, headline={"table": TABLE, "rows": FIRST})

    @property
    def wording(self) -> Wording:
        users = self.options.unit == "user"
        whose = "One row of each user, drawn uniformly among all of its rows," * users
        words = (
            f"{whose or 'Every row'} counts once: all of its numbers, clipped to their bounds, and "
            "its categories. The bound on poisoning is for the sum, in halves of the distance "
            f"of bounds; for a mean, divide it by the number of {self.options.unit}s. How many "
            "numbers were clipped is not published. Intervals are Fieller's: where nobody may have "
            "a number they are all between its bounds."
        )
        errors = _ERRORS
        if self.options.drawn_by == JOB and not self.options.count_each:
            errors = errors._replace(reading=errors.reading.replace(_BY_COORDINATE, _OF_ALL))
        return Wording(errors, [words], self._request())

    def _request(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "number": list(self.options.number),
            "vector": list(self.options.vector),
            "category": [f"{c.column}: {c.size:,} declared values" for c in self.categories],
            "dimension": width(self.attributes),
        }
        prior = {"prior": f"{width(self.attributes):,} declared numbers"}
        return said | prior if self.options.prior else said

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of a coordinate of all who are expected, on the scale on which bounds are -1 and 1."""
        rounding, digits = float(accuracy.rounding(people)), self.options.digits
        noise = math.hypot(accuracy.noise, rounding, _USUAL * accuracy.people) / people
        error = min(noise, 2.0)
        percent = f"{50 * error:.2g} % of the distance of its bounds"
        cautions = []
        if digits is not None and rounding > accuracy.noise:
            cautions.append(
                f"--digits {digits}: rounding errs {rounding / accuracy.noise:.2g} times as much "
                f"as the noise that hides numbers; have {digits + 1} or more, or leave it out"
            )
        return Forecast(1.0, noise, error, f"coordinate ± {percent}", cautions, f"{people:,}")

    def statement(self, evidence: RowEvidence) -> dict[str, Any]:  # type: ignore[override]
        said: dict[str, Any] = {"bounds": self._bounds()}
        if evidence.present is not None:
            estimate, error = evidence.present
            said["took_part"] = {"estimate": estimate, "standard_error": error}
        return said

    def _bounds(self) -> list[dict[str, Any]]:
        """What numbers were clipped to, for each column, neighbours with the same together."""
        described: list[dict[str, Any]] = []
        for number in numeric(self.attributes):
            low, high = number.bounds
            if described and (described[-1]["low"], described[-1]["high"]) == (low, high):
                described[-1]["to"] = number.column
                described[-1]["coordinates"] += number.width
            else:
                described.append({
                    "from": number.column, "to": number.column, "coordinates": number.width,
                    "low": low, "high": high, "how": "declared",
                })  # fmt: skip
        return described

    def unusable(self, evidence: RowEvidence, confidence: float) -> Mapping[str, Share]:  # type: ignore[override]
        names = [*self.coordinates, *(category.column for category in self.categories)]
        shares = zip(names, evidence.absent(confidence), strict=False)  # all of them, or none
        return {name: share for name, share in shares if math.isfinite(share.lower)}

    # What is published.

    def columns(self, evidence: RowEvidence, confidence: float) -> dict[str, Any]:  # type: ignore[override]
        scale = CoordinateScale.of(self.attributes)
        columns = evidence.numbers.scaled(scale).columns(self.options.unit)
        if evidence.shrunk is not None:
            columns["shrunk"] = scale.inside(evidence.shrunk)
        return columns

    def tables(self, evidence: RowEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        names, columns = self.coordinates, self.columns(evidence, self.options.confidence)
        tables = {TABLE: pa.table({"coordinate": names} | nullable(columns))}
        parts = []
        for category, shares in zip(self.categories, evidence.categories, strict=True):
            values = category.domain.labels().cast(pa.string())
            head = {"attribute": [category.column] * category.size, "value": values}
            parts.append(pa.table(head | nullable(shares.columns(self.options.unit))))
        if parts:
            tables[FREQUENCIES] = pa.concat_tables(parts)
        if evidence.perturbed is not None:
            rows = CoordinateScale.of(self.attributes).units(evidence.perturbed)
            tables[REPORTS] = pa.table([*rows.T], names)
        return tables
