"""What searches of the job itself share: it counts what a declared domain has counters for."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from mechanisms.channel import Guarantee
from mechanisms.heavy_hitters.schedule import MISSED
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.shapes.shape import ReportShape
from pipelines.metrics.metric import MetricReports, viewed
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling, untouched
from pipelines.metrics.statistics.strings import UndeclaredStrings
from transforms.encoders.block import CellBlock, PooledBlock, applicable
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.units.contributions import EncodedContributions


@dataclass(frozen=True, kw_only=True)
class CountedStrings(ByCounters):
    """Strings, of which the job counts what a declared domain would have counters for.

    Attributes:
        drawn: what hides who takes part, in words.
        sure: what else is sure of what is found, in words.
    """

    drawn: ClassVar[str]
    sure: ClassVar[str] = ""

    statistic: UndeclaredStrings

    @property
    def shape(self) -> ReportShape:  # type: ignore[override]
        return ReportShape()  # of no workload: a search has evidence of its own

    @property
    def protection(self) -> Protection:
        # What no counter is made for, no dummy hides from the job.
        return super().protection._replace(model="shuffle" if self.sealed else "central")

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        why = "it is not randomised, and the job counts it as it is"
        return replace(super().guarantees[0], model=self.protection.model), Guarantee.none(why)

    def _who(self) -> str:
        return (
            f"Nothing that a {self.unit} sends is randomised: the job that read the log counted it "
            f"as it is, and drew {self.drawn}. The promise is against who sees this release, if "
            "the job drew honestly and has told nobody what it drew; it knows the exact counts."
        )

    @property
    @abstractmethod
    def limit(self) -> float:
        """How many units must hold a string so that it is all but sure to be found."""

    @property
    def prospect(self) -> str | None:
        return (
            f"a string that at least {math.ceil(self.limit):,} {self.unit}s hold is found with "
            f"probability {1 - MISSED:g} or more; the standard error of their number is "
            f"{self.error:.3g}{self.sure}"
        )

    @property
    def expected_error(self) -> str:
        # From how many units on a string is found: a search errs by what it misses.
        of = "" if self.announced is None else f" of {self.announced:,}"
        return f"finds what {math.ceil(self.limit):,} {self.unit}s{of} hold"

    @property
    def cautions(self) -> list[str]:
        if self.limit <= self.expected:
            return super().cautions
        return [
            *super().cautions,
            f"no string is sure to be found, {self.assumed}",
        ]

    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        search = {"prospect": self.prospect, "detection_limit": self.limit}
        return super().statement(estimate, tallies) | {"search": search | self.searched(estimate)}

    @abstractmethod
    def searched(self, estimate: Any) -> dict[str, Any]:
        """How strings were searched for, and how many there are."""

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None, pools: bool = False
    ) -> EncodedContributions:
        from transforms.units.contributions import EncodeContributions
        from transforms.units.strings import EncodeStrings

        users = named or fresh_digest(self.options.user_column)
        own: Any = self.encoder()  # `viewed` may put it behind what a request derives
        encode = (
            partial(EncodeStrings, most=own.most)
            if pools and users is not None
            else EncodeContributions
        )
        step = encode(
            viewed(self, pools=pools), users, self._buckets, self.open_rng, named is not None,
            distinct=self._distinct, reported=False,
        )  # fmt: skip
        return tables | "Contributions" >> step

    @property
    def _buckets(self) -> int:
        """How many groups users are hashed into."""
        from transforms.elements.blocks import bucket_count

        return bucket_count(self.telemetry.about)

    @property
    def _distinct(self) -> int | None:
        """How many different strings of a unit count; None where one of its rows does."""
        return None

    @abstractmethod
    def counted(self, block: CellBlock | PooledBlock) -> Any:
        """What the job counts of a block."""

    def reports(self, tables: beam.PCollection) -> MetricReports:
        import apache_beam as beam

        from transforms.elements.conservation import entering, reporting

        pools = self.options.user_column is None or self._distinct is not None
        blocks, tallies, bounded = self.contributions(tables, pools=pools)
        entered = entering(blocks)
        if self.options.where:
            kind = PooledBlock if pools else CellBlock
            blocks = blocks | "Applicable" >> beam.Map(applicable).with_output_types(kind)
        kept = blocks | "Counted" >> beam.Map(self.counted)
        return MetricReports(kept, None, tallies, (entered, reporting(blocks, "Sent"), *bounded))

    @property
    def shuffling(self) -> Shuffling:
        return untouched("nothing is shuffled where the job counts strings as they are")

    @property
    def influence(self) -> float:
        return 1.0
