"""A ledger in a bucket: one JSON object, replaced only if it is still the one that was read.

The object's generation is the revision. A bucket may refuse (412: somebody was faster), put off
(429, 5xx) or not answer in time; after the last it may still have written. Every change carries a
random word, so whoever does not know reads the object again and looks for it. A late write
cannot do harm: it asks for a generation that a later write of ours has used up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pipelines.errors import FailedError, RequestError
from pipelines.ledger.backoff import Backoff
from pipelines.ledger.entries import VERSION, Entry, damaged, decoded, newer
from pipelines.ledger.store import Snapshot

_FORMAT = "hushbeam ledger"
_Result = TypeVar("_Result")


class Unavailable(Exception):
    """The bucket has not done what was asked for; a write that timed out it may have done."""


class Changed(Exception):
    """The object is no longer of the generation that was asked for."""


class StoredObject(Protocol):
    """An object in a bucket, as far as compare-and-swap needs it."""

    @property
    def name(self) -> str:
        """gs://bucket/name."""

    def fetch(self) -> tuple[bytes, int]:
        """Content and generation; (b"", 0) if there is no object.

        Raises:
            Unavailable: try again.
            RequestError: there is no such bucket, or it may not be read.
        """

    def swap(self, content: bytes, generation: int) -> None:
        """Replace the content, or make the object if the generation is 0.

        Raises:
            Changed: the object is of another generation.
            Unavailable: it may or may not have been replaced.
            RequestError: it may not be written.
        """


@dataclass(frozen=True)
class BucketStore:
    """A ledger that machines share.

    Attributes:
        target: the object.
        backoff: how long to go on when the bucket is slow, and with what pauses.
    """

    target: StoredObject
    backoff: Backoff

    @property
    def where(self) -> str:
        """See `Store`."""
        return self.target.name

    def exists(self) -> bool:
        """Whether something stands there."""
        return self._answer(self.target.fetch)[1] != 0

    def begin(self) -> bool:
        """Make an empty ledger, unless there is one; whether it was made now."""
        if self.exists():
            return False
        try:
            self._answer(lambda: self.target.swap(_encoded(()), 0))
        except Changed:  # by a rival, or by our own attempt that seemed to fail
            return False
        return True

    def read(self) -> Snapshot:
        """See `Store`."""
        content, generation = self._answer(self.target.fetch)
        if generation == 0:
            raise RequestError(f"--ledger: there is no {self.where}")
        return Snapshot(generation, _decoded(content, self.where))

    def write(self, entry: Entry, revision: int) -> bool:
        """See `Store`."""
        try:
            return self._written(entry, revision)
        except FailedError as error:
            raise FailedError(
                f"{error}; entry {entry.id} may have been written: `hushbeam ledger show` tells"
            ) from None

    def _written(self, entry: Entry, revision: int) -> bool:
        """Swap until it is known who was faster."""
        for _ in self.backoff.attempts():
            snapshot = self.read()
            # Our attempt that seemed to fail may have arrived: to write it again would charge it
            # twice.
            if snapshot.holds(entry):
                return True
            if snapshot.revision != revision:
                return False
            try:
                self.target.swap(_encoded(_replaced(snapshot.entries, entry)), revision)
            except (Changed, Unavailable):
                continue  # the next look tells whose change it was, and whether ours arrived
            return True
        raise FailedError(self._silent)

    def _answer(self, ask: Callable[[], _Result]) -> _Result:
        """What the bucket says in the end."""
        for _ in self.backoff.attempts():
            try:
                return ask()
            except Unavailable:
                continue
        raise FailedError(self._silent)

    @property
    def _silent(self) -> str:
        return f"{self.where} did not answer within {self.backoff.seconds:g} s; try again later"


def _replaced(entries: tuple[Entry, ...], entry: Entry) -> tuple[Entry, ...]:
    """The entries with one changed or added."""
    by_id = {other.id: other for other in entries} | {entry.id: entry}
    return tuple(by_id.values())


def _encoded(entries: tuple[Entry, ...]) -> bytes:
    """The content of the object: a line for each entry."""
    lines = ",\n".join(entry.model_dump_json() for entry in entries)
    head = json.dumps({"format": _FORMAT, "version": VERSION, "count": len(entries)})[:-1]
    return f'{head}, "entries": [\n{lines}\n]}}\n'.encode()


def _decoded(content: bytes, where: str) -> tuple[Entry, ...]:
    """The entries that an object holds; refuses what is not whole."""
    try:
        document: Any = json.loads(content)
        ours = document["format"] == _FORMAT
        version, count, listed = document["version"], document["count"], document["entries"]
    except (ValueError, KeyError, TypeError):
        raise RequestError(f"{damaged(where)} ({len(content)} bytes)") from None
    if ours and isinstance(version, int) and version > VERSION:
        raise RequestError(newer(where, version))
    known = version in range(1, VERSION + 1)
    if not (ours and known and isinstance(listed, list) and count == len(listed)):
        raise RequestError(damaged(where))
    return tuple(decoded(json.dumps(item), where) for item in listed)
