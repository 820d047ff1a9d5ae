"""`hushbeam vector-mean --dummies shuffler`: sums of all numbers of rows over noisy counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.counters.design import Counters
from mechanisms.counters.rows import RowCounters, RowTotals, digits_for
from mechanisms.mean.fieller import RatioEstimate, quotients
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import MOST_SLOTS
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.row_attributes import read_attributes
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.options import DELTA, require_counted
from pipelines.metrics.counting.rowwise import RowWise
from pipelines.metrics.unusable.share import Share
from pipelines.metrics.vector_mean.metric import require_numbers
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.metrics.vector_mean.result import (
    FREQUENCIES,
    TABLE,
    CoordinateScale,
    bounds_statement,
    titled,
)
from pipelines.views.headline import FIRST
from transforms.encoders.attributes import Attribute, categorical, numeric, width
from transforms.encoders.reports import PRESENT, RowReporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

_USUAL = 0.5  # how far from the middle a mean may be expected, of half the range


@dataclass(frozen=True, kw_only=True)
class CountedRows(RowWise):
    """The average of many numbers at once, and the shares of categories beside them."""

    kind = "vector-mean"
    Options = VectorMeanOptions
    unstated = VectorMeanOptions.of_reports

    options: VectorMeanOptions
    design: Counters

    @classmethod
    def resolve(
        cls,
        options: VectorMeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        if options.dummies == "devices":
            raise RequestError(
                "--dummies devices: no average rows are known of these; let the shuffler draw, or "
                "leave it out for one randomised report of each user"
            )
        require_counted(options)
        telemetry = source.open(options, empty=True)
        attributes = read_attributes(options.number, options.vector, options.category, telemetry)
        require_numbers(options, attributes)
        design, reporting = _designed(options, attributes, options.digits)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, design=design,
            reporting=reporting, attributes=attributes,
        )  # fmt: skip

    def redesigned(self) -> Self:
        design, reporting = _designed(self.options, self.attributes, self.options.digits)
        digits = reporting.rows.steps.bit_length()
        while self.sealed and not _sealable(design):
            digits -= 1
            if not digits or self.options.digits:
                raise RequestError(_too_many(design))
            design, reporting = _designed(self.options, self.attributes, digits)
        return replace(self, design=design, reporting=reporting)

    @property
    def rows(self) -> RowCounters:
        """What rows raise."""
        return self.reporting.rows

    # What may be expected.

    @property
    def unit_error(self) -> float:
        return self.rows.noise(self.design.variances).sum ** 2

    @property
    def error(self) -> float:
        """Of a coordinate of all who are expected, on the scale on which bounds are -1 and 1."""
        return min(self._typical.error, 2.0)

    @property
    def prospect(self) -> str | None:
        return (
            f"{super().prospect}, if {self.expected:,} {self.unit}s take part, bounds being -1 and "
            f"1; {self.rows.steps.bit_length()} digits a number"
        )

    @property
    def cautions(self) -> list[str]:
        rounding = float(self.rows.rounding(np.array(self.expected)))
        if self.options.digits is None or not rounding > self.unit_error:
            return super().cautions
        return [
            *super().cautions,
            f"--digits {self.options.digits}: rounding errs "
            f"{math.sqrt(rounding / self.unit_error):.2g} times as much as the noise that hides "
            f"numbers; have {self.options.digits + 1} or more, or leave it out",
        ]

    @property
    def _typical(self) -> Typical:
        n = self.expected
        spread = (1 + _USUAL**2) * self.unit_error + float(self.rows.rounding(np.array(n)))
        return Typical(1.0, math.sqrt(spread) / n)

    @property
    def expected_error(self) -> str:
        percent = f"{50 * self.error:.2g} % of the distance of its bounds"
        return f"coordinate ± {percent}, of {self.expected:,}"

    @property
    def influence(self) -> float:
        """Of a sum, in halves of the distance of bounds, or of a category's count."""
        return float(max(self.rows.numbers, len(self.rows.sizes))) if self.collects else 1.0

    # The collector.

    def totals(self, counts: Any) -> Floats:
        raise TypeError("a mean is no total")

    def errors(self) -> result.FigureError:
        """Of a coordinate's sum, in halves of the distance of bounds."""
        weights = [1 << i for i in range(self.rows.steps.bit_length())]
        sigma = self.rows.noise(self.design.variances).sum
        try:
            law = self.design.dummies.error_law(weights, 2)
        except ValueError:  # too long to tabulate: it is all but normal
            return result.FigureError(None, sigma)
        return result.FigureError(law, math.sqrt(law.var()), unit=1 / self.rows.steps)

    def _sums(self, estimate: Counted) -> RowTotals:
        return self.rows.sums(self.design.centred(estimate.counts)[:-1])

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        sums, noise = self._sums(estimate), self.rows.noise(self.design.variances)
        names = [label for number in numeric(self.attributes) for label in number.labels()]
        parts = [(count, noise.sum) for count in sums.counts.tolist()]
        for category, values in zip(categorical(self.attributes), sums.values, strict=True):
            names.append(category.column)
            parts.append((sums.rows - float(values[-1]), math.hypot(noise.rows, noise.value)))
        # All hold together, and so do the two counts behind each.
        half = 1 - (1 - confidence) / len(parts) / 2
        far = max(self.errors().far(half), normal_quantile(half))
        return {
            name: Share.of_counts(
                (sums.rows - count, far * (noise.rows + error)), (count, far * error)
            )
            for name, (count, error) in zip(names, parts, strict=True)
        }

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: "mean", FREQUENCIES: "share"}

    @property
    def title(self) -> str:
        return titled(self.attributes)

    @property
    def headline(self) -> dict[str, str]:
        return {"table": TABLE, "rows": FIRST}

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        totals, noise = self._sums(estimate), self.rows.noise(self.design.variances)
        sums = np.sqrt(noise.sum**2 + self.rows.rounding(totals.counts))
        low, half = CoordinateScale.of(self.attributes)

        def scaled(ratio: Floats) -> Floats:
            return low + (np.clip(ratio, -1, 1) + 1) * half

        labels = [label for number in numeric(self.attributes) for label in number.labels()]
        numbers = self._columns(
            {"coordinate": labels},
            lambda far: quotients(totals.sums, totals.counts, sums, noise.sum, far), scaled, half,
        ) | {
            f"{self.unit}s": totals.counts,
            f"{self.unit}s_standard_error": np.full_like(totals.counts, noise.sum),
        }  # fmt: skip
        tables = {TABLE: pa.table(numbers)}
        shares = []
        for category, values in zip(categorical(self.attributes), totals.values, strict=True):
            some = np.full(category.size, totals.rows - values[-1])  # who has one
            error, own = math.hypot(noise.rows, noise.value), values[:-1]
            texts = category.domain.labels().cast(pa.string())
            head = {"attribute": [category.column] * category.size, "value": texts}
            columns = self._columns(
                head,
                lambda far, own=own, some=some, error=error: quotients(  # type: ignore[misc]
                    own, some, noise.value, error, far
                ),
                lambda ratio: np.clip(ratio, 0, 1), np.ones(own.size), sum(self.rows.sizes),
            )  # fmt: skip
            shares.append(pa.table(columns))
        return tables | ({FREQUENCIES: pa.concat_tables(shares)} if shares else {})

    def _columns(
        self,
        head: dict[str, Any],
        at: Callable[[float], RatioEstimate],
        scaled: Callable[[Floats], Floats],
        half: Floats,
        together: int | None = None,
    ) -> dict[str, Any]:
        """The columns of a table; where there is no number, there is a null.

        Args:
            head: what says of what each row is.
            at: the quotients with their ends, so many standard errors away.
            scaled: takes quotients to what is published.
            half: (k,) what a quotient of 1 is there.
            together: how many intervals are to hold together, if not of this table alone.
        """
        confidence = self.options.confidence
        law = self.errors()

        def far(level: float) -> float:
            # Heavier tails than a normal law's count for all; those of large noise are normal.
            return max(law.far(level), normal_quantile(level))

        one = at(far(confidence))
        wide = at(far(confidence ** (1 / (together or half.size))))
        columns = {
            "estimate": scaled(one.ratio), "standard_error": one.error * half,
            "lower": scaled(one.lower), "upper": scaled(one.upper),
            "lower_of_all": scaled(wide.lower), "upper_of_all": scaled(wide.upper),
        }  # fmt: skip
        return head | {name: pa.array(x, from_pandas=True) for name, x in columns.items()}

    def _cut(self, estimate: Counted) -> dict[str, Any]:
        sums, error = self._sums(estimate), self.rows.noise(self.design.variances).rows
        what = result.BESIDE[PRESENT].format(unit=self.unit)
        took = {"what": what, "estimate": sums.rows, "standard_error": error}
        return super()._cut(estimate) | {PRESENT: took}

    # What is said of it.

    @property
    def request(self) -> dict[str, Any]:
        words = self.options.model_dump(
            exclude={"input", "output", *self.unstated, *self.options.idle, *self.options.unsaid}
        )
        categories = categorical(self.attributes)
        return words | {
            "number": list(self.options.number),
            "vector": list(self.options.vector),
            "category": [f"{c.column}: {c.size:,} declared values" for c in categories],
            "dimension": width(self.attributes),
            "digits": self.rows.steps.bit_length(),
            "unit": self.unit, "model": self.model, "delta": self.design.delta,
        }  # fmt: skip

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_if": {f"{self.unit}s": self.expected, "standard_error": self.error},
            "scale": "on which bounds are -1 and 1",
            "bounds": bounds_statement(self.attributes),
            "covers": "the noise of the dummies, and roundings; not what was clipped"
            + ("" if self.unit == "row" else ", nor that one row of each user was drawn"),
            "reading": "A mean is a noisy sum over a noisy count, each coordinate's of those who "
            "have it, and its standard error, by the delta method, stands beside it: the fewer "
            f"{self.unit}s, the larger.",
        }

    @property
    def words(self) -> list[str]:
        whose = "One row of each user, drawn uniformly among all of its rows," * (
            self.unit == "user"
        )
        return [
            f"{whose or 'Every row'} counts once: all of its numbers, clipped to their bounds, and "
            "its categories. What a liar moves is said of the sum, in halves of the distance of "
            f"bounds: a mean moves by that over the number of {self.unit}s. How many numbers were "
            "clipped is not published. Intervals are Fieller's: where nobody may have a number "
            "they are all between its bounds."
        ]


def _designed(
    options: VectorMeanOptions, attributes: tuple[Attribute, ...], digits: int | None
) -> tuple[Counters, RowReporting]:
    """The counters with the least noise, of so many digits or as many as noise makes sense of.

    Raises:
        RequestError: the target is out of reach.
    """
    numbers, sizes = width(attributes), tuple(c.size for c in categorical(attributes))
    if digits is None:
        target = options.epsilon or 1.0, options.delta or DELTA
        digits = digits_for(numbers, len(sizes), options.usual, *target)
    reporting = RowReporting(RowCounters(numbers, (1 << digits) - 1, sizes))
    design = meeting(options, reporting.rows.levels, reporting.sides)
    return cast(Counters, design), reporting


def _sealable(design: Counters) -> bool:
    """Whether words that are sealed one by one may be so many."""
    few = design.dummies.number(design.levels) <= MOST_SEALED
    return few and design.layout.types.size <= MOST_SLOTS


def _too_many(design: Counters) -> str:
    """Why a row cannot be sealed, and how many messages it might have; of a digit a number."""
    slots, number = design.layout.types.size, design.dummies.number(design.levels)
    # Numbers of counters and of dummies on each grow: by the power 3/2 together.
    most = min(int(slots * min(1.0, (0.95 * MOST_SEALED / number) ** (2 / 3))), MOST_SLOTS)
    return (
        f"clients seal {slots:,} messages each, and the shuffler {number:,} dummies one by one "
        f"where it may seal {MOST_SEALED:,}: some {most:,} messages would do: have fewer numbers "
        "or --digits, or leave it to `hushbeam run`"
    )
