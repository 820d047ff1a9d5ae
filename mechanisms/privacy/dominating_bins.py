"""One bin that tells no less apart than any of many do, at whatever odds.

Of a bin counts what its hockey-stick divergence D(odds) of occupied from free is. The largest of
several is convex again, and so the divergence of some bin; any of the several can be made of that
one by dice that do not know which batch it is (Blackwell), in one bin and in two. Between odds at
which it is known a chord is above it, and a bin whose divergence is made of chords is a short one.

Source: Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic function",
AISTATS 2022, Proposition 8 and Theorem 10; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect
the dots", PoPETs 2022.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mechanisms.channel import Floats
from mechanisms.privacy.binomial_edges import Edges
from mechanisms.privacy.two_bins import BinLaw

_UNIT = 2.0**-53
_APART = 2.0**-40  # between odds that are told apart, relatively
_LEVELS = 256  # of divergence, to a factor of e, at which it is read


class Profile(NamedTuple):
    """The divergence D of occupied from free in one bin, rounded up.

    Attributes:
        odds: (knots,) ascending, finite and positive; 1 is one of them.
        excess: (knots,) D(odds) - max(0, 1 - odds), which is small at either end.
        missing: as of a `BinLaw`.
        distance: as of a `BinLaw`.
    """

    odds: Floats
    excess: Floats
    missing: float
    distance: float

    @classmethod
    def of(
        cls, odds: Floats, below: Floats, above: Floats, missing: float, distance: float
    ) -> "Profile":
        """From D(odds) - (1 - odds), which is read below 1, and D(odds), which is read above."""
        known = np.where(odds < 1, below + (1 - odds), above)
        one = np.interp(1.0, np.append(0.0, odds), np.append(1.0, known))
        # Between odds that are closer, rounding would say how steep a chord is.
        lower, upper = odds < 1 - _APART, odds > 1 + _APART
        return cls(
            np.concatenate([odds[lower], [1.0], odds[upper]]),
            np.concatenate([below[lower], [one], above[upper]]),
            missing,
            distance,
        )

    @classmethod
    def of_law(cls, law: BinLaw) -> "Profile":
        """Of a law whose outcomes have not been put together: at their gains, where it is exact."""
        if law.hidden:
            raise ValueError("outcomes that have been put together told more apart than they do")
        gain, *sums = law.ascending
        kept = np.isfinite(gain) & (gain > 0)
        odds, slack = gain[kept], law.relative + 4 * _UNIT * gain.size
        # From either end: there sums are small, and keep their digits.
        before, free_before = (one[1:][kept] for one in sums)
        descending = np.argsort(law.gain, kind="stable")[::-1]
        after, free_after = (
            one[descending].cumsum()[::-1][kept] for one in (law.occupied, law.free)
        )
        below = odds * free_before * (1 + slack) - before * (1 - slack)
        above = after * (1 + slack) - odds * free_after * (1 - slack)
        return cls.of(odds, below, above, law.missing, law.distance)

    @classmethod
    def of_edges(cls, edges: Edges, keep: float, other: float) -> "Profile":
        """Of other users' bits and the user's, which is 1 with a chance of keep or, less, of other.

        The law of the others' bits is log-concave, so that gains rise with the count: a test that
        begins at an edge is the best at the gain of the edge's count. Of that gain we know between
        which two numbers it lies. D falls with the odds and D - (1 - odds) rises, so what holds at
        the gain holds at all odds that are further from 1: the value of the test is taken at the
        end nearer to 1, where it is larger, and is said of the other end. Neither needs to be the
        gain, and no test needs to be the best there.
        """
        contrast = keep - other
        # As many roundings as cells in a sum, 16 of all else.
        slack = edges.relative + _UNIT * (edges.cell.size + 16)
        bit = other * edges.below
        after = edges.cell[::-1].cumsum()[::-1] + bit  # of a bin without the user
        before = np.append(0.0, edges.cell[:-1].cumsum()) * (1 - slack) - bit * (1 + slack)
        side = np.sign(edges.drop)
        near, far = (
            contrast * drop / (1 + other * drop)
            for drop in (edges.drop - side * edges.drop_error, edges.drop + side * edges.drop_error)
        )
        odds = 1 + (far * (1 + 8 * _UNIT) + side * 2 * _UNIT)
        shown, least = contrast * edges.below * (1 + slack), np.abs(near) * (1 - slack)
        below, above = shown - least * np.maximum(before, 0.0), shown - least * after
        # A gain that may lie on either side of 1 is left out.
        order = np.argsort(odds, kind="stable")
        order = order[(near * side > 0)[order]]
        return cls.of(odds[order], below[order], above[order], edges.missing, 0.0)

    def at(self, odds: Floats) -> Floats:
        """At least the excess at other odds, by chords."""
        knots, excess = np.append(0.0, self.odds), np.append(0.0, self.excess)
        return np.asarray(np.interp(odds, knots, excess))


Mixture = Sequence[tuple[float, Profile]]
"""Profiles, and how often each holds; whoever looks at the bin sees which."""


def dominating(mixtures: Sequence[Mixture], missing: float = 0.0) -> BinLaw:
    """A bin that tells no less apart than any of these.

    Args:
        mixtures: one or more.
        missing: how often nothing is known of any of them, besides what they are missing.
    """
    profiles = [profile for mixture in mixtures for _, profile in mixture]
    odds = np.unique(np.concatenate([one.odds for one in profiles]))
    odds = odds[np.diff(odds, prepend=0.0) > _APART * odds]
    mixed = [
        np.sum([share * one.at(odds) for share, one in mixture], axis=0) for mixture in mixtures
    ]
    worst = np.max(mixed, axis=0)
    worst[odds >= 1] = np.minimum.accumulate(worst[odds >= 1])  # what holds at smaller odds holds
    level = np.floor(_LEVELS * np.log(np.maximum(worst, math.ulp(0.0))))
    kept = (np.diff(level, prepend=math.nan) != 0) | (odds == 1)
    odds, worst = _convex(np.append(0.0, odds[kept]), np.append(0.0, worst[kept]))
    # How steep a chord is says what is free beyond it, seen from 1: less and less.
    steep, one = np.abs(np.diff(worst) / np.diff(odds)), int(np.searchsorted(odds, 1.0))
    below, above = steep[:one], np.append(steep[one:], 0.0)
    between = max(0.0, 1 - float(below[-1] + above[0]))
    free = np.concatenate([np.diff(below, prepend=0.0), [between], -np.diff(above)])
    return BinLaw(
        np.append(odds * free, worst[-1]),
        np.append(free, 0.0),
        missing + max(profile.missing for profile in profiles),
        8 * _UNIT * odds.size,
        max(profile.distance for profile in profiles),
    )


def _convex(odds: Floats, excess: Floats) -> tuple[Floats, Floats]:
    """Without knots that rounding put above the chord of their neighbours, which is a bound, too.

    To make every chord as steep as the next would lift all of them where two knots are so close
    that rounding says how steep theirs is.
    """
    while True:
        one = int(np.searchsorted(odds, 1.0))
        convex = np.diff(np.diff(excess) / np.diff(odds)) >= 0
        kept = np.concatenate([[True], convex | (odds[1:-1] == 1), [True]])
        # At 1, where the excess turns into the divergence itself, a knot is always needed.
        left, right = 1 - odds[one - 1], odds[one + 1] - 1 if one + 1 < odds.size else math.inf
        start, end = excess[one - 1] + left, excess[min(one + 1, odds.size - 1)]
        chord = start + left / (left + right) * (end - start)
        if kept.all() and excess[one] <= chord:
            return odds, excess
        excess[one] = min(excess[one], chord)
        odds, excess = odds[kept], excess[kept]
