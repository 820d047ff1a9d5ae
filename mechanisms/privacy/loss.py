"""The privacy profile of a release: the whole curve from epsilon to delta.

A single epsilon forgets how rarely a release reveals that much. The profile does not, and what
is needed to compose many releases tightly is in it. Every approximation lies above the truth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats, Guarantee, Mechanism

_Point = tuple[float, float]  # (epsilon, delta)

_POINTS = 4096  # of a stored profile; chords between them lie above the curve
_NEGLIGIBLE = 1e-18  # of delta, next to what stays however large epsilon is
_ROUNDING = 1e-15  # relative error of a ratio of two probabilities held in doubles


@dataclass(frozen=True)
class PrivacyLoss:
    """How much one replaced contribution can change what a release shows: its privacy profile.

    delta(epsilon) is the largest hockey-stick divergence between the outputs on two neighbouring
    inputs, in both directions. It is convex in e^epsilon and kept as a chain of points, which is
    exact for a finite channel. Such a curve is also that of one pair of distributions that
    dominates every pair of neighbours, which makes it all that composition needs.

    Attributes:
        epsilons: ascending from 0, in nats.
        deltas: the profile there; the last one holds for every larger epsilon as well.
        apart: of inputs two steps apart, if more is known of it than follows from these.

    Source: Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic
        function", AISTATS 2022, Propositions 8 and 10 (dominating pairs and their composition).

    >>> coin = PrivacyLoss.from_pair([0.75, 0.25], [0.25, 0.75])  # randomised response, e^eps = 3
    >>> round(coin.epsilon(0.0), 4), round(coin.delta(0.0), 4)
    (1.0986, 0.5)
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    # None hashes by its address, which is another in each process, and sets are composed in order.
    apart: "PrivacyLoss | None" = field(default=None, hash=False)

    def __post_init__(self) -> None:
        e, d = np.array(self.epsilons), np.array(self.deltas)
        if not (e.ndim == 1 and e.shape == d.shape and e.size and e[0] == 0):
            raise ValueError("a profile has as many epsilons as deltas, from epsilon 0 on")
        if not (np.isfinite(e).all() and (np.diff(e) > 0).all()):
            raise ValueError("the epsilons of a profile must be finite and ascend")
        if not ((d >= 0).all() and (d <= 1).all() and (np.diff(d) <= 0).all()):
            raise ValueError("the deltas of a profile must lie in [0, 1] and not ascend")

    @property
    def replaced(self) -> "PrivacyLoss":
        """The profile of inputs that are two steps apart: of a unit replaced, not added or removed.

        delta2(a + b) <= delta(a) + e^a delta(b), by the triangle inequality.
        """
        if self.apart is not None:
            return self.apart
        e, d = np.array(self.epsilons), np.array(self.deltas)
        sums = (e[:, None] + e).ravel()
        with np.errstate(over="ignore"):
            bounds = np.minimum((d[:, None] + np.exp(e)[:, None] * d).ravel(), 1.0)
        order = np.argsort(sums, kind="stable")
        ascending, first = np.unique(sums[order], return_index=True)
        # What holds at an epsilon holds at every larger one.
        least = np.minimum.accumulate(np.minimum.reduceat(bounds[order], first))
        return PrivacyLoss.from_profile(ascending, least)

    # ---- where a profile comes from ----------------------------------------------------------

    @classmethod
    def from_pair(cls, p: ArrayLike, q: ArrayLike) -> "PrivacyLoss":
        """The profile of two output distributions, in the worse of the two directions.

        Args:
            p: (codes,) probabilities on one input.
            q: (codes,) probabilities on a neighbouring input.

        Raises:
            ValueError: they are not two distributions over the same codes.
        """
        first, second = _distribution(p), _distribution(q)
        if first.shape != second.shape:
            raise ValueError(f"the pair has {first.size} and {second.size} codes")
        return _worst(_chain(first, second), _chain(second, first))

    @classmethod
    def from_channel(cls, mechanism: Mechanism) -> "PrivacyLoss":
        """The profile of one report, over every pair of inputs.

        Args:
            mechanism: whose exact `weights` are enumerated for all its `pairs`.
        """
        # Pairs have inputs in common, whose laws need not be tabulated again.
        channel = lru_cache(maxsize=256)(mechanism.channel)
        return reduce(_worst, (_chain(channel(a), channel(b)) for a, b in mechanism.pairs()))

    @classmethod
    def from_profile(cls, epsilons: ArrayLike, deltas: ArrayLike) -> "PrivacyLoss":
        """The tightest profile below upper bounds that were computed at a few epsilons.

        This is the door for a shuffled batch, whose bound is known point by point.

        Args:
            epsilons: (m,) nonnegative and ascending, in nats.
            deltas: (m,) an upper bound of delta at each.

        Returns:
            The lower convex hull: a privacy profile is convex in e^epsilon, so it lies below.
        """
        e, d = np.asarray(epsilons, np.float64), np.asarray(deltas, np.float64)
        if not (e.ndim == 1 and e.shape == d.shape and e.size and e[0] >= 0):
            raise ValueError("a profile has as many epsilons as deltas, none negative")
        if not (np.isfinite(e).all() and (np.diff(e) > 0).all() and (d >= 0).all()):
            raise ValueError("epsilons must be finite and ascend, deltas must not be negative")
        d = np.minimum.accumulate(np.minimum(d, 1.0))
        if e[0] > 0:
            e, d = np.append(0.0, e), np.append(1.0, d)
        # What a bound at one epsilon says about each smaller one: the worst that it allows is
        # four-outcome randomised response, whose profile this is. It also keeps the profile from
        # falling faster than any pair of distributions lets it. In e^epsilon it is a chord that
        # begins at epsilon 0, so where it begins is all that a hull needs to know of it.
        begins = (d + (1 - d) * -np.expm1(-e) / (1 + np.exp(-e))) * (1 + _ROUNDING)
        d[0] = min(d[0], begins.min())
        return _hull(e, d)

    @classmethod
    def from_guarantee(cls, guarantee: Guarantee) -> "PrivacyLoss":
        """The worst profile that an (epsilon, delta) claim allows, where nothing else is known.

        Source: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML
            2015, eq. 10: four-outcome randomised response dominates every such mechanism.
        """
        if not guarantee.epsilon < math.inf:
            raise ValueError("a release without a finite epsilon cannot be accounted for")
        return cls.from_profile([guarantee.epsilon], [guarantee.delta])

    # ---- what it says ------------------------------------------------------------------------

    def delta(self, epsilon: float) -> float:
        """The least delta for which the release is (epsilon, delta)-private.

        Args:
            epsilon: at least 0, in nats.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, not {epsilon}")
        return float(self.at(np.array([epsilon]))[0])

    def epsilon(self, delta: float) -> float:
        """The least epsilon for which the release is (epsilon, delta)-private, or infinity.

        Args:
            delta: in [0, 1].
        """
        if not 0 <= delta <= 1:
            raise ValueError(f"delta must lie in [0, 1], not {delta}")
        met = next((i for i, d in enumerate(self.deltas) if d <= delta), None)
        if met is None:
            return math.inf
        if met == 0:
            return 0.0
        high, low = self.deltas[met - 1], self.deltas[met]
        width = self.epsilons[met] - self.epsilons[met - 1]
        # The chord falls linearly in e^epsilon, here relative to its right end.
        share = (delta - low) / (high - low) * math.expm1(-width)
        back = math.log1p(share) if share > -1 else -width
        # A few units in the last place up, for the rounding of this line and of the logarithm.
        return min(self.epsilons[met], (self.epsilons[met] + back) * (1 + 1e-15))

    def at(self, epsilons: Floats) -> Floats:
        """`delta` at (m,) epsilons, all at least 0."""
        e, d = np.array(self.epsilons), np.array(self.deltas)
        if e.size == 1:
            return np.full(epsilons.shape, d[0])
        i = np.clip(np.searchsorted(e, epsilons, side="right") - 1, 0, e.size - 2)
        travelled = np.minimum(epsilons, e[-1]) - e[i]
        heights: Floats = d[i + 1] + (d[i] - d[i + 1]) * _left(travelled, e[i + 1] - e[i])
        return heights

    @property
    def reach(self) -> float:
        """The loss beyond which next to nothing but the unbounded part is left."""
        return self.epsilon(min(1.0, self.deltas[-1] + _NEGLIGIBLE))


def worst_profile(profiles: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """The larger of several profiles everywhere: of who takes part in one of several releases.

    Which one it is must be left to dice, or be public.

    Args:
        profiles: of the releases, at least one.
    """
    if len({*profiles}) == 1:
        return profiles[0]
    epsilons = np.unique(np.concatenate([profile.epsilons for profile in profiles]))
    deltas = np.max([profile.at(epsilons) for profile in profiles], axis=0)
    return PrivacyLoss.from_profile(epsilons, deltas)


def _left(travelled: Any, width: Any) -> Any:
    """(e^w - e^t)/(e^w - 1), how much of a chord that is linear in e^epsilon is still to come.

    No overflow; and no cancellation either where the right end is far below the left one.
    """
    return np.expm1(travelled - width) / np.expm1(-width)


def _distribution(p: ArrayLike) -> Floats:
    """A checked vector of probabilities."""
    array = np.asarray(p, np.float64)
    if not (array.ndim == 1 and (array >= 0).all() and abs(array.sum() - 1) <= 1e-9):
        raise ValueError("a distribution is a vector of nonnegative numbers that add up to 1")
    return array


def _chain(p: Floats, q: Floats) -> PrivacyLoss:
    """The profile of one ordered pair of distributions: exact, its corners at the ratios."""
    bounded = (p > q) & (q > 0)
    ratios, which = np.unique(p[bounded] / q[bounded], return_inverse=True)
    mass = np.bincount(which, q[bounded], ratios.size)
    # In a = e^epsilon the slope is minus the mass of q at larger ratios. Summing the falls from
    # the right adds positive numbers only, so that the smallest deltas keep their digits.
    falls = np.diff(np.append(1.0, ratios)) * mass[::-1].cumsum()[::-1]
    deltas = p[q == 0].sum() + np.append(falls[::-1].cumsum()[::-1], 0.0)
    deltas *= 1 + (p.size + 8) * 2.0**-52  # upwards, by more than all these roundings
    return _thinned(np.append(0.0, np.log(ratios) + _ROUNDING), np.minimum(deltas, 1.0))


def _worst(one: PrivacyLoss, other: PrivacyLoss) -> PrivacyLoss:
    """The larger of two profiles everywhere."""
    if one == other:
        return one
    epsilons = np.union1d(one.epsilons, other.epsilons)
    return _thinned(epsilons, np.maximum(one.at(epsilons), other.at(epsilons)))


def _thinned(epsilons: Floats, deltas: Floats) -> PrivacyLoss:
    """A chain of at most `_POINTS` chords above a convex chain."""
    keep = np.append(True, np.diff(epsilons) > 0)  # logarithms of neighbours may coincide
    epsilons, deltas = epsilons[keep], np.minimum.accumulate(deltas[keep])
    if epsilons.size > _POINTS:
        reach = np.searchsorted(-deltas, -(deltas[-1] + _NEGLIGIBLE))
        # Points go where the curve still falls; chords over the rest lie above it, too.
        targets = np.linspace(0, epsilons[reach], _POINTS - 1)
        kept = np.unique(np.append(np.searchsorted(epsilons, targets), epsilons.size - 1))
        epsilons, deltas = epsilons[kept], deltas[kept]
    return PrivacyLoss(tuple(epsilons.tolist()), tuple(deltas.tolist()))


def _hull(epsilons: Floats, deltas: Floats) -> PrivacyLoss:
    """The lower convex hull, in e^epsilon, of points with falling deltas."""
    hull: list[_Point] = []
    for e, d in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        while len(hull) > 1 and _above(hull[-2], hull[-1], (e, d)):
            hull.pop()
        hull.append((e, d))
    kept, heights = zip(*hull, strict=True)
    return PrivacyLoss(tuple(kept), tuple(heights))


def _above(left: _Point, point: _Point, right: _Point) -> bool:
    """Whether a point lies on or above the chord from its left to its right neighbour."""
    width = right[0] - left[0]  # as `_left`, of which numpy takes five times as long for one number
    rest = math.expm1(point[0] - left[0] - width) / math.expm1(-width)
    return point[1] >= right[1] + (left[1] - right[1]) * rest
