"""One Beam transform that runs any metric whole: from files to its release."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from pipelines.ledger.held import is_reserved
from pipelines.metrics.metric import Content, Metric, columns_read
from pipelines.releases import release
from pipelines.releases.schema import joinable
from transforms.elements.progress import SETTLED, tally


@dataclass
class ReleaseMetric(beam.PTransform):
    """From files to the release of one metric.

    Attributes:
        metric: what is published.
        stamp: which release it is, and who has paid for it; see `paying.Right`.
        ledger: where its price is set aside, if it is.
    """

    metric: Metric
    stamp: Mapping[str, Any] = field(default_factory=lambda: {"release_id": uuid.uuid4().hex})
    ledger: str | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        metric = self.metric
        read = metric.telemetry.read(columns_read(metric))
        step = PublishDoFn(metric.options.output, self.stamp, self.ledger)
        return metric.whole(begin | "Read" >> read) | "Release" >> beam.ParDo(step)


class PublishDoFn(beam.DoFn):
    """Writes a release."""

    def __init__(self, folder: str, stamp: Mapping[str, Any], ledger: str | None = None) -> None:
        self._folder, self._stamp, self._ledger = folder, stamp, ledger

    def process(self, content: Content) -> None:
        if not content.files:
            return
        if not is_reserved(self._ledger, self._stamp):
            tally(SETTLED, 1)
            return
        statement = {**content.statement, **self._stamp}
        release.publish(self._folder, joinable(content.files, statement), statement)
