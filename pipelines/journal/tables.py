"""Tables of a journal: rows by name, in immutable columnar chunks, and what came after them.

A cell is JSON text, and a column keeps each distinct text once: the losses of 50,000 releases of
one plan are one text. So whoever filters or adds up compares numbers, and parses few texts.
"""

from __future__ import annotations

import json
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.journal.checkpoint import canonical

_NAME, _WHOLE = "name", "whole"  # columns beside those of fields, whose names begin with a quote
_GONE = ""  # the text of a row that was taken out; JSON is never empty
_TEXTS = pa.dictionary(pa.int32(), pa.string())

_Places = npt.NDArray[np.int64]

Later = Mapping[str | tuple[str], Any]
"""Rows by name, in the order in which they were noted; (name,) where one was taken out."""


class TextColumn(NamedTuple):
    """One field of all rows of a table, in their order.

    Attributes:
        codes: (n,) places in `texts`.
        texts: JSON, each once; null where a row has no such field.
    """

    codes: npt.NDArray[np.int64]
    texts: pa.StringArray

    def equals(self, value: Any) -> npt.NDArray[np.bool_]:
        """(n,) whether a row has this value."""
        return np.asarray(self.codes == pc.index(self.texts, text(value)).as_py())

    def with_rows(self, said: pa.StringArray) -> TextColumn:
        """The same, and more rows at its end."""
        new = said.unique()
        texts = pa.concat_arrays([self.texts, new.filter(pc.invert(pc.is_in(new, self.texts)))])
        codes = pc.index_in(said, texts).to_numpy(zero_copy_only=False)
        return TextColumn(np.concatenate([self.codes, codes.astype(np.int64)]), texts)


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
    gone, live = _standing(chunks)
    places = pa.array(live if first else np.concatenate([gone, live]))
    fields = dict.fromkeys(chain.from_iterable(chunk.column_names for chunk in chunks))
    columns = {field: _joined(chunks, field).take(places) for field in fields}
    return pa.table({
        field: cells if field == _NAME else _compact(cells) for field, cells in columns.items()
    })  # fmt: skip


def _standing(chunks: Sequence[pa.Table]) -> tuple[_Places, _Places]:
    """Rows of chunks, counted through: where names were taken out last, and those that stand.

    There stands the last row of a name, in the order of the first ones since it was taken out.
    """
    names = _joined(chunks, _NAME).dictionary_encode()
    codes, rows = names.indices.to_numpy(), np.arange(len(names))
    whole = _joined(chunks, _WHOLE)
    gone = pc.equal(whole.indices, pc.index(whole.dictionary, _GONE).cast(pa.int32()))
    gone = pc.fill_null(gone, False).to_numpy(zero_copy_only=False)
    # Of several rows that are assigned to one place numpy keeps the last.
    ended = np.full(len(names.dictionary), -1)
    ended[codes[gone]] = rows[gone]
    live = rows[~gone & (rows > ended[codes])]
    begun, last = ended.copy(), ended.copy()
    begun[codes[live[::-1]]] = live[::-1]
    last[codes[live]] = live
    return ended[ended >= 0], last[codes[live[begun[codes[live]] == live]]]


def _joined(chunks: Sequence[pa.Table], field: str) -> pa.Array:
    """A column of several chunks in one piece; null where a chunk has it not."""
    parts = (
        chunk[field].chunks if field in chunk.column_names else [pa.nulls(len(chunk), _TEXTS)]
        for chunk in chunks
    )
    whole = pa.chunked_array(chain.from_iterable(parts), pa.string() if field == _NAME else _TEXTS)
    return whole.unify_dictionaries().combine_chunks()


def _compact(whole: pa.DictionaryArray) -> pa.DictionaryArray:
    """A column without texts that no row has."""
    used = whole.indices.drop_null().unique()
    codes = pc.index_in(whole.indices, used)
    return pa.DictionaryArray.from_arrays(codes, whole.dictionary.take(used))


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
    kinds = dict.fromkeys(rows.column_names, _TEXTS) | {_NAME: pa.string(), _WHOLE: _TEXTS}
    return rows.cast(pa.schema(kinds))


class Columns:
    """The rows of all chunks of a table; a column is put together when it is looked at."""

    def __init__(self, chunks: Sequence[pa.Table]) -> None:
        self._chunks = [*chunks] or [chunk_of({})]
        _, self._rows = _standing(self._chunks)
        self._columns: dict[str, TextColumn] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def places(self) -> dict[str, int]:
        """Name, as JSON text -> row."""
        names = _joined(self._chunks, _NAME).take(pa.array(self._rows))
        return dict(zip(names.to_numpy(zero_copy_only=False).tolist(), count(), strict=False))

    def column(self, field: str) -> TextColumn:
        """A field of all rows."""
        if field not in self._columns:
            whole = _joined(self._chunks, text(field))
            texts = pa.concat_arrays([whole.dictionary, pa.nulls(1, pa.string())])
            codes = pc.fill_null(whole.indices.cast(pa.int64()), len(texts) - 1).to_numpy()
            self._columns[field] = TextColumn(codes[self._rows], texts)
        return self._columns[field]

    def bodies(self, first: int, last: int) -> Iterator[Any]:
        """Those of the rows from one up to another."""
        rows, starts = self._rows[first:last], np.cumsum([0, *map(len, self._chunks)])
        chunks = np.searchsorted(starts, rows, "right") - 1
        # Pieces of rows that stand one below the other in a chunk: to pick others takes long.
        ends = np.flatnonzero((np.diff(rows) != 1) | (np.diff(chunks) != 0)) + 1
        for begun, end in pairwise([0, *ends.tolist(), len(rows)]):
            chunk = int(chunks[begun])
            yield from _bodies(self._chunks[chunk].slice(rows[begun] - starts[chunk], end - begun))


def _bodies(rows: pa.Table) -> Iterator[Any]:
    fields = [field for field in rows.column_names if field not in (_NAME, _WHOLE)]
    columns = rows.select([_WHOLE, *fields]).columns
    if len(rows) >= _FEW:
        columns = [column.cast(pa.string()) for column in columns]
    for whole, *texts in zip(*(column.to_pylist() for column in columns), strict=True):
        if whole is None:
            pairs = zip(fields, texts, strict=True)
            whole = f"{{{','.join(f'{field}:{said}' for field, said in pairs if said)}}}"
        yield json.loads(whole)


_SLICE = 1024  # rows that are parsed at once where all are wanted
_FEW = 8  # rows: of less, texts are had from codes one by one in a quarter of the time


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

    def items(self) -> ItemsView[str, Any]:
        """Names and bodies, in their order; to look each up would take a hundred times as long."""
        return dict(zip(self, self.rows(), strict=True)).items()

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
            texts = self.column(field).texts.to_pylist()
            self._said[field] = [None if one is None else json.loads(one) for one in texts]
        return self._said[field]

    @cached_property
    def _made(self) -> dict[str, TextColumn]:
        return {}

    @cached_property
    def _said(self) -> dict[str, list[Any]]:
        return {}

    def _column(self, field: str) -> TextColumn:
        older, bodies = self.columns.column(field), (*self._replaced.values(), *self._new.values())
        later = older.with_rows(pa.array(
            [text(b[field]) if isinstance(b, dict) and field in b else None for b in bodies],
            pa.string(),
        ))  # fmt: skip
        rows = np.arange(len(later.codes))
        rows[[*self._replaced]] = len(self.columns) + np.arange(len(self._replaced))
        new = len(self.columns) + len(self._replaced)
        return later._replace(codes=later.codes[np.concatenate([rows[self._live], rows[new:]])])

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
