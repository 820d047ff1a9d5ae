"""The shuffler as a Beam pipeline: from files of submitted reports to files of shuffled ones."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import AsDict, AsList, AsSingleton

from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import DUPLICATE
from pipelines.parties.batches import WriteBatch, mark_in, tidy
from pipelines.parties.report_files import ReadAll, Sizes
from pipelines.parties.samples import SampleIds, key_name
from pipelines.parties.secrets import SHUFFLE, read
from pipelines.parties.split import Split
from pipelines.parties.summary import Summary, write
from pipelines.plan.metrics import mark
from transforms.conservation import LostError
from transforms.duplicates import DropDuplicates
from transforms.progress import LOST, tally
from transforms.reports import MessagesOf
from transforms.shuffle import Batches, Shuffle
from transforms.unseal import ShuffleSealed

_ALL, _ONCE, _AGAIN = "all", "all once", "again"  # what is counted; of metrics, see `_count`
_BATCH = "batch"


@dataclass
class ShuffleReports(beam.PTransform):
    """From files of submitted reports to files of shuffled ones, and a summary behind them.

    Attributes:
        parted: the window.
        files: what was submitted.
        keys: the ids of the keys that clients may have sealed to; none if reports are plain.
        output: a folder.
        secret: the file of the shuffler's secret.
        buckets: how many groups duplicates are looked for in, and each shuffle has.
    """

    parted: Split
    files: tuple[str, ...]
    keys: tuple[bytes, ...]
    output: str
    secret: str
    buckets: int = 64

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        plan, form = self.parted.fingerprint, Form(sealed=bool(self.keys))
        step = ReadAll(self.files, self.parted.expected(form), self.keys)
        reports, dropped = begin | "Read" >> step
        once, copies = reports | "Drop duplicates" >> DropDuplicates(plan, form, self.buckets)
        sizes = [
            reports | "How many" >> Sizes(_ALL),
            once | "How many once" >> Sizes(_ONCE),
            copies | "How many again" >> beam.Map(_again).with_output_types(tuple[str, int]),
        ]
        shuffled = []
        for place, metric in enumerate(self.parted.metrics):
            mine = once | f"{metric.name} apart" >> beam.Map(_of, place).with_output_types(Reports)
            mixed = mine | metric.name >> self._shuffle(place)
            sizes += [
                mine | f"{metric.name} came" >> Sizes(_count(metric.name, "reports")),
                mixed | f"{metric.name} sent on" >> Sizes(_count(metric.name, "sent_on")),
                mine | f"{metric.name} by batch" >> beam.FlatMap(self._by_batch(place)),
            ]
            shuffled.append(mixed)
        shuffled_form = Form(sealed=form.sealed, shuffled=True)
        facts = self._facts()
        written = (
            tuple(shuffled)
            | "Together" >> beam.Flatten()
            | "Write" >> WriteBatch(self.output, facts["shuffle_id"], shuffled_form)
        )
        # Of the reports before they are shuffled: afterwards there are no ids.
        sample = once | "Sample" >> beam.CombineGlobally(SampleIds(self.secret))
        summarise = SummariseDoFn(self.output, facts)
        return (
            begin
            | "Once" >> beam.Create([None])
            | "Summarise"
            >> beam.ParDo(
                summarise,
                AsDict(dropped),
                AsDict(
                    tuple(sizes) | "Sizes" >> beam.Flatten() | "Add up" >> beam.CombinePerKey(sum)
                ),
                AsSingleton(sample),
                AsList(written),
            )
        )

    def _by_batch(self, place: int) -> Callable[[Reports], Iterator[tuple[str, int]]]:
        """What counts a block of one metric by the batches that must each have the least number."""
        metric = self.parted.metrics[place]
        groups = Batches(metric.mechanism.codes, self.parted.batches(place))
        return functools.partial(_sizes, _count(metric.name, _BATCH), bool(self.keys), groups)

    def _shuffle(self, place: int) -> beam.PTransform:
        """One metric's shuffler."""
        plan, metric = self.parted.fingerprint, self.parted.metrics[place]
        if self.keys:
            return ShuffleSealed(plan, place, self.keys, metric.min_reports, self.buckets)
        shuffle = Shuffle(
            metric.min_reports, self.parted.mechanisms[place].codes, self.buckets,
            batches=self.parted.batches(place),
        )  # fmt: skip
        return ShufflePlain(plan, place, shuffle)

    def _facts(self) -> dict[str, Any]:
        """What the summary says before anything is counted."""
        job = self.parted.job
        return {
            "shuffle_id": uuid.uuid4().hex,
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "collection": job.plan.collection,
            "version": job.plan.version,
            "fingerprint": self.parted.fingerprint.hex(),
            "window": job.window,
            "plan": mark(job.plan).hex(),
            "design": job.design.hex(),
            "sealed": bool(self.keys),
            "sample_key": key_name(read(SHUFFLE.flag, self.secret)),
            "metrics": {metric.name: {"min_reports": metric.min_reports} for metric in job.metrics},
        }


def _count(metric: str, what: str) -> str:
    """The name of one metric's count; no metric has a colon in its name."""
    return f"{metric}:{what}"


def _again(copies: int) -> tuple[str, int]:
    """Reports that were dropped for another one of their user's."""
    return _AGAIN, copies


def _sizes(name: str, sealed: bool, groups: Batches, reports: Reports) -> Iterator[tuple[str, int]]:
    """A block's reports by batch: of a key where they are sealed, and of a public group if not."""
    records = reports.records
    batch = records["key_id"] if sealed else groups.of(records["message"])
    batches, sizes = np.unique(batch, return_counts=True)
    for number, size in zip(batches.tolist(), sizes.tolist(), strict=True):
        yield _count(name, str(number)), size


def _of(reports: Reports, place: int) -> Reports:
    """A block's reports of one metric."""
    return reports.of_metric(place)


@dataclass
class ShufflePlain(beam.PTransform):
    """`Shuffle` for the plain reports of one metric, whose ids are gone after it.

    Attributes:
        fingerprint: of the plan.
        place: of the metric in the plan.
        shuffle: of its messages.
    """

    fingerprint: bytes
    place: int
    shuffle: Shuffle

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        return (
            reports
            | "Messages" >> MessagesOf(self.place)
            | "Shuffle" >> self.shuffle
            | "Reports"
            >> beam.Map(_reported, self.fingerprint, self.place).with_output_types(Reports)
        )


def _reported(messages: np.ndarray, fingerprint: bytes, place: int) -> Reports:
    """A block of messages as shuffled reports."""
    return Reports.shuffled(fingerprint, place, messages)


@typehints.with_output_types(None)
class SummariseDoFn(beam.DoFn):
    """Writes the summary once all reports are written."""

    def __init__(self, output: str, facts: Mapping[str, Any]) -> None:
        self._output, self._facts = output, dict(facts)

    def process(
        self,
        _: None,
        dropped: Mapping[str, int],
        sizes: Mapping[str, int],
        sample: tuple[str, ...],
        written: Sequence[str],
    ) -> None:
        copies = sizes.get(_AGAIN, 0)
        counts = {**dropped, **({DUPLICATE: copies} if copies else {})}
        metrics = {
            name: {
                **facts,
                "reports": sizes.get(_count(name, "reports"), 0),
                "sent_on": sizes.get(_count(name, "sent_on"), 0),
            }
            for name, facts in self._facts["metrics"].items()
        }
        self._require_whole(sizes, metrics, written)
        came = sizes.get(_ALL, 0) + sum(dropped.values())
        counted = {"reports": came, "dropped": dict(sorted(counts.items())), "metrics": metrics}
        # The summary is written last: it says that the folder is whole.
        tidy(self._output)
        write(self._output, Summary(**(self._facts | counted | {"sample": sample})))

    def _require_whole(
        self,
        sizes: Mapping[str, int],
        metrics: Mapping[str, Mapping[str, int]],
        written: Sequence[str],
    ) -> None:
        """Refuse a shuffle of which an engine has lost something between two steps.

        Raises:
            LostError: it has.
        """
        once = sizes.get(_ONCE, 0)
        handed = [
            (sizes.get(_ALL, 0), once + sizes.get(_AGAIN, 0)),
            (once, sum(counts["reports"] for counts in metrics.values())),
        ]
        for name, counts in metrics.items():
            batches = [n for key, n in sizes.items() if key.startswith(_count(name, _BATCH))]
            due = sum(size for size in batches if size >= counts["min_reports"])
            handed.append((due, counts["sent_on"]))
        files = (mark_in(FileSystems.join(self._output, name)).reports for name in written)
        handed.append((sum(counts["sent_on"] for counts in metrics.values()), sum(files)))
        if any(sent != came for sent, came in handed):
            tally(LOST, 1)
            raise LostError
