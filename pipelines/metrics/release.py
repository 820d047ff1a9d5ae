"""One Beam transform that runs any metric whole: from files to its release."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import apache_beam as beam

from pipelines import release
from pipelines.metrics.metric import Content, Metric
from transforms.telemetry import ReadTelemetry


@dataclass
class Release(beam.PTransform):
    """From files to the release of one metric.

    Attributes:
        metric: what is published.
        release_id: tells jobs apart.
    """

    metric: Metric
    release_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        metric = self.metric
        read = ReadTelemetry(metric.telemetry.files, tuple(sorted(metric.columns)))
        step = PublishDoFn(metric.options.output, self.release_id)
        return metric.whole(begin | "Read" >> read) | "Release" >> beam.ParDo(step)


class PublishDoFn(beam.DoFn):
    """Writes a release."""

    def __init__(self, folder: str, release_id: str) -> None:
        self._folder, self._release_id = folder, release_id

    def process(self, content: Content) -> None:
        if not content.files:
            return
        statement = {**content.statement, "release_id": self._release_id}
        release.publish(self._folder, content.files, statement)
