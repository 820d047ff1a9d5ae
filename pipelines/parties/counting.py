"""The collector of noisy counters: one batch of sealed words in, and a release out.

It publishes whatever came, of an empty window, too. Nothing that it says is counted of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsDict

from mechanisms.wire.report import Form
from mechanisms.wire.report import Reports as ReportBlock
from mechanisms.wire.sealing import KeyRing
from pipelines.metrics.metric import Content, Metric, MetricReports
from pipelines.metrics.publishable import publishable
from pipelines.parties.report_files import ReadAll, counting
from pipelines.plan.diagnostics import reworded
from pipelines.plan.publish import ReleasePlanDoFn, named, released
from pipelines.plan.run import ReleaseTarget
from pipelines.plan.split import Split
from pipelines.wording import RAW_ROWS
from transforms.collector.collect_counts import Counted
from transforms.elements.conservation import fail_lost, passing
from transforms.elements.progress import LOST
from transforms.reports.unseal import UnsealDoFn
from transforms.shuffle.sealed_crowds import OpenCrowds
from transforms.shuffle.slots import CountWords

# What takes the place of RAW_ROWS.
ONLY_WORDS = (
    "The job that made this release saw sealed words that had been handed on, and no row of any "
    "log. The promise holds if the shuffler, or the devices where the plan says so, drew the noise "
    "once and tell nobody what they drew, and if the shuffler passes on who sent what to nobody. "
    "Against shuffler and collector together nothing is promised: one knows who sent a word, the "
    "other what it says."
)


@dataclass
class CollectWords(beam.PTransform):
    """From the files of a window's one batch to a release with a folder for each metric.

    Attributes:
        parted: the window.
        files: what the shuffler has handed over, all of it.
        target: where the release goes.
        open_ring: reads the private keys on each worker.
        words: how many the files hold, by their own account.
        metrics: ready to run.
        taken: (codes,) of each metric: dummies that a later pass takes away, if it does.
        said: of what this job saw, in the statement.
    """

    parted: Split
    files: tuple[str, ...]
    target: ReleaseTarget
    open_ring: Callable[[], KeyRing]
    words: int
    metrics: tuple[Metric, ...]
    taken: tuple[np.ndarray, ...] = ()
    said: str = ONLY_WORDS

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        expected = self.parted.expected(self.parted.handed)
        words, _ = begin | "Read" >> ReadAll(self.files, expected)
        came = words | "How many" >> counting(LOST) | "Add up" >> beam.CombinePerKey(sum)
        if not self.parted.strings:  # those are opened one metric's by itself
            plain = self.parted.expected(Form(shuffled=True, slots=1))
            words |= "Unseal" >> beam.ParDo(UnsealDoFn(plain, self.open_ring))
        contents = tuple(
            words
            | metric.name
            >> CollectCounts(
                metric, place, self._counts(place), self.said, *self.taken[place : place + 1]
            )
            for place, metric in enumerate(self.metrics)
        )
        in_words = [self.said if t == RAW_ROWS else t for t in self.target.statement["in_words"]]
        names = tuple(metric.name for metric in self.metrics)
        step = ReleaseCountsDoFn(self.target.telling(in_words=in_words), names, self.words)
        return released(begin, step, contents, AsDict(came))

    def _counts(self, place: int) -> beam.PTransform:
        """What takes one metric's words to their counts."""
        metric: Any = self.parted.metrics[place]
        if metric.crowds is not None:
            return OpenCrowds(metric.width, self.open_ring)
        return beam.CombineGlobally(CountWords(place, metric.counters.layout))


@dataclass
class CollectCounts(beam.PTransform):
    """Blocks of words in, one metric's name and content out.

    Attributes:
        metric: ready to run.
        place: in the plan.
        counts: takes its words to what is estimated of.
        said: as of `CollectWords`.
        taken: (codes,) dummies that are taken away from what is counted.
    """

    metric: Metric
    place: int
    counts: beam.PTransform
    said: str
    taken: np.ndarray | None = None

    def expand(self, words: beam.PCollection) -> beam.PCollection:
        metric = replace(self.metric, collects=True)
        own = beam.Map(ReportBlock.of_metric, self.place).with_output_types(ReportBlock)
        mine = words | "Of metric" >> own
        estimate = mine | "Count" >> self.counts
        if self.taken is not None:
            estimate |= "Take away" >> beam.Map(_less, self.taken).with_output_types(Counted)
        no_rows = words.pipeline | "No rows" >> beam.Create([])
        contents = publishable(
            metric, estimate, MetricReports(mine, None, no_rows, (passing(mine),))
        )
        other = beam.Map(reworded, {RAW_ROWS: self.said}).with_output_types(Content)
        said = contents | "Say what was read" >> other
        return said | named(metric.name)


def _less(counted: Counted, taken: np.ndarray) -> Counted:
    """What is counted without the layers that a later pass takes away."""
    return counted._replace(counts=counted.counts - taken)


@typehints.with_output_types(None)
class ReleaseCountsDoFn(ReleasePlanDoFn):
    """Writes the release of a whole batch."""

    def __init__(self, target: ReleaseTarget, names: tuple[str, ...], words: int) -> None:
        super().__init__(target, names)
        self._words = words

    def process(  # type: ignore[override]
        self, once: None, contents: Mapping[str, Content], came: Mapping[str, int]
    ) -> None:
        # A batch that lacks words is biased by them; how many came is said to nobody.
        if came.get(LOST, 0) != self._words:
            fail_lost()
        super().process(once, contents)
