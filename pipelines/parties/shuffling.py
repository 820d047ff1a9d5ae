"""The shuffler as a Beam pipeline: from files of submitted reports to files of shuffled ones."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import AsDict, AsList

from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import DUPLICATE, UNOPENED, tallied
from mechanisms.wire.sealing import KeyRing
from pipelines.parties.batches import WriteBatch, mark_in, tidy
from pipelines.parties.memory import SENT_BEFORE, Begun, EarlierShuffle, Sent, ShufflerMemory
from pipelines.parties.report_files import ReadAll, ReportFiles, counting, under
from pipelines.parties.samples import SampleIds, key_name, together
from pipelines.parties.sent_ids import EchoesDoFn, KeepIdsDoFn
from pipelines.parties.summary import Summary, write
from pipelines.plan.metrics import mark
from pipelines.plan.publish import called_once
from pipelines.plan.split import Split
from pipelines.storage.paths import beside
from pipelines.storage.secrets import SHUFFLE, read
from transforms.elements.conservation import Batches, LostError
from transforms.elements.progress import LOST, tally
from transforms.reports.duplicates import DropDuplicates
from transforms.reports.reports import MessagesOf
from transforms.reports.unseal import ShuffleSealed, UnsealDoFn, of_keys
from transforms.shuffle.shuffle import Shuffle

_ALL, _ONCE, _AGAIN, _BEFORE = (
    "all",
    "all once",
    "again",
    "before",
)  # what is counted; of metrics, see `_count`
_BATCH, _OUTER = "batch", "outer seals"


@dataclass
class ShuffleReports(beam.PTransform):
    """From files of submitted reports to files of shuffled ones, and a summary behind them.

    Attributes:
        parted: the window.
        files: what was submitted.
        keys: the ids of the keys that clients may have sealed to; none if reports are plain.
        output: a folder.
        memory: of what was sent on of this window, and what will be.
        earlier: the shuffles that it holds.
        buckets: how many groups duplicates are looked for in, and each shuffle has.
        here: whether it ends with this process.
        first: whether reports are sealed once more, to a second shuffler's key.
        open_ring: reads the private keys on each worker, where this is the second shuffler.
    """

    parted: Split
    files: ReportFiles
    keys: tuple[bytes, ...]
    output: str
    memory: ShufflerMemory
    earlier: tuple[EarlierShuffle, ...] = ()
    buckets: int = 64
    here: bool = False
    first: bool = False
    open_ring: Callable[[], KeyRing] | None = None
    shuffle_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def begun(self) -> Begun:
        """What the memory is told before anything is read."""
        collection = self.parted.job.plan.collection
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        key = key_name(read(SHUFFLE.flag, self.memory.secret))
        return Begun(
            collection=collection, created=created, output=beside("", self.output), key=key,
            here=self.here, inputs=self.files.mark,
        )  # fmt: skip

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        plan, form = self.parted.fingerprint, Form(sealed=bool(self.keys), twice=self.first)
        expected, sizes = self.parted.expected(form), []
        if self.open_ring is None:
            reports, dropped = begin | "Read" >> ReadAll(self.files.files, expected, self.keys)
        else:
            outer = self.parted.expected(Form(sealed=True, shuffled=True, twice=True))
            reports, dropped = begin | "Read" >> ReadAll(self.files.files, outer)
            sizes.append(reports | "How many came" >> counting(_OUTER))
            opened = reports | "Open" >> beam.ParDo(UnsealDoFn(expected, self.open_ring))
            known = beam.Map(of_keys, self.keys).with_output_types(Reports)
            reports = opened | "To known keys" >> known
        once, copies = reports | "Drop duplicates" >> DropDuplicates(plan, form, self.buckets)
        sizes += [
            reports | "How many" >> counting(_ALL),
            copies | "How many again" >> beam.Map(under, _AGAIN),
        ]
        if self.earlier:  # what has no echo is left
            both = (once, begin | self._echoes(form)) | "With echoes" >> beam.Flatten()
            drop = DropDuplicates(plan, form, self.buckets)
            once, before = both | "Drop what was sent on" >> drop
            sizes.append(before | "How many before" >> beam.Map(under, _BEFORE))
        sizes.append(once | "How many once" >> counting(_ONCE))
        shuffled, samples = [], []
        for place, metric in enumerate(self.parted.metrics):
            own = beam.Map(Reports.of_metric, place).with_output_types(Reports)
            mine = once | f"{metric.name} apart" >> own
            mixed = mine | metric.name >> self._shuffle(place)
            sizes += [
                mine | f"{metric.name} came" >> counting(_count(metric.name, "reports")),
                mixed | f"{metric.name} sent on" >> counting(_count(metric.name, "sent_on")),
                mine | f"{metric.name} by batch" >> beam.FlatMap(self._by_batch(place)),
            ]
            shuffled.append(mixed)
            # Of the reports before they are shuffled: afterwards there are no ids.
            sample = mine | f"{metric.name} sample" >> beam.CombineGlobally(
                SampleIds(self.memory.secret)
            )
            samples.append(sample | f"{metric.name} sampled" >> beam.Map(under, metric.name))
        shuffled_form = replace(form, shuffled=True)
        facts = self._facts()
        written = (
            tuple(shuffled)
            | "Together" >> beam.Flatten()
            | "Write" >> WriteBatch(self.output, facts["shuffle_id"], shuffled_form)
        )
        groups = tuple(self._batches(place) for place in range(len(self.parted.metrics)))
        ids = once | "Keep ids" >> beam.ParDo(KeepIdsDoFn(self.memory, self.shuffle_id, groups))
        summarise = SummariseDoFn(self.output, facts, self.memory)
        added = tuple(sizes) | "Sizes" >> beam.Flatten() | "Add up" >> beam.CombinePerKey(sum)
        sampled = tuple(samples) | "Samples" >> beam.Flatten()
        beside = (AsDict(dropped), AsDict(added), AsDict(sampled), AsList(ids), AsList(written))
        return called_once(begin, "Summarise", summarise, *beside)

    def _by_batch(self, place: int) -> Callable[[Reports], Iterator[tuple[str, int]]]:
        """What counts a block of one metric by the batches that must each have the least number."""
        name = self.parted.metrics[place].name
        groups = self._batches(place)
        return functools.partial(_sizes, _count(name, _BATCH), bool(self.keys), groups)

    def _batches(self, place: int) -> Batches:
        """The ranges of one metric's messages that are batches of their own."""
        return Batches(self.parted.metrics[place].mechanism.codes, self.parted.batches(place))

    def _echoes(self, form: Form) -> beam.PTransform:
        """The ids of what was sent on before."""
        files = [
            (FileSystems.join(earlier.folder, name), earlier.sent.model_dump_json())
            for earlier in self.earlier
            for name in earlier.sent.files
        ]
        return "Sent on before" >> beam.Create(files) | beam.ParDo(EchoesDoFn(self.memory, form))

    def _shuffle(self, place: int) -> beam.PTransform:
        """One metric's shuffler."""
        plan, metric = self.parted.fingerprint, self.parted.metrics[place]
        if self.keys:
            batch = plan, place, self.keys, metric.min_reports, self.buckets
            return ShuffleSealed(*batch, twice=self.first)
        shuffle = Shuffle(
            metric.min_reports, self.parted.mechanisms[place].codes, self.buckets,
            batches=self.parted.batches(place),
        )  # fmt: skip
        return ShufflePlain(plan, place, shuffle)

    def _facts(self) -> dict[str, Any]:
        """What the summary says before anything is counted."""
        job = self.parted.job
        return {
            "shuffle_id": self.shuffle_id,
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "collection": job.plan.collection,
            "version": job.plan.version,
            "fingerprint": self.parted.fingerprint.hex(),
            "window": job.window,
            "plan": mark(job.plan).hex(),
            "design": job.design.hex(),
            "sealed": bool(self.keys),
            "second": self.keys[0].hex() if self.first else "",
            "shufflers": 1 + (self.open_ring is not None),
            "tokens": self.parted.tokens,
            "sample_key": key_name(read(SHUFFLE.flag, self.memory.secret)),
            "metrics": {metric.name: {"min_reports": metric.min_reports} for metric in job.metrics},
        }


def _count(metric: str, what: str) -> str:
    """The name of one metric's count; no metric has a colon in its name."""
    return f"{metric}:{what}"


def _sizes(name: str, sealed: bool, groups: Batches, reports: Reports) -> Iterator[tuple[str, int]]:
    """A block's reports by batch: of a key where they are sealed, and of a public group if not."""
    records = reports.records
    batch = records["key_id"] if sealed else groups.of(records["message"])
    batches, sizes = np.unique(batch, return_counts=True)
    for number, size in zip(batches.tolist(), sizes.tolist(), strict=True):
        yield _count(name, str(number)), size


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

    def __init__(self, output: str, facts: Mapping[str, Any], memory: ShufflerMemory) -> None:
        self._output, self._facts, self._memory = output, dict(facts), memory

    def process(
        self,
        _: None,
        dropped: Mapping[str, int],
        sizes: Mapping[str, int],
        samples: Mapping[str, tuple[str, ...]],
        ids: Sequence[str],
        written: Sequence[str],
    ) -> None:
        again = {DUPLICATE: sizes.get(_AGAIN, 0), SENT_BEFORE: sizes.get(_BEFORE, 0)}
        read = sizes.get(_OUTER, sizes.get(_ALL, 0))
        again[UNOPENED] = read - sizes.get(_ALL, 0)
        counts = tallied(dict(dropped), again)
        metrics = {
            name: {
                **facts,
                "reports": sizes.get(_count(name, "reports"), 0),
                "sent_on": sizes.get(_count(name, "sent_on"), 0),
            }
            for name, facts in self._facts["metrics"].items()
        }
        self._require_whole(sizes, metrics, written)
        came = read + sum(dropped.values())
        counted = {"reports": came, "dropped": dict(sorted(counts.items())), "metrics": metrics}
        # Of a metric that was held back nothing went on: its reports may come again.
        sent = [samples[name] for name, counts in metrics.items() if counts["sent_on"]]
        self._memory.close(self._facts["shuffle_id"], _sent(sizes, metrics, ids))
        # The summary is written last: it says that the folder is whole.
        tidy(self._output)
        write(self._output, Summary(**(self._facts | counted | {"sample": together(sent)})))

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
            (sizes.get(_ALL, 0), once + sizes.get(_AGAIN, 0) + sizes.get(_BEFORE, 0)),
            (once, sum(counts["reports"] for counts in metrics.values())),
        ]
        for name, counts in metrics.items():
            due = sum(_large(sizes, name, counts["min_reports"]).values())
            handed.append((due, counts["sent_on"]))
        files = (mark_in(FileSystems.join(self._output, name)).reports for name in written)
        handed.append((sum(counts["sent_on"] for counts in metrics.values()), sum(files)))
        if any(sent != came for sent, came in handed):
            tally(LOST, 1)
            raise LostError


def _large(sizes: Mapping[str, int], metric: str, least: int) -> dict[int, int]:
    """Batch -> how many reports, of the batches of a metric that are large enough."""
    prefix = _count(_count(metric, _BATCH), "")
    named = {int(key[len(prefix) :]): n for key, n in sizes.items() if key.startswith(prefix)}
    return {batch: size for batch, size in named.items() if size >= least}


def _sent(
    sizes: Mapping[str, int], metrics: Mapping[str, Mapping[str, int]], ids: Sequence[str]
) -> Sent:
    """What goes on, for the memory."""
    large = [_large(sizes, name, counts["min_reports"]) for name, counts in metrics.items()]
    batches = {place: tuple(batch) for place, batch in enumerate(large)}
    reports = sum(sum(batch.values()) for batch in large)
    return Sent(files=tuple(ids), batches=batches, reports=reports)
