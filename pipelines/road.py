"""The road of every metric, cut where it passes from the clients to the shuffler and the collector.

tables -> `reports` (the clients) -> `shuffled` (the shuffler) -> `found` and `release` (the
collector). A job runs it whole; the three parties each run their part.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import apache_beam as beam
from apache_beam.pvalue import AsDict

from mechanisms.randomness import SecureRandom
from pipelines import release
from pipelines.publishing import Job
from transforms.blocks import Generator
from transforms.progress import CHANGED, ROWS, WITHHELD, tally
from transforms.shuffle import Shuffle
from transforms.telemetry import ReadTelemetry
from transforms.users import UserDigest

# Rows of a bucket that one worker orders in its cache; that many only while there are few buckets,
# for thousands of them cut blocks to shreds; and rows that a bucket should hold at most.
_CACHED_ROWS, _FEW_BUCKETS = 1 << 16, 256
_BUCKET_ROWS = 1 << 18


class RoadJob(Job, Protocol):
    """A job that takes the road: what generators its workers open."""

    @property
    def open_rng(self) -> Generator: ...


class Reports(NamedTuple):
    """What clients send, and what is counted of those who could not.

    Attributes:
        messages: blocks of messages.
        users: numbers that add up to how many users reported, where one may send several messages;
            None where every message is a user's.
        tallies: (name, count), one for each name.
    """

    messages: beam.PCollection
    users: beam.PCollection | None
    tallies: beam.PCollection


class Content(NamedTuple):
    """What is published: files by name, and the statement, but for its release_id."""

    files: dict[str, bytes]
    statement: dict[str, Any]


class Road(ABC):
    """One metric: Arrow tables in, a release in the job's folder.

    Attributes:
        job: what was asked, held against the input.
    """

    job: RoadJob

    @property
    @abstractmethod
    def columns(self) -> frozenset[str]:
        """What is read of the log; nothing else leaves the files."""

    @property
    @abstractmethod
    def shuffler(self) -> Shuffle | None:
        """What stands between clients and collector; None in the local model."""

    @abstractmethod
    def reports(self, tables: beam.PCollection) -> Reports:
        """The clients: from tables to perturbed messages."""

    @abstractmethod
    def found(self, reports: Reports) -> beam.PCollection:
        """The collector's one element: what the batch says."""

    @abstractmethod
    def content(self, found: Any, tallies: Mapping[str, int]) -> Content | None:
        """What is published of it; None if the batch is too small."""

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        """All of it, in one job: at most one `Content`."""
        return self.collected(self.shuffled(self.reports(tables)))

    def shuffled(self, reports: Reports) -> Reports:
        """The shuffler."""
        shuffle = self.shuffler
        if shuffle is None:
            return reports
        shuffle.users = reports.users
        return reports._replace(messages=reports.messages | "Shuffle" >> shuffle)

    def collected(self, reports: Reports) -> beam.PCollection:
        """The collector: at most one `Content`."""
        return self.told(self.found(reports), reports.tallies)

    def told(
        self, found: beam.PCollection, tallies: beam.PCollection, *sides: Any
    ) -> beam.PCollection:
        """What is published of what was found; side inputs are handed on to `content`."""
        return found | "Content" >> beam.ParDo(ContentDoFn(self), AsDict(tallies), *sides)


class ContentDoFn(beam.DoFn):
    """Makes what is published, unless there are too few reports for it, or the files changed.

    Why there is none is told by a counter: what a step raises reaches nobody, for its text might
    quote the data.
    """

    def __init__(self, road: Road) -> None:
        self._road = road

    # Beam would take the annotation of *sides for that of a tuple.
    def process(  # type: ignore[no-untyped-def]
        self, found: Any, tallies: Mapping[str, int], *sides
    ) -> Iterator[Content]:
        files = self._road.job.telemetry
        if not files.unread and tallies.get(ROWS, 0) != files.rows:
            tally(CHANGED, 1)
            return
        content = self._road.content(found, tallies, *sides)
        if content is None:
            tally(WITHHELD, 1)
        else:
            yield content


class PublishDoFn(beam.DoFn):
    """Writes a release."""

    def __init__(self, folder: str, release_id: str) -> None:
        self._folder, self._release_id = folder, release_id

    def process(self, content: Content) -> None:
        statement = {**content.statement, "release_id": self._release_id}
        release.publish(self._folder, content.files, statement)


@dataclass
class Publish(beam.PTransform):
    """From files to the release of one metric.

    Attributes:
        road: the metric.
        release_id: tells jobs apart.
    """

    road: Road
    release_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        job = self.road.job
        tables = begin | "Read" >> ReadTelemetry(
            job.telemetry.files, tuple(sorted(self.road.columns))
        )
        step = PublishDoFn(job.options.output, self.release_id)
        return self.road.whole(tables) | "Release" >> beam.ParDo(step)


def bucket_count(rows: float) -> int:
    """How many groups the shuffler and the contribution bound split their input into."""
    cached = min(int(rows) // _CACHED_ROWS, _FEW_BUCKETS)
    return min(max(64, cached, int(rows) // _BUCKET_ROWS), 1 << 14)


def fresh_digest(column: str | None) -> UserDigest | None:
    """Digests of a user column under a key of their own; None where rows are the unit."""
    return None if column is None else UserDigest(column, int(SecureRandom().words(1)[0]))


def columns_of(*names: str | None) -> frozenset[str]:
    """The columns among names of which some are not given."""
    return frozenset(name for name in names if name is not None)
