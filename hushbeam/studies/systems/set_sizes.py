"""Reports that are sets, without those whose size comes more often than honest clients make it.

How many bits of a unary report are set has one law, whatever the user holds. Liars who push values
up set all of theirs, and others up to the usual number, so that no single report gives itself away;
but then all of them have that number, and it comes too often. Whoever sees reports whole, as a
collector without a shuffler does, can leave out all reports of such a size, honest ones among them.

Source: after Diffstats: Li, Li, Wang, Sun, "Mitigating data poisoning attacks to local differential
    privacy" (arXiv 2506.02156), which detects users by the difference between observed and expected
    numbers of set bits. Here whole sizes are left out, and the estimate is decoded by the laws of
    the sizes that stay, so that without liars it is unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.unary import Unary

_FALSE_ALARM = 1e-3  # how often an honest batch loses any size, all sizes together
_LEAST_LEFT = 0.05  # of the contrast: with less, what is left tells too little


@dataclass(frozen=True)
class SetSizes:
    """The laws of the number of bits that are set.

    Attributes:
        mechanism: what honest users run.

    >>> sizes = SetSizes(Unary(epsilon=1.0, domain_size=20))
    >>> round(float(sizes.law.sum()), 9), int(sizes.law.argmax())
    (1.0, 5)
    """

    mechanism: Unary

    def _others(self, bits: int) -> Floats:
        """(d + 1,) P(so many of some bits that are not the user's own are set)."""
        numbers = np.arange(self.mechanism.domain_size + 1)
        return np.asarray(stats.binom.pmf(numbers, bits, self.mechanism.other))

    def _with_own(self, others: Floats) -> Floats:
        """(d + 1,) the same with the user's own bit among them."""
        keep = self.mechanism.keep
        return keep * np.append(0.0, others[:-1]) + (1 - keep) * others

    @cached_property
    def law(self) -> Floats:
        """(d + 1,) P(size)."""
        return self._with_own(self._others(self.mechanism.domain_size - 1))

    @cached_property
    def keep(self) -> Floats:
        """(d + 1,) P(size, and the user's own bit is set)."""
        others = self._others(self.mechanism.domain_size - 1)
        return self.mechanism.keep * np.append(0.0, others[:-1])

    @cached_property
    def other(self) -> Floats:
        """(d + 1,) P(size, and the bit of one other value is set)."""
        rest = self._with_own(self._others(self.mechanism.domain_size - 2))
        return self.mechanism.other * np.append(0.0, rest[:-1])

    def trusted(self, sizes: Counts) -> NDArray[np.bool_]:
        """(d + 1,) which sizes do not come more often than chance explains.

        Args:
            sizes: (d + 1,) how many reports have each.
        """
        n = int(sizes.sum())
        tails = stats.binom.sf(sizes - 1, n, np.clip(self.law, 0, 1))
        return np.asarray(tails >= _FALSE_ALARM / sizes.size)

    def estimate(self, supports: Counts, sizes: Counts) -> Floats:
        """(d,) unbiased shares from the reports of trusted sizes.

        Args:
            supports: (d + 1, d) how often reports of each size support each value.
            sizes: (d + 1,) how many reports have each.

        Raises:
            ValueError: hardly any size is trusted.
        """
        stay = self.trusted(sizes)
        n, total = int(sizes[stay].sum()), float(self.law[stay].sum())
        keep, other = float(self.keep[stay].sum()), float(self.other[stay].sum())
        if not (n and keep - other > _LEAST_LEFT * self.mechanism.contrast):
            raise ValueError("hardly any report has a size that honest clients make")
        share = supports[stay].sum(axis=0) / n
        return np.asarray((share - other / total) / ((keep - other) / total))
