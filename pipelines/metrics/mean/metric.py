"""`hushbeam mean`: the average of a column of numbers, or of each group of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Counts, Guarantee, Mechanism
from mechanisms.mean.group_means import GroupMeans, group_means
from mechanisms.mean.intervals import MeanEstimate, estimate_mean
from mechanisms.mean.key_value import GroupTask, KeyValue
from mechanisms.mean.poisoned import HONEST, NOBODY
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.task import MeanTask
from mechanisms.mean.usable_mean import unusable_share, usable_mean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.planner.search import Design
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import of_moments, open_numbers, read_fill
from pipelines.metrics.mean import result, view
from pipelines.metrics.mean.design import (
    best_design,
    declared_groups,
    require_memory,
)
from pipelines.metrics.mean.options import MeanOptions, bounds_of, require_sense
from pipelines.metrics.metric import FRESH, Coins, MetricReports, table_of
from pipelines.metrics.poisoning import Poisoning
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import drowned, hiding_cost, least_reports, require_proven
from pipelines.releases.schema import read_own
from pipelines.releases.statement import published_exactly
from transforms.elements.progress import REPORTS, WITHHELD
from transforms.encoders.bounds import Bounds
from transforms.encoders.numbers import GroupColumn, NumberEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator
    from transforms.rounds.scout import ScoutedBounds

_HALF = "half the distance of the bounds, which the middle of them is never off by more than"

_PUBLIC_GROUPS = (
    "Groups are public: every report says in the clear which group it belongs to, and the promises "
    "are about numbers alone. In the shuffle model they hold in each group that is published, for "
    "it has {least:,} reports or more."
)
_PRIVATE_GROUPS = (
    "Groups are as private as numbers: a report hides both together, and nobody knows how many "
    "users are in a group; the shares are estimates."
)
_COVERS = (
    "Standard errors and intervals cover the randomisation of the reports, rounding included. They "
    "hold for the mean of the numbers that were reported, clipped to the bounds"
)
_QUOTIENT = (
    " The mean of a group is a quotient: its standard error is the delta method's, its interval "
    "Fieller's, and where the group may be empty that is all between the bounds."
)


class Averaged(NamedTuple):
    """What the reports say, of one round or of two.

    Attributes:
        counted: how often each message came.
        chosen: the bounds, and who chose them.
    """

    counted: Counted
    chosen: ScoutedBounds


@dataclass(frozen=True, kw_only=True)
class MeanByReports(Randomised):
    """The average of a column of numbers, or one of each group.

    Attributes:
        bounds: what numbers are clipped to; None where users choose them.
        groups: the column of groups, or None for one mean. Their reports need `min_reports` each,
            if groups are public.
        fill: the number in the place of those that cannot be used, or None.
    """

    kind = "mean"
    Options = MeanOptions

    options: MeanOptions
    design: Design[ScalarMean] | Design[WithUnusable] | Design[KeyValue]
    bounds: Bounds | None
    groups: GroupColumn | None = None
    fill: float | None = None

    @classmethod
    def resolve(
        cls,
        options: MeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        bounds = bounds_of(options)
        require_sense(options)
        telemetry = open_numbers(options, source)
        groups = declared_groups(options, telemetry)
        known = least_reports(options, options.model, telemetry.rows)
        try:
            least, more = cls.rounds(options, known)
            metric = cls(
                options=options, telemetry=telemetry, min_reports=least, open_rng=open_rng,
                design=best_design(options, least, groups), bounds=bounds, groups=groups,
                fill=read_fill(options), **more,
            )  # fmt: skip
            require_memory(metric.mechanism.codes)
        except ValueError as error:
            raise RequestError(str(error)) from None
        require_proven(options, metric.guarantees[0])
        return metric

    @classmethod
    def rounds(cls, options: MeanOptions, reports: int) -> tuple[int, dict[str, Any]]:
        """The least batch of the mean among so many reports, and what else is settled with it."""
        return reports, {}

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
        reports = self.min_reports if self.options.model == "shuffle" else self.answering_rows
        known = self.options.min_reports or reports
        error = math.sqrt(self.inner.report_variance / max(known, 1))
        return super().cautions + drowned(error, known, _HALF)

    @property
    def expected_error(self) -> str:
        """The standard error of the mean at the least batch, whatever the numbers are."""
        return f"mean ± {self.error:.3g} at most"

    @property
    def error(self) -> float:
        """The same as a number; of the range's half where users choose bounds."""
        half = 1.0 if self.bounds is None else self.bounds.half
        return half * math.sqrt(self.inner.report_variance / self.min_reports)

    @property
    def hiding_cost(self) -> float | None:
        if not self.options.hides:
            return None
        cells = self.options.cells
        if self.groups is None or self.public is not None:
            return hiding_cost(self.design, MeanTask(cells))
        return hiding_cost(self.design, GroupTask(self.groups.groups.size, cells))

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        groups = {} if self.groups is None else {self.groups.column: self.groups.groups.kind}
        return {self.options.column: pa.float64()} | groups

    def encoder(self, coins: Coins = FRESH) -> NumberEncoder:
        column, groups, bounds = self.options.column, self.groups, self._declared.known
        rounded = coins.rounding(self.inner.rounding)
        # Of a private group the first cell: what is hidden with the group needs none of its own.
        private = groups is not None and self.public is None
        none = (0 if private else rounded.inputs) if self.options.hides else None
        return NumberEncoder(column, bounds, rounded, groups, none, self.fill)

    @property
    def public_columns(self) -> frozenset[str]:
        groups = self.groups if self.options.groups_public else None
        return frozenset() if groups is None else frozenset([groups.column])

    @property
    def batches(self) -> int:
        # A report that says its group hides among those of its group.
        return 1 if self.public is None else self.public.groups

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        import apache_beam as beam

        return self.counts(reports) | "Bounds" >> beam.Map(Averaged, self._declared)

    @property
    def _declared(self) -> ScoutedBounds:
        """The bounds, chosen by whoever asked."""
        from transforms.rounds.scout import ScoutedBounds

        return ScoutedBounds(self.bounds, 0.0, 0, 0)

    def enough(self, estimate: Averaged) -> bool:
        known = estimate.chosen.bounds is not None
        return known and bool(estimate.counted.counts.sum() >= self.min_reports)

    @property
    def labelled(self) -> dict[str, str]:
        column = self.options.group_by
        return {} if column is None else {"group": column}

    @property
    def figures(self) -> dict[str, str]:
        return {result.TABLE: "mean"}

    @property
    def title(self) -> str:
        by = f" by {self.options.group_by}" if self.options.group_by else ""
        return f"{self.options.column}: mean{by}"

    def tables(self, estimate: Averaged) -> dict[str, pa.Table]:
        counts, bounds = estimate.counted.counts, estimate.chosen.known
        labels = {} if self.groups is None else {"group": self.groups.groups.labels()}
        sure = self.options.confidence
        if self.groups is not None and self.public is None:
            together = result.joint(sure, len(labels["group"]))
            means, wider = (self._group_means(counts, x) for x in (sure, together))
            return {result.TABLE: result.group_table(labels, means, wider, bounds)}
        parts = self._parts(counts)
        table = result.mean_table(parts, labels, self._mean, bounds, self.min_reports, sure)
        return {} if table is None else {result.TABLE: table}

    def unusable_share(self, estimate: Averaged) -> dict[str, float]:
        counts = estimate.counted.counts
        if self.groups is not None and self.public is None:
            means = self._group_means(counts, self.options.confidence)
            return {
                "share": float(np.clip(means.share[-1], 0, 1)),
                "standard_error": float(means.share_error[-1]),
            }
        together = np.sum(self._parts(counts), axis=0)
        return unusable_share(self.inner, together, self.options.confidence)._asdict()

    def _mean(self, counts: Counts, confidence: float) -> MeanEstimate:
        """What the reports of one mean say."""
        estimate = usable_mean if self.options.hides else estimate_mean
        return estimate(self.inner, counts, confidence, self.options.interval == "worst")

    def _group_means(self, counts: Counts, confidence: float) -> GroupMeans:
        """What the reports of private groups say, that of whoever is in none among them."""
        return group_means(self.inner, counts, confidence, self.options.interval == "worst")

    def _parts(self, counts: Counts) -> Sequence[Counts]:
        """The counts of each mean that is published."""
        return [counts] if self.public is None else list(self.public.parts(counts))

    def poisoning(self, estimate: Averaged) -> Poisoning:
        client = self.public or self.inner
        above, below = client.averages(estimate.counted.counts)
        if self.groups is not None:  # what is in no group has a place of its own, and no label
            above, below = (part[: self.groups.groups.size] for part in (above, below))
        absent = self.groups is not None or self.options.hides
        honest = np.concatenate([HONEST, NOBODY]) if absent else HONEST
        forgeries = client.extreme_reports if self.collects else None
        moved = result.poisoning(
            (above, below), honest, forgeries, estimate.chosen.known, self.options.choose_bounds
        )
        # Of two codes there is one count, and the mean says all of it.
        return replace(moved, unseen=self.inner.codes == 2)

    @property
    def neighbours(self) -> str:
        if self.groups is not None and self.public is None:
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

    def arrived(self, estimate: Averaged) -> int | None:
        counted, chosen = estimate
        return counted.messages + counted.invalid + chosen.n + chosen.invalid

    def reported(self, estimate: Averaged) -> tuple[int, int]:
        counted, chosen = estimate
        return int(counted.counts.sum()) + chosen.n, counted.invalid + chosen.invalid

    @property
    def request(self) -> dict[str, Any]:
        grouped = self.groups and f"{self.groups.groups.size:,} declared groups"
        bounds = None if self.bounds is None else list(self.bounds)
        return super().request | {"bounds": bounds, "groups": grouped}

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        constants = self.inner.constants()
        if self.groups is not None:
            constants = constants | {"groups": self.groups.size}
        return super().mechanism_statement | {"constants": constants}

    def own_statement(self, estimate: Averaged) -> dict[str, Any]:
        return {
            "published_exactly": self._published_exactly,
            "bounds": self.bounds_statement(estimate.chosen),
            **self._as_moments(estimate),
            "error": self._error_statement(estimate.chosen.known),
        }

    def _as_moments(self, estimate: Averaged) -> dict[str, Any]:
        """Of timestamps, when the means are, as people write it."""
        if not of_moments(self.options.bounds):
            return {}
        return {
            "timestamps": [
                result.moments(row) for row in table_of(self.tables(estimate)).to_pylist()
            ]
        }

    @property
    def _published_exactly(self) -> str:
        """What the promises do not cover."""
        reports = "of reports of each group" if self.options.groups_public else "of reports"
        exact = self.options.unusable == "count" or bool(self.public)
        return published_exactly(reports, exact, self.options.unit)

    def bounds_statement(self, chosen: ScoutedBounds) -> dict[str, Any]:
        """What numbers were clipped to, and how that was decided."""
        return {"low": chosen.known.low, "high": chosen.known.high, "how": "declared"}

    def _error_statement(self, bounds: Bounds) -> dict[str, Any]:
        """How far off a mean may be, and what that covers."""
        unit = self.options.unit
        covers = _COVERS + ("." if unit == "row" else f", one drawn for each {unit}.")
        statement: dict[str, Any] = {"interval": self.options.interval, "covers": covers}
        if self.groups is None or self.options.groups_public:
            worst = self.inner.worst_variance**0.5 * bounds.half
            statement["worst_standard_deviation_of_a_report"] = worst
        else:
            statement["covers"] = covers + _QUOTIENT
        return statement

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(table_of(tables), statement)

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """That the batch, or every group, was too small."""
        if WITHHELD not in counted:
            return None
        reports, least = counted.get(REPORTS, 0), self.min_reports
        if self.options.groups_public:
            return f"{reports:,} reports came, and no group has --min-reports {least:,} of them"
        return f"{reports:,} reports came, fewer than --min-reports {least:,}"

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, result.TABLE)
        view.show(screen, table, self.options.confidence)
        if of_moments(self.options.bounds):
            screen.print("in seconds since 1970; as timestamps:", highlight=False)
            for row in map(result.moments, table.to_pylist()):
                line = ", ".join(f"{name} {value}" for name, value in row.items())
                screen.print(line, highlight=False, markup=False, soft_wrap=True)


def _of_values(guarantee: Guarantee) -> Guarantee:
    return replace(guarantee, how=f"of the value alone, the group being public; {guarantee.how}")
