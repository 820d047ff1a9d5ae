"""A ledger in a bucket: one JSON object, replaced only if it is still the one that was read.

The object's generation is the revision. A bucket may refuse (412: somebody was faster), put off
(429, 5xx) or not answer in time; after the last it may still have written. Every change carries a
random word, so whoever does not know reads the object again and looks for it. A late write
cannot do harm: it asks for a generation that a later write of ours has used up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pipelines.errors import FailedError, RequestError
from pipelines.ledger.chain import Link
from pipelines.ledger.entries import VERSION, Record, absent, damaged, require_known
from pipelines.ledger.store import EarlierLedger, Snapshot, Written, snapshot_of
from pipelines.storage.backoff import Backoff
from pipelines.storage.objects import Changed, StoredObject, Unavailable

_FORMAT = "hushbeam ledger"
_Result = TypeVar("_Result")


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

    def stands(self) -> bool:
        """See `Store`."""
        return self._answer(self.target.fetch)[1] != 0

    def begin(self, ledger: Written, over: int | None = None) -> bool:
        """See `Store`."""
        _, generation = self._answer(self.target.fetch)
        if generation != (over or 0):
            return False
        changes = ledger.changes
        links = tuple(Link.of(change.id, change.text) for change in changes)
        latest = {change.id: change.text for change in changes}
        head = changes[-1].head if changes else ledger.head
        whole = _encoded(ledger.text, links, head, latest)
        try:
            self._answer(lambda: self.target.swap(whole, generation))
        except Changed:  # by a rival, or by our own attempt that seemed to fail
            return self._answer(self.target.fetch)[0] == whole
        return True

    def read(self) -> Snapshot:
        """See `Store`."""
        content, generation = self._stored()
        document = _opened(content, self.where)
        require_known(self.where, document["version"])
        try:
            links = tuple(Link(id, digest) for id, digest in document["links"])
            written = dict(document["records"])
            # Of what a record was before it changed there is but a link.
            last = {link.id: link for link in links}
            whole = [Link.of(id, text) for id, text in written.items()] == [*last.values()]
            text, head = str(document["beginning"]), str(document["head"])
        except (ValueError, KeyError, TypeError, AttributeError):
            whole = False
        if not whole:
            raise RequestError(f"{damaged(self.where)} (its entries are not as they were written)")
        return snapshot_of(self.where, generation, text, links, head, written)

    def earlier(self) -> EarlierLedger:
        """See `Store`: of a bucket's ledger, what each entry has come to."""
        content, generation = self._stored()
        document = _opened(content, self.where)
        require_known(self.where, document["version"])
        try:
            changes = [(str(id), str(text)) for id, text in document["records"]]
            return EarlierLedger(generation, changes)
        except (ValueError, KeyError, TypeError):
            raise RequestError(damaged(self.where)) from None

    def write(self, record: Record, snapshot: Snapshot, head: str) -> bool:
        """See `Store`."""
        try:
            return self._written(record, snapshot, head)
        except FailedError as error:
            raise FailedError(
                f"{error}; entry {record.id} may have been written: `hushbeam ledger show` tells"
            ) from None

    def _written(self, record: Record, before: Snapshot, head: str) -> bool:
        """Swap until it is known who was faster."""
        text = record.model_dump_json()
        links = (*before.links, Link.of(record.id, text))
        whole = _encoded(before.text, links, head, {**before.written, record.id: text})
        for _ in self.backoff.attempts():
            snapshot = self.read()
            # Our attempt that seemed to fail may have arrived: to write it again would charge it
            # twice.
            if snapshot.holds(record, before):
                return True
            if snapshot.revision != before.revision:
                return False
            try:
                self.target.swap(whole, before.revision)
            except (Changed, Unavailable):
                continue  # the next look tells whose change it was, and whether ours arrived
            return True
        raise FailedError(self._silent)

    def _stored(self) -> tuple[bytes, int]:
        content, generation = self._answer(self.target.fetch)
        if generation == 0:
            raise RequestError(absent(self.where))
        return content, generation

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


def _encoded(text: str, links: Sequence[Link], head: str, written: Mapping[str, str]) -> bytes:
    """The content of the object."""
    document = {"format": _FORMAT, "version": VERSION, "beginning": text, "head": head}
    more = {"links": links, "records": [*written.items()]}
    return (json.dumps({**document, **more}, indent=0) + "\n").encode()


def _opened(content: bytes, where: str) -> dict[str, Any]:
    """What an object holds, if it is a ledger."""
    try:
        document: Any = json.loads(content)
        ours = document["format"] == _FORMAT and isinstance(document["version"], int)
    except (ValueError, KeyError, TypeError):
        raise RequestError(f"{damaged(where)} ({len(content)} bytes)") from None
    if not ours:
        raise RequestError(damaged(where))
    record: dict[str, Any] = document
    return record
