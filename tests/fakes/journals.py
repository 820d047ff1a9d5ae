"""Journals of each kind of place, and a bucket's object that fails when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mechanisms.randomness import SeededRandom
from pipelines.journal.journal import FactJournal, JournalFormat
from pipelines.journal.object_keeping import ObjectKeeping
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.storage.backoff import Backoff
from pipelines.storage.local_object import LocalObject
from pipelines.storage.objects import Changed, Unavailable

KEY = b"of this test alone"
FORM = JournalFormat("test", 7, "--journal: here", "it says what was done", "none was begun")


class PowerCut(Exception):
    """The process ends here."""


@dataclass(frozen=True)
class CloudObject:
    """An object of a bucket in memory.

    Attributes:
        name: in the bucket.
        bucket: name -> content and generation.
        ahead: what happens to the next writes, in their order: "ok", "lost" (never arrives and is
            not answered), "late" (arrives and is not answered), "cut before", "cut after".
    """

    name: str = "gs://bucket/facts.json"
    bucket: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    ahead: list[str] = field(default_factory=list)

    def beside(self, name: str) -> CloudObject:
        return CloudObject(name, self.bucket, self.ahead)

    def fetch(self) -> tuple[bytes, int]:
        return self.bucket.get(self.name, (b"", 0))

    def swap(self, content: bytes, generation: int) -> None:
        fate = self.ahead.pop(0) if self.ahead else "ok"
        if fate == "cut before":
            raise PowerCut
        if fate == "lost":
            raise Unavailable
        if self.fetch()[1] != generation:
            raise Changed
        self.bucket[self.name] = (content, generation + 1)
        if fate == "late":
            raise Unavailable
        if fate == "cut after":
            raise PowerCut


def backoff(seconds: float = 5.0) -> Backoff:
    """Without pauses."""
    return Backoff(SeededRandom(1), seconds, lambda _: None)


def in_bucket(folder: Path, key: bytes = KEY) -> FactJournal:
    """A journal in a bucket, whose object stands for all who open the same folder."""
    target = BUCKETS.setdefault(folder, CloudObject())
    return FactJournal(ObjectKeeping(target, FORM, backoff()), key)


def in_folder(folder: Path, key: bytes = KEY) -> FactJournal:
    """A journal in a folder."""
    target = LocalObject(str(folder / "facts.json"), "--journal")
    return FactJournal(ObjectKeeping(target, FORM, backoff()), key)


def in_sqlite(folder: Path, key: bytes = KEY) -> FactJournal:
    """A journal in a database."""
    return FactJournal(SqliteKeeping(str(folder / "facts.sqlite"), FORM, 0.1), key)


BUCKETS: dict[Path, CloudObject] = {}
PLACES: tuple[Callable[..., FactJournal], ...] = (in_bucket, in_folder, in_sqlite)
