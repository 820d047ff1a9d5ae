"""Sums over rows, of which a row changes a few: what rounds of training are made of.

A round is one footprint of totals, or a part of one: what a row adds may follow from a model that
is public by then. The job adds up and draws the noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Neighbours
from mechanisms.counters.amounts import WholeAmounts, by_part, tallied, weighed
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Layout, Level, Slots, has_twice
from mechanisms.learning.absent import present
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource

_SLOTS = 1 << 18  # that are filled together: they stay in a core's cache


class RowSums(ABC):
    """Sums of bounded numbers that follow from a row and its target, in whole units.

    A row without a target adds nothing.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[WholeAmounts, ...]:
        """The totals of each kind of number."""

    @abstractmethod
    def contributions(
        self, rows: Numbers, targets: ArrayLike, rng: RandomSource, weights: Floats | None
    ) -> Sequence[Sequence[tuple[Slots, Slots]]]:
        """For each part some (groups, amounts), of which a row has each group once.

        Groups are (k,) where every row has them, with (n, k) amounts; or (n, k), -1 for none, with
        as many amounts or one.
        """

    @property
    def changes(self) -> int:
        """How many sums a row changes at the most, by 1 at the most: their squares add up to it."""
        return sum(part.most_groups for part in self.parts)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The footprint, weighted so that all sums are equally noisy."""
        return weighed(self.parts)

    @cached_property
    def layout(self) -> Layout:
        """The codes of all sums."""
        return Layout(self.levels)

    def totals(
        self, rows: Numbers, targets: ArrayLike, rng: RandomSource, weights: Floats | None = None
    ) -> Counts:
        """(codes,) exact sums over rows, of numbers in whole units; of nulls nothing.

        Args:
            rows: (n, inputs) as `Features.rows` makes them.
            targets: (n,) in [-1, 1], NaN where there is none; or classes, -1 for none.
            rng: the generator of this process.
            weights: (inputs,) of the present model, if there is one.

        Raises:
            ValueError: a number is out of range. The message never holds it.
        """
        sums, labels = np.zeros(self.layout.codes, np.int64), np.asarray(targets)
        step, ends = max(_SLOTS // self.changes, 1), [*pairwise(self.layout.starts.tolist())]
        for at in range(0, len(rows), step):
            own = labels[at : at + step]
            kept = present(own)
            kinds = self.contributions(rows[at : at + step], own, rng, weights)
            for part, several, (start, end) in zip(self.parts, kinds, ends, strict=True):
                sums[start:end] += _added_up(part, several, kept)
        return sums

    # ---- the collector -----------------------------------------------------------------------

    def sums(self, design: JobTotals, counts: ArrayLike) -> Floats:
        """(k,) of each number over all rows, unbiased.

        Args:
            design: of these levels.
            counts: (codes,) with noise.
        """
        rows = zip(self.parts, by_part(self.parts, design.centred(counts)), strict=True)
        return np.concatenate([part.estimate(own) / part.most for part, own in rows])

    def variances(self, design: JobTotals, n: float) -> Floats:
        """(k,) of these sums, of rounding at the most.

        Args:
            design: of these levels.
            n: how many rows there are.
        """
        rows, variances = iter(design.variances), []
        for part in self.parts:
            noise = sum(level.weight**2 * next(rows) for level in part.levels)
            # A coin's variance is a quarter of a squared unit at the most. Ones need none.
            coin = n / 4 if part.most > 1 else 0.0
            variance = (part.variance(noise) + coin) / part.most**2
            variances.append(np.full(part.groups, variance))
        return np.concatenate(variances)


def _added_up(
    part: WholeAmounts, several: Sequence[tuple[Slots, Slots]], kept: NDArray[np.bool_]
) -> Counts:
    """(groups,) what those rows add to a part that are kept; `several` as of `contributions`."""
    sums, every = np.zeros(part.groups, np.int64), np.zeros(part.groups, np.int64)
    twice = False
    for groups, amounts in several:
        if groups.ndim == 1:
            part.encode(groups, amounts)  # which looks at their range
            sums[groups] += (amounts if kept.all() else amounts[kept]).sum(axis=0)
            every += np.bincount(groups, minlength=part.groups)
            continue
        added = np.broadcast_to(amounts, groups.shape)
        [places] = part.encode(np.where(kept[:, None], groups, -1), added)
        sums += tallied(places, part.groups, added)
        twice |= has_twice(places) or bool(every[places[places >= 0]].any())
    width = sum(groups.shape[-1] for groups, _ in several)
    if twice or every.max(initial=0) > 1 or width > part.most_groups:
        raise ValueError("a row changes a sum twice, or too many of them")
    return sums


@dataclass(frozen=True)
class Rounds:
    """Sums of several rounds, each at the model that the rounds before it have made public.

    They are one footprint: which counters a row raises in a round may follow from what was seen
    before, how noisy they are does not, and losses of adaptive releases compose as those of fixed
    ones (`mechanisms.heavy_hitters.counted` goes by the same).

    Attributes:
        sums: of each round.
        shares: of the budget, of each round; of a Gaussian mechanism they would be shares of mu^2.
    """

    sums: tuple[RowSums, ...]
    shares: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not (self.sums and len(self.sums) == len(self.shares) and min(self.shares) > 0):
            raise ValueError("each of one round or more must have a positive share")

    @property
    def changes(self) -> int:
        """How many sums of all rounds a row changes at the most."""
        return sum(round_.changes for round_ in self.sums)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The footprint of all rounds: a round's variance goes with its changes over its share."""
        per_change = [s / r.changes for s, r in zip(self.shares, self.sums, strict=True)]
        return tuple(
            level._replace(weight=level.weight * share / per_change[0])
            for share, round_ in zip(per_change, self.sums, strict=True)
            for level in round_.levels
        )

    def meeting(self, neighbours: Neighbours, epsilon: float, delta: float) -> JobTotals:
        """The noise of all rounds.

        Args:
            neighbours, epsilon, delta: as of `JobTotals`.
        """
        parts = [p for round_ in self.sums for whole in round_.parts for p in whole.parts]
        return JobTotals.meeting(self.levels, neighbours, epsilon, delta, parts=parts)

    def designs(self, design: JobTotals) -> list[JobTotals]:
        """The totals of each round, as parts of those of all."""
        ends = np.cumsum([0, *(len(round_.levels) for round_ in self.sums)]).tolist()
        parts = [design.part(*ends[i : i + 2]) for i in range(len(self.sums))]
        # What a round sums up is weighted by its own levels.
        return [
            replace(part, levels=round_.levels)
            for part, round_ in zip(parts, self.sums, strict=True)
        ]
