"""The entries of a ledger in columns: each is made when it is looked at, and few are.

A run beside 50,000 entries asks which are of its window, which are open, and how often each loss
comes. These are comparisons of numbers; to validate all entries would take seconds, and a gigabyte.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from pipelines.errors import RequestError
from pipelines.journal.journal import JournalFormat
from pipelines.journal.tables import Columns, FactTable, Later, text
from pipelines.ledger.entries import COUNTED, Entry
from pipelines.ledger.spans import PASS, Span, named

_PRICE = ("fingerprint", "design", "metrics", "losses", "noise")
_SPAN = r'"start":"(?P<start>[^"]+)","until":"(?P<until>[^"]+)"'

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Entries(Sequence[Entry]):
    """Some entries of a ledger, in the order in which they were begun.

    Attributes:
        table: of all entries.
        places: (n,) which of its rows.
        form: of the ledger, for messages.
        meetings: of the table: by what its entries may meet others.
        made: row -> entry, of those that were looked at.

    Raises:
        RequestError: an entry is none, when it is looked at.
    """

    table: FactTable
    places: Places
    form: JournalFormat
    meetings: _Meetings = field(repr=False)
    made: dict[int, Entry] = field(default_factory=dict, repr=False)

    @classmethod
    def all(cls, table: FactTable, form: JournalFormat) -> Entries:
        """Those of a table."""
        return cls(table, np.arange(len(table)), form, _Meetings(table))

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Entries:
        """Entries that are at hand."""
        rows: Later = {entry.id: entry.model_dump(mode="json") for entry in entries}
        return cls.all(FactTable(Columns(()), rows), JournalFormat("ledger", 0, "", "", ""))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Entries: ...
    def __getitem__(self, index: int | slice) -> Entry | Entries:
        if isinstance(index, slice):
            return replace(self, places=self.places[index])
        place = int(self.places[index])
        if place not in self.made:
            self.made[place] = validated(Entry, self.table.row(place), self.form)
        return self.made[place]

    def stream(self) -> Iterator[Entry]:
        """All of them, none of which is kept."""
        wanted = set(self.places.tolist())
        for place, row in enumerate(self.table.rows()):
            if place in wanted:
                yield validated(Entry, row, self.form)

    def where(self, **wanted: Any) -> Entries:
        """Those with these values in fields."""
        masks = [self.table.column(name).equals(value) for name, value in wanted.items()]
        return self._those(np.logical_and.reduce(masks))

    def of_people(self, name: str) -> Entries:
        """Those about a population."""
        own = self.table.column("population")
        return self._those(
            own.equals(name)
            | ((own.equals(None) | own.equals("")) & self.table.column("collection").equals(name))
        )

    def named(self, start: str) -> Entries:
        """Those whose id begins so."""
        codes, ids = self.table.column("id")
        begins = pc.starts_with(ids, text(start).removesuffix('"'))
        return self._those(pc.fill_null(begins, False).to_numpy(zero_copy_only=False)[codes])

    def without(self, id: str | None) -> Entries:
        """All but one."""
        return self._those(~self.table.column("id").equals(id))

    @cached_property
    def counted(self) -> Entries:
        """Those whose loss is counted as spent."""
        states = self.table.decoded("state")
        counts = np.array([state in COUNTED for state in states], bool)
        return self._those(counts[self.table.column("state").codes])

    @property
    def passes(self) -> bool:
        """Whether one of them is a pass over a batch that is not the last one."""
        codes, windows = self.table.column("window")
        used = windows.take(pa.array(codes[self.places]))
        return bool(pc.any(pc.match_substring(used, PASS)).as_py())

    def kinds(self) -> list[tuple[Entry, int]]:
        """Entries that differ in what their price hangs on, and how many are alike."""
        return self.groups(*_PRICE, *(("window", "files") if self.passes else ()))

    def groups(self, *fields: str) -> list[tuple[Entry, int]]:
        """The first of those that have the same in some fields, and how many they are."""
        alike = np.zeros(len(self), np.int64)
        for name in fields:
            codes, texts = self.table.column(name)
            # Numbered in the order of their first ones, as Arrow does, and without sorting.
            several = pa.array(alike * len(texts) + codes[self.places])
            alike = several.dictionary_encode().indices.to_numpy().astype(np.int64)
        times = np.bincount(alike)
        first = np.empty(len(times), np.int64)
        first[alike[::-1]] = np.arange(len(self))[::-1]  # numpy keeps what is assigned last
        return [(self[place], n) for place, n in zip(first.tolist(), times.tolist(), strict=True)]

    def near(self, window: str, span: Span | None, files: Collection[str]) -> Entries:
        """Those that may meet a release; what is left out has another time, and other files.

        Args:
            window: of the release.
            span: its time, if that is known.
            files: digests of what it reads, if that is known.
        """
        if span is None:
            return self
        known = [
            self.meetings.windows.get(named(window), ()),
            *(self.meetings.files.get(f, ()) for f in files),
        ]
        mask = ~self.meetings.apart(span)
        mask[[place for places in known for place in places]] = True
        return self._those(mask)

    @property
    def people(self) -> list[str]:
        """The populations that they are about."""
        return [*dict.fromkeys(one.people for one, _ in self.groups("population", "collection"))]

    @property
    def latest(self) -> Entry:
        """That one of the latest reservation, and there of the latest version.

        What an operator said of lost releases has no folder, and is one only if nothing else is.
        """
        releases = ~self.table.column("output").equals("")[self.places]
        if releases.any() and not releases.all():
            return replace(self, places=self.places[releases]).latest
        codes, texts = self.table.column("reserved_at")
        moments = texts.take(pa.array(codes[self.places]))
        latest = pc.equal(moments, pc.max(moments)).to_numpy(zero_copy_only=False)
        numbers = np.array([number or 0 for number in self.table.decoded("version")], np.int64)
        versions = numbers[self.table.column("version").codes[self.places]]
        return self[int(np.argmax(np.where(latest, versions, -1)))]

    def _those(self, mask: npt.NDArray[np.bool_]) -> Entries:
        return replace(self, places=self.places[mask[self.places]])


@dataclass(frozen=True)
class _Meetings:
    """Rows of a table by what windows may have in common.

    Attributes:
        table: of entries.
    """

    table: FactTable

    @cached_property
    def windows(self) -> dict[str, list[int]]:
        """Name of a window, without its pass -> rows."""
        codes, texts = self.table.column("window")
        return _rows_of(codes, [(named(json.loads(said or '""')),) for said in texts.to_pylist()])

    @cached_property
    def files(self) -> dict[str, list[int]]:
        """Digest of a file -> rows."""
        column = self.table.column("files")
        return _rows_of(column.codes, [files or () for files in self.table.decoded("files")])

    def apart(self, span: Span) -> npt.NDArray[np.bool_]:
        """(n,) whether the time of a row is known, and is another."""
        start, until = self._spans
        first, last = (np.datetime64(_naive(m), "us") for m in (span.start, span.until))
        return (until <= first) | (last <= start)  # of no time, NaT, neither is true

    @cached_property
    def _spans(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        codes, texts = self.table.column("span")
        parts = pc.extract_regex(texts, _SPAN)
        moments = (pc.struct_field(parts, k).cast(pa.timestamp("us", "UTC")) for k in (0, 1))
        start, until = (one.to_numpy(zero_copy_only=False)[codes] for one in moments)
        return start, until


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(timezone.utc).replace(tzinfo=None)


def _rows_of(codes: Places, names: Sequence[Iterable[str]]) -> dict[str, list[int]]:
    """Name -> rows that have it, by the names of each code."""
    rows: dict[str, list[int]] = {}
    for place, code in enumerate(codes.tolist()):
        for name in names[code]:
            rows.setdefault(name, []).append(place)
    return rows


def validated(kind: Any, row: Any, form: JournalFormat) -> Any:
    """A row of a ledger as a record.

    Raises:
        RequestError: it is none.
    """
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        name = ".".join(map(str, error.errors(include_url=False)[0]["loc"])) or "all"
        raise form.damaged(f"field {name} of an {kind.__name__.lower()}") from None


def one_of(entries: Entries, id: str, where: str) -> Entry:
    """The entry whose id begins so.

    Args:
        entries: of a ledger.
        id: or the beginning of one.
        where: the ledger's name.

    Raises:
        RequestError: none or several begin so.
    """
    those = entries.named(id) if id else entries[:0]
    if len(those) != 1:
        raise RequestError(
            f"{len(those) or 'no'} entries of {where} begin with {id!r}; "
            "`hushbeam ledger show` lists them"
        )
    return those[0]
