"""A mean for each of several groups when a user's group is as private as the value.

A user holds a pair (group, value). The value is rounded to a grid of few points by a coin that
makes the rounding unbiased, and the pair (group, grid point) goes through k-ary randomised
response as one symbol. So one report protects both, and a lie changes both: whoever lies lands in
any group, with any grid point, alike. Grid points are symmetric around 0, so lies add up to 0 in
every group's sum, and to a known share in its count.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Mechanism,
    Messages,
    reporters,
    require_integer,
)
from mechanisms.frequency.hash_budget import largest_local_epsilon
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.mean.scalar import LARGEST_ALPHABET, require_cells, require_slack
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource
from mechanisms.registry import register
from mechanisms.sampling.grid import Grid
from mechanisms.targets.rules import Target, Task

_GRIDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def best_grid(target: "Target[GroupTask]") -> "KeyValue":
    """The joint response whose grid has the least error for groups of equal size.

    Raises:
        ValueError: the target is out of reach.
    """
    task = target.task
    best: KeyValue | None = None
    for cells in _GRIDS if task.cells is None else (task.cells,):
        mechanism = _spending(target, cells)
        if best and not task.error(mechanism, target.n) < task.error(best, target.n):
            break  # finer grids lie more, and round no better by as much
        best = mechanism
    if best is None or not task.error(best, target.n) < math.inf:
        raise ValueError("epsilon is too small for so many groups")
    return best


def _spending(target: "Target[GroupTask]", cells: int) -> "KeyValue":
    """The response over a given grid that spends what it may."""
    groups = target.task.groups
    if target.rule == "local":
        return KeyValue(target.spent, groups, cells)
    # The batch sees k-ary response over the pairs, whatever a symbol stands for.
    symbols = KeyValue(1.0, groups, cells).codes
    epsilon = largest_local_epsilon(*target.batch, symbols, cap=target.cap)
    return KeyValue(epsilon, groups, cells)


@register(
    "key_value",
    task="group means",
    sends="group and value as one randomised symbol",
    source="joint k-ary response: Ye et al., S&P 2019; Gu et al., USENIX Security 2020",
    searched=True,
    small=[{"epsilon": 1.0, "groups": 3, "cells": 2}, {"epsilon": 0.5, "groups": 2, "cells": 1}],
    rules=dict.fromkeys(("local", "shuffle"), lambda target: best_grid(target)),
)
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
        require_integer("groups", self.groups, 2)
        require_cells(self.cells)
        if not self.codes <= LARGEST_ALPHABET:
            most = LARGEST_ALPHABET // (self.cells + 1)
            raise ValueError(f"groups must be at most {most} with {self.cells} cells")
        _ = self.response  # refuses an epsilon that means nothing

    @cached_property
    def response(self) -> LinearHash:
        """The randomised response on pairs."""
        return k_ary(self.epsilon, self.codes)

    @property
    def points(self) -> int:
        """How many grid points a value can take."""
        return self.rounding.inputs

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
        return self.rounding.points

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
        table, n = self.table(counts), reporters(counts, n)
        return np.asarray((table.sum(axis=1) / n - self.points * self.lie) / self.contrast)

    def sums(self, counts: Counts) -> Floats:
        """(groups,) the unbiased sum of the values in each group, over the number of users."""
        return np.asarray(self.table(counts) @ self.grid / (np.sum(counts) * self.contrast))

    @property
    def extreme_reports(self) -> Floats:
        """(k, 2) what reports add to a group's averages, but for what every report adds alike."""
        return np.array([[-1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]) / self.contrast

    def averages(self, counts: Counts) -> tuple[Floats, Floats]:
        """(groups,) what each group's mean is the quotient of: its sum and its share.

        Args:
            counts: (codes,) from `count`.
        """
        return self.sums(counts), self.estimate(counts)

    def table(self, counts: Counts) -> Floats:
        """(groups, points) the counts of `count`, a row for each group."""
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
        lies, own = self.parts(mean, spread)
        return np.asarray(lies + share * own)

    def parts(self, mean: Floats, spread: Floats | None = None) -> tuple[Floats, Floats]:
        """Variance of a user outside a group, and what one inside adds to that: see `variance`."""
        k, q, c = self.points, self.lie, self.contrast
        shift = mean * (k * q / c)  # of every report, so that lies add up to 0
        square = float(np.mean(self.grid**2))
        # The mean square over all symbols of what a lie adds: for grid points of the group, and
        # elsewhere the shift alone.
        everywhere = (
            k * (square + mean**2) / c**2 - 2 * shift * mean * k / c + self.codes * shift**2
        )
        if spread is None:
            spread = 1 - mean**2
        values = np.maximum(spread - 1 / self.cells**2, 0)
        return q * everywhere + c * shift**2, spread / c - values

    @property
    def report_variance(self) -> float:
        """The largest variance of one report's part in a mean, of groups of equal size."""
        return self.worst_variance(1 / self.groups)

    def worst_variance(self, share: float) -> float:
        """The largest variance of one report's part in a group's mean, for a share of users."""
        # The variance is even in the mean, and smooth: a hundred steps miss its maximum by next to
        # nothing.
        means = np.linspace(0, 1, 101)
        return float(self.variance(np.array(share), means).max()) / share**2


@dataclass(frozen=True)
class GroupTask(Task[KeyValue]):
    """The mean of numbers in [-1, 1] in each of several private groups.

    Attributes:
        groups: how many, at least 2.
        cells: how finely values are rounded; None chooses.

    Raises:
        ValueError: cells is out of range.
    """

    groups: int
    cells: int | None = None

    name: ClassVar[str] = "group means"

    def __post_init__(self) -> None:
        if self.cells is not None:
            require_cells(self.cells)

    def require_delta(self, model: str, delta: float) -> None:
        """Refuse what no single report may have."""
        require_slack(delta)

    def error(self, mechanism: KeyValue, n: int) -> float:
        """The mean squared error in one of groups of equal size, at most."""
        return mechanism.worst_variance(1 / self.groups) / n

    def offers(self, target: Target[Any]) -> Mapping[str, Any]:
        return {"groups": self.groups, "cells": self.cells}
