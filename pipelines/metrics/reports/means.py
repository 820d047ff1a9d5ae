"""One report of one number, or of a number and a group: sums over counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Counts, Floats, Guarantee, Mechanism
from mechanisms.mean.fieller import RatioEstimate
from mechanisms.mean.group_means import GroupMeans, group_means
from mechanisms.mean.intervals import HONEST, NOBODY, MeanEstimate, estimate_mean, quotient_reach
from mechanisms.mean.key_value import GroupTask, KeyValue
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.task import MeanTask
from mechanisms.mean.usable_mean import unusable_share, usable_mean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.planner.search import Design
from pipelines.errors import RequestError
from pipelines.logs.numbers import read_fill
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.mean.reading import READING
from pipelines.metrics.metric import FRESH, Coins
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.reports.by_reports import ByReports
from pipelines.metrics.reports.mean_design import best_design, grouping, require_memory
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.terms import (
    answering_rows,
    drowned,
    hiding_cost,
    least_reports,
    require_proven,
    rows_needed,
)
from pipelines.releases.statement import published_exactly
from pipelines.views import report
from pipelines.wording import number_of
from transforms.elements.progress import REPORTS, WITHHELD
from transforms.encoders.bounds import Bounds
from transforms.encoders.numbers import GroupColumn, NumberEncoder

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted

_HALF = "half the distance of the bounds, which the middle of them is never off by more than"

_PUBLIC_GROUPS = (
    "Groups are public: every report says in the clear which group it belongs to, and the promises "
    "are about numbers alone. In the shuffle model they hold in each group that is published, for "
    "it has {least:,} reports or more."
)
_PRIVATE_GROUPS = (
    "Groups are as private as numbers: a report hides both together, and nobody knows how many "
    "users are in a group; their numbers are estimates."
)
_COVERS = (
    "Standard errors and intervals cover the randomisation of the reports, rounding included. They "
    "hold for the mean of the numbers that were reported, clipped to the bounds"
)
_QUOTIENT = (
    " The mean of a group is a quotient: its standard error is the delta method's, its interval "
    "Fieller's, and where the group may be empty that is all between the bounds."
)
_OF_GROUPS = " (that of the group which is moved most; `by_group` has them all)"


@dataclass(frozen=True, kw_only=True)
class MeanEvidence(Evidence):
    """What a batch of reports says of means.

    Attributes:
        estimated: a confidence -> the means, in -1 .. 1, with intervals.
        spread: (groups,) the standard errors of the numbers of units.
    """

    estimated: Callable[[float], RatioEstimate]
    spread: Floats

    @property
    def people_errors(self) -> Floats:
        return self.spread

    def means(self, confidence: float) -> RatioEstimate:
        return self.estimated(confidence)

    def alone(self, confidence: float) -> float:
        # Reports of all groups are one batch, so their intervals are not independent.
        return 1 - (1 - confidence) / self.people.size


@dataclass(frozen=True, kw_only=True)
class MeansByReports(ByReports):
    """The average of a column of numbers, or one of each group.

    Attributes:
        groups: the column of groups, or None for one mean. Their reports need `min_reports` each,
            if groups are public.
        fill: the number in the place of those that cannot be used, or None.
    """

    design: Design[ScalarMean] | Design[WithUnusable] | Design[KeyValue]
    groups: GroupColumn | None = None
    fill: float | None = None

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        options, groups = given.statistic.options, grouping(given.statistic)
        known = least_reports(options, options.model, rows_needed(options, given.telemetry))
        try:
            design, fill = best_design(options, known, groups), read_fill(options)
            metric = cls(**given.fields, min_reports=known, design=design, groups=groups, fill=fill)
            require_memory(metric.mechanism.codes)
        except ValueError as error:
            raise RequestError(str(error)) from None
        require_proven(options, metric.guarantees[0])
        return metric

    @property
    def bounds(self) -> Bounds:
        """What numbers are clipped to."""
        return self.statistic.bounds

    @property
    def inner(self) -> Any:
        """What perturbs a number, or its absence; and its group with it, if that is private."""
        return self.design.mechanism

    @property
    def public(self) -> PublicGroups[Any] | None:
        """What puts a public group before a perturbed number, if groups are public."""
        if self.groups is None or not self.options.groups_public:
            return None
        return PublicGroups(self.inner, self.groups.size)

    @property
    def mechanism(self) -> Mechanism:
        return self.public or self.design.mechanism

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        released, local = super().guarantees
        if self.options.groups_public:
            return _of_values(released), _of_values(local)
        return released, local

    @property
    def cautions(self) -> list[str]:
        reports = self.min_reports if self.options.model == "shuffle" else answering_rows(self)
        known = self.options.min_reports or reports
        error = math.sqrt(self.inner.report_variance / max(known, 1))
        return super().cautions + drowned(error, known, _HALF)

    @property
    def expected_error(self) -> str:
        """The standard error of the mean at the least batch, whatever the numbers are."""
        return f"mean ± {self.error:.3g} at most"

    @property
    def error(self) -> float:
        """The same as a number."""
        return self.bounds.half * math.sqrt(self.inner.report_variance / self.min_reports)

    @property
    def hiding_cost(self) -> float | None:
        if not self.options.hides:
            return None
        cells = self.options.cells
        if self.groups is None or self.public is not None:
            return hiding_cost(self.design, MeanTask(cells))
        return hiding_cost(self.design, GroupTask(self.groups.groups.size, cells))

    def encoder(self, coins: Coins = FRESH) -> NumberEncoder:
        column, groups, bounds = self.options.column, self.groups, self.bounds
        rounded = coins.rounding(self.inner.rounding)
        # Of a private group the first cell: what is hidden with the group needs none of its own.
        none = (0 if self.private is not None else rounded.inputs) if self.options.hides else None
        return NumberEncoder(column, bounds, rounded, groups, none, self.fill)

    @property
    def batches(self) -> int:
        # A report that says its group hides among those of its group.
        return 1 if self.public is None else self.public.groups

    def enough(self, estimate: Counted) -> bool:
        return bool(estimate.counts.sum() >= self.min_reports)

    def evidence(self, estimate: Counted) -> MeanEvidence:
        counts = estimate.counts

        def estimated(confidence: float) -> RatioEstimate:
            return self._estimated(counts, confidence)

        people, spread = self._people(counts)
        accuracy = Accuracy(FigureError(None, self.error))
        return MeanEvidence(
            np.empty(0), people, accuracy, lambda *_: None, estimated=estimated, spread=spread
        )

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        evidence = self.evidence(estimate)
        return {} if np.isnan(evidence.people).all() else dict(self.statistic.tables(evidence))

    def _people(self, counts: Counts) -> tuple[Floats, Floats]:
        """(groups,) how many units each mean is of, and how far off that is; NaN if withheld."""
        if self.private is not None:
            means, n = self._group_means(counts, self.options.confidence), int(counts.sum())
            return n * means.share[self._named], n * means.share_error[self._named]
        known = [self._number(part) for part in self._parts(counts)]
        numbers, errors = np.array(known, np.float64).T
        return numbers, errors

    def _number(self, part: Counts) -> tuple[float, float]:
        """How many units with a number sent these reports, and how far off that is."""
        n = float(part.sum())
        if not n >= max(self.min_reports, 1):
            return math.nan, math.nan
        if not self.options.hides:
            return n, 0.0
        absent = unusable_share(self.inner, part, self.options.confidence)
        return n * (1 - absent.unbiased), n * absent.standard_error

    def _estimated(self, counts: Counts, confidence: float) -> RatioEstimate:
        """(groups,) means, in -1 .. 1; NaN where one is withheld."""
        if self.private is not None:
            means = self._group_means(counts, confidence)
            columns = means.ratio, means.standard_error, means.lower, means.upper
            return RatioEstimate(*(column[self._named] for column in columns))
        withheld = (np.nan,) * len(RatioEstimate._fields)
        parts = [
            self._mean(part, confidence)[1:] if part.sum() >= max(self.min_reports, 1) else withheld
            for part in self._parts(counts)
        ]
        return RatioEstimate(*np.array(parts, np.float64).T)

    @property
    def private(self) -> GroupColumn | None:
        """The groups, if a report hides them together with the number."""
        return self.groups if self.public is None else None

    @property
    def _named(self) -> slice:
        """The groups that have a label: what is in none has a place of its own."""
        return slice(None if self.groups is None else self.groups.groups.size)

    def unusable_share(self, estimate: Counted) -> dict[str, float]:
        counts = estimate.counts
        if self.private is not None:
            means = self._group_means(counts, self.options.confidence)
            return {
                "share": float(np.clip(means.share[-1], 0, 1)),
                "standard_error": float(means.share_error[-1]),
            }
        together = np.sum(self._parts(counts), axis=0)
        return unusable_share(self.inner, together, self.options.confidence)._asdict()

    def _mean(self, counts: Counts, confidence: float) -> MeanEstimate:
        estimate = usable_mean if self.options.hides else estimate_mean
        return estimate(self.inner, counts, confidence, self.options.interval == "worst")

    def _group_means(self, counts: Counts, confidence: float) -> GroupMeans:
        """What the reports of private groups say, that of whoever is in none among them."""
        return group_means(self.inner, counts, confidence, self.options.interval == "worst")

    def _parts(self, counts: Counts) -> Sequence[Counts]:
        return [counts] if self.public is None else list(self.public.parts(counts))

    def poisoning(self, estimate: Counted) -> Poisoning:
        client = self.public or self.inner
        above, below = client.averages(estimate.counts)
        if self.groups is not None:  # what is in no group has a place of its own, and no label
            above, below = (part[: self.groups.groups.size] for part in (above, below))
        absent = self.groups is not None or self.options.hides
        honest = np.concatenate([HONEST, NOBODY]) if absent else HONEST
        forgeries = client.extreme_reports if self.collects else None
        moved = _poisoning((above, below), honest, forgeries, self.bounds)
        # Of two codes there is one count, and the mean says all of it.
        return replace(moved, unseen=self.inner.codes == 2)

    @property
    def neighbours(self) -> str:
        if self.private is not None:
            other = self.another("group and number")
            return f"one {self.unit}'s group and number are replaced by {other}"
        other = self.another("finite number")
        same = "; the group stays as it is" if self.groups is not None else ""
        return f"one {self.unit}'s number is replaced by {other}{same}"

    @property
    def words(self) -> list[str]:
        lines = []
        if self.options.groups_public:
            lines.append(_PUBLIC_GROUPS.format(least=self.min_reports))
        elif self.groups is not None:
            lines.append(_PRIVATE_GROUPS)
        return lines

    def arrived(self, estimate: Counted) -> int | None:
        return estimate.messages + estimate.invalid

    def reported(self, estimate: Counted) -> tuple[int, int]:
        return int(estimate.counts.sum()), estimate.invalid

    @property
    def request(self) -> dict[str, Any]:
        grouped = self.groups and f"{self.groups.groups.size:,} declared groups"
        return super().request | {"bounds": list(self.bounds), "groups": grouped}

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        constants = self.inner.constants()
        if self.groups is not None:
            constants = constants | {"groups": self.groups.size}
        return super().mechanism_statement | {"constants": constants}

    def own_statement(self, estimate: Counted) -> dict[str, Any]:
        return {
            "published_exactly": self._published_exactly,
            **self.statistic.statement(self.evidence(estimate)),
            "bounds": {**self.bounds._asdict(), "how": "declared"},
            "error": self._error_statement(self.bounds),
        }

    @property
    def _published_exactly(self) -> str:
        reports = "of reports of each group" if self.options.groups_public else "of reports"
        exact = self.options.unusable == "count" or bool(self.public)
        return published_exactly(reports, exact, self.unit)

    def _error_statement(self, bounds: Bounds) -> dict[str, Any]:
        unit = self.unit
        covers = _COVERS + ("." if unit == "row" else f", one drawn for each {unit}.")
        statement: dict[str, Any] = {"interval": self.options.interval, "covers": covers}
        if self.groups is None or self.options.groups_public:
            worst = self.inner.worst_variance**0.5 * bounds.half
            statement["worst_standard_deviation_of_a_report"] = worst
        else:
            statement["covers"] = covers + _QUOTIENT
        return statement

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        return report.page_words(READING)

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """That the batch, or every group, was too small."""
        if WITHHELD not in counted:
            return None
        reports, least = counted.get(REPORTS, 0), self.min_reports
        came = f"{number_of(reports, 'report')} came"
        if self.options.groups_public:
            return f"{came}, and no group has --min-reports {least:,} of them"
        return f"{came}, fewer than --min-reports {least:,}"


def _of_values(guarantee: Guarantee) -> Guarantee:
    return replace(guarantee, how=f"of the value alone, the group being public; {guarantee.how}")


def _poisoning(
    averages: tuple[Floats, Floats],
    honest: Floats,
    forgeries: Floats | None,
    bounds: Bounds,
) -> Poisoning:
    """How far liars can move means: no farther than the bounds are apart.

    Args:
        averages: what each mean is the quotient of, as it was published.
        honest: (k, 2) what values add to them.
        forgeries: (k, 2) what made-up reports do; None if nobody can make any.
        bounds: what numbers were clipped to.
    """

    def moved(reports: Floats) -> Floats:
        return bounds.half * np.minimum(quotient_reach(averages, reports, LIARS), 2.0)

    lies, forged = moved(honest), None if forgeries is None else moved(forgeries)
    grouped = lies.ndim > 0
    by_group = {"lies": lies.tolist(), "forged": None if forged is None else forged.tolist()}
    return Poisoning(
        "the mean of a group" if grouped else "the mean",
        float(lies.max()),
        None if forged is None else float(forged.max()),
        more=_OF_GROUPS * grouped,
        beside={"by_group": by_group} if grouped else {},
    )
