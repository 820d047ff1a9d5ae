"""Numbers of units up to the ends of bins, from a tree of counters over the bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.tree import Tree
from mechanisms.distribution.quantile_choice import QuantileChoice
from mechanisms.distribution.quantiles import quantile_limits, quantiles
from mechanisms.postprocess.simplex import rising
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import MOST_SEALED, meeting, target_of
from pipelines.metrics.counting.result import FigureError, Noisy
from pipelines.metrics.counting.shapes.shape import (
    Shape,
    beside,
    parts_of,
    portions,
    rounding_of,
)
from pipelines.metrics.counting.shapes.shape import far as far_of
from pipelines.metrics.options import JOB
from pipelines.metrics.statistics.evidence import Accuracy, Limits, PrefixEvidence
from transforms.encoders.paths import PathReporting

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted

# (children of a node, growth of a level's weight from one level to the next one down)
SHAPES = ((2, 1.15), (3, 1.15), (4, 1.3), (8, 1.5), (16, 2.0))
# The same for the job, whose noise follows by formulas: within 1 % of the best of a hundred shapes.
FANOUTS = (2, 3, 4, 5, 8, 10, 16, 32, 64)
BY_JOB = tuple(product(FANOUTS, (1.15, 1.3)))


class _Paths(Shape):
    """A unit raises the counters above its bin, one of each level of a tree that each group has.

    Groups are no level of their own: nothing says how many units all of them have together, so
    their trees have nothing in common, and what is known of one is what is known of one alone.
    """

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, PathReporting]:
        """The tree with the least error of a share below."""
        options, work, bins = statistic.options, statistic.workload, statistic.bins
        if not (np.diff(statistic.edges) > 0).all():
            raise RequestError("--bins: the bounds are too close for so many bins")
        candidates, why = [], RequestError("")
        # The shuffler's dummies are few where each is sealed, if some tree has few.
        most = MOST_SEALED if sealed and options.drawn_by == "shuffler" else math.inf
        by_job = options.drawn_by == JOB
        parts = parts_of(options) if work.rows is None else 1
        error = on_average if by_job else of_half
        for fanout, growth in BY_JOB if by_job else SHAPES:
            reporting = PathReporting(
                Tree.uniform(bins, fanout, growth), statistic.groups, work.most_groups, work.rows,
                parts, work.limited,
            )  # fmt: skip
            levels = reporting.levels[:-1]
            more = portions(parts, len(levels)) | {"rows": work.rows or 1}
            try:
                design = meeting(options, levels, reporting.sides, sealed, **more)
            except RequestError as refused:
                why = refused
                continue
            excess = max(design.number - most, 0)
            variances = design.variances[:-1]
            candidates.append((excess, error(reporting.tree, variances), design, reporting))
        if not candidates:
            raise why
        *_, design, reporting = min(candidates, key=lambda candidate: candidate[:2])
        return design, reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of a count of a group up to the middle, if as many lie above it."""
        error = math.sqrt(of_half(*_tree(release)))
        return Accuracy(FigureError(None, error, rounding=rounding_of(release)))

    def evidence(self, release: ByCounters, estimate: Counted) -> PrefixEvidence:
        tree, variances = _tree(release)
        parts, levels = release.parts, release.design.centred(estimate.counts)[:-1]
        groups = (level.reshape(release.statistic.groups, -1) / parts for level in levels)
        leaves = np.stack([tree.estimate(own, variances) for own in zip(*groups, strict=True)])
        edges, places = _ends(release.statistic)
        below = np.cumsum(np.pad(leaves, ((0, 0), (1, 0))), axis=1)[:, places]
        unbiased, cumulative, *ends, few = _shares_below(release, below, places)
        errors = np.sqrt(tree.range_variances(places[:-1], places[1:], variances))
        total, unit = float(leaves.sum()), release.unit

        def usable(confidence: float) -> Noisy:
            # As far as the heaviest of the noises that all bins add up from.
            of = (
                FigureError.of_level(release.design, place, 1, unit=1 / parts)
                for place in range(len(levels))
            )
            far = max(law.far(confidence) for law in of)
            return total, math.sqrt(len(leaves)) * _spread(tree, variances) * far

        counts = np.diff(below, axis=1).ravel()
        of_bins = {
            "unbiased": np.diff(unbiased, axis=1).ravel(),
            f"{unit}s": counts,
            f"{unit}s_standard_error": np.tile(errors, len(leaves)),
        }
        named = zip(("", "_simultaneous"), ends, strict=True)
        limits = {name: (low[:, 1:].ravel(), high[:, 1:].ravel()) for name, (low, high) in named}
        return PrefixEvidence(
            leaves.ravel(), leaves.sum(axis=1), release.accuracy,
            partial(beside, release, estimate), usable=usable, edges=edges, bins=of_bins,
            cumulative=cumulative[:, 1:].ravel(), limits=limits,
            quantiles=_quantiles(release.statistic, edges, cumulative, (ends[0], few)),
        )  # fmt: skip

    def influence(self, release: ByCounters) -> float:
        """Of a count up to any point: slots are one a level, and agree where levels do."""
        levels = len(_tree(release)[0].levels)
        if release.by_devices:
            return float(sum(release.design.lifts[:levels]))
        return float(levels) if release.collects else 1.0


TREE = _Paths()
"""Prefixes of bins in their order."""


class _Quantile(_Paths):
    """One quantile of each group: drawn by exact ranks, or from its tree where that errs less."""

    def least(self, statistic: Any, sealed: bool) -> tuple[Any, Any]:
        usual, paths = super().least(statistic, sealed)
        one = replace(paths, tree=Tree(statistic.bins, (statistic.bins,)))
        neighbours, epsilon, _ = target_of(statistic.options)
        own = statistic.groups, statistic.probabilities[0], neighbours, epsilon
        try:
            design = QuantileChoice(one.levels, *own, statistic.workload.rows or 1, one.parts)
            _ = design.noise, design.mechanism.weights(np.zeros(statistic.bins))
        except ValueError:  # 64 bits do not serve so small an epsilon
            return usual, paths
        of_tree = on_average(paths.tree, usual.variances[:-1])
        return (design, one) if design.column_variance <= of_tree else (usual, paths)

    def accuracy(self, release: ByCounters) -> Accuracy:
        if not isinstance(release.design, QuantileChoice):
            return super().accuracy(release)
        error = math.sqrt(release.unit_error)
        return Accuracy(FigureError(None, error, rounding=rounding_of(release)))

    def evidence(self, release: ByCounters, estimate: Counted) -> PrefixEvidence:
        if not isinstance(release.design, QuantileChoice):
            return super().evidence(release, estimate)
        statistic, columns = release.statistic, list[Floats]()
        edges, none = statistic.edges, np.empty(0)
        for together in (1, statistic.groups):
            known = release.design.limits(estimate.counts, release.options.confidence, together)
            cell, lower, upper = known.T
            low, high, first, last = (edges[x] for x in (lower, upper, cell, cell + 1))
            if statistic.whole:  # a cell but the last ends with the number before the next one
                high = np.ceil(high) - (upper < edges.size - 1)
                first, last = np.ceil(first), np.maximum(np.ceil(first), np.ceil(last) - 1)
            columns += [np.clip((first + last) / 2, low, high), low, high]
        quantiles = np.stack([*columns[:3], *columns[4:]], axis=1)
        return PrefixEvidence(
            none, np.zeros(1), release.accuracy, lambda *_: None, edges=edges, bins={},
            cumulative=none, limits={}, quantiles=quantiles,
        )  # fmt: skip

    def nothing(self, release: ByCounters) -> np.ndarray:
        design = release.design
        drawn = isinstance(design, QuantileChoice)
        return np.zeros(design.drawn, np.int64) if drawn else super().nothing(release)

    def influence(self, release: ByCounters) -> float:
        return 1.0


QUANTILE = _Quantile()
"""One quantile of bins in their order."""


def _quantiles(statistic: Any, edges: Floats, cumulative: Floats, ends: Sequence[Limits]) -> Floats:
    """(groups * quantiles, 5) as of `PrefixEvidence`, by limits of each and of so many."""
    levels, whole, numbers = statistic.probabilities, statistic.whole, []
    for group, below in enumerate(cumulative):
        middle = quantiles(levels, np.diff(below), edges, whole)
        limits = (quantile_limits(levels, low[group], high[group], edges) for low, high in ends)
        # Of whole numbers a bin ends with its last one, and not with the first of the next.
        sides = (side for low, high in limits for side in (low, high - whole))
        numbers.append(np.stack([middle, *sides], axis=1))
    return np.concatenate(numbers)


def _tree(release: ByCounters) -> tuple[Tree, Sequence[float]]:
    """The tree of a release, and the variances of its levels' counters."""
    reporting: Any = release.reporting
    return reporting.tree, [v / release.parts**2 for v in release.design.variances[:-1]]


def _spread(tree: Tree, variances: Sequence[float]) -> float:
    """The standard error of the number of all."""
    return math.sqrt(tree.variance(np.ones(tree.cells), variances))


def of_half(tree: Tree, variances: Sequence[float]) -> float:
    """The variance of how many lie below the middle, less half of all."""
    index = np.arange(tree.cells)
    return tree.variance((index < tree.cells // 2) - 0.5, variances)


def on_average(tree: Tree, variances: Sequence[float]) -> float:
    """The same of all ends of cells, of each less its part of all."""
    shares = np.linspace(0, 1, tree.cells + 1)
    return float(tree.below_variances(shares, variances).mean())


def _ends(statistic: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(bins + 1,) each: where the published bins begin and end, and how many leaves lie below."""
    edges = statistic.edges
    if not statistic.whole:
        return edges, np.arange(edges.size)
    # Of whole numbers as many lie below 4.88 as below 5, and none between two edges of one
    # rounding; behind the last number, which the last bin holds, is the next one.
    ends = np.append(np.ceil(edges[:-1]), edges[-1] + 1).astype(np.int64)
    return np.unique(ends, return_index=True)


def _shares_below(
    release: ByCounters, below: Floats, places: NDArray[np.int64]
) -> tuple[Floats, Floats, Limits, Limits, Limits]:
    """Of the shares below some edges (unbiased, estimates, limits of each, of all together, and of
    as many as there are quantiles).

    Args:
        release: whose trees they are.
        below: (groups, k) the estimated counts below them; of the first 0, of the last all.
        places: (k,) how many leaves lie below them.

    Returns:
        Arrays as `below`.
    """
    tree, variances = _tree(release)
    total, known = below[:, -1:], np.tile(np.linspace(0.0, 1.0, places.size), (len(below), 1))
    np.divide(below, total, out=known, where=(total > 0) & (places > 0) & (places < places[-1]))
    cumulative = fitted_shares(known)
    shares = np.zeros((len(below), tree.cells + 1))
    shares[:, places] = np.clip(known, 0, 1)
    errors = np.sqrt(tree.below_variances(shares, variances)[:, places])
    ends = []
    levels, bins = len(release.statistic.probabilities), places.size - 1
    for comparisons in (1, len(below) * levels, len(below) * bins):
        far = far_of(release, comparisons)
        fewest = total - far * _spread(tree, variances)
        # A share m is refuted where the count below less m times all is far from 0: divided by
        # the fewest that there may be. Counts are whole, so noise of a few units goes in steps.
        half = np.full_like(errors, np.inf)
        np.divide(far * errors + 0.5, fewest, out=half, where=fewest > 0)
        half[:, [0, -1]] = 0.0
        ends.append((known - half, known + half))
    # The fit keeps order, so limits hold its estimate. Of 100 releases of six data sets single
    # ones held in 97.3 to 99.4 % after it, and in 97.3 to 98.1 % before: a flat stretch has one
    # limit, and not hundreds of which some miss. It must come before they are cut to 0 .. 1: those
    # that are held in 64 % of a stretch where nothing is.
    fitted = [[fitted_shares(end) for end in pair] for pair in ends[:2]]
    one, few = (  # to the last bit
        (np.minimum(low, cumulative), np.maximum(high, cumulative)) for low, high in fitted
    )
    # Limits that hold together hold for all further shares, too, which are no smaller.
    low, high = (np.clip(end, 0, 1) for end in ends[2])
    low = np.maximum.accumulate(low, axis=1)
    high = np.minimum.accumulate(high[:, ::-1], axis=1)[:, ::-1]
    return known, cumulative, one, (np.minimum(low, one[0]), np.maximum(high, one[1])), few


def fitted_shares(shares: Floats) -> Floats:
    """The rising shares nearest to those of each row, of which the first is 0 and the last is 1."""
    fitted = np.zeros_like(shares)
    fitted[:, -1] = 1.0
    for row, own in zip(fitted, shares, strict=True):
        if np.isfinite(own).all():
            row[1:-1] = rising(own[1:-1])
        else:  # nobody may have a number
            row[1:] = own[1:] > 0
    return fitted
