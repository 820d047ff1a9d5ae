"""Strings as rows of words of one size: each as it is, for whoever counts equal ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from mechanisms.wire.strings import NULL
from transforms.columns import as_texts, bytes_of, null, plain
from transforms.encoders.block import CellBlock, PooledBlock, SlotBlock, applicable
from transforms.encoders.encoder import BATCH, NULL_VALUE, Rows

Words = NDArray[np.uint32]

_BYTES = 1 << 24  # of the strings that are encoded at a time
_CUT = 1 << 31
_OWN = np.frombuffer(b"".join(b"\xff" * k + bytes(4 - k) for k in range(5)), np.uint32)


@dataclass(frozen=True)
class StringEncoder:
    """Each string to a row of words: how long it is and whether it was cut, and then its bytes.

    Attributes:
        column: the name of the column; integers are taken as their decimal digits.
        most: bytes of UTF-8 that are looked at, at least 1; longer strings are cut at the end of
            a character.
        pools: whether equal strings of a batch are there once: for who counts them.
    """

    column: str
    most: int
    pools: bool = False

    @property
    def kind(self) -> type[Any]:
        return PooledBlock if self.pools else CellBlock

    @property
    def batch_size(self) -> int:
        return max(1, min(4 * BATCH, _BYTES // self.most))

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.column: pa.string()}

    def encode(
        self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource
    ) -> CellBlock | PooledBlock:
        texts, places = vocabulary(batch.column(self.column), rows)
        return in_block(words_of(texts, self.most), places, self.pools)


def vocabulary(column: pa.Array, rows: Rows) -> tuple[pa.Array, NDArray[np.int32]]:
    """Texts, and which of them each row that is used holds; rows without one are rejected.

    Args:
        column: n values that `as_texts` takes.
        rows: which of them are used.

    Returns:
        (m,) large strings, different ones unless the column has a dictionary of its own, which may
        have a text twice, or one of no row; and (used,) places among them.
    """
    column = plain(column)
    rows.reject(NULL_VALUE, null(column))
    kept = column if rows.kept.all() else column.filter(pa.array(rows.kept))
    coded = kept if pa.types.is_dictionary(kept.type) else as_texts(kept).dictionary_encode()
    return as_texts(coded.dictionary), coded.indices.to_numpy()


def in_block(pool: Words, places: NDArray[Any], pools: bool) -> CellBlock | PooledBlock:
    """Rows that are some of a pool, with it or by themselves."""
    if pools:
        return PooledBlock(places.astype(np.uint32), pool)
    return CellBlock(pool.take(places, axis=0), None)


def width_of(most: int) -> int:
    """Words of a string of which so many bytes are looked at."""
    return 1 + -(-most // 4)


def words_of(texts: pa.Array, most: int) -> Words:
    """(n, width) of a column of large strings without nulls; see `StringEncoder`."""
    if not len(texts):
        return np.zeros((0, width_of(most)), np.uint32)
    symbols, ends = bytes_of(texts)
    # Only what these rows hold: slices share the buffer of a whole row group.
    symbols, starts, lengths = symbols[ends[0] : ends[-1]], ends[:-1] - ends[0], np.diff(ends)
    cut, kept = lengths > most, np.minimum(lengths, most)
    for _ in range(3):  # bytes of a character after its first
        long = np.flatnonzero(cut & (kept > 0))
        inside = long[symbols[starts[long] + kept[long]] >> 6 == 0b10]
        kept[inside] -= 1
    words = np.zeros((len(texts), width_of(most)), np.uint32)
    words[:, 0] = kept + np.where(cut, _CUT, 0)
    # The four bytes from each place on; those beyond a string's end belong to the next one.
    fours = np.ndarray(symbols.size + 1, np.uint32, symbols.tobytes() + bytes(4), strides=(1,))
    active = np.arange(len(texts))
    for place in range(int(kept.max(initial=0) + 3) // 4):
        left = kept.take(active) - 4 * place
        active, left = active.compress(left > 0), left.compress(left > 0)
        words[active, 1 + place] = fours[starts.take(active) + 4 * place] & _OWN.take(
            left, mode="clip"
        )
    return words


def texts_of(words: Words) -> tuple[list[str], NDArray[np.bool_]]:
    """The strings of some rows, and which of them were not cut.

    What is no text, in a file that says it is, comes out with its bytes spelt.
    """
    lengths, whole = words[:, 0] & np.uint32(_CUT - 1), words[:, 0] < _CUT
    rows = np.ascontiguousarray(words[:, 1:])
    pairs = zip(rows, lengths.tolist(), strict=True)
    texts = [row.tobytes()[:length].decode(errors="backslashreplace") for row, length in pairs]
    return texts, whole


def possible(words: Words) -> NDArray[np.bool_]:
    """(n,) which rows `words_of` can have made; an empty slot is none, nor what a liar pads.

    Else one string would have as many rows as there are ways to pad it.
    """
    room = 4 * (words.shape[1] - 1)
    lengths = words[:, 0] & np.uint32(_CUT - 1)
    padding = np.ascontiguousarray(words[:, 1:]).view(np.uint8)
    over = np.arange(room) >= lengths[:, None]
    return np.asarray((lengths <= room) & ~((padding != 0) & over).any(axis=1))


def gathered(block: CellBlock, most: int, rng: RandomSource) -> SlotBlock:
    """What units send: a string in each slot, in random order, and `NULL` in those that are empty.

    Args:
        block: of strings, all of each unit, no two of one unit alike.
        most: slots of a unit, and strings that it has at the most.
        rng: shuffles the slots, or the last ones would be empty more often than others.

    Returns:
        (units, most, w) words, and the units' names in ascending order, if they have any.
    """
    live = applicable(block)
    names, units = None, np.arange(live.size)
    if live.users is not None:
        names, units = np.unique(live.users, return_inverse=True)
    order = np.argsort(units, kind="stable")
    starts = np.searchsorted(units[order], np.arange(live.size if names is None else names.size))
    slots = np.full((starts.size, most, live.cells.shape[1]), NULL, np.uint32)
    slots[units[order], np.arange(live.size) - starts[units[order]]] = live.cells[order]
    places = np.argsort(rng.words(starts.size * most).reshape(-1, most), axis=1)
    return SlotBlock(np.take_along_axis(slots, places[:, :, None], axis=1), names)


def as_binary(words: NDArray[Any]) -> pa.Array:
    """Rows of words as Arrow tells them apart: n entries of their bytes."""
    rows = np.ascontiguousarray(words)
    kind = pa.binary(rows.shape[1] * rows.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])


def distinct(words: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows are equal.

    Args:
        words: (n, w)

    Returns:
        (m,) where each of the distinct rows stands first; (n,) which of them each row is.
    """
    places = as_binary(words).dictionary_encode().indices.to_numpy().astype(np.int64)
    # Arrow numbers values in the order in which they come, so a row is new where the count grows.
    grown = np.maximum.accumulate(places) if places.size else places
    return np.flatnonzero(np.diff(grown, prepend=-1)), places
