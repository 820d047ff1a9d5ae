"""What statistics of whole rows share: one row of each unit counts, with all that is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mechanisms.channel import Messages
from mechanisms.randomness import RandomSource
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.shapes.shape import Shape
from transforms.encoders.attributes import Attribute
from transforms.encoders.block import RowBlock, one_row
from transforms.encoders.reports import RowReporting
from transforms.encoders.rows import Absence, RowEncoder
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.units.contributions import EncodedContributions


class WholeRows(Shape):
    """Counters that a whole row raises."""

    def contributions(
        self, release: Any, tables: beam.PCollection, named: UserDigest | None
    ) -> EncodedContributions:
        return _contributions(release, tables, named)

    def own_reports(
        self, release: Any, blocks: Sequence[RowBlock], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        for block in one_row(blocks, rng) if one else blocks:
            yield from release.reporting.reports(block, rng)


@dataclass(frozen=True, kw_only=True)
class RowWise(Counting):
    """A statistic of rows.

    Attributes:
        attributes: what a row consists of.
    """

    reporting: RowReporting  # type: ignore[assignment]
    attributes: tuple[Attribute, ...]

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {column: part.kind for part in self.attributes for column in part.columns()}

    def encoder(self, coins: Any = None) -> RowEncoder:  # type: ignore[override]
        return RowEncoder(self.attributes, None, Absence(hides=True))

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> EncodedContributions:
        return _contributions(self, tables, named)

    def own_reports(
        self, blocks: Sequence[RowBlock], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        for block in one_row(blocks, rng) if one else blocks:
            yield from self.reporting.reports(block, rng)


def _contributions(
    release: Counting, tables: beam.PCollection, named: UserDigest | None
) -> EncodedContributions:
    """The reports of whole rows, one of each unit."""
    import apache_beam as beam

    from transforms.elements.blocks import bucket_count
    from transforms.units.contributions import EncodeContributions
    from transforms.units.units import ReportRowsDoFn

    users = named or fresh_digest(release.options.user_column)
    buckets, keep = bucket_count(release.telemetry.rows), named is not None
    step = EncodeContributions(
        release.viewed(), users, buckets, release.open_rng, keep, reported=False
    )
    rows = tables | "Contributions" >> step
    reporting: Any = release.reporting
    report = beam.ParDo(ReportRowsDoFn(reporting, release.open_rng))
    return rows._replace(blocks=rows.blocks | "Report" >> report)
