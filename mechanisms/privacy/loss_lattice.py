"""One release's privacy loss on a lattice, so that losses can be added up: from above and below."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.privacy.two_bins import BinLaw

_UNIT = 2.0**-53
_FAINT = 1e-18  # probability of outcomes that are not looked at closely
_DENSE = 1 << 24  # steps from the least loss to the largest, up to which all of them have a number


class Lattice(NamedTuple):
    """Probabilities of multiples of a step; what gives the user away is not among them.

    Attributes:
        places: (k,) the multiples, ascending, at least one.
        mass: (k,) their probabilities.
    """

    places: NDArray[np.int64]
    mass: Floats

    def gathered(self, most: int) -> "Lattice":
        """About the same law on so many places at the most: for searches."""
        if self.places.size <= most:
            return self
        first, last = int(self.places[0]), int(self.places[-1])
        cell = (self.places - first) * most // (last - first + 1)
        mass: NDArray[Any] = np.bincount(cell, self.mass)
        kept = mass > 0
        means: NDArray[Any] = np.bincount(cell, self.mass * self.places)[kept] / mass[kept]
        return Lattice(means, mass[kept])

    def moments(self, slope: float) -> tuple[float, float, float]:
        """log E e^(slope * place), and mean and variance of the place when tilted so."""
        exponent = slope * self.places
        top = float(exponent.max())
        weights = self.mass * np.exp(exponent - top)
        total = float(weights.sum())
        mean = float(weights @ self.places) / total
        variance = float(weights @ (self.places - mean) ** 2) / total
        return top + math.log(total), mean, variance


def turned(law: BinLaw) -> BinLaw:
    """The same two laws, the other one first."""
    errors = (law.missing, law.relative, law.distance, law.hidden)
    return BinLaw(law.free, law.occupied, *errors)


class Losses(NamedTuple):
    """The outcomes that both laws know, but for the faintest ones.

    Attributes:
        loss: (outcomes,) in nats.
        first: (outcomes,) probabilities under the first law.
        second: (outcomes,) the same under the second.
        faint: the first law's probability of what is left out. At the ends of a table ratios are
            coarse, and in a tilted sum they would weigh more than all the rest.
        unbounded: its probability of what the second law does not know.
    """

    loss: Floats
    first: Floats
    second: Floats
    faint: float
    unbounded: float


def losses(law: BinLaw) -> Losses:
    """What outcomes tell that give nobody away; at least one is left, unless there is none."""
    both = (law.occupied > 0) & (law.free > 0)
    first, second = law.occupied[both], law.free[both]
    small = np.flatnonzero(first < _FAINT)
    small = small[first[small].argsort()]
    sums = first[small].cumsum()
    left = small[: int(np.searchsorted(sums, _FAINT))]
    faint = float(first[left].sum())
    kept = np.ones(first.size, np.bool_)
    kept[left] = False
    first, second = first[kept], second[kept]
    shown = float(law.occupied[law.free == 0].sum())
    return Losses(np.log(first / second), first, second, faint, shown)


def dominating(law: Losses, step: float) -> Lattice:
    """A loss that tells no less: each outcome is split so that both its probabilities are kept.

    `Losses.faint` is to be added to what is unbounded.

    Whoever forgets the split is back at the law that is given, so that nothing is understated,
    however many such losses are added up.
    """
    loss, first = law.loss, law.first
    cell = np.floor(loss / step)
    beyond = loss - cell * step
    # Rounded towards the upper neighbour.
    share = np.expm1(beyond) / math.expm1(step) + 8 * _UNIT * (np.abs(cell) + 1)
    share = np.clip(share, 0, 1)
    upper = first * share * np.exp(step - beyond)
    return _gathered(cell, first * (1 - share) * np.exp(-beyond), upper)


def rounded(law: Losses, step: float) -> tuple[Lattice, Lattice]:
    """The loss rounded by dice that keep its mean, under the first law and under the second.

    A test may leave outcomes out, so nothing is to be added for the faint ones.
    """
    loss, first, second, _, _ = law
    cell = np.floor(loss / step)
    share = np.clip(loss / step - cell, 0, 1)
    one, other = (_gathered(cell, p * (1 - share), p * share) for p in (first, second))
    return one, other


def larger(one: Lattice, other: Lattice, ends: Sequence[float], step: float) -> Lattice:
    """The loss whose profile is the larger one of two everywhere.

    The maximum of two convex profiles is a profile; between lattice points both are straight.

    Args:
        one, other: as `dominating` makes them.
        ends: the probability of an unbounded loss of each.
        step: of both lattices.
    """
    first = min(one.places[0], other.places[0]) - 1
    last = max(one.places[-1], other.places[-1])
    odds = np.exp(step * np.arange(first, last + 1.0))
    curves, masses = [], []
    for law, end in zip((one, other), ends, strict=True):
        mass = np.zeros(odds.size)
        mass[law.places - first] = law.mass / odds[law.places - first]  # under the second law
        steep = mass[::-1].cumsum()[::-1][1:]
        falls = np.append(np.diff(odds) * steep, 0.0)
        curves.append(end + falls[::-1].cumsum()[::-1])
        masses.append(mass)
    which = (curves[1] > curves[0]).astype(np.int64)
    top = np.maximum(*curves)
    slopes = np.concatenate([[(1 - top[0]) / odds[0]], -np.diff(top) / np.diff(odds), [0.0]])
    dense: Floats = np.maximum(-np.diff(slopes), 0.0)
    # Where one law is the larger all around, its own probabilities have all their digits.
    inside = np.append(False, (which[:-2] == which[1:-1]) & (which[1:-1] == which[2:]))
    own = np.flatnonzero(inside)
    dense[own] = np.stack(masses)[which[own], own]
    kept = np.flatnonzero(dense)
    return Lattice(kept + first, dense[kept] * odds[kept])


def _gathered(cell: Floats, low: Floats, high: Floats) -> Lattice:
    """Masses at some cells and at those above, added up."""
    first = int(cell.min())
    at = cell.astype(np.int64) - first
    if int(at.max()) >= _DENSE:
        # Steep noise: few losses, far apart in steps that are tiny beside them.
        places, where = np.unique(np.stack([at, at + 1]), return_inverse=True)
        below, above = where.reshape(2, -1)
    else:
        places, below, above = np.arange(int(at.max()) + 2), at, at + 1
    sums: Any = np.bincount(below, low, places.size)
    sums += np.bincount(above, high, places.size)
    kept = np.flatnonzero(sums)
    return Lattice(places[kept] + first, sums[kept])
