"""A journal in a folder or a bucket: an object that is replaced whole, and earlier segments beside.

A bucket may refuse (412: somebody was faster), put off
(429, 5xx) or not answer in time; after the last it may still have written. Every leaf has random
salt, so whoever does not know reads the object again and looks for it. A late write cannot do
harm: it asks for a generation that a later write of ours has used up.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pipelines.errors import FailedError
from pipelines.journal.checkpoint import Checkpoint, Leaf
from pipelines.journal.journal import JournalFormat, Segment
from pipelines.storage.backoff import Backoff
from pipelines.storage.formats import numbered
from pipelines.storage.objects import Changed, StoredObject, Unavailable

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class ObjectKeeping:
    """A journal in an object.

    Attributes:
        target: of the last segment.
        form: of the journal.
        backoff: how long to go on when a bucket is slow, and with what pauses.
    """

    target: StoredObject
    form: JournalFormat
    backoff: Backoff

    def read(self) -> Segment | None:
        """See `Keeping`."""
        content, generation = self._answer(self.target.fetch)
        return opened(content, self.form) if generation else None

    def before(self, count: int, head: str) -> Segment | None:
        """See `Keeping`."""
        content, generation = self._answer(self._archived(count, head).fetch)
        return opened(content, self.form) if generation else None

    def chunk(self, digest: str) -> bytes | None:
        """See `Keeping`."""
        content, generation = self._answer(self._beside(digest[:32], ".arrow").fetch)
        return content if generation else None

    def write(self, before: Segment | None, after: Segment, chunks: Mapping[str, bytes]) -> bool:
        """See `Keeping`."""
        whole = written(after, self.form)
        for digest, content in chunks.items():
            with contextlib.suppress(Changed):  # the same stands there
                self._answer(partial(self._beside(digest[:32], ".arrow").swap, content, 0))
        if before is not None and before.checkpoint.count < after.checkpoint.count:
            place = self._archived(before.last, before.head)
            with contextlib.suppress(Changed):  # a run that was cut off here has put it down
                self._answer(lambda: place.swap(written(before, self.form), 0))
        for _ in self.backoff.attempts():
            content, generation = self._answer(self.target.fetch)
            now = opened(content, self.form) if generation else None
            # Our attempt that seemed to fail may have arrived: once more would be done twice.
            if now is not None and _holds(self._back_to(after, now), after):
                return True
            if (now and now.head) != (before and before.head):
                return False
            with contextlib.suppress(Changed, Unavailable):
                self.target.swap(whole, generation)
                return True
        raise FailedError(f"{self._silent}; what was to be added may have been written")

    def _back_to(self, after: Segment, now: Segment) -> Segment:
        """What the segment to be written became: others may have begun later ones behind it."""
        while now.checkpoint.count > after.checkpoint.count:
            earlier = self.before(now.checkpoint.count, now.checkpoint.head)
            if earlier is None:
                raise FailedError(f"{self.form.where}: what was added may have been written")
            now = earlier
        return now

    def _archived(self, last: int, head: str) -> StoredObject:
        """Where a segment is kept whose end is reached; no two histories share a name."""
        return self._beside(f"{last}-{head[:8]}", os.path.splitext(self.target.name)[1])

    def _beside(self, name: str, ending: str) -> StoredObject:
        return self.target.beside(f"{os.path.splitext(self.target.name)[0]}-{name}{ending}")

    def _answer(self, ask: Callable[[], _Answer]) -> _Answer:
        """What the place says in the end."""
        for _ in self.backoff.attempts():
            with contextlib.suppress(Unavailable):
                return ask()
        raise FailedError(self._silent)

    @property
    def _silent(self) -> str:
        seconds = self.backoff.seconds
        return f"{self.target.name} did not answer within {seconds:g} s; try again later"


def _holds(now: Segment, after: Segment) -> bool:
    """Whether what was to be written has arrived, even if other facts came after it."""
    if after.leaves:
        return after.leaves[-1] in now.leaves
    return now.signature == after.signature


def written(segment: Segment, form: JournalFormat) -> bytes:
    """A segment as the content of an object."""
    begun, (_, signature, leaves, head) = segment.checkpoint, segment
    checkpoint = {name: getattr(begun, name) for name in ("account", "count", "head", "frontier")}
    said = {"version": form.version, "store": form.store, "head": head, "signature": signature}
    said |= {"checkpoint": checkpoint | {"tables": begun.tables}, "facts": leaves}
    return (json.dumps(said, allow_nan=False) + "\n").encode()


def opened(content: bytes, form: JournalFormat) -> Segment:
    """The segment that an object holds.

    Raises:
        RequestError: it is damaged, or of another format.
    """
    said = numbered(form.where, content, form.version, form.why)
    try:
        if said["store"] != form.store:
            raise form.damaged("it is of another kind of journal")
        checkpoint = Checkpoint(**said["checkpoint"])
        checkpoint = replace(checkpoint, frontier=tuple(checkpoint.frontier))
        leaves = tuple(Leaf(*fact) for fact in said["facts"])
        return Segment(checkpoint, said["signature"], leaves, said["head"])
    except (KeyError, TypeError, ValueError):
        raise form.damaged("a part of it is missing") from None
