"""Files of reports as the parties hand them on: found once each, and read with losses counted."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.fileio import FileSink
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import (
    OTHER_PLAN,
    OTHER_VERSION,
    UNKNOWN_KEY,
    Expected,
    Screened,
    tallied,
)
from pipelines.errors import Caution, RequestError, reason
from pipelines.logs.inputs import NoFilesError, matched
from transforms.elements.progress import REPORTS, tally
from transforms.reports.report_tables import least_bytes
from transforms.reports.reports import BinarySink, ParquetSink, read


class ReportFiles(NamedTuple):
    """Some files.

    Attributes:
        files: each once, whatever it was called by.
        sizes: of each, in bytes.
        mark: of their names, sizes and last changes: a command that is typed again has the same,
            and an inbox that is filled anew another one. Empty if nobody says when they changed.
    """

    files: tuple[str, ...]
    sizes: tuple[int, ...]
    mark: str = ""

    def about(self, form: Form) -> int:
        """How many reports of a form may be in them, by their bytes."""
        least, whole = least_bytes(form), form.dtype.itemsize
        sized = zip(self.files, self.sizes, strict=True)
        return sum(size // (least if is_parquet(path) else whole) for path, size in sized)


def find(patterns: Iterable[str], or_none: bool = False) -> ReportFiles:
    """The files of reports that some words on the command line name.

    Args:
        patterns: files or globs, local or on a file system that Beam knows.
        or_none: whether a glob may match nothing.

    Raises:
        RequestError: one of them names none, or cannot be looked for.
    """
    entries: dict[str, tuple[str, int, float]] = {}
    for pattern in patterns:
        # Once the ids are gone, a file that is named twice would have its reports counted twice.
        try:
            files = matched(pattern)
        except NoFilesError:
            if not (or_none and set(pattern) & set("*?[")):
                raise
            continue
        entries |= {
            os.path.realpath(file.path): (
                file.path, file.size_in_bytes, float(file.last_updated_in_seconds or 0)
            )
            for file in files
        }  # fmt: skip
    ordered = sorted(entries.values())
    known = all(changed for _, _, changed in ordered)
    mark = hashlib.sha256(repr(ordered).encode()).hexdigest() if known else ""
    return ReportFiles(
        tuple(path for path, _, _ in ordered), tuple(size for _, size, _ in ordered), mark
    )


class Read(NamedTuple):
    """What `ReadAll` yields.

    Attributes:
        reports: blocks of those that can be.
        dropped: (reason, count), one for each reason that there was.
    """

    reports: beam.PCollection
    dropped: beam.PCollection


@dataclass
class ReadAll(beam.PTransform):
    """Blocks of reports from files of either carrier; what cannot be is counted, and dropped.

    Attributes:
        files: their paths.
        expected: what the reader's plan makes of them.
        keys: the ids of the keys that reports may be sealed to; any, if there are none.
    """

    files: tuple[str, ...]
    expected: Expected
    keys: tuple[bytes, ...] = ()

    def expand(self, begin: beam.pvalue.PBegin) -> Read:
        step = ReadAllDoFn(self.expected, self.keys)
        read = (
            begin
            | "Files" >> beam.Create(self.files)
            # Without it the files of one `Create` are read one after the other, by one worker.
            | "Spread files" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(step).with_outputs(step.DROPPED, main="reports")
        )
        return Read(read.reports, read[step.DROPPED] | "Dropped" >> beam.CombinePerKey(sum))


@typehints.with_input_types(str)
@typehints.with_output_types(Reports)
class ReadAllDoFn(beam.DoFn):
    """The reports of one file; the output tagged `DROPPED` holds (reason, count) pairs."""

    DROPPED = "dropped"

    def __init__(self, expected: Expected, keys: tuple[bytes, ...]) -> None:
        self._expected = expected
        self._keys = np.array([int.from_bytes(key, "little") for key in keys], np.uint64)

    def process(self, file: str) -> Iterator[Reports | beam.pvalue.TaggedOutput]:
        dropped: Counter[str] = Counter()
        # As it is: to undo a compression that a name claims would raise what the bytes say.
        with FileSystems.open(file, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            for screened in map(self._known, read(stream, self._expected)):
                tally(REPORTS, len(screened.reports))
                dropped.update(screened.dropped)
                if len(screened.reports):
                    yield screened.reports
        for name, amount in dropped.items():
            tally(name, amount)
            yield beam.pvalue.TaggedOutput(self.DROPPED, (name, amount))

    def _known(self, screened: Screened) -> Screened:
        """Without the reports that were sealed to another key."""
        if not self._keys.size:
            return screened
        reports = screened.reports
        known = np.isin(reports.records["key_id"], self._keys)
        strange = {UNKNOWN_KEY: int(known.size - np.count_nonzero(known))}
        return Screened(reports.where(known), tallied(screened.dropped, strange))


def counting(name: str) -> beam.PTransform:
    """Blocks in, pairs of a name and how many reports each holds out; they are to be added up."""
    return beam.Map(_sized, name).with_output_types(tuple[str, int])


def _sized(block: Sized, name: str) -> tuple[str, int]:
    return name, len(block)


def under(value: Any, name: str) -> tuple[str, Any]:
    """Something under a name."""
    return name, value


def warn_of_strangers(dropped: Mapping[str, int]) -> None:
    """Say of reports that other parties have made what may be the matter.

    Args:
        dropped: reason -> how many.
    """
    lines = {
        OTHER_PLAN: "reports were dropped: of another plan, version or window, or of a hushbeam "
        "that resolves this plan to another design (`hushbeam check` prints it)",
        OTHER_VERSION: "files or reports were dropped: in another version of the format; in "
        "version 1 a user who reported twice counted twice: let clients report with this version",
    }
    for name, line in lines.items():
        if dropped.get(name):
            warnings.warn(f"{dropped[name]:,} {line}", Caution, stacklevel=2)


def is_parquet(path: str) -> bool:
    """Which of the two carriers a file to be written is to have."""
    return path.endswith(".parquet")


def sink_of(path: str, form: Form, fingerprint: bytes) -> FileSink:
    """What writes submitted reports of one form and plan to a file of this name."""
    return (ParquetSink if is_parquet(path) else BinarySink)(form, fingerprint)


def require_new(file: str) -> None:
    """Refuse a place where there is something already.

    Raises:
        RequestError: there is, or nobody can look.
    """
    try:
        taken = FileSystems.exists(file)
    except (BeamIOError, ValueError, OSError) as error:
        raise RequestError(f"--output: cannot write {file}: {reason(error)}") from None
    if taken:
        raise RequestError(
            f"--output: {file} is there already; name a new file (reports that were sent may not "
            "be drawn anew: that would spend their privacy twice)"
        )
