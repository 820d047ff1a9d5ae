"""`hushbeam histogram --dummies shuffler`: shares of declared values, from noisy counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.counters.amounts import Amounts
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.solve import SHARE
from mechanisms.mean.fieller import Quotients, quotients
from mechanisms.postprocess.intervals import opened
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting import result, view
from pipelines.metrics.counting.design import designed
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_bounded, require_counted
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.histogram.result import TABLE
from pipelines.metrics.histogram.view import chart, largest
from pipelines.metrics.unusable.share import Share
from pipelines.releases.schema import read_own
from transforms.encoders.domain import Domain
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, Reporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

_OTHERS = frozenset({"mechanism", "max_messages", "bound"})
# Of epsilon, where units have a counter of their own, which shares are divided by.
_SHARES = (0.03, 0.1, 0.25)
_MANY = 100  # noises, whose sum is all but normal
_BARS = 30


@dataclass(frozen=True, kw_only=True)
class CountedHistogram(Counting):
    """The share of the units that have each declared value, and how many they are.

    Where a unit has one value the counters are of all units, and add up to their number; where it
    has several, units have a counter of their own.
    """

    kind = "histogram"
    Options = HistogramOptions
    unstated = _OTHERS
    figure = " of the share of a rare value"

    options: HistogramOptions

    @classmethod
    def resolve(
        cls,
        options: HistogramOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_counted(options, _OTHERS)
        _require_postprocess(options)
        telemetry = source.open(options, empty=True)
        kind = telemetry.column_type(options.column, "--column")
        other = options.out_of_domain == "other"
        domains = ((options.column, inputs.read_domain(options.domain, kind, other, least=1)),)
        groups = GroupEncoder(domains).size
        require_bounded(options, groups)
        cut = options.user_column is not None and groups > options.rows_per_user
        amounts = Amounts(groups, options.rows_per_user)
        reporting = Reporting(amounts, beside=(LIMITED,) * cut, present=options.rows_per_user > 1)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, domains=domains,
            design=_designed(options, reporting), reporting=reporting,
        )  # fmt: skip

    def redesigned(self) -> Self:
        amounts = Amounts(self.reporting.amounts.groups, self.options.rows_per_user)
        reporting = replace(self.reporting, amounts=amounts, present=self.several)
        # Of the shuffler's dummies nothing here is a digit, and they are few.
        design = _designed(self.options, reporting, self.sealed and self.by_devices)
        return replace(self, design=design, reporting=reporting)

    @property
    def domain(self) -> Domain:
        """The declared values; behind them is what has none."""
        return self.domains[0][1]

    @property
    def several(self) -> bool:
        """Whether a unit may have several values."""
        return self.options.rows_per_user > 1

    @property
    def postprocess(self) -> str:
        """What is done with the shares."""
        if self.options.postprocess == "none":
            return "none"
        return "cut to 0 .. 1" if self.several else "pop"

    @property
    def error(self) -> float:
        """Of the share of a rare value, if as many take part as are expected."""
        return min(self._typical.error, 1.0)

    @property
    def _typical(self) -> Typical:
        error = self.errors().standard_error / self.expected
        return Typical(1 / self.reporting.amounts.groups, error)

    @property
    def prospect(self) -> str | None:
        return f"{super().prospect}, if {self.expected:,} {self.unit}s take part"

    @property
    def expected_error(self) -> str:
        return f"rare share ± {100 * self.error:.2g} % of {self.expected:,}"

    def errors(self) -> result.Errors:
        """Of the number of units that have a value."""
        return result.Errors.of(self.design, 1)

    @property
    def _others(self) -> result.Errors:
        """Of how many units there are, less what a value's own counter adds to it."""
        if not self.several:
            columns = self.reporting.amounts.groups - 1
            if columns > _MANY:
                return result.Errors(None, math.sqrt(columns * self.design.column_variance))
            return result.Errors.of(self.design, columns)
        return result.Errors(self.design.level_law(1), math.sqrt(self.design.variances[1]))

    def _quotients(self, counts: Floats, n: float, one: float, others: float) -> Quotients:
        """Shares.

        Args:
            counts: (groups,) of the units that have each value.
            n: how many units there are.
            one: how far off a count is.
            others: how far off n is besides, by noise of its own.
        """
        shared = 0.0 if self.several else one
        errors = one, math.hypot(shared, others)
        return quotients(counts, np.full_like(counts, n), *errors, 1.0, shared**2)

    def _shares(self, estimate: Counted) -> tuple[dict[str, Floats], float]:
        """((groups,) columns of the table, values and then what has none; the units)."""
        centred = self.design.centred(estimate.counts)
        counts, one, others = centred[0], self.errors(), self._others
        # Whoever divides by fewer than one unit says nothing.
        n = max(float(centred[1][0] if self.several else counts.sum()), 1.0)
        unbiased, error, _, _ = self._quotients(counts, n, one.standard_error, others.sigma)
        estimates = {
            "none": unbiased, "pop": project(unbiased), "cut to 0 .. 1": np.clip(unbiased, 0, 1),
        }[self.postprocess]  # fmt: skip
        columns = {"estimate": estimates, "unbiased": unbiased, "standard_error": error}
        for suffix, together in (("", 1), ("_simultaneous", counts.size)):
            # Counts are whole: between two of them lies half a step to either side. Where units
            # have a counter of their own one half step is enough: by the exact laws 95 to 97 % of
            # intervals then hold, from epsilon 0.5 to 3, and with two of them up to 97.3 %.
            risk = 1 - (1 - self.options.confidence) / together
            steps = 0.5, 0.0 if self.several else 0.5
            halves = (
                errors.half(risk) + step for errors, step in zip((one, others), steps, strict=True)
            )
            _, _, low, high = self._quotients(counts, n, *halves)
            low, high = opened(np.maximum(low, 0.0), np.maximum(high, 0.0), error, error)
            columns[f"lower{suffix}"] = np.minimum(low, estimates)
            columns[f"upper{suffix}"] = np.maximum(high, estimates)
        columns[f"{self.unit}s"] = counts
        columns[f"{self.unit}s_standard_error"] = np.full_like(counts, one.standard_error)
        return columns, n

    def totals(self, counts: Any) -> Floats:
        raise TypeError("a share is no total")

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        centred, half = self.design.centred(estimate.counts), (1 + confidence) / 2
        none, far = float(centred[0][-1]), self.errors().half(half)
        also = self._others.half(half)
        if self.several:
            return {"": Share.of_counts((none, far), (float(centred[1][0]) - none, also + far))}
        return {"": Share.of_counts((none, far), (float(centred[0][:-1].sum()), also))}

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: "share"}

    @property
    def title(self) -> str:
        return f"{self.options.column}: share of {self.unit}s"

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        columns, values = self._shares(estimate)[0], self.domain.labels()
        if self.domain.other:
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        declared = {name: column[: self.domain.size] for name, column in columns.items()}
        return {TABLE: pa.table({"value": values} | declared)}

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        columns, n = self._shares(estimate)
        names = ("estimate", "unbiased", "standard_error", "lower", "upper")
        share = {name: float(columns[name][-1]) for name in names}
        spread = math.hypot(0.0 if self.several else self.errors().sigma, self._others.sigma)
        return super().statement(estimate, tallies) | {
            "took_part": {"estimate": n, "standard_error": spread},
            "unusable": {"treated": "counted as one more value", "share": share.pop("estimate")}
            | share,
            "postprocessing": {"taken": self.postprocess},
        }

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_if": {
                f"{self.unit}s": self.expected, "standard_error_of_a_rare_value": self.error,
            },
            "covers": "the noise of the dummies; not what was cut",
            "reading": f"A share is of all {self.unit}s that took part, of which there were about "
            "as many as the statement says; it is a noisy count over a noisy count. Intervals "
            "belong to the unbiased share, and hold whatever the data are. The larger a share, the "
            "less it is known, for the noise of the number of all counts in proportion: the table "
            "has the standard error of each.",
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        k = self.options.rows_per_user
        several = f"; a user counts for {k:,} different values at the most, drawn uniformly"
        return [
            f"Shares are of all {self.unit}s{several * (self.unit == 'user')}. What a liar moves "
            f"is said of a count: a share moves by that over the number of {self.unit}s."
        ]

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        table = largest(tables[TABLE], len(tables[TABLE]))
        confidence = self.options.confidence
        drawn = chart(table.slice(0, _BARS), confidence, f"share of {self.unit}s, %")
        said = f"The {min(_BARS, len(table))} largest of {len(table):,} shares with error bars"
        figure = view.framed(drawn, said, len(table), confidence)
        return view.page(table, statement, figure=figure)

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, TABLE)
        view.show(screen, table, self.options.confidence)


def _designed(
    options: HistogramOptions, reporting: Reporting, sealed: bool = False
) -> NoisyCounters:
    """The counters with the least predicted error of shares, on average over the values.

    Args:
        options, reporting, sealed: as of `designed`.

    Raises:
        RequestError: the target is out of reach.
    """
    if not reporting.present:
        return designed(options, reporting, sealed, share=SHARE)
    amounts = reporting.amounts
    # Squared shares are (k / d)^2 on average if all are alike, and k / d if k values are of all.
    squared = (amounts.most_groups / amounts.groups) ** 1.5

    def error(design: NoisyCounters) -> float:
        return design.column_variance + squared * design.variances[1]

    found, why = [], RequestError("")
    for share in _SHARES:
        try:
            found.append(designed(options, reporting, sealed, share=share))
        except RequestError as refused:
            why = refused
    if not found:
        raise why
    return min(found, key=error)


def _require_postprocess(options: HistogramOptions) -> None:
    """Refuse what is for the noise of reports, and shares that add up to 1 where they do not.

    Raises:
        RequestError: with what there is.
    """
    served = {None, "auto", "none"} | ({"pop"} if options.rows_per_user == 1 else set())
    if options.postprocess not in served:
        why = " or pop" if "pop" in served else ", for shares of several values add up to more"
        raise RequestError(f"--postprocess: with --dummies {options.dummies} it is auto, none{why}")
