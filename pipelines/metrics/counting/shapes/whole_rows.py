"""Counters that a whole row raises: one row of each unit counts, with all that is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mechanisms.channel import Messages
from mechanisms.counters.levels import Layout
from mechanisms.randomness import RandomSource
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.metric import viewed
from transforms.encoders.block import RowBlock, one_row
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam

    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.elements.chains import Chain
    from transforms.units.contributions import EncodeContributions, EncodedContributions


class WholeRows(Shape):
    """What shapes share whose reports are made of a whole row."""

    def contributions(
        self,
        release: ByCounters,
        tables: beam.PCollection,
        named: UserDigest | None,
        together: Layout | None = None,
    ) -> EncodedContributions:
        import apache_beam as beam

        from transforms.units.units import FLOW, ReportRowsDoFn, report_step

        rows = tables | "Contributions" >> self._rows(release, named)
        report = beam.ParDo(ReportRowsDoFn(release.reporting, release.open_rng, together))
        outputs = rows.blocks | "Report" >> report_step(report, together)
        more = (outputs[FLOW],) * (together is not None)
        return rows._replace(blocks=outputs.blocks, flow=(*rows.flow, *more))

    def chains(self, release: ByCounters, last: Chain) -> tuple[Chain, ...]:
        from transforms.units.units import ReportRowsDoFn

        known = release.reporting, release.open_rng, release.design.layout
        return self._rows(release, None).chains(last.after(ReportRowsDoFn(*known)))

    def _rows(self, release: ByCounters, named: UserDigest | None) -> EncodeContributions:
        from transforms.elements.blocks import bucket_count
        from transforms.units.contributions import EncodeContributions

        users, rng = named or fresh_digest(release.options.user_column), release.open_rng
        buckets, keep = bucket_count(release.telemetry.about), named is not None
        return EncodeContributions(viewed(release), users, buckets, rng, keep, reported=False)

    def own_reports(
        self, release: ByCounters, blocks: Sequence[RowBlock], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        for block in one_row(blocks, rng) if one else blocks:
            yield from release.reporting.reports(block, rng)
