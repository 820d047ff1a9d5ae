"""Tables of a journal: rows by name, in immutable columnar chunks, and what came after them.

A cell is JSON text, and a column keeps each distinct text once: the losses of 50,000 releases of
one plan are one text. So whoever filters or adds up compares numbers, and parses few texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.journal.checkpoint import canonical

_NAME, _WHOLE = "name", "whole"  # columns beside those of fields, whose names begin with a quote
_GONE = ""  # the text of a row that was taken out; JSON is never empty

Later = Mapping[str | tuple[str], Any]
"""Rows by name, in the order in which they were noted; (name,) where one was taken out."""


class TextColumn(NamedTuple):
    """One field of all rows of a table, in their order.

    Attributes:
        codes: (n,) places in `texts`.
        texts: JSON; None where a row has no such field.
    """

    codes: npt.NDArray[np.int64]
    texts: Sequence[str | None]

    def equals(self, value: Any) -> npt.NDArray[np.bool_]:
        """(n,) whether a row has this value."""
        said = text(value)
        return np.isin(self.codes, [k for k, other in enumerate(self.texts) if other == said])


def text(value: Any) -> str:
    """The JSON text of a value."""
    return canonical(value).decode()


def with_row(later: dict[str | tuple[str], Any], name: str, body: Any) -> None:
    """Note a row, or with None that it is taken out."""
    if body is None:
        later.pop(name, None)
        later[(name,)] = None
    else:
        later[name] = body


def chunk_of(later: Later) -> pa.Table:
    """Rows as a chunk, with those that were taken out.

    >>> chunk_of({"x": {"a": 1}, ("y",): None}).to_pydict()
    {'name': ['"x"', '"y"'], 'whole': [None, ''], '"a"': ['1', None]}
    """
    blank: list[str | None] = [None] * len(later)
    names, columns = list[str](), {_WHOLE: [*blank]}
    for place, (name, body) in enumerate(later.items()):
        names.append(text(name if isinstance(name, str) else name[0]))
        if isinstance(body, dict) and body:
            for field, value in body.items():
                columns.setdefault(text(field), [*blank])[place] = text(value)
        else:
            columns[_WHOLE][place] = text(body) if isinstance(name, str) else _GONE
    cells = {
        field: pa.array(texts, pa.string()).dictionary_encode() for field, texts in columns.items()
    }
    return pa.table({_NAME: pa.array(names, pa.string()), **cells})


def merged(chunks: Sequence[pa.Table], first: bool) -> pa.Table:
    """Several chunks as one.

    Args:
        chunks: the oldest first.
        first: whether none is older than they are: then nothing is kept of rows that are gone.
    """
    rows = pa.concat_tables(chunks, promote_options="default").unify_dictionaries().combine_chunks()
    places: dict[str | tuple[str], int] = {}
    gone = {*np.flatnonzero(_codes(rows[_WHOLE], _GONE)).tolist()}
    for place, name in enumerate(rows[_NAME].to_pylist()):
        if place not in gone:
            places[name] = place
            continue
        places.pop(name, None)
        if not first:
            places[(name,)] = place
    live = rows.take(pa.array(places.values(), pa.int64())).combine_chunks()
    columns = {field: _compact(live[field]) for field in live.column_names if field != _NAME}
    return pa.table({_NAME: live[_NAME], **columns})


def _codes(column: pa.ChunkedArray, wanted: str) -> npt.NDArray[np.bool_]:
    """(n,) whether a cell has this text."""
    return pc.fill_null(pc.equal(column.cast(pa.string()), wanted), False).to_numpy()


def _compact(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column without texts that no row has."""
    whole = _one(column)
    used = whole.indices.drop_null().unique()
    codes = pc.index_in(whole.indices, used)
    return pa.DictionaryArray.from_arrays(codes, whole.dictionary.take(used))


def _one(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks:
        return column.combine_chunks()
    return pa.array([], pa.string()).dictionary_encode()


def written(chunk: pa.Table) -> bytes:
    """A chunk as the bytes that are kept of it: a file of Arrow's IPC format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, chunk.schema) as writer:
        writer.write_table(chunk)
    return sink.getvalue().to_pybytes()


def opened(content: bytes) -> pa.Table:
    """The chunk that bytes hold.

    Raises:
        pyarrow.ArrowException: they hold none.
    """
    rows = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    rows.validate(full=True)  # read before its signature is, perhaps by who has no key
    return rows


class Columns:
    """The rows of all chunks of a table."""

    def __init__(self, chunks: Sequence[pa.Table]) -> None:
        self._rows = merged(chunks, True) if chunks else chunk_of({})
        self._columns: dict[str, TextColumn] = {}
        self._codes: dict[str, Mapping[str | None, int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def places(self) -> dict[str, int]:
        """Name, as JSON text -> row."""
        return {name: place for place, name in enumerate(self._rows[_NAME].to_pylist())}

    def column(self, field: str) -> TextColumn:
        """A field of all rows."""
        named = text(field)
        if named not in self._columns:
            self._columns[named] = self._column(named)
        return self._columns[named]

    def _column(self, named: str) -> TextColumn:
        if named not in self._rows.column_names:
            return TextColumn(np.zeros(len(self), np.int64), (None,))
        whole = _one(self._rows[named])
        texts = [*whole.dictionary.to_pylist(), None]
        codes = pc.fill_null(whole.indices.cast(pa.int64()), len(texts) - 1)
        return TextColumn(codes.to_numpy(zero_copy_only=False), texts)

    def codes(self, field: str) -> Mapping[str | None, int]:
        """Text -> its code in the column of a field."""
        if field not in self._codes:
            self._codes[field] = {said: code for code, said in enumerate(self.column(field).texts)}
        return self._codes[field]

    def bodies(self, first: int, last: int) -> Iterator[Any]:
        """Those of the rows from one up to another."""
        part = self._rows.slice(first, last - first)
        fields = [field for field in part.column_names if field not in (_NAME, _WHOLE)]
        cells = [part[field].to_pylist() for field in (_WHOLE, *fields)]
        for whole, *texts in zip(*cells, strict=True):
            if whole is None:
                pairs = zip(fields, texts, strict=True)
                whole = f"{{{','.join(f'{field}:{said}' for field, said in pairs if said)}}}"
            yield json.loads(whole)


_SLICE = 1024  # rows that are parsed at once where all are wanted


@dataclass(frozen=True)
class FactTable(Mapping[str, Any]):
    """Rows by name, in the order in which they were first noted.

    Attributes:
        columns: of the chunks.
        later: rows since then.
    """

    columns: Columns
    later: Later

    def __getitem__(self, name: str) -> Any:
        if name in self.later:
            return self.later[name]
        place = None if (name,) in self.later else self.columns.places.get(text(name))
        if place is None:
            raise KeyError(name)
        (body,) = self.columns.bodies(place, place + 1)
        return body

    def __iter__(self) -> Iterator[str]:
        for place, name in enumerate(self.columns.places):
            if place not in self._taken_out:
                yield json.loads(name)
        yield from self._new

    def __len__(self) -> int:
        return len(self.columns) - len(self._taken_out) + len(self._new)

    def __eq__(self, other: object) -> bool:
        return Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]

    def rows(self) -> Iterator[Any]:
        """All bodies, in their order; some of them in memory at a time."""
        for first in range(0, len(self.columns), _SLICE):
            last = min(len(self.columns), first + _SLICE)
            for place, body in enumerate(self.columns.bodies(first, last), first):
                if place not in self._taken_out:
                    yield self._replaced.get(place, body)
        yield from self._new.values()

    def row(self, place: int) -> Any:
        """The body of one row.

        Args:
            place: in the order of the rows, from 0 on; as of `column`.
        """
        if place >= len(self._live):
            return [*self._new.values()][place - len(self._live)]
        at = int(self._live[place])
        return self._replaced[at] if at in self._replaced else next(self.columns.bodies(at, at + 1))

    def column(self, field: str) -> TextColumn:
        """A field of all rows."""
        if field not in self._made:
            self._made[field] = self._column(field)
        return self._made[field]

    def decoded(self, field: str) -> list[Any]:
        """What each text of a column says; None where there is no field."""
        if field not in self._said:
            texts = self.column(field).texts
            self._said[field] = [None if one is None else json.loads(one) for one in texts]
        return self._said[field]

    @cached_property
    def _made(self) -> dict[str, TextColumn]:
        return {}

    @cached_property
    def _said(self) -> dict[str, list[Any]]:
        return {}

    def _column(self, field: str) -> TextColumn:
        (codes, texts), known = self.columns.column(field), self.columns.codes(field)
        codes, more = codes.copy(), dict[str | None, int]()

        def code(body: Any) -> int:
            said = text(body[field]) if isinstance(body, dict) and field in body else None
            return known[said] if said in known else more.setdefault(said, len(texts) + len(more))

        for place, body in self._replaced.items():
            codes[place] = code(body)
        new = np.array([code(body) for body in self._new.values()], np.int64)
        return TextColumn(np.concatenate([codes[self._live], new]), [*texts, *more])

    @cached_property
    def _replaced(self) -> dict[int, Any]:
        """Row of the chunks -> what stands there now."""
        places = self.columns.places
        rows = ((places.get(text(n)), n, b) for n, b in self.later.items() if isinstance(n, str))
        return {p: b for p, n, b in rows if p is not None and (n,) not in self.later}

    @cached_property
    def _taken_out(self) -> set[int]:
        """Rows of the chunks that are no more."""
        names = (name[0] for name in self.later if isinstance(name, tuple))
        places = (self.columns.places.get(text(name)) for name in names)
        return {place for place in places if place is not None}

    @cached_property
    def _new(self) -> dict[str, Any]:
        """Rows that the chunks have not, or that were taken out before."""
        known = self.columns.places
        rows = ((name, body) for name, body in self.later.items() if isinstance(name, str))
        return {n: b for n, b in rows if (n,) in self.later or text(n) not in known}

    @cached_property
    def _live(self) -> npt.NDArray[np.int64]:
        """Rows of the chunks that still stand."""
        return np.delete(np.arange(len(self.columns)), sorted(self._taken_out))
