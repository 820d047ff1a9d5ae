"""Shuffled batches of one-bit reports: the worst batch itself, where others have the blanket.

A batch is the number of its ones. The laws of a mechanism's inputs lie between two ends, `high`
and `low`, and the hockey-stick divergence is jointly convex: it is largest where the user's two
values are the ends, and every other user holds one end or the other. So the truth is a maximum over
how many of the n - 1 others hold which: `BitTest.delta` has it for a given number, and a branch and
bound for all of them, since a batch of which some users are left out tells the two values apart no
worse: what they would report is noise that anybody may add.

**One number.** With P and Q the two laws of the user's bit, S the others' ones and e = e^epsilon,
the likelihood ratio rises with the number of ones (S is log-concave), so the best test is a
threshold t, of advantage A P(S = t - 1) - B P(S >= t), A = P(1) - e Q(1) and B = e - 1. Tilt every
bit by r = 1 + B / A to each one: P(S = k) = M r^-k h(k), where h is a sum of bits again. The best
threshold is the one after the mode of h, where no rounding is large against what is added up, and
the mode lies within 1 of the mean (Darroch, "On the distribution of the number of successes in
independent trials", Ann. Math. Stat. 1964).

**Very many.** The ones of 10^7 users are looked at as a bin of flipped bits is (`bernoulli_bins`).
"""

import heapq
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.privacy.bernoulli_bins import Bin, dominating_ones
from mechanisms.privacy.dummy_laws import binomial
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta

_UNIT = 2.0**-53
_LEAST = math.ulp(0.0)
_SLACK = 2.0**-48  # far more than the rounding of a probability, relatively
_LEAST_TAIL = 1e-30  # that a bin may miss
_TAIL = 1e-24  # relative to the mode: where tilted laws are cut off
_TIGHT = 4e-3  # of delta: a bracket that is narrow enough
_PARTS = 4  # into which a group of compositions is divided
_CELLS = 1 << 8  # of resolution for which one group is divided
_WORK = 1 << 22  # cells of all tables together, about
# Variance of the number of ones, from which a bin is looked at. As n is at most 2^40, either bit
# has a chance of 10^-6 then: the variance is known to 10^-10, and delta, ten deviations out, to ...
_LARGE = float(1 << 20)
_SLIP = 1e-8
_LEAST_CHANCE = 1e-9  # of either bit: beyond, a batch hides nothing that is worth the trouble
_NEGLIGIBLE = 1e-4  # of delta: what a bin may miss
_NOTHING = BinLaw(np.ones(1), np.ones(1))  # a second bin in which there is nothing to see

Bit = tuple[float, float]
"""P(0), P(1)."""
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class OneBit:
    """Reports of one bit, as the accountant of a shuffled batch sees them.

    Attributes:
        high: the law of a report of the input that is likeliest to send a 1.
        low: that of the input that is likeliest to send a 0.

    >>> lower, upper = OneBit((0.25, 0.75), (0.75, 0.25)).delta(10_000, 0.03, cells=1 << 13)
    >>> f"{lower:.4e} {upper:.4e}"
    '1.8917e-05 1.9665e-05'
    """

    high: Bit
    low: Bit

    @property
    def hidden(self) -> bool:
        """Whether others' bits hide the user's; if not, batches are not accounted for here."""
        return min(*self.high, *self.low) > _LEAST_CHANCE

    def is_bin(self, n: int) -> bool:
        """Whether there are so many that they are looked at as a bin is."""
        return n * max(self.high[0] * self.high[1], self.low[0] * self.low[1]) >= _LARGE

    def _bin(self, n: int, slack: float) -> Bin:
        """The ends a little further apart than they may be, or closer together."""
        return Bin(n - 1, self.high[1] * (1 + slack), self.low[1] * (1 - slack))

    @cached_property
    def tests(self) -> tuple[tuple[Bit, Bit], ...]:
        """The user's two laws, told apart by many ones: each of the two ends first."""
        mirrored = (self.low[::-1], self.high[::-1])
        same = mirrored == (self.high, self.low)
        return ((self.high, self.low),) if same else ((self.high, self.low), mirrored)

    def delta(self, n: int, epsilon: float, cells: int) -> tuple[float, float]:
        """(lower, upper) around the largest divergence of two neighbouring batches of n reports.

        Args:
            n: at least 1; `hidden` holds.
            epsilon: at least 0, in nats.
            cells: resolution, as of a lattice: the more, the closer the bracket.
        """
        if self.is_bin(n):
            lower = self.attained(n, epsilon)
            tail = 10.0 ** math.floor(math.log10(max(_NEGLIGIBLE * lower, _LEAST_TAIL)))
            law = dominating_ones(self._bin(n, _SLACK), tail)
            return lower, max(lower, _divergence(law, epsilon)[1] * (1 + _SLIP))
        brackets = [BitTest(*laws, epsilon).worst(n, cells) for laws in self.tests]
        return max(lower for lower, _ in brackets), max(upper for _, upper in brackets)

    def attained(self, n: int, epsilon: float) -> float:
        """Some batches differ by this much: in nearly all cases the worst, and at once."""
        if self.is_bin(n):
            laws = _simplest(self._bin(n, -_SLACK))
            return max(_divergence(law, epsilon)[0] for law in laws) * (1 - _SLIP)
        return max(BitTest(*laws, epsilon).simplest(n) for laws in self.tests)


@lru_cache(maxsize=8)
def _simplest(ones: Bin) -> list[BinLaw]:
    """Batches whose others all hold one end, or half of them either."""
    return [ones.look(some, ones.users - some)[0] for some in (0, ones.users // 2, ones.users)]


def _divergence(law: BinLaw, epsilon: float) -> tuple[float, float]:
    """(lower, upper) around the divergence in either direction."""
    ways = (two_bins_delta(*pair, epsilon) for pair in ((law, _NOTHING), (_NOTHING, law)))
    lower, upper = zip(*ways, strict=True)
    return max(lower), max(upper)


@dataclass(frozen=True)
class BitTest:
    """Telling a bit of law `first` from one of law `second` by the ones among others' bits."""

    first: Bit
    second: Bit
    epsilon: float

    @cached_property
    def weights(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """A and B, each rounded in favour of the test and against it."""
        odds, one, other = math.exp(self.epsilon), self.first[1], self.second[1]
        a = one * (1 + _SLACK) - odds * other * (1 - _SLACK)
        less = one * (1 - _SLACK) - odds * other * (1 + _SLACK)
        b = math.expm1(self.epsilon)
        return (a, less), (b * (1 - _SLACK), b * (1 + _SLACK))

    def simplest(self, n: int) -> float:
        """The best of the batches whose others all hold one end, or half of them either."""
        if not self.weights[0][0] > 0:
            return 0.0
        return max(self._delta(ones, n - 1 - ones)[0] for ones in {0, n // 2, n - 1})

    def worst(self, n: int, cells: int) -> tuple[float, float]:
        """(lower, upper) around delta among n - 1 others who hold what shows most."""
        if not self.weights[0][0] > 0:
            return 0.0, 0.0
        last, least = n - 1, self.simplest(n)
        # Groups of compositions, the worst first: -(bound), and the least and the largest number
        # of others who hold `first`.
        groups = [(-self._delta(0, 0)[1], 0, last)]
        width = 8 * math.sqrt(n * self.second[0] * self.second[1]) + 256
        for _ in range(min(max(cells // _CELLS, 8), int(_WORK / (_PARTS * width)))):
            bound, low, high = groups[0]
            if -bound <= least * (1 + _TIGHT) or low == high:
                break
            heapq.heappop(groups)
            cuts = [low + (high + 1 - low) * i // _PARTS for i in range(_PARTS + 1)]
            for start, end in pairwise(cuts):
                if start < end:
                    # Whoever may hold either end is left out.
                    lower, upper = self._delta(start, last - end + 1)
                    heapq.heappush(groups, (-upper, start, end - 1))
                    least = max(least, lower if end == start + 1 else 0.0)
        return least, min(1.0, max(least, -groups[0][0]))

    def _delta(self, holders: int, free: int) -> tuple[float, float]:
        """(lower, upper) among others who hold either end."""
        return self.delta((holders, self.first), (free, self.second))

    def delta(self, some: tuple[int, Bit], rest: tuple[int, Bit]) -> tuple[float, float]:
        """(lower, upper) among two kinds of bits: how many there are of each, and their law."""
        (a, less), (b, more) = self.weights
        if not a > 0:
            return 0.0, 0.0
        rate = b / a  # r - 1
        one, other = _BinomialWindow.of(*some, rate), _BinomialWindow.of(*rest, rate)
        places = math.floor(one.mean + other.mean) + np.arange(-1, 3)
        at, beyond = one.joined(other, places, rate)
        scales, tilts = one.scale + other.scale, places * math.log1p(rate)
        relative = one.relative + other.relative + 8 * _UNIT * (one.pmf.size + other.pmf.size + 64)
        relative += 16 * _UNIT * (scales + float(tilts[-1]) + 8)
        missing = one.missing + other.missing
        best = a * (at * (1 + relative) + missing) - b * beyond * (1 - relative)
        sure = less * at * (1 - relative) - more * (beyond * (1 + relative) + missing)
        scaled = np.exp(scales - tilts)
        upper = float((best * scaled).max()) * (1 + relative)
        return max(0.0, float((sure * scaled).max()) * (1 - relative)), max(upper, _LEAST)


@dataclass(frozen=True)
class _BinomialWindow:
    """How many ones there are among equal bits that are tilted: a window of a binomial law.

    Attributes:
        first: the least count.
        pmf: (window,) its and the next ones' probabilities.
        mean: of the count.
        scale: the logarithm of what tilting multiplied the law with, besides r^count.
        missing: bound on the probability outside the window.
        relative: bound on the relative error of each probability.
    """

    first: int
    pmf: Floats
    mean: float
    scale: float
    missing: float
    relative: float

    @classmethod
    def of(cls, users: int, bit: Bit, rate: float) -> "_BinomialWindow":
        """The bits of so many users."""
        if users == 0:
            return cls(0, np.ones(1), 0.0, 0.0, 0.0, 0.0)
        tilted = bit[1] * (1 + rate)
        zero, one = bit[0] / (bit[0] + tilted), tilted / (bit[0] + tilted)
        scale = users * math.log1p(bit[1] * rate)
        # The rarer bits are counted: their chance has kept its relative accuracy.
        law = binomial(users, min(zero, one), _TAIL)
        first, pmf = law.first, law.pmf
        if zero < one:
            first, pmf = users - first - pmf.size + 1, pmf[::-1]
        return cls(first, pmf, users * one, scale, law.missing, law.relative)

    def joined(
        self, other: "_BinomialWindow", places: Integers, rate: float
    ) -> tuple[Floats, Floats]:
        """h of both counts' sum, and the sum of (1 + rate)^-i h(place + i) over i > 0.

        Args:
            other: the other count.
            places: (k,) consecutive sums.
            rate: r - 1, at least 0.
        """
        left = places - self.first - other.first
        # Wide enough that every entry of the other window meets one of this window's.
        below, above = max(0, other.pmf.size - int(left[0])), max(0, int(left[-1]) + 1)
        pmf = np.concatenate([np.zeros(below), self.pmf, np.zeros(above)])
        weight = 1 / (1 + rate)
        # beyond(k) = weight (pmf(k + 1) + beyond(k + 1)): back substitution in a band of two.
        band = np.ones((2, pmf.size))
        band[0] = -weight
        beyond = scipy.linalg.lapack.dtbtrs(
            band, weight * np.append(pmf[1:], 0.0)[:, None], diag="U"
        )[0][:, 0]
        # Entry j of the other window leaves `left - j` for this one.
        starts = [int(place) + below for place in left]
        rows = [slice(start - other.pmf.size + 1, start + 1) for start in starts]
        turned = other.pmf[::-1]
        return (
            np.array([pmf[row] @ turned for row in rows]),
            np.array([beyond[row] @ turned for row in rows]),
        )
