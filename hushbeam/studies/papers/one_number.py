"""Mechanisms for one number a user that papers of 2024 to 2026 propose, as exact channels.

None is chosen by the product; `hushbeam evaluate distribution` holds them against what is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Mechanism,
    Messages,
    require_epsilon,
    require_integer,
)
from mechanisms.mean.window import Window
from mechanisms.randomness import RandomSource, Words

_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class NearestValues(Mechanism):
    """Of ordered values the nearest few are likelier than all others, by e^epsilon.

    Near an end the window stops there, so each value has as many that are likelier, and the report
    is itself a value. So it is a window of `Window` whose place is cut to those there are.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        values: N, how many there are, equally far apart.
        likely: m, how many are likelier; of an even number one more lies above than below.

    Source: Zheng, Mishra, Hu, "Optimal piecewise-based mechanism for collecting bounded numerical
        data under local differential privacy", PETS 2025 (arXiv 2505.15483), the closed form for
        [0, 1]; Zhang, Zhu, Chen, Hu, "Bipartite randomized response mechanism for local
        differential privacy", 2025 (arXiv 2504.20926), the law of a report.

    >>> NearestValues(epsilon=1.0, values=8, likely=3).channel(0).round(2).tolist()
    [0.21, 0.21, 0.21, 0.08, 0.08, 0.08, 0.08, 0.08]
    """

    epsilon: float
    values: int
    likely: int

    def __post_init__(self) -> None:
        require_integer("values", self.values, 2)
        require_integer("likely", self.likely, 1, self.values - 1)
        _ = self.window  # which refuses an epsilon that is none

    @classmethod
    def piecewise(cls, epsilon: float, values: int) -> NearestValues:
        """OGPM: the window of least worst error on an interval, 1 / (e^(epsilon/2) + 1) of it.

        Source: Zheng et al. 2025, where C = (e^(epsilon/2) - 1) / (2 (e^epsilon - 1)) is half of
            it; the same, without a difference that cancels.
        """
        require_epsilon(epsilon)
        share = 1 / (math.exp(min(epsilon, 1400.0) / 2) + 1)
        return cls(epsilon, values, max(1, round(share * values)))

    @classmethod
    def bipartite(cls, epsilon: float, values: int) -> NearestValues:
        """BRR: of each value the number of least expected distance, and of these the least.

        Source: Zhang et al. 2025; by trying every number, in place of its formulas.
        """
        require_epsilon(epsilon)
        place = np.arange(values)
        near = np.cumsum(np.sort(np.abs(place[:, None] - place), axis=1), axis=1)
        rise, m = math.expm1(min(epsilon, 700.0)), place + 1
        expected = (rise * near + near[:, -1:]) / (rise * m + values)
        return cls(epsilon, values, min(int(expected.argmin(axis=1).min()) + 1, values - 1))

    @cached_property
    def window(self) -> Window:
        """Over the places where a window can begin."""
        return Window(self.epsilon, self.values - self.likely, self.likely)

    @property
    def inputs(self) -> int:
        return self.values

    @property
    def codes(self) -> int:
        return self.values

    @property
    def guarantee(self) -> Guarantee:
        return self.window.guarantee

    def _begin(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the windows of some values begin."""
        return np.clip(cells - (self.likely - 1) // 2, 0, self.values - self.likely)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        return self.window.perturb(self._begin(self._checked(cells).astype(np.int64)), rng)

    def weights(self, cell: int) -> tuple[Words, int]:
        return self.window.weights(int(self._begin(self._checked([cell]).astype(np.int64))[0]))

    def blanket(self) -> Floats:
        return self.window.blanket()

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: no two windows have fewer codes in common than those of the ends."""
        return [(0, self.values - 1)]

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """The shares of the reports, as both papers publish them: biased, unlike elsewhere."""
        return np.asarray(counts / (counts.sum() if n is None else n))


@dataclass(frozen=True)
class CurrentStatus(Mechanism):
    """One threshold for each user, drawn uniformly, and a noisy bit: whether the number is below.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        values: N bins of equal width; a threshold is an edge between two, t = 0 .. N - 2, and the
            number of bin v lies below it if v <= t. The code is 2 t + bit.

    Source: Liu, Hu, Kong, "Tuning-free estimation and inference of cumulative distribution function
        under local differential privacy", ICML 2024, sections 3.2 to 3.4; in the R package
        ldpdist (2026). Truthful with probability r, otherwise a fair coin: e^epsilon is
        (1 + r) / (1 - r).

    >>> CurrentStatus(epsilon=1.0, values=3).channel(1).round(3).tolist()
    [0.366, 0.134, 0.134, 0.366]
    """

    epsilon: float
    values: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_integer("values", self.values, 2, 1 << 20)
        if not self._bits[0] > self._bits[1]:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    @cached_property
    def _bits(self) -> tuple[int, int]:
        """The weights of the true bit and of the other one, at each threshold."""
        ratio, _ = exponential_bounds(self.epsilon)
        room = _WORD // self.thresholds
        # From a lower bound of e^epsilon, and rounded down: the ratio never exceeds it.
        other = max(1, math.floor(Fraction(room) / (1 + ratio)))
        return min(math.floor(other * ratio), room - other), other

    @property
    def thresholds(self) -> int:
        """How many there are."""
        return self.values - 1

    @property
    def inputs(self) -> int:
        return self.values

    @property
    def codes(self) -> int:
        return 2 * self.thresholds

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon, 0.0, "closed form: randomised response to a question that is drawn first"
        )

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        array, (true, other) = self._checked(cells).astype(np.uint64), self._bits
        draws = rng.integers(self.thresholds * (true + other), array.size)
        threshold, rest = np.divmod(draws, np.uint64(true + other))
        bits = (array <= threshold) == (rest < np.uint64(true))
        return np.asarray(2 * threshold + bits, np.uint64)

    def weights(self, cell: int) -> tuple[Words, int]:
        below = int(self._checked([cell])[0]) <= np.arange(self.thresholds)
        true, other = self._bits
        table = np.where(np.stack([~below, below], axis=1), np.uint64(true), np.uint64(other))
        return table.ravel(), self.thresholds * (true + other)

    def blanket(self) -> Floats:
        true, other = self._bits
        return np.full(self.codes, other / (true + other) / self.thresholds)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: of any other, bits of fewer thresholds differ."""
        return [(0, self.values - 1)]

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(thresholds,) the unbiased shares below each; NaN where nobody was asked."""
        return (self._shares(counts)[0] - self._lie) / (1 - 2 * self._lie)

    def likeliest(self, counts: Counts) -> Floats:
        """(values + 1,) the rising shares below each edge, 0 and 1 included, of most likelihood.

        Weighted isotonic regression of the bits' shares maximises the likelihood of binomial
        counts; under bounds it is cut to them.

        Source: Robertson, Wright, Dykstra, "Order restricted statistical inference", 1988, section
            1.5, for both.
        """
        shares, reports = self._shares(counts)
        known = reports > 0
        fitted = isotonic_regression(shares[known], weights=reports[known]).x
        fitted = np.clip((fitted - self._lie) / (1 - 2 * self._lie), 0, 1)
        places = np.flatnonzero(known) + 1
        edges = np.concatenate([[0], places, [self.values]])
        below = np.concatenate([[0.0], fitted, [1.0]])
        return np.maximum.accumulate(np.interp(np.arange(self.values + 1), edges, below))

    @property
    def _lie(self) -> float:
        """(1 - r) / 2, the probability of the other bit."""
        true, other = self._bits
        return other / (true + other)

    def _shares(self, counts: Counts) -> tuple[Floats, Floats]:
        """Of each threshold the share of bits that say below, and how many there are."""
        bits = np.asarray(counts, np.float64).reshape(-1, 2)
        reports = bits.sum(axis=1)
        return np.divide(
            bits[:, 1], reports, out=np.full(len(bits), np.nan), where=reports > 0
        ), reports
