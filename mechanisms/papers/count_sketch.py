"""TreeHist's frequency oracle: count sketches of the histogram, one noisy bit a user."""

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

_MOST_ROWS = 1 << 24
_TOP = np.uint64(63)
_BLOCK = 1 << 16  # values decoded at a time by `median`


@register(
    "treehist",
    task="frequency",
    sends="one bit of a Hadamard-transformed count sketch",
    source="Bassily, Nissim, Stemmer, Thakurta, NIPS 2017",
    seeded=True,
    postprocess="auto",
    small=[{**sizes, "width": 4, "sketches": 2} for sizes in SMALL],
)
@dataclass(frozen=True)
class CountSketch(NoisySign):
    """One bit of the Hadamard transform of the value's place in a random count sketch.

    Sketch k puts the value v with the sign g_k(v) into the bucket h_k(v). A client draws a sketch
    k and an index l, both uniform, and randomises g_k(v) (-1)^<l, h_k(v)>. Row k width + l of the
    matrix of signs is this pair.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        width: how many buckets a sketch has: a power of two.
        sketches: how many pairs of hash functions there are; width x sketches is at most 2^24.
            Collisions add an error of variance up to 1 / (width x sketches).
        seed: the public randomness of the hash functions. It is the same for all clients of a
            collection, by design, and may be printed: no noise comes from it.

    Source: Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NIPS
        2017, the frequency oracle of TreeHist (LocalRnd, section 4, and the count sketch of
        Charikar, Chen, Farach-Colton, ICALP 2002). The paper takes the median over the sketches,
        which is biased and not linear in the counts: `median`; `estimate` takes their mean.

    >>> mechanism = CountSketch(epsilon=1.0, domain_size=1000)
    >>> mechanism.width, mechanism.sketches, mechanism.codes
    (1024, 64, 131072)
    >>> round(float(mechanism.variance(0.0, n=10**6)) * 10**6, 2)  # all others hold one value
    19.94
    """

    epsilon: float
    domain_size: int
    width: int = 1 << 10
    sketches: int = 1 << 6
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("width", self.width)
        require_integer("sketches", self.sketches)
        if not (1 <= self.width <= _MOST_ROWS and self.width & (self.width - 1) == 0):
            raise ValueError(
                f"width must be a power of two in 1 .. {_MOST_ROWS}, not {self.width}; the next "
                f"below is {1 << min(max(self.width, 1), _MOST_ROWS).bit_length() - 1}"
            )
        most = min(_MOST_ROWS // self.width, most_functions(self.domain_size))
        if not 1 <= self.sketches <= most:
            raise ValueError(
                f"sketches must lie in 1 .. {most} at width {self.width}, not {self.sketches}"
            )

    @property
    def height(self) -> int:
        return self.width * self.sketches

    @cached_property
    def hash(self) -> PublicHash:
        """A public function for each sketch: its low bits name the bucket, its top bit the sign."""
        return PublicHash(self.seed, self.sketches, self.domain_size)

    def negative(self, rows: Words, cells: NDArray[Any]) -> NDArray[np.bool_]:
        rows, width = np.asarray(rows, np.uint64), np.uint64(self.width)
        words = self.hash.words(rows // width, cells)
        # The entry (l, h) of a Hadamard matrix is the parity of the bits that l and h have in
        # common.
        index_and_bucket = rows % width & words  # words above the width meet no bit of the index
        parity = np.bitwise_count(index_and_bucket).astype(np.uint64) & np.uint64(1)
        signs: NDArray[np.bool_] = parity != words >> _TOP
        return signs

    def support(self, counts: Counts) -> Counts:
        """How many reports support each value: one fast transform and one look-up per sketch."""
        tables, values = self._tables(counts), np.arange(self.domain_size)
        total = np.full(self.domain_size, counts.sum(), np.int64)
        for sketch, table in enumerate(tables):
            total += self._read(table, sketch, values)
        # Reports for less reports against, plus all reports, is twice the reports for.
        return total // 2

    def median(self, counts: Counts) -> Floats:
        """The median of the sketches' own estimates: a heavy collision spoils one of them only.

        Args:
            counts: (codes,) from `count`.

        Returns:
            (domain_size,) frequencies. Each sketch is unbiased over the seed; their median is so
            only as far as their errors are symmetric, and its variance is about pi/2 times
            `variance` where noise prevails.

        Raises:
            ValueError: there is no report.
        """
        tables = self._tables(counts)
        reports = counts.reshape(self.sketches, -1).sum(axis=1)
        used = np.flatnonzero(reports)
        if not used.size:
            raise ValueError("there is no report to estimate from")
        result = np.empty(self.domain_size)
        for start in range(0, self.domain_size, _BLOCK):
            values = np.arange(start, min(start + _BLOCK, self.domain_size))
            sums = [self._read(tables[k], int(k), values) / reports[k] for k in used]
            result[values] = np.median(sums, axis=0) / (2 * self.contrast)
        return result

    def _tables(self, counts: Counts) -> Counts:
        """(sketches, width) for each bucket the signed reports that speak for it."""
        plus, minus = counts.reshape(self.sketches, self.width, 2).transpose(2, 0, 1)
        return walsh_hadamard(plus - minus)

    def _read(self, table: Counts, sketch: int, values: NDArray[np.int64]) -> Counts:
        """What one sketch holds for some values, with their signs."""
        words = self.hash.words(sketch, values)
        bucket = (words & np.uint64(self.width - 1)).astype(np.int64)
        signed = table[bucket]
        return np.where(words >> _TOP, -signed, signed)


def walsh_hadamard(rows: Counts) -> Counts:
    """sum over l of (-1)^<l, h> x_l for each h: the transform of each row, exact in integers.

    Args:
        rows: (m, 2^t) int64, such that the absolute values of a row add up to less than 2^63.

    Returns:
        (m, 2^t) int64.

    >>> walsh_hadamard(np.array([[1, 2, 3, 4]])).tolist()
    [[10, -2, -4, 0]]
    """
    m, size = rows.shape
    half = 1
    while half < size:
        even, odd = rows.reshape(m, -1, 2, half).transpose(2, 0, 1, 3)
        rows = np.stack([even + odd, even - odd], axis=2).reshape(m, size)
        half *= 2
    return rows
