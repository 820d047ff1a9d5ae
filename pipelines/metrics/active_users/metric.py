"""`hushbeam active-users`: who was active, since when, and who stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.counters.activity import HISTORIES, Activity, Figure
from mechanisms.counters.choose import NoisyCounters
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.active_users.options import MONTH, STICKINESS, TABLE, ActiveUsersOptions
from pipelines.metrics.active_users.stickiness import shares
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_bounded
from pipelines.storage.paths import DAY
from pipelines.views.headline import FIRST, TRIANGLE
from transforms.columns import is_moment
from transforms.encoders.activity import ActivityReporting, DayEncoder

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

_EPOCH = date(1970, 1, 1)
_NAMES = {1: "last day", 7: "last 7 days", MONTH: f"last {MONTH} days"}
_SHARES = ((1, MONTH), (7, MONTH), (1, 7))  # of those active in so many days, the active in fewer


@dataclass(frozen=True, kw_only=True)
class ActiveUsers(Counting):
    """How many users are active, new, back again, and still there."""

    kind = "active-users"
    Options = ActiveUsersOptions
    figure = f" of how many were active in {MONTH} days"

    options: ActiveUsersOptions
    reporting: ActivityReporting  # type: ignore[assignment]

    @classmethod
    def resolve(
        cls,
        options: ActiveUsersOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        if options.user_column is None:
            raise RequestError("--user-column is missing: name the column that tells users apart")
        require_bounded(options, 1)
        if options.releases > 1 and options.dummies == "devices":
            raise RequestError("--releases: devices' noise has no choice of laws: leave it out")
        activity = options.activity
        alone = source.telemetry is None
        telemetry = source.open(options, empty=True, days=options.days if alone else ())
        kind = telemetry.column_type(options.time, "--time")
        if not (telemetry.unseen or is_moment(kind)):
            raise RequestError(
                f"--time: {options.time!r} holds {kind}; moments or dates are needed (of a file of "
                f"text: --types {options.time}=timestamp, or date)"
            )
        reporting = ActivityReporting(activity)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, reporting=reporting,
            design=_designed(options, reporting),
        )  # fmt: skip

    def redesigned(self) -> Self:
        return replace(self, design=_designed(self.options, self.reporting, self.sealed))

    @property
    def activity(self) -> Activity:
        """What is told of a user's days."""
        return self.reporting.activity

    # The clients.

    @property
    def specification(self) -> None:
        return None  # no client in another language keeps days

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.options.time: pa.date32()}

    def encoder(self, coins: object = None) -> DayEncoder:  # type: ignore[override]
        last = (self.options.last - _EPOCH).days
        return DayEncoder(self.options.time, last, self.activity.days)

    # The collector.

    @cached_property
    def shown(self) -> tuple[Figure, ...]:
        """The figures of which no day is missing."""
        missing = {k for k, day in enumerate(self.options.days) if day in self.telemetry.missing}
        return tuple(one for one in self.activity.figures if not one.ages & missing)

    @property
    def _whole(self) -> Figure:
        """How many were active in the longest span."""
        return next(one for one in self.activity.figures if one.size == MONTH)

    @property
    def error(self) -> float:
        return self.errors().standard_error

    @property
    def _typical(self) -> Typical:
        return Typical(float(self.expected), self.error)

    @property
    def expected_error(self) -> str:
        return f"active in {MONTH} days ± {self.error:.3g}"

    def errors(self) -> result.FigureError:
        return self._errors(self._whole)

    def _errors(self, one: Figure) -> result.FigureError:
        return result.FigureError.of_level(self.design, one.level, len(one.cells), least=0)

    def totals(self, counts: Sequence[np.ndarray]) -> np.ndarray:
        sums = [counts[one.level][list(one.cells)].sum() for one in self.shown]
        return np.rint(sums).astype(np.int64)

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: "users"} | ({STICKINESS: "share"} if self._pairs else {})

    @property
    def title(self) -> str:
        return f"active users, up to {self.options.day}"

    @property
    def headline(self) -> dict[str, str]:
        return {"table": TABLE, "rows": FIRST, "picture": TRIANGLE}

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        totals = self.totals(self.design.centred(estimate.counts))
        confidence = self.options.confidence
        rows: list[dict[str, Any]] = []
        # Sums of the same counters are not independent: together their risks add up.
        together = 1 - (1 - confidence) / totals.size
        for one, total in zip(self.shown, totals, strict=True):
            errors, group, value = self._errors(one), *self._label(one)
            alone = result.columns(np.array([total]), errors, confidence)
            wide = result.columns(np.array([total]), errors, together)
            ends = {f"{end}_simultaneous": wide[end] for end in ("lower", "upper")}
            rows.append({"group": [group], "value": [value]} | alone | ends)
        table = pa.concat_tables([pa.table(row) for row in rows])
        shares = self._stickiness(dict(zip(self.shown, totals.tolist(), strict=True)))
        return {TABLE: table} | ({} if shares is None else {STICKINESS: shares})

    @property
    def _pairs(self) -> list[tuple[Figure, Figure]]:
        """(those of a span, those of a longer one) of which a share can be told."""
        known = {one.size: one for one in self.shown if one.what == "active"}
        return [(known[a], known[b]) for a, b in _SHARES if {a, b} <= known.keys()]

    def _stickiness(self, totals: Mapping[Figure, int]) -> pa.Table | None:
        """The share of the active users of a span who were active in a shorter one."""
        rows = []
        for some, all_ in self._pairs:
            count, n = (np.array([float(totals[one])]) for one in (some, all_))
            risk = (1 - self.options.confidence) / len(self._pairs)
            row: dict[str, Any] = {"value": [f"{some.size} of {all_.size} days"]}
            for suffix, confidence in (("", self.options.confidence), ("_simultaneous", 1 - risk)):
                quotient = shares(self.design, some, all_, count, n, confidence)
                if not suffix:  # null where nobody may have been active: then there is none
                    columns = {"estimate": quotient.ratio, "standard_error": quotient.error}
                    unknown = np.isnan(quotient.ratio)
                    row |= {
                        name: pa.array(column, mask=unknown) for name, column in columns.items()
                    }
                ends = result.clipped(quotient.lower, quotient.upper, quotient.ratio, 0, 1)
                row[f"lower{suffix}"], row[f"upper{suffix}"] = ends
            rows.append(pa.table(row))
        return pa.concat_tables(rows) if rows else None

    def _label(self, one: Figure) -> tuple[str, str]:
        """Of what kind a figure is, and of which part."""
        period = self.options.period
        if one.what == "active":
            return "active", _NAMES[one.size]
        if one.what in HISTORIES:
            return f"active in the last {period}", one.what
        return f"active in the last {period}", f"new {one.size} {period}{'s' * (one.size > 1)} ago"

    # What is said.

    @property
    def influence(self) -> float:
        if self.by_devices and not self.sealed:  # dummies of every counter that is added up
            return float(self.design.lifts[0] * len(self._whole.cells))
        return float(max(self.design.lifts))

    @property
    def error_statement(self) -> dict[str, Any]:
        return super().error_statement | {
            "covers": "the noise of the dummies",
            "reading": "Every figure is the truth plus noise of a known law; the table has the "
            "standard error of each. Estimates are unbiased, so where there is little some lie "
            "below 0. Retention is read along days: who was new k before and is active now, over "
            "how many the release of that day said were new.",
        }

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        left_out = [one for one in self.activity.figures if one not in self.shown]
        names = [" · ".join(self._label(one)) for one in left_out]
        days = {
            "last": self.options.day,
            "looked_at": self.activity.days,
            "missing": list(self.telemetry.missing),
            "left_out": names,
        }
        return super().statement(estimate, tallies) | {"days": days}

    @property
    def exactly(self) -> tuple[str, ...]:
        return (*super().exactly, *("which days have files",) * self._dated)

    @property
    def _dated(self) -> bool:
        """Whether files were looked for by their day, so that it is told which have none."""
        dated = any(DAY in pattern for pattern in self.options.input)
        return dated and not self.telemetry.unread

    @property
    def words(self) -> list[str]:
        return [*self._definitions()]

    def _definitions(self) -> Iterator[str]:
        before, period = self.activity.before, self.options.period
        yield (
            f"Counted are users with a row in the days up to {self.options.day} (UTC). New is who "
            f"was active in the last {period} and in none of the {before} {period}s before it; "
            f"returning, who was in the {period} before, too; resurrected, who was in an earlier "
            "one of them alone."
        )
        yield (
            "A user is in the releases of many days, and each of them costs: what is promised here "
            "is of one release. Days on which a device was not heard of are days on which it was "
            "not active."
        )

    def _gaps(self) -> Iterator[str]:
        missing = self.telemetry.missing
        if self._dated:
            yield (
                "Which days have files is told as it is. What is promised holds if a file is "
                "written every day, whether there are rows or not; otherwise a file says that "
                "somebody was active."
            )
        if missing:
            days = ", ".join(missing[:7]) + f" and {len(missing) - 7} more" * (len(missing) > 7)
            yield (
                f"These days lack a file: {days}. That is a gap and no day without activity, so "
                "what would need them is left out."
            )

    @property
    def cautions(self) -> list[str]:
        return [*super().cautions, *self._gaps()]


def _designed(
    options: ActiveUsersOptions, reporting: ActivityReporting, sealed: bool = False
) -> NoisyCounters:
    """The counters that err least; arguments as of `meeting`."""
    return meeting(options, reporting.levels, (), sealed, releases=options.releases)
