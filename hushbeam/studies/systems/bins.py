"""Means by expectation maximisation, of numbers in equal bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats
from mechanisms.postprocess.channel_products import ChannelProducts


@dataclass(frozen=True)
class UniformBins:
    """A channel on the points of a grid, seen from bins: a value is uniform inside its bin.

    Values reach the grid by stochastic rounding, so a bin that spans k steps of the grid puts
    1/k on each point inside it and 1/(2k) on either end.

    Attributes:
        channel: the products of a channel whose inputs are the grid's points 0 .. N.
        bins: how many equal bins the range has; a divisor of N.
    """

    channel: ChannelProducts
    bins: int

    def __post_init__(self) -> None:
        steps = self.channel.inputs - 1
        if not (1 <= self.bins <= steps and steps % self.bins == 0):
            raise ValueError(f"bins must be a divisor of the grid's {steps} steps, not {self.bins}")

    @property
    def inputs(self) -> int:
        return self.bins

    @property
    def codes(self) -> int:
        return self.channel.codes

    @property
    def span(self) -> int:
        """k, how many steps of the grid a bin has."""
        return (self.channel.inputs - 1) // self.bins

    def apply(self, distribution: Floats) -> Floats:
        halves = np.repeat(distribution / (2 * self.span), self.span)
        points = np.zeros(self.channel.inputs)
        points[:-1] += halves
        points[1:] += halves
        return self.channel.apply(points)

    def adjoint(self, weights: Floats) -> Floats:
        points = self.channel.adjoint(weights)
        steps = (points[:-1] + points[1:]) / 2
        means: Floats = steps.reshape(self.bins, self.span).mean(axis=1)
        return means


def bin_centres(bins: int) -> Floats:
    """The middles of equal bins of [-1, 1]: (2 i - 1)/bins - 1 for i = 1 .. bins.

    The paper has (1 + 2 i)/bins - 1, which moves every mean by 2/bins.

    >>> bin_centres(4).tolist()
    [-0.75, -0.25, 0.25, 0.75]
    """
    centres: Floats = np.arange(1, 2 * bins, 2) / bins - 1
    return centres


def mean_of_bins(distribution: ArrayLike) -> float:
    """The mean of a distribution over equal bins of [-1, 1].

    Args:
        distribution: (bins,) probabilities.
    """
    f = np.asarray(distribution, np.float64)
    return float(f @ bin_centres(f.size))
