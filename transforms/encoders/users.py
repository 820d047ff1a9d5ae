"""Users as 64-bit digests: enough to tell them apart, and nothing raw travels further."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from transforms.columns import is_integer, is_text, value_type

Digests = NDArray[np.uint64]

_ODD_1, _ODD_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_OWN = np.frombuffer(b"".join(b"\xff" * k + bytes(8 - k) for k in range(9)), np.uint64)


def mix(words: Digests) -> Digests:
    """A bijection of 64-bit words that spreads every bit (the finaliser of SplitMix64).

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    words = (words ^ (words >> np.uint64(30))) * _ODD_1
    words = (words ^ (words >> np.uint64(27))) * _ODD_2
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True)
class UserDigest:
    """Digests of a user column, keyed afresh for each job so that no one can aim for collisions.

    Integers map one to one. Strings may collide, about once in 2^64 / m^2 jobs of m users; two
    users that do are bounded as if they were one, which costs a report and no privacy.

    Attributes:
        column: the name of the user column.
        key: 0 .. 2^64 - 1, drawn once for the whole job, or for several that are to agree.
        as_text: whether an integer is taken for its decimals, as where another job's column, of the
            same users, may hold them as text.
    """

    column: str
    key: int
    as_text: bool = False

    @staticmethod
    def accepts(column: pa.DataType) -> bool:
        """Whether users can be told apart by a column of this type.

        A column without a single value has Arrow's null type: to refuse it would tell that nobody
        took part.
        """
        kind = value_type(column)
        if pa.types.is_null(kind):
            return True
        binary = kind in (pa.binary(), pa.large_binary(), pa.binary_view())
        return is_integer(kind) or is_text(kind) or binary or pa.types.is_fixed_size_binary(kind)

    def __call__(self, ids: pa.Array) -> Digests:
        """One digest per row; equal ids get equal digests on every worker.

        Args:
            ids: n ids of a type that `accepts` admits; nulls, if any, outside its dictionary.

        Returns:
            (n,) uint64; the digest of a null means nothing.
        """
        if pa.types.is_dictionary(ids.type):
            return self(ids.dictionary)[ids.indices.fill_null(0).to_numpy()]
        if pa.types.is_integer(ids.type) and not self.as_text:
            filled = ids.fill_null(0) if ids.null_count else ids
            # Through int64, so that a column's width does not change a user's digest.
            words = filled.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
            return self._seal(mix(words ^ np.uint64(self.key)))
        texts = ids.cast(pa.large_string()) if pa.types.is_integer(ids.type) else ids
        return self._digest_bytes(texts.cast(pa.large_binary()))

    def _digest_bytes(self, ids: pa.Array) -> Digests:
        """Absorb eight bytes at a time from all strings at once, shortest dropping out first."""
        _, offset_buffer, data = ids.buffers()
        offsets = np.frombuffer(offset_buffer, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
        # Of the data only what these rows hold: slices share the buffer of a whole row group.
        text = data[offsets[0] : offsets[-1]].to_pybytes() if data else b""
        # The eight bytes from each place on; those beyond a string's end belong to the next one.
        eights = np.ndarray(len(text) + 1, np.uint64, text + bytes(8), strides=(1,))
        state = mix(lengths.astype(np.uint64) ^ np.uint64(self.key))
        active = np.arange(len(ids))
        for position in range(0, int(lengths.max(initial=0)), 8):
            active = active.compress(lengths.take(active) > position)
            own = _OWN.take(lengths.take(active) - position, mode="clip")
            words = eights[starts.take(active) + position] & own
            state[active] = mix(state.take(active) ^ words)
        return self._seal(state)

    def _seal(self, words: Digests) -> Digests:
        """Keyed once more: one round can be undone up to the key, and shows how two ids differ."""
        return mix(words + np.uint64(self.key))


def fresh_digest(column: str | None) -> UserDigest | None:
    """Digests of a user column under a key of their own; None where rows are the unit."""
    return None if column is None else UserDigest(column, int(SecureRandom().words(1)[0]))
