"""Of each window of a count nothing but whether it is above a threshold, at one price for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from mechanisms.central.window_alarm import WindowAlarm
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import target_of
from pipelines.metrics.heading import Heading
from pipelines.metrics.metric import Metric
from pipelines.running.kept import KeptTotals
from pipelines.running.metric import Running

_RISK = 0.05


@dataclass(frozen=True, kw_only=True)
class RunningAlarm(Running):
    """A count of which each window says whether it is above a public number."""

    @property
    def dearer(self) -> list[str]:
        return []  # noise that is drawn anew would come to far more

    @cached_property
    def noise(self) -> WindowAlarm:
        options, amounts = self.options, self.reporting.amounts
        if amounts.groups > 1 or options.last is not None:
            raise RequestError("--above: an alarm is of one count: leave out groups, and --last")
        if (options.firings or 1) > options.horizon:
            raise RequestError("--firings: there are no more alarms than windows of --horizon")
        _, epsilon, delta = target_of(options)
        terms = epsilon, options.above, options.horizon, options.firings or 1, amounts.most
        try:
            made = WindowAlarm(*terms)
            made.require_priced(epsilon, delta)
        except (ValueError, ArithmeticError) as error:
            raise RequestError(f"--epsilon, --delta, --firings: {error}") from None
        return made

    @property
    def expected_error(self) -> str:
        """How often there are false alarms, and which counts are found: by the exact law."""
        (quiet, sure), unit = self.noise.clear(_RISK), self.unit
        return (
            f"false alarms in {100 * _RISK:g} % of horizons whose counts stay {quiet:,} {unit}s "
            f"below {self.options.above:,}, and {100 * _RISK:g} % of windows missed that are "
            f"{sure:,} above it"
        )

    @property
    def heading(self) -> Heading:
        title = f"{self.unit}s: whether there are more than {self.options.above:,}"
        return Heading(title, {f"{self.kind}.parquet": "alarm"})

    def _table(self, kept: KeptTotals, last: int | None) -> pa.Table:
        (now,), (before,) = kept.totals[-1], (kept.totals[-2:-1] or ((0,),))[0]
        return pa.table({"estimate": [now - before]})

    def reading(self, windows: int) -> str:
        return (
            f"Of each window nothing is published but whether more than {self.options.above:,} "
            f"{self.unit}s count in it; after {self.noise.firings:,} that have more nothing is "
            f"looked at. Expect {self.expected_error}."
        )

    def statement(self, estimate: KeptTotals, tallies: Mapping[str, int]) -> dict[str, Any]:  # type: ignore[override]
        said, window = super().statement(estimate, tallies), estimate.windows[-1]
        line = f"{self.name}: more than {self.options.above:,} {self.unit}s in {window}"
        fired = any(self._table(estimate, None)["estimate"].to_pylist())
        alarm = {"metric": self.name, "window": window, "line": line} if fired else None
        error = {"standard_error": self.noise.standard_error(0), "covers": self.expected_error}
        return said | {"alarm": alarm, "error": error}

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        return Metric.page_words(self, statement)

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return Metric.page(self, tables, statement)
