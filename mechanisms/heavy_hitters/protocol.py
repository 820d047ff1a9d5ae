"""What clients and the collector of a search share: code, hash, levels. All of it is public."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.heavy_hitters.prefix_code import Codes, PrefixCode
from mechanisms.heavy_hitters.prefix_hash import PrefixHash
from mechanisms.heavy_hitters.schedule import Schedule
from mechanisms.randomness import RandomSource

_BLOCK = 1 << 16  # strings encoded at a time


@dataclass(frozen=True)
class Protocol(AsFields):
    """A prefix tree that is looked at by groups of users, each at one level.

    Attributes:
        code: of the strings.
        schedule: the levels.
        oracle: what reports the bucket of a prefix.
        seed: of the public hash. Draw it anew for each collection, and not after looking at the
            values: what is said about collisions holds over the choice of the seed.

    Source: Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE TDSC
        2019 (PEM, the non-interactive form); Bassily, Nissim, Stemmer, Thakurta, "Practical
        locally private heavy hitters", NIPS 2017 (TreeHist). Here users are divided unevenly, and
        each level is looked at under several hashes.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> from mechanisms.randomness import SeededRandom
    >>> protocol = Protocol(PrefixCode("ab", 3), Schedule((2, 1), (1, 2), (1, 1)), k_ary(1.0, 8), 7)
    >>> codes, _ = protocol.code.encode(["ab", "aba"])
    >>> protocol.levels.groups, protocol.cells(codes, SeededRandom(1)).size
    (3, 2)
    """

    code: PrefixCode
    schedule: Schedule
    oracle: FrequencyOracle
    seed: int

    def __post_init__(self) -> None:
        if sum(self.schedule.steps) != self.code.max_length:
            raise ValueError(
                f"the steps must add up to {self.code.max_length} symbols, "
                f"not to {sum(self.schedule.steps)}"
            )

    @cached_property
    def levels(self) -> Levels:
        """The mechanism that perturbs the cells."""
        return Levels(self.oracle, self.schedule.group_shares)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """(levels,) how many symbols of a code each level looks at."""
        ends = np.cumsum(self.schedule.steps).tolist()
        return (*ends[:-1], self.code.positions)

    @cached_property
    def hash(self) -> PrefixHash:
        """The public hash of each group."""
        pairs = zip(self.lengths, self.schedule.rows, strict=True)
        lengths = tuple(length for length, rows in pairs for _ in range(rows))
        symbols = self.code.symbols + 1  # that of no string among them
        return PrefixHash(self.seed, self.oracle.domain_size, lengths, symbols)

    def groups(self, level: int) -> NDArray[np.int64]:
        """The groups that look at a level, and behind them those of all later ones."""
        return np.arange(sum(self.schedule.rows[:level]), sum(self.schedule.rows))

    def cells(self, codes: Codes, rng: RandomSource) -> NDArray[np.uint32]:
        """The client's step before it perturbs: draw a group, and hash what that group looks at.

        Args:
            codes: (n, positions) of the users' strings.
            rng: draws the groups.

        Returns:
            (n,) input cells of `levels`.
        """
        # Drawn without the value: which level a user speaks for reveals nothing.
        groups = self.levels.draw(len(codes), rng)
        cells = np.empty(len(codes), np.uint32)
        for start in range(0, len(codes), _BLOCK):
            block = slice(start, start + _BLOCK)
            buckets = self.hash.buckets(codes[block], groups[block])
            cells[block] = groups[block] * self.oracle.domain_size + buckets
        return cells
