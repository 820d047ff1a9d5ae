"""Files of shuffled reports that say to which batch they belong, so that each counts once.

A batch is what one shuffle sends on, and its id the shuffle's; each of its files has a part id
besides. Both are drawn at random, and say nothing of what was shuffled. They stand in the metadata
of the Parquet files.
"""

from __future__ import annotations

import hashlib
import os
import uuid
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io import fileio
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.value_provider import StaticValueProvider

from mechanisms.wire.report import Form, Reports
from pipelines.errors import Caution, RequestError
from pipelines.parties.report_files import find
from pipelines.parties.samples import MOST_SHARED, shared
from pipelines.parties.summary import SUMMARY, Summary, nearby, read, whole
from pipelines.plan.metrics import mark
from pipelines.plan.split import Split
from pipelines.wording import number_of
from transforms.reports import report_tables

COPY = "copy of a shuffled file"
PREFIX = "reports"  # of the names of files in a shuffle's folder

_BATCH, _PART = b"hushbeam.batch", b"hushbeam.part"
UNFINISHED = ".unfinished"
_READERS = 16
_CHUNK = 1 << 22  # bytes


class Marked(NamedTuple):
    """A file of shuffled reports.

    Attributes:
        batch: hexadecimal digits, or None if the file names none.
        part: of the batch.
        reports: how many rows it has, if it names its batch.
    """

    batch: str | None
    part: str = ""
    reports: int = 0


@dataclass
class WriteBatch(beam.PTransform):
    """Blocks of shuffled reports to marked Parquet files; out come their names.

    Attributes:
        folder: is made if it is not there.
        batch: its id, in hexadecimal digits.
        form: of all the reports.
    """

    folder: str
    batch: str
    form: Form

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        batch, form = self.batch, self.form
        return (
            reports
            | "Write"
            >> fileio.WriteToFiles(
                self.folder,
                sink=lambda _: BatchSink(batch, form),
                file_naming=fileio.default_file_naming(PREFIX, ".parquet"),
                temp_directory=StaticValueProvider(str, FileSystems.join(self.folder, UNFINISHED)),
            )
            | "Names" >> beam.Map(_name).with_output_types(str)
        )


def tidy(folder: str) -> None:
    """Remove the place in which files were written before they had their names."""
    place = FileSystems.join(folder, UNFINISHED)
    if FileSystems.exists(place):
        FileSystems.delete([place])


def left_by(batch: str, folder: str) -> bool:
    """Whether nothing is in a folder but what one cut off shuffle has left there.

    Args:
        batch: its id.
        folder: that it wrote in.
    """
    if "://" in folder:
        unfinished = FileSystems.join(folder, UNFINISHED)
        files = [path for path in _objects(folder) if not path.startswith(unfinished)]
    else:
        names = [name for name in os.listdir(folder) if name != UNFINISHED]
        # The summary of a shuffle that was cut off over it can be read by nobody.
        files = [os.path.join(folder, name) for name in names if name != SUMMARY or whole(folder)]
    return all(mark_in(file).batch == batch for file in files)


def remove(folder: str) -> None:
    """Remove a folder with all that is in it; an object store has no folders, but objects."""
    FileSystems.delete(_objects(folder) if "://" in folder else [folder])


def _objects(folder: str) -> list[str]:
    entries = FileSystems.match([FileSystems.join(folder, "**")])[0].metadata_list
    return [entry.path for entry in entries]


def _name(written: fileio.FileResult) -> str:
    return str(written.file_name)


class BatchSink(fileio.FileSink):
    """One Parquet file, with its batch and a part id of its own."""

    def __init__(self, batch: str, form: Form) -> None:
        self._batch, self._form = batch, form

    def open(self, fh: BinaryIO) -> None:
        self._marks = {_BATCH: self._batch.encode(), _PART: uuid.uuid4().hex.encode()}
        schema = report_tables.schema(self._form).with_metadata(self._marks)
        self._writer = report_tables.TableWriter(fh, schema)

    def write(self, record: Reports) -> None:
        self._writer.write_table(
            report_tables.to_table(record).replace_schema_metadata(self._marks)
        )

    def flush(self) -> None:
        self._writer.close()


def mark_in(file: str) -> Marked:
    """To which batch a file belongs, by its footer; whatever the file is, this raises nothing."""
    try:
        with FileSystems.open(file, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            parquet = pq.ParquetFile(stream)
            marks = parquet.schema_arrow.metadata or {}
            batch, part = marks[_BATCH].decode("ascii"), marks[_PART].decode("ascii")
            return Marked(batch, part, parquet.metadata.num_rows)
    except (pa.ArrowException, OSError, BeamIOError, ValueError, KeyError):
        return Marked(None)


class BatchFiles(NamedTuple):
    """Files of shuffled reports, each part of a batch once.

    Attributes:
        files: those that are collected.
        copies: how many reports are in those that are not.
        batches: whose they are -> a file of each.
        reports: batch -> how many reports its files hold.
        shufflers: how many have mixed the reports in a row.
        tokens: whether all their shufflers say that a token was taken with each report.
    """

    files: tuple[str, ...]
    copies: int
    batches: Mapping[str, str]
    reports: Mapping[str | None, int]
    shufflers: int = 1
    tokens: bool = False

    @property
    def size(self) -> int | None:
        """How many reports there are in all; None if a file does not say it."""
        return None if None in self.reports else sum(self.reports.values())


def distinct(files: Sequence[str]) -> BatchFiles:
    """Leave out what is there twice, and say so.

    Raises:
        RequestError: two files that name no batch hold the same bytes.
    """
    with ThreadPoolExecutor(_READERS) as pool:
        marks = dict(zip(files, pool.map(mark_in, files), strict=True))
    first: dict[tuple[str, str], str] = {}
    for file, footer in marks.items():
        if footer.batch is not None:
            first.setdefault((footer.batch, footer.part), file)
    nameless = [file for file, footer in marks.items() if footer.batch is None]
    kept = {*first.values(), *nameless}
    copies = sum(footer.reports for file, footer in marks.items() if file not in kept)
    if len(kept) < len(files):
        _warn(
            "--input: copies of other files count once: "
            f"{number_of(len(files) - len(kept), 'file')} with {number_of(copies, 'report')}"
        )
    _require_unlike(nameless, len(files))
    batches = {batch: file for (batch, _), file in reversed(first.items())}
    reports = Counter[str | None]()
    for file in kept:
        reports[marks[file].batch] += marks[file].reports
    return BatchFiles(tuple(file for file in files if file in kept), copies, batches, reports)


def _require_unlike(nameless: Sequence[str], files: int) -> None:
    """Refuse equal files of other shufflers; of parts of them nobody can tell."""
    if not nameless or files < 2:
        return
    seen: dict[bytes, str] = {}
    for file in nameless:
        digest = _digest(file)
        if digest in seen:
            raise RequestError(
                f"--input: {file} holds the same bytes as {seen[digest]}, and no batch id that "
                "would tell a copy: leave one out"
            )
        if digest:
            seen[digest] = file
    _warn(
        f"--input: {len(nameless)} files name no batch, so nobody can tell whether their reports "
        "are in another file too"
    )


def _digest(file: str) -> bytes:
    """Of what a file holds; nothing for an empty one, or for one that cannot be read."""
    digest, size = hashlib.sha256(), 0
    try:
        with FileSystems.open(file, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            while piece := stream.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
    except (OSError, BeamIOError, ValueError):
        return b""
    return digest.digest() if size else b""


def require_disjoint(batches: Mapping[str, str], summaries: Mapping[str, Summary]) -> None:
    """Refuse batches that were shuffled from the same reports.

    Args:
        batches: batch -> a file of it.
        summaries: batch -> what its shuffle has said, where it is known.

    Raises:
        RequestError: too many reports are in two of them.
    """
    unknown = [batches[batch] for batch in batches if batch not in summaries]
    if len(batches) > 1 and unknown:
        _warn(
            f"--input: no summary of its shuffle lies beside {unknown[0]}, so nobody can tell "
            "whether its reports were shuffled twice"
        )
    known = {batch: summaries[batch] for batch in batches if batch in summaries}
    if len({summary.sample_key for summary in known.values()}) > 1:
        _warn(
            "--input: batches were sampled under several shufflers' secrets, so nobody can tell "
            "whether reports of one are in those of another, too"
        )
    # Words under another secret are others, so nothing is found where nothing can be.
    for (one, other), share in shared({b: s.sample for b, s in known.items()}).items():
        line = (
            f"about {max(1, round(100 * share))} % of the reports behind {batches[one]} are also "
            f"behind {batches[other]}"
        )
        if share > MOST_SHARED:
            raise RequestError(
                f"--input: {line}: they were shuffled twice; leave one out, or shuffle the inputs "
                "of both together, which counts each report once"
            )
        _warn(f"--input: {line}, and count twice")


def _warn(line: str) -> None:
    warnings.warn(line, Caution, stacklevel=3)


def chosen_of(
    inputs: Sequence[str], parted: Split, sealed: bool, second: Sequence[bytes] = ()
) -> BatchFiles:
    """The files of shuffled reports, each once; of folders, those of this window that are done.

    Args:
        inputs: files, globs or folders.
        parted: the window.
        sealed: whether they are sealed.
        second: the ids of a second shuffler's keys, who is to open an outer seal.

    Raises:
        RequestError: a folder holds another shuffle, or one that did not finish; or two were made
            of the same reports.
    """
    summaries: dict[str, Summary] = {}
    patterns = []
    for name in inputs:
        summary = read(name)
        patterns.append(name if summary is None else FileSystems.join(name, f"{PREFIX}*"))
        if summary is not None:
            _require_same(name, summary, parted, sealed)
            _require_layers(name, summary, second)
            summaries[summary.shuffle_id] = summary
    chosen = distinct(find(patterns).files)
    if parted.counters:
        _require_one(chosen, summaries)
        return chosen._replace(tokens=_checked(chosen, summaries))
    for batch, summary in summaries.items():
        _require_all(summary, chosen.reports.get(batch, 0))
    for batch, file in chosen.batches.items():
        if batch not in summaries:
            summary = nearby(file)
            summaries |= {} if summary is None else {summary.shuffle_id: summary}
    require_disjoint(chosen.batches, summaries)
    times = {summaries[b].shufflers if b in summaries else 1 for b in chosen.reports} or {1}
    if len(times) > 1:
        raise RequestError(
            "--input: some reports passed one shuffler and some two, and nobody can tell whether a "
            "user is among both: collect those that passed two"
        )
    return chosen._replace(shufflers=min(times), tokens=_checked(chosen, summaries))


def _checked(chosen: BatchFiles, summaries: Mapping[str, Summary]) -> bool:
    """Whether a token was taken with each report, as far as the batches' shufflers say."""
    known = {batch for batch, summary in summaries.items() if summary.tokens == "checked"}
    return {*chosen.reports} <= known


def _require_one(chosen: BatchFiles, summaries: Mapping[str, Summary]) -> None:
    """Refuse all but one whole batch: of noisy counters a window has one, drawn once.

    Two would tell the words of reports, which are in both, from dummies, which are in one. What is
    said holds no number.
    """
    if len(summaries) != 1 or set(chosen.reports) != set(summaries):
        raise RequestError(
            "--input: dummies are drawn once for a window, into one batch: name the folder of its "
            "one shuffle, and nothing else"
        )
    ((batch, summary),) = summaries.items()
    if chosen.reports[batch] != summary.words:
        raise RequestError(
            f"--input: the files of shuffle {batch} do not hold all of its words: hand over all "
            "that the shuffle has left"
        )


def _require_all(summary: Summary, reports: int) -> None:
    sent_on = sum(metric.sent_on for metric in summary.metrics.values())
    if reports != sent_on:
        raise RequestError(
            f"--input: shuffle {summary.shuffle_id} sent on {number_of(sent_on, 'report')}, and "
            f"the files in its folder hold {reports:,}: hand over all that the shuffle has left"
        )


def _require_layers(folder: str, summary: Summary, second: Sequence[bytes]) -> None:
    """Refuse a batch that is not this party's to open."""
    if second and not summary.second:
        raise RequestError(
            f"--input: the reports in {folder} have no outer seal, so a second shuffle would gain "
            "nothing: their shuffler knows whose each is; let clients name your key with --second"
        )
    if summary.second and summary.second not in [key.hex() for key in second]:
        raise RequestError(
            f"--input: the reports in {folder} are sealed once more, to key {summary.second}: "
            "its owner shuffles them first, with --key"
        )


def _require_same(folder: str, summary: Summary, parted: Split, sealed: bool) -> None:
    """Refuse a shuffle of something else, for its reports would all be dropped."""
    job = parted.job
    if summary.window != job.window:
        raise RequestError(f"--input: {folder} holds another window of the plan: {summary.window}")
    if summary.fingerprint != parted.fingerprint.hex():
        # The same plan with another fingerprint: only the version that resolved it can differ.
        if summary.plan == mark(job.plan).hex():
            raise RequestError(
                f"--input: {folder} was shuffled by a hushbeam that resolves the same plan to "
                f"design {summary.design}, and this one comes to {job.design.hex()}: clients, "
                "shuffler and collector need versions that agree (`hushbeam check` prints it)"
            )
        raise RequestError(f"--input: {folder} was shuffled for another plan, or another version")
    if summary.sealed and not sealed:
        raise RequestError(f"--key is missing: the reports in {folder} are sealed")
    if sealed and not summary.sealed:
        raise RequestError(f"--key: the reports in {folder} are not sealed; leave it out")
