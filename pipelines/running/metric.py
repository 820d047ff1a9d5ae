"""Counts and sums that go on from window to window, as commands and plans add them up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_mu
from mechanisms.running.totals import Contribution, least
from pipelines.errors import RequestError
from pipelines.metrics.counting import result
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.design import target_of
from pipelines.metrics.heading import Heading
from pipelines.metrics.metric import Content, Metric
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling, unshuffled
from pipelines.metrics.statistics.labels import label_columns
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.metrics.unusable.share import Share
from pipelines.running.kept import KeptTotals
from pipelines.wording import RAISING_NONE, among, condition_of
from transforms.columns import is_integer

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted

LAST = "last.parquet"


@dataclass(frozen=True, kw_only=True)
class Running(ByCounters):
    """A statistic that goes on: of its counters' own noise nothing is used.

    Attributes:
        kept: what stands once the window is drawn, which is all that is known of it.
    """

    kept: KeptTotals | None = None

    # What is decided before a row is read.

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        options.require()

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        _require_whole(given)
        metric = super().of(given)
        _ = metric.noise  # refused here, if it is out of reach
        return metric

    @cached_property
    def noise(self) -> Any:
        """What hides a unit in all windows together.

        Raises:
            RequestError: the target is out of reach.
        """
        options, amounts = self.options, self.reporting.amounts
        changed = min(options.rows_per_user, amounts.groups)
        unit = Contribution(amounts.most * math.sqrt(changed), changed, options.windows)
        _, epsilon, delta = target_of(options)
        try:
            return least(epsilon, delta, options.horizon, unit, amounts.groups)
        except ValueError as error:
            raise RequestError(f"--epsilon, --delta, --horizon: {error}") from None

    @property
    def protection(self) -> Protection:
        made = self.noise, self.reporting
        return Protection(self.noise.constants["name"], "central", made, 0.0, 0.0)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        nobody = "the job sees exact numbers, and adds noise to totals alone"
        days, first = self.noise.contribution.days, self.options.first
        condition = condition_of(self.unit, days, self.noise.horizon, False, first)
        promise = self.noise.guarantee(self.options.epsilon, self.unit, condition)
        return promise, Guarantee.none(nobody)

    @property
    def priced(self) -> Any:
        return self.noise

    @property
    def profile(self) -> PrivacyLoss:
        return self.noise.profile

    @property
    def cautions(self) -> list[str]:
        released = self.guarantees[0]
        lines = cautioned(released.delta, self.options.expected)
        return [*lines, *next_to_nothing(released), *self.dearer]

    @property
    def dearer(self) -> list[str]:
        """That noise drawn anew in each window would come to less, if it would."""
        horizon, often = self.options.horizon, self.options.windows
        _, epsilon, delta = target_of(self.options)
        ours = self.noise.standard_error(horizon - 1)
        anew = self.noise.contribution.norm * math.sqrt(often) / gaussian_mu(epsilon, delta)
        anew = (self.error if often == 1 else anew) * math.sqrt(horizon)
        if anew >= ours:
            return []
        return [
            f"the last total would be off by {ours:.3g}, and what `hushbeam count` says of each "
            f"window, added up, by {anew:.3g}: this is for longer horizons, or users who come more "
            "rarely"
        ]

    @property
    def expected_error(self) -> str:
        first, final = map(self.noise.standard_error, (0, self.options.horizon - 1))
        return f"total ± {first:.3g}, the last ± {final:.3g}"

    @property
    def undivided(self) -> str:
        return (
            "the job that adds its noise remembers it from window to window, and a collector that "
            "did would know the exact numbers"
        )

    @property
    def counters(self) -> None:
        return None

    @property
    def shuffling(self) -> Shuffling:
        return unshuffled(self.mechanism.codes)

    @property
    def terms(self) -> dict[str, Any]:
        """What is the same in all windows, or other totals are begun."""
        return {name: said for name, said in self.request.items() if name != "last"}

    # The job.

    def exact(self, counted: Counted) -> list[int]:
        """What a window adds to each total: no dummy was drawn, so none is taken away."""
        levels = self.design.layout.split(counted.counts)[: len(self.reporting.amounts.levels)]
        return [
            int(number)
            for number in self.shape.totals(self, [level.astype(float) for level in levels])
        ]

    def content(self, estimate: Counted, tallies: Mapping[str, int]) -> Content | None:
        from pipelines.metrics.counting.exactly import names
        from pipelines.running.totals import added

        place = self.options.series, self.options.window
        numbers = self.exact(estimate)
        kept = added(*place, self.terms, names(self), numbers, self.open_rng())
        return Metric.content(replace(self, kept=kept), kept, tallies)

    # What is published.

    def unusable_parts(self, estimate: Any, confidence: float) -> Mapping[str, Share]:
        return {}

    def unusable_cautions(self, estimate: Any, confidence: float) -> list[str]:
        return []  # what stands beside the total was counted exactly, and nobody is told of it

    @property
    def heading(self) -> Heading:
        usual = super().heading
        ((file, figure),) = usual.figures.items()
        last = self.options.last
        rolling = {} if last is None else {LAST: f"{figure}, last {last:,} windows"}
        counted = self.statistic.workload.amount is None  # its title ends with the figure
        title = f"{usual.title}{'' if counted else ','} so far"
        return usual._replace(title=title, figures={file: f"{figure} so far", **rolling})

    def tables(self, estimate: KeptTotals) -> dict[str, pa.Table]:
        tables = {f"{self.kind}.parquet": self._table(estimate, None)}
        last = self.options.last
        if last is not None and last <= len(estimate.windows):
            tables[LAST] = self._table(estimate, last)
        return tables

    def _table(self, kept: KeptTotals, last: int | None) -> pa.Table:
        day, now = len(kept.windows) - 1, np.array(kept.totals[-1], np.int64)
        before = kept.totals[day - last] if last is not None and last <= day else 0
        error = kept.design.standard_error(day, last)  # of what was drawn, whoever began it
        errors = result.FigureError(None, error, least=self.accuracy.total.least)
        columns = result.columns(now - before, errors, self.options.confidence)
        return pa.table(label_columns(self.heading.labels, self.statistic.domains) | columns)

    def statement(self, estimate: KeptTotals, tallies: Mapping[str, int]) -> dict[str, Any]:  # type: ignore[override]
        from pipelines.running.totals import statement

        said, windows = statement(estimate), list(estimate.windows)
        words = [
            *said["in_words"], self.reading(len(windows)),
            *self.words, *among(self.options.where, self.unit, RAISING_NONE), *self.cautions,
        ]  # fmt: skip
        error = {
            "standard_error": estimate.design.standard_error(len(windows) - 1),
            "reading": "Every total is the truth plus noise, which goes on from window to window: "
            "what totals of two windows differ by has an error of its own.",
        }
        liar = {"per_liar": self.influence, "figure": "any one figure, in its window"}
        return {
            **said, "release": self.kind, "in_words": words, "request": self.request,
            "error": said["error"] | error, "poisoning": liar, "windows": windows,
        }  # fmt: skip

    def reading(self, windows: int) -> str:
        """What figures are of so many windows."""
        return (
            f"Totals are of the {windows:,} windows that were added so far, in the order in which "
            "they were (`windows`). One that was missed is not among them, and one that comes "
            "late counts in those that are released after it."
        )

    @property
    def influence(self) -> float:
        return float(self.reporting.amounts.most)

    @property
    def shared_words(self) -> list[str]:
        from pipelines.running.totals import words

        return [] if self.kept is None else words(self.kept)

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        return {}  # its page has the totals of all windows, and a release those of the last

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        from pipelines.running.totals import table
        from pipelines.running.view import page

        if self.kept is None:
            raise ValueError("there is no page before a window is drawn")
        return page(table(self.kept), statement, self.heading.title)


def begun(metric: Running) -> tuple[str, tuple[str, ...]]:
    """Look at what it remembers, before a row is read: an id of that, and the windows in it.

    Args:
        metric: of a window.

    Raises:
        RequestError: what windows before were drawn from is not there, or no more can be drawn.
    """
    from pipelines.metrics.counting.exactly import names
    from pipelines.running.sources import sources_of
    from pipelines.running.totals import opened

    metric.options.require_dated()
    place = metric.options.series, metric.options.window
    made = partial(sources_of, metric.telemetry)
    kept = opened(*place, metric.terms, metric.noise, names(metric), metric.open_rng(), made)
    return kept.id, kept.windows


def _require_whole(given: Ingredients) -> None:
    """Refuse numbers with fractions: they would add nothing, and no window says how many there are.

    Nor may first times be of another type, or users would count in other windows than their own.

    Raises:
        RequestError: a column is of such a type.
    """
    if first := given.statistic.options.first:
        from pipelines.running.sources import require_times

        if not given.telemetry.unseen:
            kind = given.telemetry.column_type(first, "--first")
            require_times(given.telemetry, first, kind, "--first")
    column = given.statistic.encoder.number
    kind = column and given.telemetry.column_type(column, "--column")
    if column and not (given.telemetry.unseen or is_integer(kind)):
        raise RequestError(
            f"--column: {column!r} holds {kind}; of totals that grow whole numbers are added up: "
            f"derive them, as in --derive '{column}_whole=round({column})'"
        )
