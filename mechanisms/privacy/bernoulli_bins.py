"""Shuffled one-hot vectors whose bits are flipped independently: a batch is the sums of its bins.

Replacing one user's value touches two bins. What hides it there is the other users' bits, whose
law depends on how many of them hold either value: the worst numbers are not known in closed form.
From below we take batches that exist. From above, the numbers of other holders are divided into
ranges. Within a range those bits count in full that all its members share; of any other user's
bit no more than the coin that holders and non-holders share (the privacy blanket of one bit). One
range is enough where that coin is nearly all of the noise. Of many users one law dominates those of
all ranges, in either bin.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise

import numpy as np

from mechanisms.privacy.binomial_edges import (
    LEAST_VARIANCE,
    Edges,
    binomial_edges,
    binomial_sum,
    seldom_below,
)
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.dominating_bins import Mixture, Profile, dominating
from mechanisms.privacy.search import gaussian_epsilon, private_end
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta

_UNIT = 2.0**-53
_TOLERANCE = 0.01  # share of a count's variance that a range may forgo
_MOST_RANGES = 64
_FEW = 24  # users up to which every number of holders is a range of its own, and nothing is lost
_NEGLIGIBLE = 1e-4  # of delta: for there being fewer blanket coins than we count on
_LEAST_TAIL = 1e-30
_TAILS = (1e-3, 0.05)  # further numbers of blanket coins, where all users have one only, or ...
_SMALL = 1 << 12  # ... there are so few users that numbers vary by much
_LARGEST_LOSS = 512.0


@dataclass(frozen=True)
class Bin:
    """The number of ones among independent bits, one of which is that of the user who differs.

    Attributes:
        users: how many others there are, holders of the bin's value or not.
        keep: P(bit is 1 | the user is a holder).
        other: P(bit is 1 | the user is not), below keep.
    """

    users: int
    keep: float
    other: float

    @cached_property
    def coin(self) -> tuple[float, float]:
        """(chance, bias): any user's bit is, at least with that chance, a coin of that bias."""
        # other + (1 - keep): what the bits of holders and non-holders have in common.
        share = 1 - (self.keep - self.other)
        bias = min(self.other / share, 1.0) if share > 0 else 0.0
        heads = self.other / bias if bias > 0 else 1.0
        tails = (1 - self.keep) / (1 - bias) if bias < 1 else 1.0
        # Rounded down, for coins that are not counted can only raise delta.
        return min(heads, tails, 1.0) * (1 - 8 * _UNIT), bias

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """Numbers of holders, first and last, that are treated alike; together 0 .. users."""
        if self.users <= _FEW:
            return [(holders, holders) for holders in range(self.users + 1)]
        chance, bias = self.coin
        holder, free = self.keep * (1 - self.keep), self.other * (1 - self.other)
        least = self.users * min(holder, free) * (1 - _TOLERANCE)
        lost = free - chance * bias * (1 - bias)  # variance, for each user of whom we only know
        ranges, first = [], 0
        while first <= self.users:
            # A range grows until the bits of which nothing is known have cost it the tolerated
            # variance.
            spare = first * holder + (self.users - first) * free - least
            reach = spare / lost if lost > 0 else math.inf
            # Each costs a law, so there may not be many, however loose that makes them.
            step = max(min(reach, self.users), self.users // _MOST_RANGES)
            last = min(self.users, first + math.floor(step))
            ranges.append((first, last))
            first = last + 1
        return ranges

    def look(self, holders: int, free: int, coins: int = 0) -> tuple[BinLaw, Profile]:
        """The count, from so many holders' and others' bits and blanket coins, and the user's.

        A law that tells no more apart than the count does, and a profile that tells no less.
        """
        parts = ((holders, self.keep), (free, self.other), (coins, self.coin[1]))
        if sum(n * chance * (1 - chance) for n, chance in parts) >= LEAST_VARIANCE:
            edges = binomial_edges(*parts)
            return self._cells(edges), Profile.of_edges(edges, self.keep, self.other)
        count = binomial_sum(*parts)
        longer, shifted = np.append(count.pmf, 0.0), np.insert(count.pmf, 0, 0.0)
        law = BinLaw(
            self.keep * shifted + (1 - self.keep) * longer,
            self.other * shifted + (1 - self.other) * longer,
            count.missing,
            count.relative + 8 * _UNIT,
            count.distance,
        )
        return law, Profile.of_law(law)

    def several(self, bits: int, holders: int, free: int, coins: int) -> BinLaw:
        """As `look`, where the user who differs has several bits, which are all alike."""
        others = binomial_sum((holders, self.keep), (free, self.other), (coins, self.coin[1]))
        both = [binomial_sum((bits, own), onto=others) for own in (self.keep, self.other)]
        first = min(law.first for law in both)
        last = max(law.first + law.pmf.size for law in both)
        seen = [np.pad(x.pmf, (x.first - first, last - x.first - x.pmf.size)) for x in both]
        errors = [(law.missing, law.relative, law.distance) for law in both]
        return BinLaw(seen[0], seen[1], *map(max, *errors))

    def _cells(self, edges: Edges) -> BinLaw:
        """Counts put together: whoever sees cells sees less."""
        below, cell = edges.below, edges.cell[:-1]
        # More of others' bits that one bit puts into the cell than out of it.
        occupied, free = (cell - bit * np.diff(below) for bit in (self.keep, self.other))
        terms = cell + self.keep * (below[1:] + below[:-1])  # which are rounded, each by as much
        rounded = float((terms / np.minimum(occupied, free)).max())
        relative = edges.relative
        missing = edges.missing + float(edges.cell[-1] + below[-1]) * (1 + relative)
        return BinLaw(occupied, free, missing, 1.01 * relative * rounded + 8 * _UNIT)

    def dominating(self, tail: float) -> list[BinLaw]:
        """For each number of holders its law, or for all one that any of theirs refines.

        Numbers of blanket coins are missed ever more often; how many there are is given away.
        """
        if self.users <= _FEW:
            return [self.look(holders, self.users - holders)[0] for holders, _ in self.ranges]
        further = _TAILS if len(self.ranges) == 1 or self.users < _SMALL else ()
        tails = (tail, *(t for t in further if t > tail), 1.0)
        mixtures = [self._mixture(first, last, tails) for first, last in self.ranges]
        return [dominating(mixtures, tail)]

    def _mixture(self, first: int, last: int, tails: tuple[float, ...]) -> Mixture:
        """A range of holders, by how many of those who may or may not be some toss the coin."""
        chance, _ = self.coin
        return [
            (more - tail, self.look(first, self.users - last, coins)[1])
            for tail, more in pairwise(tails)
            for coins in [seldom_below(last - first, chance, tail)]
        ]


@dataclass(frozen=True)
class _NeighbouringBatches:
    """All neighbouring batches of n users."""

    bin: Bin

    @property
    def local_epsilon(self) -> float:
        """What one report loses: both bits that differ say the same."""
        keep, other = self.bin.keep, self.bin.other
        if other == 0 or keep == 1:
            return math.inf
        return math.log(keep / other * ((1 - other) / (1 - keep))) * (1 + 16 * _UNIT)

    @cached_property
    def alone(self) -> BinLaw:
        """The user's own bit."""
        return self.bin.look(0, 0)[0]

    @cached_property
    def attained(self) -> list[tuple[BinLaw, BinLaw]]:
        """Batches that exist: all others hold a third value, or one of the two."""
        none, all_ = self.bin.look(0, self.bin.users)[0], self.bin.look(self.bin.users, 0)[0]
        return [(none, none), (all_, none), (none, all_)]

    def lower(self, epsilon: float, values: int) -> float:
        """Some batches differ by this much; of two values there is no third to hold."""
        return max(two_bins_delta(*pair, epsilon)[0] for pair in self.attained[values < 3 :])

    def upper(self, laws: list[BinLaw], epsilon: float) -> float:
        """No batches differ by more, given what dominates them."""
        if epsilon >= self.local_epsilon:
            return 0.0
        alone = two_bins_delta(self.alone, self.alone, epsilon)[1]
        # The bins cannot have more holders between them than there are users: such pairs of
        # numbers are left out.
        pairs = (
            (one, other) for a, one in enumerate(laws) for other in laws[: max(1, len(laws) - a)]
        )
        return min(alone, max(two_bins_delta(*pair, epsilon)[1] for pair in pairs))


@lru_cache(maxsize=8)  # a search asks again and again
def dominating_ones(ones: Bin, tail: float) -> BinLaw:
    """What any number of very many holders refines, but for the tail."""
    (law,) = ones.dominating(tail)
    return law


@lru_cache(maxsize=32)
def _batch(n: int, keep: float, other: float) -> _NeighbouringBatches:
    """The checked batch; kept because a search for n or epsilon asks again and again."""
    require_batch(n)
    if not 0 <= other < keep <= 1:
        raise ValueError(f"0 <= other < keep <= 1 must hold, not keep {keep} and other {other}")
    return _NeighbouringBatches(Bin(n - 1, keep, other))


def unary_delta(
    n: int, keep: float, other: float, epsilon: float, values: int = 3
) -> tuple[float, float]:
    """delta of one replaced value in a shuffled batch of independently flipped one-hot vectors.

    Args:
        n: how many users, at least 1.
        keep: P(bit is 1 | the user holds the bin's value); taken as exact.
        other: P(bit is 1 | the user does not), below keep; taken as exact.
        epsilon: at least 0, in nats.
        values: d, of which two and more than two differ.

    Returns:
        (lower, upper). Batches exist that lose the first; none lose more than the second.

    Raises:
        ValueError: an argument is out of range, or not a number.

    Source: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019,
        section 5, applied to each bin; the divergence of the two bins is computed, not bounded.

    >>> lower, upper = unary_delta(n=10_000, keep=0.5, other=0.01, epsilon=0.3)
    >>> f"{lower:.3e} {upper:.3e}"
    '1.409e-07 1.860e-07'
    """
    require_loss(epsilon)
    batch = _batch(n, keep, other)
    lower = batch.lower(epsilon, values)

    def upper_delta(size: float) -> float:
        """With a tail that is negligible against a delta of this size."""
        tail = max(_NEGLIGIBLE * size, _LEAST_TAIL)
        return batch.upper(batch.bin.dominating(tail), epsilon)

    # Every tail gives a valid bound. The lower bound says how small a tail is negligible; where
    # that was far too small, the bound itself says it better.
    first = upper_delta(lower)
    upper = min(first, upper_delta(first)) if first > 2 * lower else first
    return min(lower, upper), upper


def unary_epsilon(
    n: int, keep: float, other: float, delta: float, values: int = 3
) -> tuple[float, float]:
    """epsilon of one replaced value in a shuffled batch of independently flipped one-hot vectors.

    Args:
        n: how many users, at least 1.
        keep: P(bit is 1 | the user holds the bin's value); taken as exact.
        other: P(bit is 1 | the user does not), below keep; taken as exact.
        delta: in (0, 1).
        values: d, of which two and more than two differ.

    Returns:
        (lower, upper); the upper one is never above what one report loses, and infinite if no
        epsilon below 512 meets delta.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require_delta(delta)
    batch = _batch(n, keep, other)
    dominating = batch.bin.dominating(max(_NEGLIGIBLE * delta, _LEAST_TAIL))

    def upper_delta(epsilon: float) -> float:
        return batch.upper(dominating, epsilon)

    # Only a place to start: the noise of a bin whose value nobody else holds.
    noise = n * other * (1 - other)
    guess = gaussian_epsilon((keep - other) * math.sqrt(2 / max(noise, 1e-3)), delta)
    limit = _meeting(upper_delta, delta, batch.local_epsilon)
    if limit == math.inf:
        return 0.0, limit
    upper = private_end(upper_delta, delta, limit, 0.0, guess)[0]
    lower_delta = partial(batch.lower, values=values)
    if lower_delta(0.0) <= delta:
        return 0.0, upper
    return min(private_end(lower_delta, delta, upper, 0.0, upper * (1 - 1e-3))[1], upper), upper


def _meeting(delta_at: Callable[[float], float], delta: float, local: float) -> float:
    """Some epsilon that meets delta, at most the local one; infinite if none below 512 does."""
    epsilon = 1.0
    while epsilon < local and not delta_at(epsilon) <= delta:
        epsilon *= 2
        if epsilon > _LARGEST_LOSS:
            return local
    return min(epsilon, local)
