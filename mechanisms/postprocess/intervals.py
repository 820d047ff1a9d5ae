"""Error bars for frequency estimates: one value at a time, or all of them at once.

How many holders of a value a support count speaks for: confidence limits that cover.

A normal interval takes its width from the estimate. That fails where a support count is a
handful: for 5,000 users and values, and one false supporter of a value expected, intervals that
ought to cover all values together in 95 % of the releases did so in 85 %. Here a number of
holders is kept unless it makes what was seen too unlikely: by the exact law of the support where
its variance is small, by a normal law corrected for skewness elsewhere.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
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
    def complement(self) -> "SupportLaw":
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


class Noise(Protocol):
    """A law on the integers, as far as intervals need it."""

    def mean(self) -> float:
        """The expectation."""

    def excess_kurtosis(self) -> float:
        """At least 0: how much heavier its tails are than a normal law's; 3 of a Laplace law."""

    def ppf(self, q: float) -> float:
        """The quantile: the least integer that is not exceeded with probability q."""

    def isf(self, q: float) -> float:
        """The least integer that is exceeded with probability at most q."""


class Estimator(Protocol):
    """What intervals ask: a frequency oracle answers it, and a central release as well."""

    @property
    def domain_size(self) -> int: ...

    @property
    def keep(self) -> float: ...

    @property
    def other(self) -> float: ...

    @property
    def contrast(self) -> float: ...

    def variance(self, frequency: ArrayLike, n: int) -> Floats: ...

    def added(self, n: int) -> Noise | None: ...


def standard_errors(mechanism: Estimator, estimate: ArrayLike, n: int) -> Floats:
    """The standard error of each unbiased estimate, from the mechanism's closed form.

    The unknown frequency in the variance is replaced by its estimate, moved into [0, 1].

    Args:
        mechanism: what perturbed the reports.
        estimate: (d,) unbiased frequencies.
        n: how many users reported.

    Returns:
        (d,) in frequency units.
    """
    return np.sqrt(mechanism.variance(np.clip(estimate, 0, 1), n))


def normal_quantile(confidence: float, comparisons: int = 1) -> float:
    """How many standard errors an interval reaches to either side.

    Args:
        confidence: the probability that every one of the intervals covers, in (0, 1).
        comparisons: how many intervals must cover together; the union bound (Bonferroni) shares
            the risk among them, whatever their dependence.

    Returns:
        The normal quantile; `intervals` serves small support counts too.

    Raises:
        ValueError: confidence is not inside (0, 1), or there is nothing to compare.

    >>> round(normal_quantile(0.95), 3), round(normal_quantile(0.95, comparisons=600), 3)
    (1.96, 3.935)
    """
    from scipy import special  # which a request that is refused needs not

    return -float(special.ndtri(_tail(confidence, comparisons)))


def intervals(
    mechanism: Estimator, estimate: ArrayLike, n: int, confidence: float, simultaneous: bool = False
) -> tuple[Floats, Floats]:
    """Confidence intervals around unbiased frequencies, inside [0, 1].

    They cover at least as often as they say, however few reports support a value; counts being
    whole, they cover a little more often where there are few.
    Around an estimate far outside of [0, 1] they may be a single point: see `opened`.

    Args:
        mechanism: what perturbed the reports.
        estimate: (..., d) unbiased frequencies.
        n: how many users reported.
        confidence: of each interval, or of all d together if `simultaneous`; in (0, 1).
        simultaneous: whether one risk is shared by all d intervals (Bonferroni).

    Returns:
        (lower, upper), each (..., d). Neither falls as the estimate grows, and an estimate in
        [0, 1] lies between them.

    Raises:
        ValueError: confidence is not inside (0, 1), n is not positive, or an estimate is NaN.
    """
    tail = _tail(confidence, mechanism.domain_size if simultaneous else 1)
    centre = np.asarray(estimate, np.float64)
    if not n > 0:
        raise ValueError(f"n must be positive, not {n}")
    if np.isnan(centre).any():
        raise ValueError("an estimate is not a number")
    noise = mechanism.added(n)
    if noise is not None:
        return _without(noise, n, centre, tail)
    from mechanisms.postprocess.intervals import SupportLaw  # scipy's, as above

    keep, other = np.clip([mechanism.keep, mechanism.other], 0, 1)  # rounding may leave [0, 1]
    law = SupportLaw(n, float(keep), float(other), mechanism.contrast)
    support = np.clip(np.rint(n * (law.other + centre * law.contrast)), 0, n).astype(np.int64)
    distinct, place = np.unique(support, return_inverse=True)
    most = law.most_holders(distinct, tail)
    # Few supporters for many holders is many non-supporters for few: one routine serves both ends.
    fewest = n - law.complement.most_holders(n - distinct[::-1], tail)[::-1]
    place, middle = place.reshape(centre.shape), np.clip(centre, 0, 1)
    return np.minimum((fewest / n)[place], middle), np.maximum((most / n)[place], middle)


def opened(
    lower: Floats, upper: Floats, below: Floats, above: Floats, low: float = 0.0, high: float = 1.0
) -> tuple[Floats, Floats]:
    """Limits none of which is a point, at the ends of what is possible.

    An interval around an estimate far outside of what is possible is cut to its end, and would
    read as if that were certain. It then goes some way inwards; being wider, it covers no less.

    Args:
        lower, upper: (...) limits, in low .. high.
        below: how far under `high` an interval has to reach.
        above: how far over `low`.
        low, high: between which the truth lies.

    Returns:
        (lower, upper), each (...).
    """
    return (
        np.minimum(lower, np.maximum(high - below, low)),
        np.maximum(upper, np.minimum(low + above, high)),
    )


def _without(noise: Noise, n: int, centre: Floats, tail: float) -> tuple[Floats, Floats]:
    """Limits where the estimate is the holders' share plus noise of a known law, for any n."""
    below = (noise.mean() - noise.ppf(tail)) / n
    above = (noise.isf(tail) - noise.mean()) / n
    middle = np.clip(centre, 0, 1)
    lower, upper = np.clip(centre - above, 0, 1), np.clip(centre + below, 0, 1)
    return np.minimum(lower, middle), np.maximum(upper, middle)


def _tail(confidence: float, comparisons: int) -> float:
    """The risk of either end of one interval."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if not comparisons >= 1:
        raise ValueError(f"comparisons must be at least 1, not {comparisons}")
    return (1 - confidence) / (2 * comparisons)


def largest_error_bound(mechanism: Estimator, n: int, confidence: float) -> float:
    """A bound on the largest error over the whole domain that holds for every n.

    Args:
        mechanism: what perturbs the reports.
        n: how many users report.
        confidence: the probability that no value's error exceeds the bound, in (0, 1).

    Returns:
        In frequency units; wider than the intervals and known before the collection.

    Source: Bernstein's inequality with a union bound over d values, in place of Theorem 5 of
        Zhang, Xu, Xia 2022, which lacks the union bound and uses an undefined scale.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    noise = mechanism.added(n)
    if noise is not None:
        tail = _tail(confidence, mechanism.domain_size)
        return max(noise.isf(tail) - noise.mean(), noise.mean() - noise.ppf(tail)) / n
    log_risk = math.log(2 * mechanism.domain_size / (1 - confidence))
    # The variance is linear in the frequency, so its maximum is at one of the ends.
    variance = float(np.max(mechanism.variance(np.array([0.0, 1.0]), n)))
    # One report moves a support count by at most 1, hence the estimate by 1 / (n contrast).
    return math.sqrt(2 * variance * log_risk) + 2 / 3 * log_risk / (n * mechanism.contrast)
