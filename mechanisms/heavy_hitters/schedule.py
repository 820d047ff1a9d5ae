"""The levels of a search, and which strings it will find."""

import math
from dataclasses import dataclass

from scipy import special

from mechanisms.frequency.noise_laws import Binomial
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.heavy_hitters.prefix_code import PrefixCode

MISSED = 0.1  # the probability with which a string at the detection limit is not found

_LARGEST_BEAM = 1 << 16


@dataclass(frozen=True)
class Search:
    """What is followed on the way down, and what may be wrong at the end.

    Attributes:
        beam: how many prefixes are followed further at most.
        false_strings: how many strings that nobody holds are published on average, at most; below
            1 it bounds the probability that there is any.

    Raises:
        ValueError: one of them is out of range.
    """

    beam: int = 256
    false_strings: float = 0.01

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= _LARGEST_BEAM:
            raise ValueError(f"beam must lie in 1 .. {_LARGEST_BEAM}, not {self.beam}")
        if not 0 < self.false_strings <= 1000:
            raise ValueError(f"false_strings must lie in (0, 1000], not {self.false_strings}")

    def followed(self, candidates: int) -> float:
        """The share of candidates that nobody holds that may be followed, on average.

        They fill half of the beam; the rest is for prefixes that people hold. Where the beam holds
        all candidates, all are followed.
        """
        return 1.0 if candidates <= self.beam else self.beam / 2 / candidates


@dataclass(frozen=True)
class Schedule:
    """By how many symbols each level of a search goes on, and who looks at it.

    Attributes:
        steps: (levels,) symbols.
        rows: (levels,) how many groups of users, each with a hash of its own, look at a level.
        shares: (levels,) the size of each of these groups, in parts of all users.

    >>> Schedule((2, 1), (1, 2), (4, 3)).group_shares
    (4, 3, 3)
    """

    steps: tuple[int, ...]
    rows: tuple[int, ...]
    shares: tuple[int, ...]

    @property
    def group_shares(self) -> tuple[int, ...]:
        """(groups,) the share of each group, level by level."""
        pairs = zip(self.rows, self.shares, strict=True)
        return tuple(share for rows, share in pairs for _ in range(rows))

    def last(self, level: int) -> bool:
        """Whether a level is the last one."""
        return level == len(self.steps) - 1

    def candidates(self, code: PrefixCode, level: int, beam: int) -> tuple[int, int]:
        """How many prefixes and how many whole strings a level looks at, at most."""
        growing, complete = code.growth(self.steps[level], self.last(level))
        parents = beam if level else 1
        return growing * parents, complete * parents

    def chance_of_missing(
        self, code: PrefixCode, oracle: FrequencyOracle, n: int, search: Search, frequency: float
    ) -> float:
        """A bound on the probability that a string is not found.

        It holds for strings of any length, whatever the other users hold: as many other prefixes
        as there can be are taken to be as frequent as the string, and no prefix of it to be more
        frequent than itself. Most strings are found at lower frequencies.

        Args:
            code: of the strings.
            oracle: of the buckets.
            n: how many users report.
            search: what is followed.
            frequency: the share of the users who hold the string, in (0, 1).

        Returns:
            The sum over the levels of the probabilities that it is lost there.
        """
        sizes = [self.candidates(code, i, search.beam) for i in range(len(self.steps))]
        tails = [search.followed(growing) for growing, _ in sizes]
        tails[-1] = min(1.0, search.false_strings / sum(complete for _, complete in sizes))
        everybody = sum(self.group_shares)
        levels = list(zip(self.rows, self.shares, tails, strict=True))
        # Most levels of a long string are alike, and each takes a search for a quantile.
        losses = {
            (rows, share, tail): lost(oracle, frequency, n * share / everybody, rows, tail)
            for rows, share, tail in set(levels)
        }
        return sum(losses[level] for level in levels)

    def detection_limit(
        self, code: PrefixCode, oracle: FrequencyOracle, n: int, search: Search
    ) -> float:
        """The least frequency at which every string is found with probability 1 - MISSED.

        Returns:
            A share of the users; infinity if nothing is found with that certainty.
        """

        def certain(frequency: float) -> bool:
            return self.chance_of_missing(code, oracle, n, search, frequency) <= MISSED

        # In logarithms: limits from a billionth up are told apart equally well.
        low, high = 1e-9, 1.0
        if not certain(high):
            return math.inf
        while high / low > 1 + 1e-4:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if certain(middle) else (middle, high)
        return high


def row_tail(tail: float, rows: int, frequency: float, width: int) -> float:
    """How rarely noise alone may give a row what its part of a sum of scores needs.

    Args:
        tail: how rarely chance may reach the sum.
        rows: how many groups' scores are added up.
        frequency: of the prefix that is to be found: up to 1/frequency others are as frequent, and
            whoever shares a bucket with one of them is as good.
        width: how many buckets there are.

    Returns:
        A probability; 0 or less if collisions alone are too many.
    """
    return float(special.ndtr(special.ndtri(tail) / math.sqrt(rows))) - 1 / (frequency * width)


def lost(oracle: FrequencyOracle, frequency: float, users: float, rows: int, tail: float) -> float:
    """P(a prefix is lost at a level).

    Args:
        oracle: of the buckets.
        frequency: the share of users who hold it.
        users: of each of the groups that look at the level.
        rows: how many groups they are.
        tail: how rarely chance may get as far.
    """
    if tail >= 1:
        return 0.0
    allowed = row_tail(tail, rows, frequency, oracle.domain_size)
    if not allowed > 0:
        return 1.0
    n = max(int(users), 1)
    # What chance reaches as rarely as allowed, in each of the rows.
    needed = rows * (int(Binomial(n, oracle.other).isf(allowed)) + 1)
    share = oracle.other + frequency * oracle.contrast
    return Binomial(rows * n, share).cdf(needed - 1)
