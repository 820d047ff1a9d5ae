"""The shuffler of noisy counters, which draws their dummies: once for each window of the plan.

Whatever depends on how many reports came stays with the shuffler. The batch has as many files as
any other, with dummies whether anybody has reported or not. It is made in the shuffler's memory and
handed over when it is whole, so that a shuffle that is killed leaves nothing of a draw, or the very
bytes that it hands over when it is run again.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import DUPLICATE, tallied
from mechanisms.wire.sealing import key_id, public_key
from pipelines.errors import DONE, FailedError, RequestError, WithheldError
from pipelines.jobs.publishing import require_able, require_nothing_lost
from pipelines.jobs.run import REPORT_COST, SEAL_COST, run_beam
from pipelines.metrics.metric import slots
from pipelines.parties import summary
from pipelines.parties.asking import SealedLayers, draw, kept_of, summary_of
from pipelines.parties.batches import PREFIX, UNFINISHED, BatchSink, left_by, mark_in, tidy
from pipelines.parties.memory import MEMORY, WHY, Begun, Made, ShufflerMemory, stands
from pipelines.parties.report_files import (
    ReadAll,
    ReportFiles,
    counting,
    under,
    warn_of_strangers,
)
from pipelines.parties.samples import key_name
from pipelines.plan.publish import called_once
from pipelines.plan.split import Split
from pipelines.releases import release
from pipelines.request import answers
from pipelines.storage.paths import beside
from pipelines.storage.secrets import SHUFFLE, read
from pipelines.views.console import Screen
from pipelines.wording import number_of
from transforms.elements.blocks import Generator, GroupOnce, bucket_count
from transforms.elements.conservation import ADDED, DRAWN, LostError
from transforms.elements.progress import LOST, WITHHELD, tally
from transforms.reports.unseal import DrawSealedDoFn
from transforms.shuffle.dummies import ranges_of
from transforms.shuffle.sealed_crowds import CountSeals
from transforms.shuffle.slots import SealCodes, SealedDummies, TakeApart

FILES = 64  # of every batch: their number must not tell how much there was to write

# What is counted.
_ALL, _ONCE, _AGAIN, _APART = "reports", "once", "again", "words"
_DISTINCT, _COPIED, _DUMMIES, _BELOW = "distinct", "copied", "dummies", "below the threshold"


@dataclass
class DrawAndMix(beam.PTransform):
    """From files of submitted reports to files of shuffled words, dummies among them.

    Attributes:
        parted: the window.
        files: what was submitted; none if nobody has reported.
        pem: the collector's public key, the only one that reports may be sealed to.
        memory: where the batch is made.
        again: whether layers lie over the dummies, which the memory keeps for later passes.
        buckets: how many groups duplicates are looked for in.
        open_rng: opens generators on workers.
    """

    parted: Split
    files: ReportFiles
    pem: bytes
    memory: ShufflerMemory
    buckets: int = 64
    again: bool = False
    open_rng: Generator = SecureRandom
    shuffle_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        plan, counters = self.parted.fingerprint, self.parted.counters
        form = Form(sealed=True, slots=1)
        keys = (key_id(public_key(self.pem)),)
        step = ReadAll(self.files.files, self.parted.expected(form), keys)
        reports, dropped = begin | "Read" >> step
        sizes = [reports | "How many" >> counting(_ALL)]
        words = []
        for place, (metric, mine) in enumerate(zip(self.parted.metrics, counters, strict=True)):
            own, width, lost = (self.buckets, self.open_rng), slots(metric), _COPIED
            apart: beam.PTransform = TakeApart(plan, place, mine.layout, *own)
            if metric.crowds is not None:
                width, lost, crowds = metric.crowds.strings, _BELOW, metric.crowds
                kinds = (self.parted.form(True, [place]), self.parted.handed)
                apart = CountSeals(plan, place, crowds, *kinds, *own)
            once, distinct = reports | metric.name >> apart
            sizes += [
                once.reports | f"{metric.name} once" >> counting(_ONCE),
                once.reports | f"{metric.name} own" >> counting(_own(place)),
                once.dropped | f"{metric.name} again" >> beam.Map(under, _AGAIN),
                once.reports | f"{metric.name} words" >> beam.Map(_apart, width),
                distinct.reports | f"{metric.name} distinct" >> counting(_DISTINCT),
                distinct.dropped | f"{metric.name} lost" >> beam.Map(under, lost),
            ]
            words.append(distinct.reports)
            if metric.crowds is not None:
                continue  # noise is on the numbers of what is handed on
            dummies, drawn = begin | f"{metric.name} dummies" >> SealedDummies(
                plan, place, mine, self.pem, self.open_rng
            )
            sizes += [dummies | f"{metric.name} dummies sealed" >> counting(_DUMMIES), drawn]
            words.append(dummies)
            if self.again:
                sealed, number = begin | f"{metric.name} layers" >> self._layers(place)
                sizes += [sealed | f"{metric.name} layers sealed" >> counting(_DUMMIES), number]
                words.append(sealed)
        mix = WriteMixed(self.memory, self.shuffle_id, self.parted.handed, self.open_rng)
        files = tuple(words) | "Mix" >> mix
        # Of each metric's counters, and of what the memory holds of them: of its layers.
        drawn_from = [len(ranges_of(mine)) + self.again for mine in counters]
        ranges = 0 if self.parted.strings else sum(drawn_from)
        least = tuple(mine.least_reports for mine in counters)
        note = NoteBatchDoFn(self.memory, self.shuffle_id, ranges, least)
        added = tuple(sizes) | "Sizes" >> beam.Flatten() | "Add up" >> beam.CombinePerKey(sum)
        pvalue = beam.pvalue
        beside = pvalue.AsDict(added), pvalue.AsDict(dropped), pvalue.AsList(files)
        return called_once(begin, "Note", note, *beside)

    @property
    def work(self) -> int:
        """What there is to do, as of `run_beam`, by what is expected of those who draw here."""
        drawn = (
            0
            if self.parted.strings
            else sum(m.number for m in self.parted.counters if ranges_of(m))
        )
        return self.files.about(Form(sealed=True, slots=1)) * REPORT_COST + int(drawn) * SEAL_COST

    def _layers(self, place: int) -> SealedLayers:
        """The layers over one metric's dummies."""
        own, start = self.parted.counters[place], sum(c.codes for c in self.parted.counters[:place])
        seal = SealCodes(self.parted.fingerprint, place, own.layout, self.pem)
        return SealedLayers(self.memory.of(self.shuffle_id), start, own.codes, seal)


def _own(place: int) -> str:
    """The name of the number of one metric's reports."""
    return f"{_ONCE} {place}"


def _apart(reports: Reports, slots: int) -> tuple[str, int]:
    """How many words there are in a block."""
    return _APART, slots * len(reports)


@dataclass
class WriteMixed(beam.PTransform):
    """Blocks of sealed words to files of the memory, in uniform random order; out come their names.

    Attributes:
        memory: of the shuffler.
        shuffle: its id, which is the batch's.
        form: of the words.
        open_rng: opens generators on workers.
    """

    memory: ShufflerMemory
    shuffle: str
    form: Form
    open_rng: Generator

    def expand(self, words: tuple[beam.PCollection, ...]) -> beam.PCollection:
        every = [(bucket, b"") for bucket in range(FILES)]
        drawn = (
            words
            | "All words" >> beam.Flatten()
            | "Draw files" >> beam.ParDo(DrawSealedDoFn(FILES, self.open_rng))
        )
        # A file for each bucket, if there is something in it or not.
        pieces = (drawn, drawn.pipeline | "Every file" >> beam.Create(every)) | beam.Flatten()
        step = WriteBucketDoFn(self.memory, self.shuffle, self.form, self.open_rng)
        return pieces | "Group by file" >> GroupOnce() | "Write" >> beam.ParDo(step)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(tuple[int, str, int])
class WriteBucketDoFn(beam.DoFn):
    """One file of a batch: its number, its name in the memory, and how many words it holds."""

    def __init__(
        self, memory: ShufflerMemory, shuffle: str, form: Form, open_rng: Generator
    ) -> None:
        self._memory, self._shuffle, self._form = memory, shuffle, form
        self._open_rng = open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, str, int]]:
        records = np.frombuffer(b"".join(bucket[1]), self._form.dtype)
        mixed = Reports(
            self._memory.fingerprint, self._form, records[self._rng.permutation(records.size)]
        )
        name = f"{uuid.uuid4().hex}.words"  # a second attempt leaves the first one's file alone
        sink = BatchSink(self._shuffle, self._form)
        with FileSystems.create(FileSystems.join(self._memory.of(self._shuffle), name)) as stream:
            sink.open(stream)
            sink.write(mixed)
            sink.flush()
        yield bucket[0], name, len(mixed)


@typehints.with_output_types(None)
class NoteBatchDoFn(beam.DoFn):
    """Notes that a batch is whole; from there on there is no other.

    Where too few devices have sent, whose dummies it needs, there is none yet.
    """

    def __init__(
        self, memory: ShufflerMemory, shuffle: str, ranges: int, least: tuple[int, ...]
    ) -> None:
        self._memory, self._shuffle, self._ranges = memory, shuffle, ranges
        self._least = least

    def process(
        self,
        _: None,
        sizes: Mapping[str, Any],
        dropped: Mapping[str, int],
        files: Sequence[tuple[int, str, int]],
    ) -> None:
        of = Counter(sizes)
        made, origins = sizes.get(ADDED, (0, 0))
        words = sum(size for _, _, size in files)
        handed = (
            (of[_ALL], of[_ONCE] + of[_AGAIN]),
            (of[_APART], of[_DISTINCT] + of[_COPIED] + of[_BELOW]),
            (of[_DISTINCT] + of[_DUMMIES], words),
            (self._ranges, of[DRAWN]),
            (made, of[_DUMMIES]),
            (origins, of[DRAWN]),
            (FILES, len(files)),
        )
        if any(sent != came for sent, came in handed):
            tally(LOST, 1)
            raise LostError
        missing = [least - of[_own(place)] for place, least in enumerate(self._least)]
        if max(missing) > 0:
            tally(WITHHELD, max(missing))
            return
        names = {f"{PREFIX}-{n:05d}-of-{FILES:05d}.parquet": name for n, name, _ in sorted(files)}
        # Words of copied seals are counted beside the reports that came twice.
        lost = tallied(dict(dropped), {DUPLICATE: of[_AGAIN] + of[_COPIED]})
        came = of[_ALL] + sum(dropped.values())
        self._memory.make(self._shuffle, Made(files=names, words=words, reports=came, dropped=lost))


def shuffle_counters(
    parted: Split,
    files: ReportFiles,
    pem: bytes,
    output: str,
    memory: ShufflerMemory,
    for_beam: PipelineOptions,
    here: bool,
    shares: Sequence[float] = (),
) -> int:
    """Shuffle a window of noisy counters; while the memory is held.

    Args:
        parted: the window.
        files: the reports.
        pem: the collector's public key.
        output: the folder that is handed over.
        memory: of the window.
        for_beam: Beam's options.
        here: whether the job ends with this process.
        shares: of epsilon, ascending: of the passes before the last one, of which this is the
            first; none if the batch has one pass.

    Returns:
        The exit code.

    Raises:
        RequestError: the window was shuffled before, or the output is taken.
        WithheldError: too few devices have sent.
        FailedError: the job ended without a batch.
    """
    screen, made = Screen(), memory.only()
    if made is None:
        release.require_vacant(output)
        buckets = bucket_count(files.about(Form(sealed=True, slots=1)))
        job = DrawAndMix(parted, files, pem, memory, buckets, again=bool(shares))
        if not _made(job, output, for_beam, here, screen, shares):
            answers.tell(output=output, handed_over=True)
            line = "handed to the runner; run the same command again when its job has ended"
            screen.print(line, highlight=False)
            return DONE
        made = job.shuffle_id
    elif (note.shares if (note := kept_of(memory, made)) else ()) != tuple(shares):
        raise RequestError(
            "--share: this window's batch was made before, for passes of other shares: name those"
        )
    else:
        answers.tell(shuffled_before=True)
        line = "this window's batch was made before: it is handed over, without what came since"
        screen.print(line, highlight=False)
    _hand_over(parted, memory, made, output, screen)
    return DONE


def _made(
    job: DrawAndMix,
    output: str,
    for_beam: PipelineOptions,
    here: bool,
    screen: Screen,
    shares: Sequence[float],
) -> bool:
    """Run the job that makes a batch; False if it was handed to a runner that goes on."""
    plan, created = job.parted.job.plan, datetime.now(timezone.utc)
    begun = Begun(
        collection=plan.collection, created=created.isoformat(timespec="seconds"),
        output=beside("", output), key=key_name(read(SHUFFLE.flag, job.memory.secret)),
        here=here, once=True, inputs=job.files.mark,
    )  # fmt: skip
    job.memory.begin(job.shuffle_id, begun)
    job.memory.require_alone(job.shuffle_id)
    try:
        if shares:
            draw(job.memory, job.shuffle_id, job.parted, shares, output)
        counted = run_beam(job, for_beam, screen, 0, job.work)
        if counted is None:
            return False
        if missing := counted.get(WITHHELD):
            raise WithheldError(
                f"{number_of(missing, 'more device')} {'has' if missing == 1 else 'have'} to send, "
                "whose dummies hide the others: shuffle again after that"
            )
        if job.memory.made(job.shuffle_id) is None:
            raise FailedError("the job came to its end, and has left no batch in the memory")
    except BaseException as ending:
        # Nothing of the draw was handed over, and nothing of it will be.
        if job.memory.made(job.shuffle_id) is None:
            job.memory.forget(job.shuffle_id)
        require_nothing_lost()
        require_able(output, ending)
        raise
    return True


def _hand_over(
    parted: Split, memory: ShufflerMemory, shuffle: str, output: str, screen: Screen
) -> None:
    """Copy a batch to where the collector takes it, its summary last; and destroy the draw."""
    made = memory.made(shuffle)
    if made is None:
        raise FailedError(f"the batch of shuffle {shuffle} is no more in the memory")
    _require_whole(memory, shuffle, made)
    if FileSystems.exists(output) and not left_by(shuffle, output) and not stands(output, shuffle):
        release.require_vacant(output)
    shuffle_summary = summary_of(parted, shuffle, made.words, kept_of(memory, shuffle))
    try:
        for name, kept in made.files.items():
            _copy(FileSystems.join(memory.of(shuffle), kept), output, name)
        tidy(output)
        summary.write(output, shuffle_summary)
    except (OSError, BeamIOError) as error:
        require_able(output, error)
        raise
    memory.hand(shuffle, output)
    answers.tell(**summary.answered(output, shuffle_summary))
    warn_of_strangers(made.dropped)
    lost = "".join(f"; {size:,} dropped: {name}" for name, size in made.dropped.items())
    among = "which passed the threshold" if parted.strings else "dummies among them"
    lines = (
        f"{number_of(made.reports, 'report')} came{lost}; keep these numbers from the collector",
        f"{number_of(made.words, 'word')} in {output}, {among}",
    )
    for line in lines:
        screen.say(line)


def _require_whole(memory: ShufflerMemory, shuffle: str, made: Made) -> None:
    """Refuse to hand over what is not the batch that was made: its draw is destroyed after it."""
    files = [FileSystems.join(memory.of(shuffle), name) for name in made.files.values()]
    marks = {file: mark_in(file) for file in files}
    strange = [file for file, mark in marks.items() if mark.batch != shuffle]
    whole = sum({mark.part: mark.reports for mark in marks.values()}.values()) == made.words
    if strange or not whole:
        raise RequestError(
            f"{MEMORY.flag}: {(strange or [memory.of(shuffle)])[0]} is damaged, or not of the "
            f"batch that was made: restore it from a copy ({WHY})"
        )


def _copy(source: str, folder: str, name: str) -> None:
    """Copy a file into a folder, whole or not at all; from any file system to any other."""
    partial, whole = (FileSystems.join(folder, *at, name) for at in ((UNFINISHED,), ()))
    with FileSystems.open(source) as old, FileSystems.create(partial) as new:
        shutil.copyfileobj(old, new)
    with contextlib.suppress(BeamIOError):
        FileSystems.delete([whole])  # of an attempt that was killed: the same bytes
    FileSystems.rename([partial], [whole])
