"""Statistics over noisy counters: which counters a workload takes, and what they tell of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Messages
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Independent
from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.logs.inputs import ALONE, Source, Telemetry
from pipelines.metrics import registry
from pipelines.metrics.counting.design import MOST_SEALED, target_of
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.cells import of_cells
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.of_statistic import OfStatistic
from pipelines.metrics.options import EitherOptions
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast
from pipelines.metrics.unusable.share import MANY, Share
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import UNUSABLE
from transforms.encoders.users import UserDigest

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator
    from transforms.units.contributions import EncodedContributions

# Of epsilon, where units have a counter of their own, which shares are divided by.
_SHARES = (0.03, 0.1, 0.25)
_MANY = 100  # noises, whose sum is all but normal
_LARGEST_BOUND = 1e200  # sums of numbers up to it stay numbers
_UNKNOWN = "of how many is not published"


_BY_SHAPE = {
    "prefixes": "pipelines.metrics.counting.shapes.tree:TREE",
    "tables": "pipelines.metrics.counting.shapes.tables:TABLES",
    "row": "pipelines.metrics.counting.shapes.row:ROW",
    "days": "pipelines.metrics.counting.shapes.days:DAYS",
}


def shape_of(work: Workload) -> Shape:
    """How totals of a workload travel."""
    if work.shape == "cells":
        return of_cells(work)
    shape: Shape = registry.imported(_BY_SHAPE[work.shape])
    return shape


@dataclass(frozen=True, kw_only=True)
class ByCounters(OfStatistic, Counting):
    """A statistic whose noise is dummies among counters.

    Attributes:
        reporting: what makes a report of all rows of a unit.
    """

    reporting: Any
    min_reports: int = 0

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        """Refuse options that mean nothing here, before a file is looked at.

        Args:
            options: of the request.
            kind: of the statistic.

        Raises:
            RequestError: one was named.
        """
        if isinstance(options, EitherOptions):
            require_counted(options)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        """Why this noise does not serve a workload; None if it does.

        Args:
            work: of a statistic.
            drawn_by: as of `ReleaseOptions`.
        """
        if work.shape == "strings":
            return "strings that nobody declared have no counters"
        if work.shape == "row" and drawn_by == "devices":
            return "no dummies of devices are known for rows of numbers: let the shuffler draw"
        return None

    @classmethod
    def option(cls, options: Any) -> str:
        """What was asked by which this noise was chosen.

        Args:
            options: of the request.
        """
        return f"--dummies {options.drawn_by}"

    @classmethod
    def of(
        cls,
        statistic: Statistic,
        telemetry: Telemetry,
        open_rng: Generator = SecureRandom,
        source: Source = ALONE,
    ) -> Self:
        """The release of a statistic.

        Args:
            statistic: held against its input.
            telemetry: the files.
            open_rng: opens generators on workers.
            source: what public randomness comes from.

        Raises:
            RequestError: the target is out of reach, or options mean nothing here.
        """
        options = statistic.options
        design, reporting = cls.least(statistic, options.sealed)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, statistic=statistic,
            domains=statistic.domains, design=design, reporting=reporting, sealed=options.sealed,
        )  # fmt: skip

    @classmethod
    def least(cls, statistic: Statistic, sealed: bool = False) -> tuple[Any, Any]:
        """What users send, and what hides it, with the least error.

        Args:
            statistic: what is asked.
            sealed: whether each message is sealed by itself.

        Raises:
            RequestError: the target is out of reach.
        """
        return shape_of(statistic.workload).least(statistic, sealed)

    def rescaled(self, options: Any) -> Self | None:
        if not isinstance(self.design, Counters):
            return None
        _, epsilon, delta = target_of(options)
        try:
            design = self.design.meeting_another(epsilon, delta)
        except ValueError:  # which laws are the best is open again
            return None
        # Of noise that is sealed one by one there may be as much as there was, or as is usual.
        if self.sealed and design.number > max(self.design.number, MOST_SEALED):
            return None
        statistic = replace(self.statistic, options=options)
        return replace(self, options=options, statistic=statistic, design=design)

    def redesigned(self) -> Self:
        statistic = replace(self.statistic, options=self.options)
        design, reporting = self.least(statistic, self.sealed)
        return replace(self, statistic=statistic, design=design, reporting=reporting)

    # What is known of its noise.

    @property
    def shape(self) -> Shape:
        """How its totals travel."""
        return shape_of(self.statistic.workload)

    @cached_property
    def accuracy(self) -> Accuracy:
        """Of the totals."""
        return self.shape.accuracy(self)

    def evidence(self, estimate: Counted) -> Evidence:
        """What is known of a batch.

        Args:
            estimate: of the collector.
        """
        return self.shape.evidence(self, estimate)

    @property
    def rows_of_a_user(self) -> str:
        return self.shape.rows_of_a_user

    def totals(self, counts: Sequence[np.ndarray]) -> np.ndarray:
        return self.shape.totals(self, counts)

    @property
    def worth(self) -> float:
        """What one more of a counter of weight 1 adds to a figure's total."""
        return self.shape.worth(self)

    @property
    def unit_error(self) -> float:
        return self.shape.unit_error(self)

    # The clients.

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> EncodedContributions:
        return self.shape.contributions(self, tables, named)

    def own_reports(
        self, blocks: Sequence[Any], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        return self.shape.own_reports(self, blocks, one, rng)

    # What is said of it.

    @property
    def request(self) -> dict[str, Any]:
        return super().request | self.shape.settled(self)

    def encoder(self, coins: Any = None) -> GroupEncoder:
        encoder: GroupEncoder = self.statistic.encoder
        return encoder

    @property
    def _forecast(self) -> Forecast:
        forecast: Forecast = self.statistic.forecast(self.accuracy, self.expected)
        return forecast

    @property
    def error(self) -> float:
        return float(self._forecast.error)

    @property
    def _typical(self) -> Typical:
        return Typical(self._forecast.figure, self._forecast.noise)

    @property
    def expected_error(self) -> str:
        return self._forecast.words

    @property
    def error_terms(self) -> ErrorTerms:
        terms: ErrorTerms = self.statistic.wording.errors
        return terms

    @property
    def prospect(self) -> str | None:
        if not self.error_terms.divides:
            return super().prospect
        return f"{super().prospect}, if {self.expected:,} {self.unit}s take part"

    @property
    def cautions(self) -> list[str]:
        return [
            *super().cautions,
            *self.statistic.forecast(self.accuracy, self.rounded).cautions,
        ]

    @property
    def exactly(self) -> tuple[str, ...]:
        return (*super().exactly, *self.statistic.wording.exactly)

    @property
    def rounded(self) -> int:
        """How many numbers are rounded, at the most, as far as that is public."""
        return self.expected

    def errors(self) -> FigureError:
        return self.accuracy.total

    @property
    def counts_alone(self) -> bool:
        """Whether figures are numbers of units, and nothing beside them."""
        work = self.statistic.workload
        return work.amount is None and work.people == "nobody" and work.shape == "cells"

    @property
    def noise_law(self) -> dict[str, Any]:
        # One counter is one figure, and the shuffler's noise of each is of its own.
        dummies = getattr(self.design, "dummies", None)
        one = self.counts_alone and self.statistic.workload.most == 1
        if not (one and isinstance(dummies, Independent)):
            return {}
        law = dummies.laws[0]
        return {"law": {"farthest": law.mu, "falls": list(law.falls)}}

    @property
    def error_statement(self) -> dict[str, Any]:
        terms, covers = self.error_terms, self.error_terms.covers
        if not terms.divides and self.statistic.workload.amount is not None and self.accuracy.coin:
            most = f"{self.rounded:,} {self.unit}s at the most"
            covers = f"the noise of the dummies, and roundings of {most}; not what was truncated"
        said = {"covers": covers, "reading": terms.reading}
        if terms.divides:
            of = {f"{self.unit}s": self.expected, terms.key: self.error}
            return {"standard_error_if": of, **said}
        return {terms.key: self.error, **said, **self.noise_law}

    @property
    def influence(self) -> float:
        return self.shape.influence(self)

    @property
    def words(self) -> list[str]:
        return list(self.statistic.wording.words)

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        return dict(self.statistic.unusable(self.evidence(estimate), confidence))

    def unusable_cautions(self, estimate: Any, confidence: tuple[float, float]) -> list[str]:
        """Where numbers are added up, how many were none: of how many that is, nobody publishes."""
        beside = self.evidence(estimate).beside
        many, some = (beside(UNUSABLE, sure) for sure in confidence)
        if many is None or some is None:
            return []
        declared = self.options.expected or self.options.enrolled
        # Without a number that was declared nobody knows of how many they are.
        count, far = some if declared is None else many
        if not count - far > MANY * (declared or 0):
            return []
        known = f"of {declared:,} that were declared" if declared else _UNKNOWN
        return [
            f"about {count:,.0f} {self.unit}s, give or take {far:,.0f}, have a number that cannot "
            f"be used, which adds nothing to the sum; {known}"
        ]

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        own = self.statistic.statement(self.evidence(estimate))
        return super().statement(estimate, tallies) | own
