"""Totals of the cells of one table: of units, of numbers, or of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from mechanisms.channel import Floats
from mechanisms.counters.amounts import (
    LARGEST,
    Amounts,
    Ends,
    SignedDigits,
    WholeAmounts,
    WholeEnds,
    units,
)
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.moments import MomentDigits, WholeMoments
from mechanisms.counters.solve import SHARE
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import designed, rounded
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import Shape, beside, parts_of, rounding_of
from pipelines.metrics.options import JOB
from pipelines.metrics.statistics.evidence import Accuracy, Evidence, MomentEvidence
from pipelines.metrics.statistics.statistic import Workload
from transforms.encoders.reports import LIMITED, UNUSABLE, Clip, Reporting, reach

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted

# Of epsilon, where units have a counter of their own, which shares are divided by.
_SHARES = (0.03, 0.1, 0.25)
_MANY = 100  # noises, whose sum is all but normal
_STEPS = 64  # of a one that rows share
_LARGEST_BOUND = 1e200  # sums of numbers up to it stay numbers


class _Cells(Shape):
    """Levels of counters that are weighted and added up."""

    def evidence(self, release: ByCounters, estimate: Counted) -> Evidence:
        centred = release.design.centred(estimate.counts)
        levels = centred[: len(release.reporting.amounts.levels)]

        people = self._people(release, levels, centred)
        return Evidence(
            self.totals(release, levels),
            people,
            release.accuracy,
            partial(beside, release, estimate),
        )

    def totals(self, release: ByCounters, counts: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(release.worth * release.reporting.amounts.estimate(counts))

    def influence(self, release: ByCounters) -> float:
        return super().influence(release) * abs(release.worth)

    def _people(
        self, release: ByCounters, levels: Sequence[Floats], centred: Sequence[Floats]
    ) -> Floats:
        """How many units a total is of, or all are."""
        return np.empty(0)


class _Units(_Cells):
    """Units are counted, in all or of each group."""

    rows_of_a_user = "those of each value"
    shared = "all, whose different values share one alike"

    def influence(self, release: ByCounters) -> float:
        return super().influence(release) / release.parts

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, Reporting]:
        options, work = statistic.options, statistic.workload
        kind = WholeAmounts if options.drawn_by == JOB else Amounts
        parts = parts_of(options) if work.people == "all" and work.most_groups == 1 else 1
        amounts = kind(work.groups, work.most_groups, work.most * parts)
        present = work.people == "all" and work.most_groups > 1
        beside = (LIMITED,) * work.limited
        reporting = Reporting(amounts, beside=beside, present=present, rows=work.rows, parts=parts)
        if work.people == "nobody":
            return designed(options, reporting, sealed), reporting
        # Of the shuffler's dummies nothing here is a digit, and they are few.
        sealed = sealed and options.drawn_by == "devices"
        if not present:
            return designed(options, reporting, sealed, share=SHARE), reporting
        # Squared shares are (k / d)^2 on average if all are alike, k / d if k values are of all.
        squared = (work.most_groups / work.groups) ** 1.5

        def error(design: NoisyCounters) -> float:
            return design.column_variance + squared * design.variances[1]

        designs, why = [], RequestError("")
        for share in _SHARES:
            try:
                designs.append(designed(options, reporting, sealed, share=share))
            except RequestError as refused:
                why = refused
        if not designs:
            raise why
        return min(designs, key=error), reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        design, work = release.design, release.statistic.workload
        if work.people == "nobody":
            return Accuracy(FigureError.of(design, 1, least=0))
        one, columns = FigureError.of(design, 1), work.groups - 1
        if (parts := release.parts) > 1:
            # Sums of several are tabulated in coarser steps, of which there are far fewer.
            rounding, design = rounding_of(release), design.coarser(parts // _STEPS)
            one = one._replace(unit=1 / parts, rounding=rounding)
            return Accuracy(one, self._rest(design, columns, 1 / _STEPS), shared=True)
        if release.reporting.present:
            others = FigureError(design.level_law(1), math.sqrt(design.variances[1]))
            return Accuracy(one, others)
        return Accuracy(one, self._rest(design, columns), shared=True)

    def _rest(self, design: NoisyCounters, columns: int, unit: float = 1.0) -> FigureError:
        """Of what so many totals add up to."""
        if columns > _MANY:
            return FigureError(None, math.sqrt(columns * design.column_variance), unit)
        return FigureError.of(design, columns, unit=unit)

    def totals(self, release: ByCounters, counts: Sequence[np.ndarray]) -> np.ndarray:
        totals = release.reporting.amounts.estimate(counts) / release.parts
        # What is expected of devices' dummies is no whole number; a count is.
        nobody = release.statistic.workload.people == "nobody"
        return np.rint(totals).astype(np.int64) if nobody else totals

    def _people(
        self, release: ByCounters, levels: Sequence[Floats], centred: Sequence[Floats]
    ) -> Floats:
        if release.statistic.workload.people == "nobody":
            return np.empty(0)
        if release.reporting.present:
            return np.array([centred[1][0]], float)
        return np.array([centred[0].sum() / release.parts])


class _Sums(_Cells):
    """Numbers are added up."""

    rows_of_a_user = "all, added up in each group"

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, Reporting]:
        options, work = statistic.options, statistic.workload
        finest = clip_of(options, work)

        def reporting(units: int, shared: bool) -> Reporting:
            clip, k = replace(finest, units=units), work.most_groups
            digits = Amounts(work.groups, k, units, clip.signed)
            if options.drawn_by == JOB:
                digits = WholeAmounts(work.groups, k, units, least=reach(clip)[0])
            elif clip.signed and shared:
                digits = SignedDigits(work.groups, k, units, least=reach(clip)[0])
            return Reporting(digits, clip, (LIMITED, UNUSABLE), rows=work.rows)

        least = finest.units if work.whole else 1
        return rounded(options, finest.units, least, reporting, sealed)

    def accuracy(self, release: ByCounters) -> Accuracy:
        work, clip = release.statistic.workload, cast(Clip, release.reporting.clip)
        unit, taken = clip.bound / clip.units, int(release.reporting.amounts.signed)
        # A coin's variance is a quarter of a squared unit at the most.
        rounding = 0.0 if work.whole else unit * math.sqrt(release.expected) / 2
        more = {"unit": unit, "rounding": rounding, "least": 0 if clip.low >= 0 else None}
        coin = 0.0 if work.whole else unit**2 / 4
        return Accuracy(FigureError.of(release.design, 1 + taken, taken, **more), coin=coin)

    def worth(self, release: ByCounters) -> float:
        clip = cast(Clip, release.reporting.clip)
        return float(clip.sign * clip.bound / clip.units)


class _Means(_Cells):
    """Numbers are added up from both ends, so that all that is sent of one adds up to a count."""

    rows_of_a_user = "all, averaged in each group"
    kinds: ClassVar[tuple[type[Amounts], ...]] = (Ends, WholeEnds)

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, Reporting]:
        options, work = statistic.options, statistic.workload
        low, high = work.amount

        def reporting(steps: int, shared: bool) -> Reporting:
            clip, kind = Clip(low, high, steps, low), self.kinds[options.drawn_by == JOB]
            amounts = kind(work.groups, work.most_groups, steps)
            return Reporting(amounts, clip, (LIMITED, UNUSABLE), averaged=True, rows=work.rows)

        return rounded(options, finest(options), 1, reporting, sealed)

    def accuracy(self, release: ByCounters) -> Accuracy:
        # What is told from one end of the bounds adds to both, from the other to one of them.
        design, part = release.design, 1 / release.reporting.amounts.most
        coin = 1 / cast(Clip, release.reporting.clip).units ** 2
        total = FigureError.of(design, 2, 1, unit=part)
        return Accuracy(total, FigureError.of(design, 2, unit=part), coin=coin)

    def worth(self, release: ByCounters) -> float:
        return 1 / int(release.reporting.amounts.most)

    def influence(self, release: ByCounters) -> float:
        # A digit that is a lie counts for the one end of the bounds and not for the other.
        half: float = release.statistic.workload.amount.half
        return super().influence(release) * half

    def _people(
        self, release: ByCounters, levels: Sequence[Floats], centred: Sequence[Floats]
    ) -> Floats:
        amounts = release.reporting.amounts
        return np.asarray(amounts.number(levels) / amounts.most)


class _Moments(_Means):
    """Numbers and their squares are added up."""

    kinds = (MomentDigits, WholeMoments)

    def accuracy(self, release: ByCounters) -> Accuracy:
        amounts, column = release.reporting.amounts, release.design.column_variance
        part = 1 / amounts.most
        moments = np.array(amounts.covariance) * column * part**2
        # By the law of one counter: the tails of sums of several are lighter.
        total = FigureError.of(release.design, 1, unit=math.sqrt(2) * part)
        people = FigureError(None, math.sqrt(moments[0, 0]) / part, part)
        return Accuracy(total, people, coin=part**2, moments=moments)

    def evidence(self, release: ByCounters, estimate: Counted) -> MomentEvidence:
        amounts = release.reporting.amounts
        centred = release.design.centred(estimate.counts)[: len(amounts.levels)]
        people, sums, squares = amounts.moments(centred)
        known = release.accuracy, partial(beside, release, estimate)
        return MomentEvidence(sums, people, *known, squares=squares)

    def influence(self, release: ByCounters) -> float:
        """Of a sum of squared distances from the middle of the bounds."""
        slots, work = release.design.levels[0].slots, release.statistic.workload
        lies = slots * (work.rows or 1) * (max(release.design.lifts) if release.by_devices else 1)
        return float(lies * work.amount.half**2)


_UNITS, _SUMS, _MEANS, _MOMENTS = _Units(), _Sums(), _Means(), _Moments()


def of_cells(work: Workload) -> Shape:
    """How totals of cells travel."""
    if work.amount is None:
        return _UNITS
    if work.squares:
        return _MOMENTS
    return _MEANS if work.people == "groups" else _SUMS


def clip_of(options: Any, work: Workload) -> Clip:
    """What numbers are clipped to, in units fine enough for the noise of a sum.

    Raises:
        RequestError: whole numbers are asked for, and bounds are none, or far too large.
    """
    if work.amount is None:
        raise ValueError("nothing is added up")
    low, high = work.amount
    bound = max(abs(low), abs(high))
    if not bound <= _LARGEST_BOUND:
        raise RequestError(f"--bounds: they must lie within {_LARGEST_BOUND:g} of 0")
    if not work.whole:
        # Of the best noise that there is, so never too few; and all digits full.
        noise = math.sqrt(2) / (options.epsilon or math.inf)
        return Clip(low, high, 1 if options.epsilon is None else _fine(noise, options.usual, 1.0))
    if low != int(low) or high != int(high) or bound > LARGEST:
        raise RequestError(
            f"--bounds: with --whole-numbers they must be whole, and at most {LARGEST:,}"
        )
    return Clip(low, high, int(bound))


def finest(options: Any) -> int:
    """How many units the range of a mean's numbers has, at the most: rounding does not show."""
    noise = 2 / (options.epsilon or 1.0)  # of the best noise that there is, so never too few
    return _fine(noise, options.usual, 2.0)


def _fine(noise: float, n: int, bound: float) -> int:
    """As `units`, all of whose digits are full."""
    return min((1 << units(noise, n, bound).bit_length()) - 1, LARGEST)
