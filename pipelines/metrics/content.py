"""What a metric's steps hand on: reports with what is counted of them, and what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.elements.blocks import Generator
    from transforms.elements.drawing import Drawing


class MetricReports(NamedTuple):
    """What clients send, and what is counted of those who could not.

    Attributes:
        messages: blocks of messages.
        users: numbers that add up to how many users reported, where one may send several messages;
            None where every message is a user's.
        tallies: (name, count), one for each name.
        flow: (name, count) of what passed between the steps; none where it came by other ways.
        sums: the same added up, where a step before the collector needs it; `flow` is then empty.
        drawing: what the noise of exact totals is drawn from; None to draw a secret for them alone.
    """

    messages: beam.PCollection
    users: beam.PCollection | None
    tallies: beam.PCollection
    flow: tuple[beam.PCollection, ...] = ()
    sums: beam.PCollection | None = None
    drawing: Drawing | None = None

    def added_up(self) -> beam.PCollection | None:
        """(name, count) of what passed, one for each name; None where nothing is known of it."""
        from transforms.elements.conservation import summed

        return summed(*self.flow) if self.flow else self.sums

    def drawn_from(self, open_rng: Generator) -> Drawing:
        """What the noise of exact totals is drawn from.

        Args:
            open_rng: opens the generator of a secret, if none was drawn for all that is published.
        """
        from transforms.elements.drawing import Drawing, DrawSecret

        if self.drawing is not None:
            return self.drawing
        return Drawing(self.messages.pipeline | "Secret" >> DrawSecret(open_rng))

    def counted(self, mechanism: Any) -> beam.PCollection:
        """How often each message came.

        Args:
            mechanism: what counts them.
        """
        from transforms.collector.collect_counts import CountMessages
        from transforms.elements.combine_all import CombineAll

        return self.messages | "Count" >> CombineAll(CountMessages(mechanism))


class Content(NamedTuple):
    """What is published: files by name, and the statement, but for its release_id.

    Without files it is withheld, and the statement says how many reports came ("reports") and how
    many had to ("min_reports").

    Attributes:
        files: pages as bytes, and tables: the release adds columns to them, and writes them once.
        shared: those of its sentences that the statement of a whole plan says, too.
    """

    files: dict[str, bytes | pa.Table]
    statement: dict[str, Any]
    shared: tuple[str, ...] = ()
