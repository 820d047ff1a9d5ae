"""The last step of every metric: what is published of its estimate, if nothing was lost."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam import coders
from apache_beam.pvalue import AsDict

from pipelines.metrics.content import Content, MetricReports
from pipelines.releases.statement import parquet
from transforms.elements.blocks import GroupOnce
from transforms.elements.conservation import Flow, reporting_users, require_whole
from transforms.elements.progress import CHANGED, WITHHELD, tally

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric


class ContentCoder(coders.Coder):
    """What is published, as data that runs nothing, and weighed without a copy.

    From one worker to another tables go as files, which are a tenth of their size.
    """

    @classmethod
    def from_type_hint(cls, kind: Any, _: object) -> ContentCoder:
        """The coder."""
        return cls()

    def encode(self, content: Content) -> bytes:
        files = content.files
        tables = [name for name, data in files.items() if isinstance(data, pa.Table)]
        parts = [parquet(data) if name in tables else data for name, data in files.items()]
        sizes = dict(zip(files, map(len, parts), strict=True))
        head = json.dumps([sizes, tables, content.statement, content.shared])
        return b"".join([head.encode(), b"\n", *parts])

    def decode(self, piece: bytes) -> Content:
        stream = io.BytesIO(piece)
        sizes, tables, statement, shared = json.loads(stream.readline())
        files = {name: stream.read(size) for name, size in sizes.items()}
        read = {name: pq.ParquetFile(pa.py_buffer(files[name])).read() for name in tables}
        return Content({**files, **read}, statement, tuple(shared))

    def estimate_size(self, content: Content) -> int:
        """The bytes of its files, of tables before they are compressed."""
        return sum(getattr(data, "nbytes", 0) or len(data) for data in content.files.values())


coders.registry.register_coder(Content, ContentCoder)


def publishable(
    metric: Metric, estimate: beam.PCollection, reports: MetricReports
) -> beam.PCollection:
    """What is published of an estimate, if nothing was lost on the way to it: one `Content`."""
    flow = reports.added_up()
    if reports.drawing is not None and reports.drawing.windows is not None:
        # Prism 2.77 hands out side inputs of windows before they are there.
        parts = [estimate, reports.tallies, *([] if flow is None else [flow])]
        named = [part | f"Part {k}" >> beam.Map(_numbered, k) for k, part in enumerate(parts)]
        gathered = named | "All parts" >> beam.Flatten() | "Gather" >> GroupOnce()
        step = beam.ParDo(GatheredContentDoFn(metric))
        return gathered | "Content" >> step.with_output_types(Content)
    step = beam.ParDo(
        ContentDoFn(metric), AsDict(reports.tallies), None if flow is None else AsDict(flow)
    )
    return estimate | "Content" >> step.with_output_types(Content)


def _numbered(part: Any, number: int) -> tuple[int, tuple[int, Any]]:
    return 0, (number, part)


def collected(metric: Metric, reports: MetricReports) -> beam.PCollection:
    """The collector: one `Content`, without files if too few reports came."""
    return publishable(metric, metric.estimated(reports), reports)


class ContentDoFn(beam.DoFn):
    """Makes what is published, unless there are too few reports for it, or the files changed.

    A counter says why there is none: what a step raises reaches nobody, for its text might quote
    the data. Where an engine has lost something, the whole job fails: other metrics of it may have
    lost as much.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def process(
        self, estimate: Any, tallies: Mapping[str, int], flow: Flow | None
    ) -> Iterator[Content]:
        tallies = dict(tallies)
        if not self._metric.telemetry.all_came(tallies):
            tally(CHANGED, 1)
            return
        arrived = self._metric.arrived(estimate)
        if flow is not None and arrived is not None:
            require_whole(tallies, flow, self._metric.shuffling.passed, arrived)
        content = self._metric.content(estimate, tallies)
        if content is None:
            tally(WITHHELD, 1)
            came = reporting_users(tallies, flow or {})
            least = int(self._metric.min_reports)
            # How many came is public where so many have to, and nowhere else.
            content = Content({}, {"reports": came, "min_reports": least} if least else {})
        yield content


class GatheredContentDoFn(ContentDoFn):
    """The same of a window, all of which has come in one group."""

    def process(  # type: ignore[override]
        self, gathered: tuple[int, Iterable[tuple[int, Any]]]
    ) -> Iterator[Content]:
        parts: tuple[list[Any], ...] = ([], [], [])
        for number, part in gathered[1]:
            parts[number].append(part)
        for estimate in parts[0]:
            yield from super().process(estimate, dict(parts[1]), dict(parts[2]))
