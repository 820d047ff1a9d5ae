"""SHist's frequency oracle: a random projection of the histogram, one noisy bit a user."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats, require_integer
from mechanisms.frequency.oracle import SMALL
from mechanisms.papers.noisy_sign import NoisySign
from mechanisms.papers.public_hash import PublicHash, most_functions
from mechanisms.randomness import Words
from mechanisms.registry import register

_BITS = 64  # rows that share a hash function, one for each bit of its word
_BYTE = 256
_MOST_ROWS = 1 << 20
_ENTRIES = 1 << 18  # of the matrix, expanded at a time: so few stay in a core's cache


@register(
    "shist",
    task="frequency",
    sends="one bit of a random projection",
    source="Bassily, Smith, STOC 2015",
    seeded=True,
    postprocess="auto",
    small=[{**sizes, "rows": 8} for sizes in SMALL],
)
@dataclass(frozen=True)
class RandomProjection(NoisySign):
    """A random entry of the value's column in a matrix of random signs, flipped by a coin.

    Entry (j, v) of the matrix is bit j mod 64 of the word of v under the public hash function
    j // 64, so a client needs some tables of a few KiB, never the matrix.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        rows: m, the dimension projected to, at most 2^20. Two values are told apart by about
            half of the rows; what the other half do not even out is an error of variance up to
            1/m: at the default, what randomisation costs 300,000 reports at epsilon 1.
        seed: the public randomness of the matrix. It is the same for all clients of a
            collection, by design, and may be printed: no noise comes from it.

    Source: Bassily, Smith, "Local, private, efficient protocols for succinct histograms", STOC
        2015, the frequency oracle (Algorithms 3 to 5) with the basic randomizer (Algorithm 1).
        Signs of three values are independent here, over the seed; the paper asks for more only to
        bound tails.

    >>> mechanism = RandomProjection(epsilon=1.0, domain_size=1000)
    >>> mechanism.rows, mechanism.codes
    (65536, 131072)
    >>> round(float(mechanism.variance(0.0, n=10**6)) * 10**6, 2)  # all others hold one value
    19.94
    """

    epsilon: float
    domain_size: int
    rows: int = 1 << 16
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("rows", self.rows)
        most = min(_MOST_ROWS, most_functions(self.domain_size) * _BITS)
        if not 1 <= self.rows <= most:
            raise ValueError(f"rows must lie in 1 .. {most}, not {self.rows}")

    @property
    def height(self) -> int:
        return self.rows

    @cached_property
    def hash(self) -> PublicHash:
        """The public functions, one for each 64 rows."""
        return PublicHash(self.seed, -(-self.rows // _BITS), self.domain_size)

    def negative(self, rows: Words, cells: NDArray[Any]) -> NDArray[np.bool_]:
        rows = np.asarray(rows, np.uint64)
        words = self.hash.words(rows // np.uint64(_BITS), cells)
        return (words >> rows % np.uint64(_BITS) & np.uint64(1)).astype(np.bool_)

    def support(self, counts: Counts) -> Counts:
        """How many reports support each value: the transposed matrix times what came in each row.

        A word is the exclusive or of one word for each byte of the value, so a sign is the product
        of a sign for the lowest byte and one for the rest, and the vector of d sums is a product
        of two matrices of 256 columns and of d/256.

        Raises:
            ArithmeticError: the counts are too large for exact arithmetic in doubles.
        """
        n = int(counts.sum())
        if not n <= 1 << 53:  # no partial sum of signed counts is larger
            raise ArithmeticError(f"{n} reports are too many to decode exactly in doubles")
        # The last function may have bits without a row: they weigh nothing.
        surplus = np.zeros(self.hash.functions * _BITS)
        surplus[: self.rows] = counts[::2] - counts[1::2]
        upper = -(-self.domain_size // _BYTE)
        step = max(1, _ENTRIES // (_BITS * max(upper, _BYTE)))
        total = np.zeros((upper, _BYTE))
        for start in range(0, self.hash.functions, step):
            functions = np.arange(start, min(start + step, self.hash.functions))
            rows = surplus[start * _BITS : (start + step) * _BITS]
            high, low = self._factors(functions)
            total += high.T @ (low * rows[:, None])
        return (total.ravel()[: self.domain_size].astype(np.int64) + n) // 2

    def _factors(self, functions: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The signs of the values' higher bytes, (rows, d/256), and of the lowest, (rows, 256)."""
        lowest = self.hash.tables[functions, 0]
        without = np.arange(0, self.domain_size, _BYTE)
        highest = self.hash.words(functions[:, None], without) ^ lowest[:, :1]
        return _signs(highest), _signs(lowest)


def _signs(words: Words) -> Floats:
    """(functions, values) words -> (64 functions, values) signs: -1 where the bit is set."""
    # Bytes of a word, lowest first, whatever the machine's order.
    octets = words.astype("<u8").view(np.uint8).reshape(*words.shape, 8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")
    return 1 - 2 * bits.transpose(0, 2, 1).reshape(-1, words.shape[1]).astype(np.float64)
