"""Declared texts: one Arrow column that a process has once, and where in it each value stands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.encoders.users import UserDigest

# Up to so many values Arrow's own table, made anew for each batch, is faster than one that stays.
_FEW = 1 << 11

_SMALL, _SOUGHT = 64, 4  # n / 64 different values; so many batches take less than a table

# Whether texts stay in this process, whatever they say themselves; of None they say it.
_stay: ContextVar[bool | None] = ContextVar("stay", default=None)
_here: WeakValueDictionary[tuple[bytes, bool], Texts] = WeakValueDictionary()


@contextmanager
def pickled_by_digest() -> Iterator[None]:
    """Have this context pickle texts as their digests, for this process and later forks of it.

    What is read from such a pickle stays here, too, in whatever thread it is pickled again, and
    whatever other jobs do with equal texts. Beam pickles each step that mentions a domain several
    times, also in threads of its own, some 70 times a job, and packs that with bzip2: of a million
    strings it took 10 CPU seconds.
    """
    with _staying(True):
        yield


@contextmanager
def pickled_whole() -> Iterator[None]:
    """Have this context pickle texts for other processes."""
    with _staying(False):
        yield


@contextmanager
def _staying(stay: bool) -> Iterator[None]:
    before = _stay.set(stay)
    try:
        yield
    finally:
        _stay.reset(before)


class Texts(Sequence[str]):
    """Different texts in their order; a process that is sent equal ones keeps those it has.

    Attributes:
        column: (n,) of strings without nulls.

    >>> texts = Texts.of(["EWR", "JFK"])
    >>> texts[1], texts.places(pa.array(["JFK", "LGA"])).tolist()
    ('JFK', [1, 2])
    """

    def __init__(self, column: pa.Array) -> None:
        self.column = column
        self._stays = False  # as of a job of this process
        known = _here.setdefault((self.digest, False), self)
        # Another's object stays for as long as this one does: by its digest both are read.
        self._known = None if known is self else known

    @classmethod
    def of(cls, texts: Any) -> Texts:
        """Those of a sequence of strings, or of a column of them."""
        return texts if isinstance(texts, cls) else cls(pa.array(texts, pa.string()))

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        return str(self.column[place])

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that tell these texts from all others."""
        return hashlib.sha256(_written(self.column)).digest()

    def __iter__(self) -> Iterator[str]:
        return iter(self.column.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        stay = _stay.get()
        stays = self._stays if stay is None else stay
        return _read, (self.digest, None if stays else _written(self.column))

    @cached_property
    def integers(self) -> pa.Array | None:
        """(n,) the same as integers, or None if one of them is not, or two are the same one."""
        try:
            integers = [int(text) for text in self.column.to_pylist()]
            return pa.array(integers, pa.int64()) if len({*integers}) == len(integers) else None
        except (ValueError, OverflowError):
            return None

    @cached_property
    def places(self) -> Places:
        """Where texts stand."""
        return Places(self.column)

    @cached_property
    def places_of_integers(self) -> Places:
        """Where integers stand, if these texts are some."""
        return Places(self.integers)


class Places:
    """Where among different values each value of a column stands.

    A table of a million values takes longer to make than a batch to look up, so it is made once.

    Args:
        values: (n,) texts or integers.
    """

    def __init__(self, values: pa.Array) -> None:
        self._values, self._sought = values, 0

    def __call__(self, column: pa.Array) -> NDArray[np.int64]:
        """(m,) where values stand; n for one that is not there, and for a null."""
        n = len(self._values)
        if n <= _FEW:
            places = pc.fill_null(pc.index_in(column, value_set=self._values), n)
            return places.to_numpy(zero_copy_only=False).astype(np.int64)
        coded = column.dictionary_encode()
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
        # The first small batches are sooner looked for among all values than a table is made.
        small = _SMALL * len(coded.dictionary) < n and self._sought < _SOUGHT
        self._sought += small
        find = self._among_few if small else self._table
        return np.append(find(coded.dictionary), n)[codes]

    def _among_few(self, few: pa.Array) -> NDArray[np.int64]:
        """(m,) the same of a few different values, each of which all others are compared with."""
        entries = pc.index_in(self._values, value_set=few)
        there = pc.indices_nonzero(entries.is_valid()).to_numpy()
        places = np.full(len(few), len(self._values))
        places[entries.drop_null().to_numpy()] = there
        return places

    @cached_property
    def _table(self) -> _Table:
        return _Table(self._values)


class _Table:
    """Of many values, by their hashes.

    Args:
        values: (n,) all different.
    """

    def __init__(self, values: pa.Array) -> None:
        self._values, n = values, len(values)
        for key in range(4):  # under one key in 10^7 two of a million values have one hash
            hashes = UserDigest("", key)(values)
            order = np.argsort(hashes)
            if (np.diff(hashes[order]) > 0).all():
                break
        else:
            raise ValueError("declared values must differ: one of them is there twice")
        self._hash, self._order = UserDigest("", key), np.append(order, n)
        self._hashes = np.append(hashes[order], np.uint64(2**64 - 1))
        bits = n.bit_length()
        self._shift = np.uint64(64 - bits)
        ends = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._starts = np.searchsorted(self._hashes, ends)

    def __call__(self, values: pa.Array) -> NDArray[np.int64]:
        """(m,) where different values stand; n for one that is not there."""
        n = len(self._values)
        hashes = self._hash(values)
        entries = self._starts[hashes >> self._shift]
        behind = np.flatnonzero(self._hashes[entries] < hashes)
        while behind.size:
            entries[behind] += 1
            behind = behind[self._hashes[entries[behind]] < hashes[behind]]
        places = self._order[entries]
        # What another process, or a stranger, wrote may have the hash of a declared value.
        there = self._values.take(pa.array(np.minimum(places, n - 1)))
        same = pc.equal(there, values).to_numpy(zero_copy_only=False)
        return np.where(same, places, n)


def _written(column: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], ["texts"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _read(digest: bytes, written: bytes | None) -> Texts:
    stays = written is None
    if (texts := _here.get((digest, stays))) is not None:
        return texts
    known = _here.get((digest, not stays))
    if known is None:
        if written is None:
            raise RuntimeError("declared texts were sent by digest to a process without them")
        return Texts(pa.ipc.open_stream(written).read_all().column(0).chunk(0))
    twin = object.__new__(Texts)  # with all that is known of them
    twin.__dict__ |= known.__dict__ | {"_stays": stays, "_known": known}
    return _here.setdefault((digest, stays), twin)
