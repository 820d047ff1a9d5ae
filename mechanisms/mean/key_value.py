"""A mean for each of several groups when a user's group is as private as the value.

A user holds a pair (group, value). The value is rounded to a grid of few points by a coin that
makes the rounding unbiased, and the pair (group, grid point) goes through k-ary randomised
response as one symbol. So one report protects both, and a lie changes both: whoever lies lands in
any group, with any grid point, alike. Grid points are symmetric around 0, so lies add up to 0 in
every group's sum, and to a known share in its count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee, Mechanism, Messages, require_integer
from mechanisms.frequency.linear_hash import LinearHash, k_ary
from mechanisms.frequency.oracle import support_variance
from mechanisms.mean.intervals import half_width
from mechanisms.mean.scalar import ScalarMean, require_cells
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource

_LARGEST_ALPHABET = 1 << 24  # codes
_TRIED, _FAR = 4001, 40.0  # candidates for a mean, within so many standard errors
_GROUPS_AT_ONCE = 1 << 8


class GroupMeans(NamedTuple):
    """What a batch of reports says about each group; values on the scale of [-1, 1].

    Attributes:
        share: (groups,) unbiased share of users in the group.
        share_error: (groups,) its standard error.
        ratio: (groups,) unbiased sum over unbiased share; NaN where the share is not positive.
        standard_error: (groups,) of the ratio, by the delta method; NaN where there is none.
        lower: (groups,) end of an interval inside [-1, 1].
        upper: (groups,) its other end.
    """

    share: Floats
    share_error: Floats
    ratio: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Grid:
    """The grid points 2 j / N - 1, and the unbiased rounding to them.

    Attributes:
        cells: N.
    """

    cells: int

    @property
    def inputs(self) -> int:
        """How many grid points there are."""
        return self.cells + 1

    def encode(self, values: ArrayLike, rng: RandomSource) -> NDArray[np.uint32]:
        """As `ScalarMean.encode`, which looks at `cells` alone."""
        return ScalarMean.encode(cast(ScalarMean, self), values, rng)


@dataclass(frozen=True)
class KeyValue(Mechanism):
    """Joint k-ary response on (group, grid point); input and code are group * (N + 1) + point.

    Attributes:
        epsilon: privacy loss of one report, group and value together, in nats.
        groups: how many, at least 2.
        cells: N, how many cells [-1, 1] is cut into. One is best while a report mostly lies:
            the value is then a sign.

    Source: Ye, Hu, Meng, Zheng, "PrivKV: key-value data collection with local differential
        privacy", S&P 2019, whose key and value spend epsilon separately; here they are one symbol,
        as in PCKV-GRR of Gu, Li, Cheng, Xiong, Cao, "PCKV: locally differentially private
        correlated key-value data collection with optimized utility", USENIX Security 2020.

    >>> mechanism = KeyValue(epsilon=2.0, groups=3)
    >>> mechanism.codes, round(mechanism.contrast, 3)
    (6, 0.516)
    """

    epsilon: float
    groups: int
    cells: int = 1

    def __post_init__(self) -> None:
        require_integer("groups", self.groups)
        require_cells(self.cells)
        if not self.groups >= 2:
            raise ValueError(f"groups must be at least 2, not {self.groups}")
        if not self.codes <= _LARGEST_ALPHABET:
            most = _LARGEST_ALPHABET // (self.cells + 1)
            raise ValueError(f"groups must be at most {most} with {self.cells} cells")
        _ = self.response  # refuses an epsilon that means nothing

    @cached_property
    def response(self) -> LinearHash:
        """The randomised response on pairs."""
        return k_ary(self.epsilon, self.codes)

    @property
    def points(self) -> int:
        """How many grid points a value can take."""
        return self.cells + 1

    @property
    def codes(self) -> int:
        return self.groups * self.points

    @property
    def inputs(self) -> int:
        return self.codes

    @property
    def rounding(self) -> Grid:
        """What takes values to grid points, before the group is put in front."""
        return Grid(self.cells)

    @property
    def grid(self) -> Floats:
        """(points,) the values that grid points stand for."""
        return np.asarray((2.0 * np.arange(self.points) - self.cells) / self.cells)

    @property
    def lie(self) -> float:
        """P(one given other symbol)."""
        return self.response.other

    @property
    def contrast(self) -> float:
        """How much likelier the true symbol is than any other."""
        return self.response.contrast

    @property
    def guarantee(self) -> Guarantee:
        how = "group and value are one symbol; " + self.response.guarantee.how
        return replace(self.response.guarantee, how=how)

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "codes": self.codes,
            "keep": self.response.keep,
            "other": self.response.other,
        }

    # ---- the channel is the response's ---------------------------------------------------------

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        return self.response.perturb(cells, rng)

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        return self.response.weights(cell)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: permuting symbols takes any pair to any other."""
        return self.response.pairs()

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, in closed form: for the shuffle accountant."""
        return self.response.shuffle_laws()

    # ---- the collector -------------------------------------------------------------------------

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(groups,) the unbiased share of users in each group.

        Args:
            counts: (codes,) from `count`.
            n: the number of users; by default as many as there are reports.

        Raises:
            ValueError: there is no report.
        """
        table, n = self._table(counts), int(np.sum(counts)) if n is None else n
        if not n > 0:
            raise ValueError("there is no report to estimate from")
        return np.asarray((table.sum(axis=1) / n - self.points * self.lie) / self.contrast)

    def sums(self, counts: Counts) -> Floats:
        """(groups,) the unbiased sum of the values in each group, over the number of users."""
        return np.asarray(self._table(counts) @ self.grid / (np.sum(counts) * self.contrast))

    def _table(self, counts: Counts) -> Floats:
        return np.asarray(counts, np.float64).reshape(self.groups, self.points)

    def variance(self, share: Floats, mean: Floats, spread: Floats | None = None) -> Floats:
        """Variance of one user's part in (sum - mean * share) of a group; 1/n of it is the batch's.

        Args:
            share: of users in the group, in [0, 1]; any shapes that broadcast.
            mean: of the group's values, in [-1, 1].
            spread: mean square distance of the group's grid points from the mean; by default as
                large as it can be, 1 - mean^2.

        Returns:
            Of the broadcast shape. A user outside the group contributes its lies. Of a user inside
            it what rounding adds is taken at its largest, 1 / N^2.
        """
        lies, own = self._parts(mean, spread)
        return np.asarray(lies + share * own)

    def _parts(self, mean: Floats, spread: Floats | None) -> tuple[Floats, Floats]:
        """Variance of a user outside a group, and what one inside adds to that."""
        k, q, c = self.points, self.lie, self.contrast
        shift = mean * (k * q / c)  # of every report, so that lies add up to 0
        square = float(np.mean(self.grid**2))
        everywhere = (
            k * (square + mean**2) / c**2 - 2 * shift * mean * k / c + self.codes * shift**2
        )
        if spread is None:
            spread = 1 - mean**2
        values = np.maximum(spread - 1 / self.cells**2, 0)
        return q * everywhere + c * shift**2, spread / c - values

    def worst_variance(self, share: float) -> float:
        """The largest variance of one report's part in a group's mean, for a share of users."""
        means = np.linspace(0, 1, 101)
        return float(self.variance(np.array(share), means).max()) / share**2

    def group_means(self, counts: Counts, confidence: float, worst: bool = False) -> GroupMeans:
        """The mean of each group, with its error.

        Args:
            counts: (codes,) from `count`, at least one of them positive.
            confidence: the probability that the interval of a group covers, in (0, 1).
            worst: take the largest variance that any values could have.

        Returns:
            The estimates. The interval holds every mean that the reports do not refute (Fieller):
            where a group may be empty, that is all of [-1, 1].

        Raises:
            ValueError: there is no report, or confidence is not inside (0, 1).

        Source: Fieller, "Some problems in interval estimation", J. Royal Statistical Society
            Series B, 1954.
        """
        n, share, sums = int(np.sum(counts)), self.estimate(counts), self.sums(counts)
        likely = np.clip(share, 0, 1)
        k, q = self.points, self.lie
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(share > 0, sums / share, np.nan)
            squares = self._table(counts) @ self.grid**2 / n - q * k * np.mean(self.grid**2)
            square = np.where(share > 0, squares / self.contrast / share, 1.0)
            centre = np.clip(ratio, -1, 1)
            variance = self.variance(likely, centre, self._spread(square, centre, worst))
            error = np.where(share > 0, np.sqrt(variance / n) / share, np.nan)
        lower, upper = np.full(self.groups, -1.0), np.full(self.groups, 1.0)
        inside = np.isfinite(centre)
        around = np.where(inside, centre, 0.0)
        width = np.where(inside, np.minimum(_FAR * error, 2.0), 2.0)
        for start in range(0, self.groups, _GROUPS_AT_ONCE):
            part = slice(start, start + _GROUPS_AT_ONCE)
            means = around[part, None] + width[part, None] * np.linspace(-1, 1, _TRIED)
            lower[part], upper[part] = self._limits(
                np.clip(means, -1, 1), sums[part, None], share[part, None], square[part, None],
                n, confidence, worst,
            )  # fmt: skip
        lower[inside] = np.minimum(lower, centre)[inside]
        upper[inside] = np.maximum(upper, centre)[inside]
        keep = self.contrast + k * q
        share_error = np.sqrt(support_variance(likely, n, keep, k * q))
        return GroupMeans(share, share_error, ratio, error, lower, upper)

    def _spread(self, square: Floats, mean: Floats, worst: bool) -> Floats:
        """Mean square distance of grid points from a mean, given their estimated mean square."""
        most = 1 - mean**2
        return most if worst else np.clip(square - mean**2, 0, most)

    def _limits(
        self,
        means: Floats,
        sums: Floats,
        share: Floats,
        square: Floats,
        n: int,
        confidence: float,
        worst: bool,
    ) -> tuple[Floats, Floats]:
        """The least and the largest mean that is not refuted, of (groups, tried) candidates."""
        likely = np.clip(share, 0, 1)
        variance = self.variance(likely, means, self._spread(square, means, worst))
        lies, own = self._parts(means, None)
        shift = means * (self.points * self.lie / self.contrast)
        reach = (1 + np.abs(means)) * (1 / self.contrast + 1) + np.abs(shift)
        half = half_width(variance, lies + np.maximum(own, 0), reach, n, confidence)
        allowed = np.abs(sums - means * share) <= half
        first = allowed.argmax(axis=1)
        last = means.shape[1] - 1 - allowed[:, ::-1].argmax(axis=1)
        row = np.arange(means.shape[0])
        # Outward to the next candidate, which is the first that was refuted; where the outermost
        # was not, nothing beyond it was tried.
        lower = np.where(first > 0, means[row, np.maximum(first - 1, 0)], -1.0)
        upper = np.where(
            last < means.shape[1] - 1, means[row, np.minimum(last + 1, means.shape[1] - 1)], 1.0
        )
        some = allowed.any(axis=1)
        return np.where(some, lower, -1.0), np.where(some, upper, 1.0)
