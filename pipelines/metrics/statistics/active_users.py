"""`active-users`: who was active, since when, and who stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import pyarrow as pa

from mechanisms.counters.activity import HISTORIES, Activity, Figure
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.active_users.options import MONTH, STICKINESS, TABLE, ActiveUsersOptions
from pipelines.metrics.counting.design import require_moments
from pipelines.metrics.counting.options import require_bounded
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import with_labels
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.summed import OfSums, SumEvidence
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.releases.schema import LABELS
from pipelines.storage.paths import DAY
from pipelines.views.headline import FIRST, TRIANGLE
from transforms.encoders.activity import ActivityReporting, DayEncoder

_ERRORS = ErrorTerms(
    "Every figure is the truth plus noise of a known law; the table has the standard error of "
    "each. Estimates are unbiased, so where there is little some lie below 0. Retention is read "
    "along days: who was new k before and is active now, over how many the release of that day "
    "said were new.",
    "the noise of the dummies",
)
_EPOCH = date(1970, 1, 1)
_NAMES = {1: "last day", 7: "last 7 days", MONTH: f"last {MONTH} days"}
_SHARES = ((1, MONTH), (7, MONTH), (1, 7))  # of those active in so many days, the active in fewer


@dataclass(frozen=True, kw_only=True)
class ActiveUsers(OfSums):
    """How many users are active, new, back again, and still there.

    Attributes:
        missing: the days that lack a file.
        dated: whether files were looked for by their day, so that it is told which have none.
    """

    kind = "active-users"

    options: ActiveUsersOptions
    missing: tuple[str, ...] = ()
    dated: bool = False

    @classmethod
    def read(
        cls, options: ActiveUsersOptions, source: inputs.Source
    ) -> tuple[ActiveUsers, inputs.Telemetry]:
        if options.user_column is None:
            raise RequestError("--user-column is missing: name the column that tells users apart")
        require_bounded(options, 1)
        if options.releases > 1 and options.drawn_by == "devices":
            raise RequestError("--releases: devices' noise has no choice of laws: leave it out")
        _ = options.activity  # refused here, if nothing can be told so
        alone = source.telemetry is None
        telemetry = source.open(options, empty=True, days=options.days if alone else ())
        require_moments(telemetry, options.time)
        dated = any(DAY in pattern for pattern in options.input) and not telemetry.unread
        return cls(options=options, missing=telemetry.missing, dated=dated), telemetry

    @cached_property
    def activity(self) -> Activity:
        """What is told of a user's days."""
        return self.options.activity

    @property
    def workload(self) -> Workload:
        groups = len(self.activity.figures)  # whatever the day, which a plan may not have yet
        return Workload(groups, most_groups=groups, shape="days")

    @property
    def encoder(self) -> DayEncoder:  # type: ignore[override]
        last = (self.options.last - _EPOCH).days
        return DayEncoder(self.options.time, last, self.activity.days)

    @property
    def reporting(self) -> ActivityReporting:
        return ActivityReporting(self.activity)

    @cached_property
    def shown(self) -> tuple[Figure, ...]:
        """The figures of which no day is missing."""
        missing = {k for k, day in enumerate(self.options.days) if day in self.missing}
        return tuple(one for one in self.activity.figures if not one.ages & missing)

    @cached_property
    def longest(self) -> Figure:
        """How many were active in the longest span."""
        return [one for one in self.activity.figures if one.what == "active"][-1]

    @property
    def heading(self) -> Heading:
        figures = {TABLE: "users"} | ({STICKINESS: "share"} if self._pairs else {})
        headline = {"table": TABLE, "rows": FIRST, "picture": TRIANGLE}
        return Heading(f"active users, up to {self.options.day}", figures, headline=headline)

    def _label(self, one: Figure) -> tuple[str, str]:
        """Of what kind a figure is, and of which part."""
        period = self.options.period
        if one.what == "active":
            return "active", _NAMES[one.size]
        if one.what in HISTORIES:
            return f"active in the last {period}", one.what
        return f"active in the last {period}", f"new {one.size} {period}{'s' * (one.size > 1)} ago"

    def tables(self, evidence: SumEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        columns = self.columns(evidence, self.options.confidence)
        labels = zip(*map(self._label, self.shown), strict=True)
        named = {name: pa.array(texts) for name, texts in zip(LABELS, labels, strict=True)}
        shares = self._stickiness(evidence) if self._pairs else {}
        return {TABLE: with_labels(named, columns)} | shares

    @property
    def _pairs(self) -> list[tuple[Figure, Figure]]:
        """(those of a span, those of a longer one) of which a share can be told."""
        known = {one.size: one for one in self.shown if one.what == "active"}
        return [(known[a], known[b]) for a, b in _SHARES if {a, b} <= known.keys()]

    def _stickiness(self, evidence: SumEvidence) -> dict[str, pa.Table]:
        """The share of the active users of a span who were active in a shorter one."""
        values = [f"{some.size} of {all_.size} days" for some, all_ in self._pairs]
        columns = self.shares(evidence, self._pairs)
        return {STICKINESS: with_labels({"value": pa.array(values)}, columns)}

    # What is said of it.

    def statement(self, evidence: Evidence) -> dict[str, Any]:
        left_out = [one for one in self.activity.figures if one not in self.shown]
        days = {
            "last": self.options.day,
            "looked_at": self.activity.days,
            "missing": list(self.missing),
            "left_out": [" · ".join(self._label(one)) for one in left_out],
        }
        return {"days": days}

    @property
    def wording(self) -> Wording:
        before, period = self.activity.before, self.options.period
        history = (
            f" New is who was active in the last {period} and in none of the {before} {period}s "
            f"before it; returning, who was in the {period} before, too; resurrected, who was in "
            "an earlier one of them alone."
        )
        words = [
            f"The figures count users with a row in the days up to {self.options.day} (UTC)."
            + history * self.activity.history,
            "A user is in the releases of many days, and each of them costs: what is promised here "
            "is of one release. Days on which a device was not heard of are days on which it was "
            "not active.",
        ]
        errors = _ERRORS._replace(of=f" of how many were active in {_days(self.longest.size)}")
        return Wording(errors, words, exactly=("which days have files",) * self.dated)

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        error = accuracy.total.standard_error
        words = f"active in {_days(self.longest.size)} ± {error:.3g}"
        return Forecast(float(people), error, error, words, self._cautions())

    def _cautions(self) -> list[str]:
        """What the files' days tell."""
        lines = []
        if self.dated:
            lines.append(
                "Which days have files is told as it is. What is promised holds if a file is "
                "written every day, whether there are rows or not; otherwise a file says that "
                "somebody was active."
            )
        if self.missing:
            more = f" and {len(self.missing) - 7} more" * (len(self.missing) > 7)
            lines.append(
                f"These days lack a file: {', '.join(self.missing[:7])}{more}. That is a gap and "
                "no day without activity, so what would need them is left out."
            )
        return lines


def _days(size: int) -> str:
    return f"{size} day{'s' * (size > 1)}"
