"""How many holders of a value a support count speaks for: confidence limits that cover.

A normal interval takes its width from the estimate. That fails where a support count is a
handful: for 5,000 users and values, and one false supporter of a value expected, intervals that
ought to cover all values together in 95 % of the releases did so in 85 %. Here a number of
holders is kept unless it makes what was seen too unlikely: by the exact law of the support where
its variance is small, by a normal law corrected for skewness elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from mechanisms.channel import Counts, Floats

_SPARSE = 100.0  # variance of a support count below which its law is not taken for normal
_NEGLIGIBLE = 1e-6  # the share of a tail's probability that its sum may leave out


@dataclass(frozen=True)
class SupportLaw:
    """The law of a support count, Bin(h, keep) + Bin(n - h, other), as h varies.

    Attributes:
        n: how many users reported.
        keep: P(support | holder).
        other: P(support | not holder).
        contrast: keep - other, given because the difference may cancel.

    >>> SupportLaw(n=100, keep=1.0, other=0.0, contrast=1.0).most_holders(np.array([3]), 0.025)
    array([3.])
    """

    n: int
    keep: float
    other: float
    contrast: float

    @property
    def complement(self) -> SupportLaw:
        """The law of n - S as the number of non-holders varies: it swaps the two tails."""
        return SupportLaw(self.n, 1 - self.other, 1 - self.keep, self.contrast)

    def most_holders(self, support: Counts, tail: float) -> Floats:
        """The largest h with P(S <= support | h) > tail; 0 if there is none.

        Args:
            support: (m,) ascending integers in 0 .. n.
            tail: the probability of missing the truth, in (0, 1/2).

        Returns:
            (m,) ascending numbers in [0, n], integers where they are exact.

        Source: exact: Clopper, Pearson, Biometrika 1934, for a sum of two binomials. Elsewhere:
            Wilson, JASA 1927, with a continuity correction and the skewness term of Cornish,
            Fisher, Revue de l'Institut International de Statistique 1938.
        """
        # The exact law costs a sum for each value, and the corrected normal one is as good where
        # the support varies much.
        sparse = self._variance(support) < _SPARSE
        limit = np.empty(support.size, np.float64)
        limit[sparse] = self._exact(support[sparse], tail)
        limit[~sparse] = self._holders(self._score(support[~sparse], tail))
        # Where one method follows the other, a limit may drop by a fraction of a holder.
        ascending: Floats = np.maximum.accumulate(limit)
        return ascending

    def _holders(self, mean: Floats) -> Floats:
        """The h at which the support has this mean, moved into [0, n]."""
        holders: Floats = np.clip((mean - self.n * self.other) / self.contrast, 0, self.n)
        return holders

    def _variance(self, mean: Floats | Counts) -> Floats:
        """The variance of the support where it has this mean: linear, at least 0 in 0 .. n."""
        k, o = self.keep, self.other
        return np.asarray(mean * (1 - k - o) + self.n * k * o, np.float64)

    def _third_cumulant(self, mean: Floats) -> Floats:
        """The same for its third cumulant."""
        k, o = self.keep, self.other
        slope = 1 - 3 * (k + o) + 2 * (k * k + k * o + o * o)
        return mean * slope + self.n * k * o * (3 - 2 * (k + o))

    def _score(self, support: Counts, tail: float) -> Floats:
        """The mean at which a normal law, corrected, gives the lower tail this probability."""
        z = -float(special.ndtri(tail))
        bend = z * z * (1 - self.keep - self.other) / 2

        def solution(start: Floats) -> Floats:
            """The mean that is z of its own standard deviations above `start`."""
            spread = np.maximum(self._variance(start), 0)
            root: Floats = np.sqrt(bend * bend + z * z * spread)
            return start + bend + root

        start = support.astype(np.float64) + 0.5  # counts are whole: S <= s is S < s + 1/2
        mean = solution(start)
        skew = self._third_cumulant(mean) / np.maximum(self._variance(mean), 1)
        return solution(start - (z * z - 1) / 6 * skew)

    def _exact(self, support: Counts, tail: float) -> Floats:
        """The limit by bisection over the integers."""
        risk = -math.log(tail)
        # Up to the estimate at least half of the mass lies in the lower tail (Jogdeo, Samuels,
        # Ann. Math. Stat. 1968, Theorem 3.2); beyond Bernstein's bound less than `tail` does.
        bend = risk * (4 / 3 - self.keep - self.other)
        reach = bend + np.sqrt(bend * bend + 2 * risk * np.maximum(self._variance(support), 0))
        low = np.floor(self._holders(support.astype(np.float64)))
        high = np.ceil(self._holders(support + reach))
        # The corrected normal law is a few holders off: steps of 1, 2, 4, .. from there bracket the
        # limit in half the sums that halving the whole way takes.
        middle, step = np.rint(self._holders(self._score(support, tail))), 1
        while (left := np.flatnonzero(low < high)).size:
            lowest, highest = low[left], high[left]
            near = np.clip(middle[left], lowest + 1, highest)
            kept = self._lower_tail(support[left], near, tail) > tail
            low[left] = np.where(kept, near, lowest)
            high[left] = np.where(kept, highest, near - 1)
            halfway = np.ceil((low[left] + high[left]) / 2)
            beyond = np.where(kept, near + step, near - step)
            middle[left] = np.where(kept, np.minimum(beyond, halfway), np.maximum(beyond, halfway))
            step *= 2
        return low

    def _lower_tail(self, support: Counts, holders: Floats, tail: float) -> Floats:
        """P(S <= support | holders), summed over what the others contribute."""
        others = self.n - holders
        mean = others * self.other
        # What lies outside of this window has less than a negligible share of `tail`.
        risk = math.log(2 / (_NEGLIGIBLE * tail))
        reach = risk / 3 + np.sqrt(risk * risk / 9 + 2 * risk * mean * (1 - self.other))
        first = np.maximum(np.floor(mean - reach), 0)
        last = np.minimum(np.minimum(np.ceil(mean + reach), others), support)
        width = max(int((last - first).max()) + 1, 1)
        a = first[:, None] + np.arange(width, dtype=np.float64)
        inside = a <= last[:, None]
        a = np.where(inside, a, first[:, None])
        weight = np.where(inside, _probability(a, others[:, None], self.other), 0)
        # The holders must then contribute at most support - a: the incomplete beta function where
        # that is least, and from there on a sum of probabilities, which is ten times faster.
        rest = support[:, None] - a
        step = np.where(inside & (a < last[:, None]) & (rest <= holders[:, None]), 1.0, 0.0)
        step *= _probability(np.minimum(rest, holders[:, None]), holders[:, None], self.keep)
        least = _at_most(support.astype(np.float64) - last, holders, self.keep)
        below = least[:, None] + step[:, ::-1].cumsum(axis=1)[:, ::-1]
        total: Floats = (weight * below).sum(axis=1)
        return total


def _probability(k: Floats, n: Floats, p: float) -> Floats:
    """P(Bin(n, p) = k), for k in 0 .. n."""
    log_ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    law: Floats = np.exp(log_ways + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return law


def _at_most(k: Floats, n: Floats, p: float) -> Floats:
    """P(Bin(n, p) <= k), for k at least 0."""
    free = k < n
    below = special.betaincc(k + 1, np.where(free, n - k, 1), p)
    law: Floats = np.where(free, below, 1).astype(np.float64, copy=False)
    return law
