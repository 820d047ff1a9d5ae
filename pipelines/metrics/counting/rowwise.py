"""What statistics of whole rows share: one row of each unit counts, with all that is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mechanisms.channel import Messages
from mechanisms.randomness import RandomSource
from pipelines.metrics.counting.metric import Counting
from transforms.encoders.attributes import Attribute
from transforms.encoders.block import RowBlock, one_row
from transforms.encoders.reports import RowReporting
from transforms.encoders.rows import Absence, RowEncoder
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.units.contributions import EncodedContributions


def contributions_of_rows(
    release: Counting, tables: beam.PCollection, named: UserDigest | None = None
) -> EncodedContributions:
    """Reports of one row of each unit; as of `Metric.contributions`.

    Args:
        release: whose reports.
        tables: with its columns.
        named: of users, if their digests are to stay with their rows.
    """
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
    report = beam.ParDo(ReportRowsDoFn(release.reporting, release.open_rng))  # type: ignore[arg-type]
    return rows._replace(blocks=rows.blocks | "Report" >> report)


def reports_of_rows(
    reporting: RowReporting, blocks: Sequence[RowBlock], one: bool, rng: RandomSource
) -> Iterator[Messages]:
    """What a device sends of one of its rows; as of `Counting.own_reports`."""
    for block in one_row(blocks, rng) if one else blocks:
        yield from reporting.reports(block, rng)


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
        return contributions_of_rows(self, tables, named)

    def own_reports(
        self, blocks: Sequence[RowBlock], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        yield from reports_of_rows(self.reporting, blocks, one, rng)
