"""Statistics over noisy counters: which counters a workload takes, and what they tell of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Messages
from mechanisms.counters.dummies import Independent
from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.logs.inputs import ALONE, Source, Telemetry
from pipelines.metrics import registry
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.cells import of_cells
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.options import EitherOptions
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.unusable.share import Share
from transforms.encoders.groups import GroupEncoder
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
class ByCounters(Counting):
    """A statistic whose noise is dummies among counters.

    Attributes:
        statistic: what is asked.
        reporting: what makes a report of all rows of a unit.
    """

    statistic: Any
    reporting: Any

    @classmethod
    def resolve(
        cls, options: Any, source: Source = ALONE, open_rng: Generator = SecureRandom
    ) -> Self:
        made: Self = registry.find_for(options).resolve(options, source, open_rng)
        return made

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
        design, reporting = cls.least(statistic)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, statistic=statistic,
            domains=statistic.domains, design=design, reporting=reporting,
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

    def redesigned(self) -> Self:
        statistic = replace(self.statistic, options=self.options)
        design, reporting = self.least(statistic, self.sealed)
        return replace(self, statistic=statistic, design=design, reporting=reporting)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return str(self.statistic.kind)

    @property
    def unstated(self) -> frozenset[str]:  # type: ignore[override]
        return self.statistic.unstated | getattr(self.options, "of_reports", frozenset())

    def published_in(self, folder: str, window: str) -> Self:
        made = super().published_in(folder, window)  # a statistic reads what it shows from there
        return replace(made, statistic=replace(made.statistic, options=made.options))

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
        return super().request | dict(self.statistic.request) | self.shape.settled(self)

    def encoder(self, coins: Any = None) -> GroupEncoder:
        encoder: GroupEncoder = self.statistic.encoder
        return encoder

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return dict(self.statistic.line_types)

    @property
    def error(self) -> float:
        return float(self.statistic.error(self.accuracy, self.expected))

    @property
    def _typical(self) -> Typical:
        return Typical(*self.statistic.foretold(self.accuracy, self.expected))

    @property
    def expected_error(self) -> str:
        return str(self.statistic.error_in_words(self.error, self.expected))

    @property
    def figure(self) -> str:  # type: ignore[override]
        return str(self.statistic.error_of)

    @property
    def prospect(self) -> str | None:
        if not self.statistic.divides:
            return super().prospect
        return f"{super().prospect}, if {self.expected:,} {self.unit}s take part"

    @property
    def cautions(self) -> list[str]:
        return [*super().cautions, *self.statistic.cautions(self.accuracy, self.rounded)]

    @property
    def exactly(self) -> tuple[str, ...]:
        return (*super().exactly, *self.statistic.exactly)

    @property
    def rounded(self) -> int:
        """How many numbers are rounded, at the most, as far as that is public."""
        return self.expected

    def errors(self) -> FigureError:
        return self.accuracy.total

    @property
    def noise_law(self) -> dict[str, Any]:
        # One counter is one figure, and the shuffler's noise of each is of its own.
        dummies, work = getattr(self.design, "dummies", None), self.statistic.workload
        alone = work.amount is None and work.people == "nobody" and work.most == 1
        if not (alone and work.shape == "cells" and isinstance(dummies, Independent)):
            return {}
        law = dummies.laws[0]
        return {"law": {"farthest": law.mu, "falls": list(law.falls)}}

    @property
    def error_statement(self) -> dict[str, Any]:
        statistic, covers = self.statistic, self.statistic.covers
        if not statistic.divides and statistic.workload.amount is not None and self.accuracy.coin:
            most = f"{self.rounded:,} {self.unit}s at the most"
            covers = f"the noise of the dummies, and roundings of {most}; not what was cut"
        said = {"covers": covers, "reading": statistic.reading}
        if statistic.divides:
            of = {f"{self.unit}s": self.expected, statistic.error_key: self.error}
            return {"standard_error_if": of, **said}
        return {statistic.error_key: self.error, **said, **self.noise_law}

    @property
    def influence(self) -> float:
        return self.shape.influence(self)

    @property
    def words(self) -> list[str]:
        return list(self.statistic.words(self.influence))

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        return dict(self.statistic.unusable(self.evidence(estimate), confidence))

    def unusable_cautions(self, estimate: Any, confidence: tuple[float, float]) -> list[str]:
        return list(self.statistic.unusable_cautions(self.evidence(estimate), confidence))

    @property
    def labelled(self) -> dict[str, str]:
        return dict(self.statistic.labelled)

    def labels(self) -> dict[str, pa.Array]:
        return dict(self.statistic.labels())

    @property
    def figures(self) -> dict[str, str]:
        return dict(self.statistic.files)

    @property
    def title(self) -> str:
        return str(self.statistic.title)

    @property
    def headline(self) -> dict[str, str]:
        return dict(self.statistic.headline) or super().headline

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        return dict(self.statistic.tables(self.evidence(estimate)))

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        own = self.statistic.statement(self.evidence(estimate))
        return super().statement(estimate, tallies) | own
