"""Sums over rows, of which a row changes a few: what rounds of training are made of.

A round is one footprint of totals, or a part of one: what a row adds may follow from a model that
is public by then. The job adds up and draws the noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Neighbours
from mechanisms.counters.amounts import WholeAmounts, by_part, weighed
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Layout, Level, Slots, has_twice
from mechanisms.learning.absent import present
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource

_SLOTS = 1 << 21  # that are filled together


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
    ) -> Sequence[tuple[Slots, Slots]]:
        """For each part ((n, k) groups, -1 for none; (n, k) or fewer amounts of them)."""

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
        step = max(_SLOTS // self.changes, 1)
        for at in range(0, len(rows), step):
            own = labels[at : at + step]
            kept = present(own)[:, None]
            kinds = self.contributions(rows[at : at + step], own, rng, weights)
            for i, (part, (groups, amounts)) in enumerate(zip(self.parts, kinds, strict=True)):
                places = np.where(kept, groups, -1)
                if has_twice(places) or places.shape[1] > part.most_groups:
                    raise ValueError(f"a row changes a sum of part {i} twice, or too many of them")
                [places] = part.encode(places, np.broadcast_to(amounts, groups.shape))
                there, added = places >= 0, np.broadcast_to(amounts, groups.shape)
                start, end = self.layout.starts[i : i + 2]
                np.add.at(sums[start:end], places[there], added[there])
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
