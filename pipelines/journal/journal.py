"""A journal: facts that are only added, one writer at a time, and read from the last checkpoint on.

Of each kind of fact there is a table of names; a later fact of a name takes the place of an earlier
one. A journal is kept in segments, each of which begins with a signed checkpoint of all that was
before it, so a run reads the last segment and no more. A checkpoint names the chunks of its tables
by their digests; chunks never change, and a new one takes the place of those before it that are
smaller than twice its size, so a fact is written again about log2(facts / 256) times. Bulk (ids,
batches, numbers that are to be forgotten) stands in files that facts name: a fact stays in earlier
segments for ever.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.journal import tables
from pipelines.journal.checkpoint import (
    Checkpoint,
    Chunks,
    Fact,
    Leaf,
    canonical,
    keyed,
    root,
    with_leaf,
)
from pipelines.journal.tables import Columns, FactTable, Later, with_row

_LEAST = 256  # facts in a segment: a run verifies each of the last one, in about 20 us
_ILLEGIBLE = (
    ValueError, TypeError, LookupError, AttributeError, RecursionError, pa.ArrowException,
)  # fmt: skip
_SEGMENTS = ""  # the table of earlier segments: by the count at which each began, account and head


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

    def before(self, count: int, head: str) -> Segment | None:
        """The segment that ended where another one begins; None if it is not there.

        Args:
            count: of the facts before the later one.
            head: after the last of them.

        Raises:
            RequestError: it is damaged, of another format, or cannot be read.
            FailedError: the place does not answer.
        """

    def chunk(self, digest: str) -> bytes | None:
        """A chunk of a table by the digest of its content; None if it is not there.

        Raises:
            RequestError: it cannot be read.
            FailedError: the place does not answer.
        """

    def write(self, before: Segment | None, after: Segment, chunks: Mapping[str, bytes]) -> bool:
        """Begin a journal, add to its last segment, or begin the next one behind it.

        Args:
            before: the last segment; None where there is no journal yet.
            after: the last segment from now on; `before` with more leaves, or one that begins with
                a checkpoint of it. Then `before` is kept as it is.
            chunks: digest -> content of the chunks that `after` names and `before` does not; they
                are there before it is.

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
        kept: kind -> table, of earlier segments besides.
        frontier: as of `Checkpoint`.
        heads: that its leaves come to under the key, by how many facts there were.
    """

    segment: Segment
    kept: Mapping[str, FactTable]
    frontier: tuple[str, ...]
    heads: Mapping[int, str]

    @property
    def account(self) -> str:
        """Whose journal it is."""
        return self.segment.checkpoint.account

    @property
    def tables(self) -> dict[str, FactTable]:
        """Kind -> table of the facts."""
        return {kind: table for kind, table in self.kept.items() if kind != _SEGMENTS}

    @property
    def root(self) -> str:
        """Of the tree of all leaves."""
        return root(self.frontier)

    def rows(self, kind: str) -> FactTable:
        """The facts of a kind, by name, in the order in which they were first noted."""
        return self.kept.get(kind, _EMPTY)

    def once(self, kind: str, body: Any) -> tuple[str, list[Fact]]:
        """By what digest facts may name something large, and the fact of it where it is new."""
        digest = hashlib.sha256(canonical(body)).hexdigest()
        return digest, [] if digest in self.rows(kind) else [Fact(kind, digest, body)]

    @property
    def begun(self) -> dict[int, str]:
        """The heads with which the segments of its account began, by the count of facts."""
        rows, checkpoint = self.rows(_SEGMENTS), self.segment.checkpoint
        begun = zip(rows, rows.rows(), strict=True)
        own = {int(n): head for n, (account, head) in begun if account == self.account}
        return own | {checkpoint.count: checkpoint.head}


_EMPTY = FactTable(Columns(()), {})


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
        return self.keeping.write(None, self.first(account, facts), {})

    def first(self, account: str, facts: Iterable[Fact] = ()) -> Segment:
        """The segment of a journal that begins so."""
        head = keyed(self.key, "begun", account)
        empty = Checkpoint(account, 0, head, (), {})
        segment = Segment(empty, empty.signature(self.key), (), head)
        before = JournalState(segment, {}, (), {0: head})
        return self._with(before, self._salted(0, facts)).segment

    def read(self) -> JournalState:
        """What it has come to.

        Raises:
            RequestError: it is absent, not as it was written, of another format, or cannot be read.
        """
        state = self.unverified()
        self.require_whole(state)
        return state

    def unverified(self) -> JournalState:
        """The same, believed: for who has not its key, or has yet to learn which one it is.

        Raises:
            RequestError: it is absent, of another format, or cannot be read.
        """
        segment, form = self.keeping.read(), self.keeping.form
        if segment is None:
            raise RequestError(form.absent)
        return self._state(segment)

    def require_whole(self, state: JournalState) -> None:
        """Refuse what is not as it was written under the key."""
        form, segment = self.keeping.form, state.segment
        self._require_signed(segment)
        if not hmac.compare_digest(state.heads[segment.last], segment.head):
            raise form.damaged("its history is not as it was written")

    def _require_signed(self, segment: Segment) -> None:
        with self._legible():
            signed = segment.checkpoint.signature(self.key)
        if not hmac.compare_digest(signed, segment.signature):
            raise self.keeping.form.damaged("its checkpoint is not as it was written")

    def heads(self, state: JournalState, wanted: Collection[int]) -> dict[int, str]:
        """Heads that its account has had, by how many facts there were.

        Args:
            state: read under the key.
            wanted: some of these numbers. Those of the last segment come besides; of the earlier
                ones only those are read that a number falls into.

        Returns:
            Nothing of a number that the account has never had.

        Raises:
            RequestError: an earlier segment is missing, or not as it was written.
        """
        heads = {**state.heads}
        begun = state.begun if {*wanted} - {*heads} else {}
        heads |= begun  # signed with the checkpoint
        earlier, counts = {*wanted} - {*heads}, sorted(begun)
        for end in sorted({bisect_right(counts, count) for count in earlier} - {0, len(counts)}):
            heads |= self._heads(self._earlier(state.account, counts[end], begun[counts[end]]))
        return heads

    def _heads(self, segment: Segment) -> dict[int, str]:
        head, heads = segment.checkpoint.head, {segment.checkpoint.count: segment.checkpoint.head}
        for leaf in segment.leaves:
            head = heads[leaf.number] = self._after(head, leaf.digest)
        return heads

    def _earlier(self, account: str, count: int, head: str) -> Segment:
        """The segment of an account that ended so, whole."""
        segment, form = self.keeping.before(count, head), self.keeping.form
        if segment is None:
            raise form.damaged(f"the segment that ends at fact {count} is missing")
        self._require_signed(segment)
        with self._legible():
            heads = self._heads(segment)
        if segment.checkpoint.account != account or segment.head != head:
            raise form.damaged("an earlier segment is of another history")
        if heads.get(count) != head:
            raise form.damaged("its history is not as it was written")
        return segment

    def require_replayed(self, state: JournalState) -> None:
        """Read all that its account has noted, and hold the tables against it.

        Args:
            state: read under the key.

        Raises:
            RequestError: a segment is missing, or something is not as it was written.
        """
        begun = state.begun
        counts = sorted(begun)
        segments = [self._earlier(state.account, end, begun[end]) for end in counts[1:2]]
        first = [*segments, state.segment][0].checkpoint
        with self._legible():
            rows = {
                (kind, name): _mark(body)
                for kind, table in self._tables(first).items()
                if kind != _SEGMENTS  # of an adopted journal there is one from before
                for name, body in zip(table, table.rows(), strict=True)
            }
            for end in counts[1:]:
                self._replay(rows, self._earlier(state.account, end, begun[end]))
            self._replay(rows, state.segment)
        now = {
            (kind, name): _mark(body)
            for kind, table in state.tables.items()
            for name, body in zip(table, table.rows(), strict=True)
        }
        if rows != now:
            raise self.keeping.form.damaged("its tables are not what its facts come to")

    def leaves(self, state: JournalState) -> Iterator[Leaf]:
        """All that its account has noted, the oldest first.

        Args:
            state: read under the key.

        Raises:
            RequestError: as `require_replayed`.
        """
        begun = state.begun
        for end in sorted(begun)[1:]:
            yield from self._earlier(state.account, end, begun[end]).leaves
        yield from state.segment.leaves

    @staticmethod
    def _replay(rows: dict[tuple[str, str], bytes], segment: Segment) -> None:
        for leaf in segment.leaves:
            if leaf.body is None:
                rows.pop((leaf.kind, leaf.name), None)
            else:
                rows[leaf.kind, leaf.name] = _mark(leaf.body)

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
        end, begun, chunks = before.segment, before, dict[str, bytes]()
        if account is not None or len(end.leaves) >= _LEAST:
            begun, chunks = self._next(before, account or before.account)
        after = self._with(begun, self._salted(end.last, facts))
        if not self.keeping.write(end, after.segment, chunks):
            where = self.keeping.form.where
            raise RivalError(f"{where} was changed meanwhile; nothing was added: run again")
        return after

    def _next(self, before: JournalState, account: str) -> tuple[JournalState, dict[str, bytes]]:
        """A state whose segment begins where another one ends, and the new chunks that it needs."""
        end, chunks = before.segment, dict[str, bytes]()
        ended: Later = {str(end.checkpoint.count): [before.account, end.checkpoint.head]}
        earlier = before.rows(_SEGMENTS)
        kept = {**before.kept, _SEGMENTS: replace(earlier, later={**earlier.later, **ended})}
        named = {
            kind: self._settled(end.checkpoint.tables.get(kind, ()), table.later, chunks)
            for kind, table in kept.items()
        }
        checkpoint = Checkpoint(account, end.last, end.head, before.frontier, named)
        segment = Segment(checkpoint, checkpoint.signature(self.key), (), end.head)
        heads, kept = {end.last: end.head}, self._tables(checkpoint, chunks)
        return replace(before, segment=segment, kept=kept, heads=heads), chunks

    def _settled(self, older: Chunks, later: Later, new: dict[str, bytes]) -> Chunks:
        """The chunks of a table with what came later; what has to be written is added to `new`."""
        if not later:
            return older
        kept, parts = [*older], [tables.chunk_of(later)]
        while kept and kept[-1][1] < 2 * sum(map(len, parts)):
            parts.insert(0, self._chunk(kept.pop()[0]))
        whole = tables.merged(parts, not kept)
        content = tables.written(whole)
        digest = hashlib.sha256(content).hexdigest()
        new[digest] = content
        return (*kept, (digest, len(whole)))

    def _chunk(self, digest: str, new: Mapping[str, bytes] | None = None) -> pa.Table:
        content = (new or {}).get(digest) or self.keeping.chunk(digest) or b""
        if hashlib.sha256(content).hexdigest() != digest:
            raise self.keeping.form.damaged("rows of its checkpoint are not as they were written")
        return tables.opened(content)

    def _tables(
        self, checkpoint: Checkpoint, new: Mapping[str, bytes] | None = None
    ) -> dict[str, FactTable]:
        """The tables of a checkpoint."""
        source = _Source(lambda digest: self._chunk(digest, new))
        return {
            kind: FactTable(_columns(tuple(digest for digest, _ in chunks), source), {})
            for kind, chunks in checkpoint.tables.items()
        }

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
        begun, leaves = segment.checkpoint, segment.leaves
        with self._legible():
            for before in self._recent:
                known = before.segment.leaves
                if before.segment.checkpoint == begun and known == leaves[: len(known)]:
                    break
            else:
                empty = segment._replace(leaves=(), head=begun.head)
                heads = {begun.count: begun.head}
                before = JournalState(empty, self._tables(begun), begun.frontier, heads)
            new = leaves[len(before.segment.leaves) :]
            state = self._with(before, new) if new else before
        self._recent[:] = [state]
        return replace(state, segment=segment)

    @cached_property
    def _recent(self) -> list[JournalState]:
        """What was read last: a run reads some ten times, and hashes what is new since then."""
        return []

    @contextmanager
    def _legible(self) -> Iterator[None]:
        """Say that something is damaged which is of other types than were written."""
        try:
            yield
        except _ILLEGIBLE:
            raise self.keeping.form.damaged("its facts are none") from None

    def _with(self, before: JournalState, leaves: Sequence[Leaf]) -> JournalState:
        """A state after some more leaves."""
        head, frontier, segment = before.segment.head, before.frontier, before.segment
        heads = {**before.heads}
        later = {kind: {**table.later} for kind, table in before.kept.items()}
        for count, leaf in enumerate(leaves, segment.last):
            if leaf.number != count + 1:
                raise ValueError("a fact is missing")
            digest = leaf.digest
            head, frontier = self._after(head, digest), with_leaf(frontier, count, digest)
            heads[leaf.number] = head
            with_row(later.setdefault(leaf.kind, {}), leaf.name, leaf.body)
        added = segment._replace(leaves=(*segment.leaves, *leaves), head=head)
        kept = {kind: replace(before.rows(kind), later=rows) for kind, rows in later.items()}
        return JournalState(added, kept, frontier, heads)


@dataclass(frozen=True)
class _Source:
    """Where chunks come from; all are alike, for a digest names one content."""

    chunk: Callable[[str], pa.Table] = field(compare=False)


@lru_cache(maxsize=8)  # of the few journals that a process has open; 50,000 entries take 40 MB
def _columns(digests: tuple[str, ...], source: _Source) -> Columns:
    """The rows of some chunks: verified once in a process, and parsed once."""
    return Columns([source.chunk(digest) for digest in digests])


def _mark(body: Any) -> bytes:
    """What tells bodies apart, whatever the order of their fields."""
    said = json.dumps(body, sort_keys=True, allow_nan=False)
    return hashlib.sha256(said.encode()).digest()
