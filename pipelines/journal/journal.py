"""A journal: facts that are only added, one writer at a time, and read from the last checkpoint on.

Of each kind of fact there is a table of names; a later fact of a name takes the place of an earlier
one. A journal is kept in segments, each of which begins with a signed checkpoint of all that was
before it, so a run reads the last segment and no more. Bulk (ids, batches, numbers that are to be
forgotten) stands in files that facts name: a fact stays in earlier segments for ever.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.journal.checkpoint import Checkpoint, Fact, Leaf, Rows, canonical, keyed, with_leaf

_LEAST = 256  # facts in a segment; more where a checkpoint has more, so that writing stays linear


class RivalError(FailedError):
    """Somebody else was faster: what was decided on is no more what stands there."""


@dataclass(frozen=True)
class JournalFormat:
    """What a store of facts says of itself.

    Attributes:
        store: whose facts these are.
        version: the number of the format that is kept.
        where: what names it, for messages.
        why: it cannot be done without, or what else helps.
        absent: what to say, and what to do, where none was begun.
    """

    store: str
    version: int
    where: str
    why: str
    absent: str

    def damaged(self, what: str) -> RequestError:
        """That it is not as it was written."""
        return RequestError(
            f"{self.where} is damaged ({what}): restore it from a copy ({self.why})"
        )


class Segment(NamedTuple):
    """A checkpoint and what came after it.

    Attributes:
        checkpoint: with which it begins.
        signature: of that.
        leaves: in their order.
        head: after the last of them; no two histories have the same one.
    """

    checkpoint: Checkpoint
    signature: str
    leaves: tuple[Leaf, ...]
    head: str

    @property
    def last(self) -> int:
        """The number of its last fact."""
        return self.checkpoint.count + len(self.leaves)


class Keeping(Protocol):
    """Where a journal is kept: each of its changes is whole or not at all, and outlives a crash."""

    @property
    def form(self) -> JournalFormat:
        """Of the journal."""

    def read(self) -> Segment | None:
        """The last segment; None if nothing stands there.

        Raises:
            RequestError: it is damaged, of another format, or cannot be read.
            FailedError: the place does not answer.
        """

    def before(self, begun: Checkpoint) -> Segment | None:
        """The segment that ended where another one begins; None if it is not there.

        Args:
            begun: the checkpoint of the later one.

        Raises:
            RequestError: it is damaged, of another format, or cannot be read.
            FailedError: the place does not answer.
        """

    def write(self, before: Segment | None, after: Segment) -> bool:
        """Begin a journal, add to its last segment, or begin the next one behind it.

        Args:
            before: the last segment; None where there is no journal yet.
            after: the last segment from now on; `before` with more leaves, or one that begins with
                a checkpoint of it. Then `before` is kept as it is.

        Returns:
            Whether it is written; False if something else stands there than `before`.

        Raises:
            RequestError: it cannot be written.
            FailedError: the place does not answer; whether it was written may be unknown.
        """


@dataclass(frozen=True)
class JournalState:
    """A journal at one moment.

    Attributes:
        segment: the last one.
        tables: kind -> name -> body.
        frontier: as of `Checkpoint`.
    """

    segment: Segment
    tables: Mapping[str, Rows]
    frontier: tuple[str, ...]

    @property
    def account(self) -> str:
        """Whose journal it is."""
        return self.segment.checkpoint.account

    def rows(self, kind: str) -> Rows:
        """The facts of a kind, by name, in the order in which they were first noted."""
        return self.tables.get(kind, {})

    def once(self, kind: str, body: Any) -> tuple[str, list[Fact]]:
        """By what digest facts may name something large, and the fact of it where it is new."""
        digest = hashlib.sha256(canonical(body)).hexdigest()
        return digest, [] if digest in self.rows(kind) else [Fact(kind, digest, body)]

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Of all facts."""
        end = self.segment
        return Checkpoint(self.account, end.last, end.head, self.frontier, self.tables)


@dataclass(frozen=True)
class FactJournal:
    """A journal at a place.

    Attributes:
        keeping: where it is kept.
        key: under which it is signed; an empty one where whoever may read it may write it: then
            damage is seen, and no forgery.
        rng: draws salt.
    """

    keeping: Keeping
    key: bytes = b""
    rng: RandomSource = field(default_factory=SecureRandom)

    def begin(self, account: str, facts: Iterable[Fact] = ()) -> bool:
        """Begin a journal; False if one stands there.

        Args:
            account: whose.
            facts: that it begins with.
        """
        return self.keeping.write(None, self.first(account, facts))

    def first(self, account: str, facts: Iterable[Fact] = ()) -> Segment:
        """The segment of a journal that begins so."""
        head = keyed(self.key, "begun", account)
        empty = Checkpoint(account, 0, head, (), {})
        segment = Segment(empty, empty.signature(self.key), (), head)
        return self._with(JournalState(segment, {}, ()), self._salted(0, facts)).segment

    def read(self) -> JournalState:
        """What it has come to.

        Raises:
            RequestError: it is absent, not as it was written, of another format, or cannot be read.
        """
        state = self.unverified()
        self.require_whole(state.segment)
        return state

    def unverified(self) -> JournalState:
        """The same, believed: for who has not its key, or has yet to learn which one it is.

        Raises:
            RequestError: it is absent, of another format, or cannot be read.
        """
        segment, form = self.keeping.read(), self.keeping.form
        if segment is None:
            raise RequestError(form.absent)
        return replace(self._state(segment), segment=segment)

    def require_whole(self, segment: Segment) -> None:
        """Refuse a segment that is not as it was written under the key."""
        form, state = self.keeping.form, self._state(segment)
        with self._legible():
            signed = segment.checkpoint.signature(self.key)
        if not hmac.compare_digest(signed, segment.signature):
            raise form.damaged("its checkpoint is not as it was written")
        if not hmac.compare_digest(state.segment.head, segment.head):
            raise form.damaged("its history is not as it was written")

    def heads(self, state: JournalState, since: int) -> dict[int, str]:
        """The heads that its account has had, by how many facts there were.

        Args:
            state: read under the key.
            since: the least of these numbers that is needed: no segment that ended before it is
                read.

        Raises:
            RequestError: an earlier segment is missing, or not as it was written.
        """
        heads: dict[int, str] = {}
        segment: Segment | None = state.segment
        while segment is not None and segment.checkpoint.account == state.account:
            begun = segment.checkpoint
            head = heads[begun.count] = begun.head
            for leaf in segment.leaves:
                head = heads[leaf.number] = self._after(head, leaf.digest)
            segment = self._earlier(begun) if begun.count > max(since, 0) else None
        return heads

    def _earlier(self, begun: Checkpoint) -> Segment:
        """The segment before a checkpoint, whole; as it stands if it is of another account."""
        segment, form = self.keeping.before(begun), self.keeping.form
        if segment is None:
            raise form.damaged(f"the segment that ends at fact {begun.count} is missing")
        if segment.checkpoint.account == begun.account:
            self.require_whole(segment)
            if segment.head != begun.head:
                raise form.damaged("an earlier segment is of another history")
        return segment

    def add(
        self, before: JournalState, facts: Iterable[Fact], account: str | None = None
    ) -> JournalState:
        """Add facts, all or none; they outlive a crash when this returns.

        Args:
            before: what the decision to add them was taken on.
            facts: in their order.
            account: whose the journal is from now on; None if it stays whose it was. Only who
                changes it may go on under another key.

        Returns:
            What there is now.

        Raises:
            RivalError: others have added something since, and nothing was.
            RequestError: it cannot be written.
            FailedError: the place does not answer; whether they were added may be unknown.
        """
        end, rows = before.segment, sum(map(len, before.segment.checkpoint.tables.values()))
        begun = before
        if account is not None or len(end.leaves) >= max(_LEAST, rows):
            checkpoint = replace(before.checkpoint, account=account or before.account)
            signature = checkpoint.signature(self.key)
            begun = replace(before, segment=Segment(checkpoint, signature, (), end.head))
        after = self._with(begun, self._salted(end.last, facts))
        if not self.keeping.write(end, after.segment):
            where = self.keeping.form.where
            raise RivalError(f"{where} was changed meanwhile; nothing was added: run again")
        return after

    def _after(self, head: str, digest: str) -> str:
        """The head after one more leaf."""
        return keyed(self.key, head, digest)

    def _salted(self, count: int, facts: Iterable[Fact]) -> list[Leaf]:
        plain = [(kind, name, json.loads(canonical(body))) for kind, name, body in facts]
        salts = self.rng.words(2 * len(plain)).tobytes()
        return [
            Leaf(count + k + 1, *fact, salts[16 * k : 16 * k + 16].hex())
            for k, fact in enumerate(plain)
        ]

    def _state(self, segment: Segment) -> JournalState:
        begun = segment.checkpoint
        empty = segment._replace(leaves=(), head=begun.head)
        with self._legible():
            return self._with(JournalState(empty, begun.tables, begun.frontier), segment.leaves)

    @contextmanager
    def _legible(self) -> Iterator[None]:
        """Say that something is damaged which is of other types than were written."""
        try:
            yield
        except (ValueError, TypeError, AttributeError):
            raise self.keeping.form.damaged("its facts are none") from None

    def _with(self, before: JournalState, leaves: Sequence[Leaf]) -> JournalState:
        """A state after some more leaves."""
        head, frontier, segment = before.segment.head, before.frontier, before.segment
        tables = {kind: {**rows} for kind, rows in before.tables.items()}
        for count, leaf in enumerate(leaves, segment.last):
            if leaf.number != count + 1:
                raise ValueError("a fact is missing")
            digest = leaf.digest
            head, frontier = self._after(head, digest), with_leaf(frontier, count, digest)
            rows = tables.setdefault(leaf.kind, {})
            if leaf.body is None:
                rows.pop(leaf.name, None)
            else:
                rows[leaf.name] = leaf.body
        added = segment._replace(leaves=(*segment.leaves, *leaves), head=head)
        return JournalState(added, tables, frontier)
