"""`hushbeam strings --search levels --drawn-by shuffler`: by counters of prefixes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.heavy_hitters.counted import BEAM, CountedSearch, Tally, noise_of
from pipelines.errors import RequestError
from pipelines.metrics.counting import result
from pipelines.metrics.counting.by_job import mechanism_of
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.metric import MetricReports
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.options import JOB
from pipelines.metrics.protection import Protection
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.strings import StringEvidence
from pipelines.metrics.strings.counted import CountedStrings
from pipelines.metrics.strings.levels import alphabet_statement, code_of, public_seed
from pipelines.wording import upward
from transforms.encoders.block import CellBlock, PooledBlock
from transforms.encoders.prefixes import PrefixEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from pipelines.metrics.statistics.statistic import Workload


@dataclass(frozen=True, kw_only=True)
class LevelsByCounters(CountedStrings):
    """The strings that many units hold, found by noisy counters of their beginnings."""

    drawn = "dummies for every counter that it looked at"
    hiding: ClassVar[str] = "the noise of the dummies"

    design: Counters | JobTotals
    reporting: CountedSearch

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        if drawn_by in (JOB, "shuffler"):
            return None
        return "only the job knows which counters earlier levels let stand"

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        options = given.statistic.options
        seed = public_seed(given.source, given.open_rng)
        search = CountedSearch(code_of(options, given.telemetry), seed)
        design = cast(Any, meeting(options, search.levels, ()))
        return cls(**given.fields, design=design, reporting=search)

    def redesigned(self) -> Self:
        raise RequestError(
            "its counters are what earlier levels let stand, so a shuffler would have to be told "
            "them level by level; say `drawn_by: each-report`, or run it in one job"
        )

    @property
    def limit(self) -> float:
        return self.reporting.detection_limit(self.design, self.options.false_strings)

    @property
    def accuracy(self) -> Accuracy:
        """Of how many units hold a string."""
        error = math.sqrt(self.design.variances[-1])
        return Accuracy(result.FigureError(noise_of(self.design), error, least=0))

    def encoder(self, coins: Any = None) -> PrefixEncoder:  # type: ignore[override]
        search = self.reporting
        return PrefixEncoder(self.options.column, search, search.code.unusable)

    def counted(self, block: CellBlock | PooledBlock) -> Tally:
        if isinstance(block, PooledBlock):
            pool, times = block.counted
            keys = self.reporting.keys(pool)  # of each row one a level
            return Tally.of(keys.ravel(), np.repeat(times, keys.shape[1]))
        return Tally.of(self.reporting.keys(block.cells).ravel())

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.collector.discover_counted import DiscoverCounted

        false_strings = self.options.false_strings
        step = DiscoverCounted(self.reporting, self.design, false_strings, self.open_rng)
        return reports.messages | "Discover" >> step

    def arrived(self, estimate: Any) -> int:
        return estimate.messages // len(self.reporting.steps)

    def _evidence(self, estimate: Any) -> StringEvidence:
        strings = estimate.strings
        figures = result.columns(strings.holders, self.accuracy.total, self.options.confidence)
        figures["expected_false"] = strings.expected_false
        return StringEvidence.of(strings.values, strings.whole, figures)

    def _cut(self, estimate: Any) -> dict[str, Any]:
        what = f"{self.unit}s whose value is missing, or no string of the alphabet"
        count = float(estimate.strings.unusable)
        return {"unusable": {"what": what, "estimate": count, "standard_error": self.error}}

    def searched(self, estimate: Any) -> dict[str, Any]:
        return {
            "steps": list(self.reporting.steps),
            "public_seed": self.reporting.seed,
            "beam": BEAM,
            "strings": len(estimate.strings.values),
        }

    @property
    def error_statement(self) -> dict[str, Any]:
        covers = "; of each user one string, drawn uniformly among its rows" * (self.unit == "user")
        return {
            "standard_error": self.error,
            "covers": f"{self.hiding}{covers}",
            "reading": "Strings were chosen by the counts of all levels of a tree of beginnings; "
            f"how many {self.unit}s hold one was counted apart, with noise that had no part in the "
            "choice, and is unbiased.",
        }

    @property
    def words(self) -> list[str]:
        chance = upward(self.options.false_strings, 3)
        return [
            f"Of strings that nobody holds there are {chance:g} here on average, at the most. "
            f"Candidates of a level were the beginnings that earlier levels had let stand."
        ]

    @property
    def request(self) -> dict[str, Any]:
        return super().request | alphabet_statement(self.reporting.code)


@dataclass(frozen=True, kw_only=True)
class LevelsByJob(LevelsByCounters):
    """The same with noise that the job adds to what it has counted."""

    drawn = "noise for every counter that it looked at"
    hiding = "the noise"

    @property
    def protection(self) -> Protection:
        return super().protection._replace(system="job-totals")

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return mechanism_of(self)
