"""Totals of groups that nobody declared: the job finds those that enough units have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from mechanisms.counters.amounts import WholeAmounts
from mechanisms.heavy_hitters.group_selection import GroupSelection
from pipelines.errors import RequestError
from pipelines.metrics.counting.by_job import ByJob, mechanism_of
from pipelines.metrics.counting.design import target_of
from pipelines.metrics.metric import MetricReports, viewed
from pipelines.metrics.options import JOB
from pipelines.metrics.shuffling import Shuffling, untouched
from pipelines.metrics.statistics.evidence import Evidence
from pipelines.metrics.statistics.labels import joined_labels, with_labels
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.wording import Forecast
from pipelines.views.digits import three_digits
from transforms.encoders.undeclared import GroupSums, UndeclaredGroups

if TYPE_CHECKING:
    import apache_beam as beam

_CHOSEN = (
    "Nobody declared the {what}s: those are here that enough {unit}s have, and {what}s that few "
    "have are absent. {counts}; noise is added to what that comes to, and a {what} is here where "
    "it is above {threshold:.4g}. So one of {alone:,} {unit}s that have no other is here with "
    "probability 0.9 or more. That one of a single {unit} is here is part of delta.{own} How many "
    "{what}s there were is not published."
)
_COUNTS = (
    "A {unit} counts as 1",
    "A {unit} counts as 1, or where it has n {what}s as {root} in each; {most:,} of them count at "
    "the most, drawn uniformly",
)
_OWN = " Figures have noise of their own, so they are no larger for having been found."


@dataclass(frozen=True, kw_only=True)
class OfUndeclaredGroups(ByJob):
    """A statistic by groups that are found in the log."""

    what: ClassVar[str] = "group"

    design: GroupSelection
    reporting: GroupSums

    def __post_init__(self) -> None:
        if self.reporting.design != self.design or (self.reporting.rows or 1) != self.design.rows:
            raise ValueError("groups count as is paid for")

    @classmethod
    def require_job(cls, options: Any) -> None:
        """Refuse another who draws the noise."""
        if options.drawn_by != JOB:
            raise RequestError(
                f"--drawn-by {options.drawn_by}: {cls.what}s that nobody declared are found by "
                "the job alone: declare them with --groups (of counts --domain), or leave it out"
            )

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        cls.require_job(options)
        if options.delta == 0:
            raise RequestError(
                "--delta must be greater than 0: a group that one user alone has is found with "
                "that probability; or declare the groups with --groups"
            )
        super().require(options, kind)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        return None

    @classmethod
    def least(cls, statistic: Any, sealed: bool = False) -> tuple[GroupSelection, GroupSums]:
        options, work = statistic.options, statistic.workload
        usual = super().least(statistic, sealed)[1]  # with as many totals, of groups of a list
        rows, parts = work.rows, usual.amounts.parts
        design = cls.meeting(options, rows or work.most_groups, parts, rows or 1)
        return design, GroupSums(design, usual.amounts, usual.clip, usual.averaged, rows)

    @classmethod
    def meeting(cls, options: Any, most: int, parts: Any, rows: int = 1) -> GroupSelection:
        """As `GroupSelection.meeting`, of a request.

        Raises:
            RequestError: the target is out of reach.
        """
        target, share = target_of(options), options.selection_share if parts else 0.5
        try:
            return GroupSelection.meeting(most, *target, parts, rows, share, options.together)
        except ValueError as error:
            raise RequestError(f"--rows-per-user, --epsilon, --delta: {error}") from None

    def rescaled(self, options: Any) -> None:
        return None  # the threshold goes with epsilon, and which laws are the best

    @property
    def undivided(self) -> str:
        return f"{self.what}s that nobody declared are found by one job: declare them"

    @property
    def shuffling(self) -> Shuffling:
        return untouched("nothing is shuffled where the job finds groups")

    # The job.

    def encoder(self, coins: Any = None) -> UndeclaredGroups:
        usual, columns = self.statistic.encoder, dict(self.statistic.domains)
        return UndeclaredGroups(number=usual.number, whole=usual.whole, by=tuple(columns))

    def reports(self, tables: beam.PCollection) -> MetricReports:
        from transforms.elements.conservation import entering, reporting
        from transforms.encoders.users import fresh_digest
        from transforms.units.units import TotalUnits

        users = fresh_digest(self.options.user_column)
        step = TotalUnits(viewed(self), self.reporting, users, self._buckets, self.open_rng)
        blocks, tallies, bounded = tables | "Contributions" >> step
        came = (reporting(blocks, "Sent"), *((entering(blocks), *bounded) if bounded else ()))
        return MetricReports(blocks, None, tallies, came)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.shuffle.groups import PublishGroups

        own = self.design, self.width, self._buckets, self.open_rng, reports.drawing
        return reports.messages | "Groups" >> PublishGroups(*own, self.reporting.numbers)

    @property
    def _buckets(self) -> int:
        from transforms.elements.blocks import bucket_count

        return bucket_count(self.telemetry.about)

    @property
    def width(self) -> int:
        """Words of a group."""
        return self.encoder().width

    def arrived(self, estimate: Any) -> int:
        return int(estimate.messages)

    def _evidence(self, estimate: Any) -> Evidence:
        work, people = self.statistic.workload, np.empty(0)
        amounts = cast(WholeAmounts, self.reporting.amounts)
        weights = np.array([level.weight for level in amounts.levels])
        totals = self.worth * (estimate.totals @ weights)
        if work.amount is None:
            totals = np.rint(totals).astype(np.int64)
        elif work.people == "groups":
            people = estimate.totals.sum(axis=1) / amounts.most
        return Evidence(totals, people, self.accuracy, lambda *_: None)

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        evidence, statistic = self.evidence(estimate), self.statistic
        columns = statistic.columns(evidence, self.options.confidence)
        labels = joined_labels([*self.heading.labels], self.encoder().labels(estimate.groups))
        return {f"{self.kind}.parquet": with_labels(labels, columns)}

    # What is said of it.

    @property
    def limit(self) -> int:
        """How many units that have no other group all but surely get one published."""
        return math.ceil(self.design.limit())

    @property
    def _forecast(self) -> Forecast:
        size = self.statistic.encoder.size
        return cast(Forecast, self.statistic.forecast(self.accuracy, self.limit * size))

    _drowned = ()

    @property
    def expected_error(self) -> str:
        return f"± {three_digits(self.error)}, of {self.what}s from {self.limit:,} {self.unit}s on"

    @property
    def prospect(self) -> str:
        what, several = self.what, self.design.most_groups
        of = f" of a {what} of {self.limit:,}" * self.statistic.wording.errors.divides
        more = f", or {math.ceil(self.design.limit(several)):,} that have {several:,} {what}s each"
        return (
            f"the job finds {what}s that enough {self.unit}s have: {self.limit:,} that have no "
            f"other{more * (several > 1)}; the standard error{of} is {three_digits(self.error)}"
        )

    @property
    def words(self) -> list[str]:
        design, root = self.design, "1/n" if self.design.divides else "1/sqrt(n)"
        said = {"what": self.what, "unit": self.unit, "root": root, "most": design.most_groups}
        counts = _COUNTS[design.most_groups > 1].format(**said)
        said |= {"counts": counts, "threshold": design.threshold / design.grid}
        words = _CHOSEN.format(**said, alone=self.limit, own=_OWN * bool(design.laws))
        return [*super().words, words]

    @property
    def request(self) -> dict[str, Any]:
        return self.usual_request | {"undeclared_groups": [*self.encoder().by]}

    @property
    def usual_request(self) -> dict[str, Any]:
        """What every such request says."""
        said = {**self.options.model_dump(exclude={*self.options.unstated}), "unit": self.unit}
        said |= {"delta": self.design.delta, "selection_share": self.options.selection_share}
        return said | {"model": "central"}

    @property
    def error_statement(self) -> dict[str, Any]:
        said = super().error_statement
        if "standard_error_if" in said:
            said["standard_error_if"][f"{self.unit}s"] = self.limit
        return said

    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        said = super().statement(estimate, tallies)
        return said | {"search": {"prospect": self.prospect, "detection_limit": self.limit}}

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        source = "Gopi et al., ICML 2020 (differentially private set union), with a joint threshold"
        return mechanism_of(self) | {"name": "group totals", "source": source}
