"""One batch of files as a Beam pipeline: rows in, perturbed messages by window out, and no release.

What a batch leaves in its folder is perturbed already: blocks of messages, each sorted, so that
their order says nothing of who sent them; and users' digests, under a key.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows, WindowedValue
from numpy.typing import NDArray

from pipelines.metrics.metric import Metric
from pipelines.plan.publish import drawn
from transforms.elements.conservation import spelt
from transforms.files.kinds import AS_WRITTEN, Agreed
from transforms.files.reading import PLAIN, Reading
from transforms.rows.telemetry import ReadFiles, splits
from transforms.rows.windowed import ToWindows
from transforms.units.once_per_window import OncePerWindow

MANIFEST = "manifest.json"
MESSAGES, USERS, TALLY, DIGESTS, FLOW = "messages", "users", "tally", "digests", "flow"

_WORDS = 1 << 21  # messages of one metric that a worker gathers before it writes them


class Note(NamedTuple):
    """One thing that a batch has come to.

    Attributes:
        kind: MESSAGES, USERS, TALLY, FLOW or DIGESTS.
        start: of its window, in microseconds.
        metric: its name, if it is a metric's.
        name: of a file in the batch's folder, or of what was counted.
        amount: how many.
    """

    kind: str
    start: int
    metric: str
    name: str
    amount: int


@dataclass
class TakeIn(beam.PTransform):
    """Files in; in a folder of this machine, what a stream keeps of them.

    Attributes:
        metrics: of the plan.
        files: that were found to be whole.
        columns: what is read of them.
        windows: how rows are put into windows.
        once: what users have been seen; None where rows are the unit.
        folder: an empty one.
        reading: of text.
        agreed: as what columns of nulls alone are read.
    """

    metrics: Sequence[Metric]
    files: Sequence[str]
    columns: Sequence[str]
    windows: ToWindows
    once: OncePerWindow | None
    folder: str
    reading: Reading = PLAIN
    agreed: Agreed = AS_WRITTEN

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        split = splits(self.files, self.columns)
        read = ReadFiles(
            tuple(self.columns), self.reading, named=True, split=split, agreed=self.agreed
        )
        named = begin | "Files" >> beam.Create(list(self.files)) | "Read row groups" >> read
        tables = named | "Windows" >> self.windows
        notes = []
        if self.once is not None:
            tables, digests = tables | "Once" >> self.once
            keep = KeepDigestsDoFn(self.windows, self.folder)
            notes.append(digests | "Keep digests" >> beam.ParDo(keep))
        tables = drawn(tables, self.metrics)
        for metric in self.metrics:
            notes += tables | metric.name >> PerturbWindowed(metric, self.windows, self.folder)
        every = [beam.WindowInto(GlobalWindows()) for _ in notes]
        return (
            tuple(note | f"Global {k}" >> every[k] for k, note in enumerate(notes))
            | "Notes" >> beam.Flatten()
            | "All notes" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
            | "Manifest" >> beam.ParDo(ManifestDoFn(self.folder))
        )


@dataclass
class PerturbWindowed(beam.PTransform):
    """Windowed tables in; one metric's messages into files, and notes of them out."""

    metric: Metric
    windows: ToWindows
    folder: str

    def expand(self, tables: beam.PCollection) -> Any:
        reports, name = self.metric.client_reports(tables), self.metric.name
        keep = KeepMessagesDoFn(self.windows, name, self.folder)
        notes = [
            reports.messages | "Keep messages" >> beam.ParDo(keep),
            reports.tallies | "Note tallies" >> beam.ParDo(NoteDoFn(self.windows, TALLY, name)),
        ]
        sums = reports.added_up()
        if sums is not None:
            flow = NoteDoFn(self.windows, FLOW, name)
            spelt_out = sums | "By batch" >> beam.FlatMap(spelt)
            # The rows, too: so a window says of which of them it knows what became.
            notes.append(reports.tallies | "Note rows" >> beam.ParDo(flow))
            notes.append(spelt_out | "Note flow" >> beam.ParDo(flow))
        if reports.users is not None:
            users = reports.users | "Name users" >> beam.Map(_users)
            notes.append(users | "Note users" >> beam.ParDo(NoteDoFn(self.windows, USERS, name)))
        return notes


def _users(count: int) -> tuple[str, int]:
    return "", count


class NoteDoFn(beam.DoFn):
    """(name, count) pairs as notes."""

    def __init__(self, windows: ToWindows, kind: str, metric: str) -> None:
        self._windows, self._kind, self._metric = windows, kind, metric

    def process(
        self, counted: tuple[str, int], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Note]:
        start = self._windows.start(window)
        yield Note(self._kind, start, self._metric, counted[0], int(counted[1]))


class KeepMessagesDoFn(beam.DoFn):
    """Writes blocks of messages, several at a time, each file sorted."""

    def __init__(self, windows: ToWindows, metric: str, folder: str) -> None:
        self._windows, self._metric, self._folder = windows, metric, folder

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[NDArray[np.uint64]]] = {}
        self._pending = 0

    def process(
        self, block: NDArray[np.uint64], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[WindowedValue]:
        self._waiting.setdefault(window, []).append(block)
        self._pending += block.size
        if self._pending >= _WORDS:
            yield from self.finish_bundle()
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, blocks in self._waiting.items():
            # Sorted, a file says nothing of the order in which users' rows came.
            words = np.sort(np.concatenate(blocks))
            if words.size:
                name = _kept(self._folder, words.tobytes())
                start = self._windows.start(window)
                note = Note(MESSAGES, start, self._metric, name, int(words.size))
                yield WindowedValue(note, window.max_timestamp(), [window])


class KeepDigestsDoFn(beam.DoFn):
    """Writes one bucket of a window's new digests."""

    def __init__(self, windows: ToWindows, folder: str) -> None:
        self._windows, self._folder = windows, folder

    def process(
        self, bucket: tuple[int, bytes], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Note]:
        number, digests = bucket
        name = _kept(self._folder, digests)
        # The buckets ascend, and so will the files of a window in the order of their numbers.
        yield Note(DIGESTS, self._windows.start(window), f"{number:05d}", name, len(digests) // 8)


class ManifestDoFn(beam.DoFn):
    """Lists what belongs to the batch; files of bundles that were tried twice are not in it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, notes: list[Note]) -> None:
        Path(self._folder, MANIFEST).write_text(json.dumps([list(note) for note in notes]))


def manifest(folder: str) -> list[Note]:
    """What a batch has come to."""
    return [Note(*fields) for fields in json.loads(Path(folder, MANIFEST).read_text())]


def _kept(folder: str, data: bytes) -> str:
    """A new file's name, in the folder."""
    name = uuid.uuid4().hex
    Path(folder, name).write_bytes(data)
    return name
