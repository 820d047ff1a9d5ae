"""What statistics of whole rows share: one row of each unit counts, with all that is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

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


def contributions_of_rows(
    release: Counting, tables: beam.PCollection, named: UserDigest | None = None
) -> EncodedContributions:
    """The reports of whole rows, one of each unit; as of `Metric.contributions`."""
    import apache_beam as beam

    from transforms.elements.blocks import bucket_count
    from transforms.units.contributions import EncodeContributions
    from transforms.units.units import ReportRowsDoFn

    users, rng = named or fresh_digest(release.options.user_column), release.open_rng
    buckets, keep = bucket_count(release.telemetry.rows), named is not None
    step = EncodeContributions(release.viewed(), users, buckets, rng, keep, reported=False)
    rows, reporting = tables | "Contributions" >> step, cast(RowReporting, release.reporting)
    return rows._replace(
        blocks=rows.blocks | "Report" >> beam.ParDo(ReportRowsDoFn(reporting, rng))
    )


def reports_of_rows(
    release: Counting, blocks: Sequence[RowBlock], one: bool, rng: RandomSource
) -> Iterator[Messages]:
    """What a device sends of its rows; as of `Counting.own_reports`."""
    reporting = cast(RowReporting, release.reporting)
    for block in one_row(blocks, rng) if one else blocks:
        yield from reporting.reports(block, rng)


class WholeRows(Shape):
    """Counters that a whole row raises."""

    contributions = staticmethod(contributions_of_rows)
    own_reports = staticmethod(reports_of_rows)


@dataclass(frozen=True, kw_only=True)
class RowWise(Counting):
    """A statistic of rows.

    Attributes:
        attributes: what a row consists of.
    """

    reporting: RowReporting  # type: ignore[assignment]
    attributes: tuple[Attribute, ...]

    contributions = contributions_of_rows
    own_reports = reports_of_rows

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {column: part.kind for part in self.attributes for column in part.columns()}

    def encoder(self, coins: Any = None) -> RowEncoder:  # type: ignore[override]
        return RowEncoder(self.attributes, None, Absence(hides=True))
