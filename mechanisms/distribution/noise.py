"""How much weighted reports vary, at most, where some users hold no value.

A mean of those who hold one is a quotient of two averages of the same reports, that of a weight and
that of the presence. So their covariance counts as well as their variances.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution.reconstruction import Reconstruction


class NoiseBound(NamedTuple):
    """At most how much weight - r * presence of a report varies, where the mean of holders is r.

    Attributes:
        level: (k,) the variance at most, where r is 0.
        slope: (k,) what r adds: the variance is at most level + slope * r + curve * r^2.
        width: (k,) the distance between the largest and the least weight.
        curve: (k,) what r^2 adds; 0 where everybody holds something.
    """

    level: Floats
    slope: Floats
    width: Floats
    curve: Floats

    def variance(self, mean: Floats, n: int, share: float = 1.0) -> Floats:
        """(k,) of the estimated mean of n reports, the users' values given.

        Args:
            mean: (k,) means of holders.
            n: how many reports.
            share: of users who are holders.
        """
        r = np.clip(mean, 0, 1)
        spread = np.maximum(self.level + (self.slope + self.curve * r) * r, 0)
        return np.asarray(spread / n / share**2)


@dataclass(frozen=True, eq=False)
class WeightNoise:
    """How much some weights of codes vary, given each input, together with the presence.

    Attributes:
        reconstruction: of the channel.
        weights: (k, codes) whose mean is 0 for users without a value.
        targets: (k, inputs) the weights' means given each input, in [0, 1].
    """

    reconstruction: Reconstruction
    weights: Floats
    targets: Floats

    @cached_property
    def own(self) -> Floats:
        """(k, inputs) the variance of a report's weight."""
        return self.reconstruction.noise(self.weights)

    @cached_property
    def joint(self) -> Floats:
        """(k, inputs) its covariance with the presence."""
        known = self.reconstruction
        if not known.hides:
            return np.zeros_like(self.targets)
        products = (self.weights * known.presence) @ known.table
        return np.asarray(products - self.targets * known.present)

    @cached_property
    def presence(self) -> Floats:
        """(inputs,) the variance of the presence."""
        known = self.reconstruction
        return np.asarray(known.noise(known.presence[None])[0])

    @cached_property
    def width(self) -> Floats:
        """(k,) the distance between the largest and the least weight - r * presence."""
        return np.asarray(np.ptp(self.weights, axis=1) + np.ptp(self.reconstruction.presence))

    def of(self, law: Floats) -> NoiseBound:
        """The variance where the inputs' distribution is known.

        Args:
            law: (inputs,) of the users' inputs, adding up to 1.
        """
        curve = np.full(self.width.shape, self.presence @ law)
        return NoiseBound(self.own @ law, -2 * (self.joint @ law), self.width, curve)

    def worst(self) -> NoiseBound:
        """The largest variance that any input has."""
        curve = np.full(self.width.shape, self.presence.max())
        slope = np.maximum(-2 * self.joint.min(axis=1), 0)
        return NoiseBound(self.own.max(axis=1), slope, self.width, curve)

    def bound(self, share: float = 1.0) -> NoiseBound:
        """What holds for every population of which so large a share has a value.

        Args:
            share: of users who have one, in [0, 1].
        """
        (level, slope), (more, steeper), presence = self._lines
        if not self.reconstruction.hides:
            return NoiseBound(level, slope, self.width, np.zeros_like(level))
        rest = 1 - share
        return NoiseBound(
            share * level + rest * self.own[:, -1],
            share * (slope + 2 * more) - 2 * rest * self.joint[:, -1],
            self.width,
            share * (2 * steeper + presence) + rest * self.presence[-1],
        )

    @cached_property
    def _lines(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], float]:
        """Above the variances and the negative covariances of values' inputs, and the presence's.

        A population mixes inputs, and a line's mean is the line at their mean.
        """
        values = slice(self.reconstruction.bins)
        targets = self.targets[:, values]
        presence = float(self.presence[values].max())
        return _line(self.own[:, values], targets), _line(-self.joint[:, values], targets), presence


def _line(heights: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """(k,) level and slope of lines in the target that are nowhere below the heights."""
    full = np.where(targets >= 1, heights, -np.inf).max(axis=1)
    empty = np.where(targets <= 0, heights, -np.inf).max(axis=1)
    # Any slope will do, so long as the level is raised to it.
    full, empty = (np.where(np.isfinite(end), end, 0.0) for end in (full, empty))
    slope = full - empty
    return (heights - slope[:, None] * targets).max(axis=1), slope
