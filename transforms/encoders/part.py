"""Which units answer a metric, where units are divided among several: each answers one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

DRAWN = "hushbeam: drawn"  # the column of a table that holds each row's draw
ELSEWHERE = "asked for another metric"

_WORDS = 1 << 64


@dataclass(frozen=True)
class Part:
    """The units whose public draw, a 64-bit word, lies in a range.

    Attributes:
        first: the least word.
        last: the largest one.
        key: of the draws, public: a user's is a digest under it.

    >>> Part.of([0.5, 0.5], 0)[1].share
    0.5
    """

    first: int
    last: int
    key: int

    @classmethod
    def of(cls, shares: Sequence[float], key: int) -> tuple[Part, ...]:
        """All units, divided in these proportions; each falls into one part.

        Args:
            shares: of each, positive.
            key: of the draws.
        """
        # By their decimals, exactly: all parties must cut at the same words.
        exact = [Fraction(repr(share)) for share in shares]
        whole = sum(exact, Fraction())
        ends = accumulate(exact, initial=Fraction())
        cuts = [math.floor(_WORDS * end / whole) for end in ends]
        return tuple(cls(low, high - 1, key) for low, high in pairwise(cuts))

    @property
    def share(self) -> float:
        """Of the units."""
        return (self.last - self.first + 1) / _WORDS

    def rows(self, table: pa.Table) -> pa.Table:
        """The rows of the units that answer.

        Args:
            table: with the column `DRAWN`, which is left out of what is returned.
        """
        draws = table.column(DRAWN).to_numpy()
        inside = (np.uint64(self.first) <= draws) & (draws <= np.uint64(self.last))
        return table.drop_columns([DRAWN]).filter(pa.array(inside))
