"""Square-wave noise in the continuum, cut into bins: the channel that NM's paper maximises over.

What this library's clients send has a discrete channel of its own (`SlidingWindow`); this one is
for reports that are real numbers, and for comparison with the published figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats

_SLACK = 1e-9  # by which the densities may miss a mass of 1


@dataclass(frozen=True)
class SquareWave:
    """The products of the binned square-wave channel, in time linear in the bins.

    A value x of [0, 1] becomes y of [-b, 1 + b] with density p where |y - x| <= b and q
    elsewhere. Values are uniform inside their bin; a report is the bin it falls into.

    Attributes:
        inside: p.
        outside: q; 2 b p + q = 1.
        half_width: b, positive.
        inputs: how many equal bins [0, 1] has.
        codes: how many equal bins [-b, 1 + b] has.

    Source: Zhang, Zhu, Zhou, Yuan, "Mean estimation mechanisms under (epsilon, delta)-LDP",
        J. Electronics and Information Technology 2023, Algorithms 2 and 3.

    >>> wave = SquareWave(inside=1.5, outside=0.25, half_width=0.25, inputs=2, codes=3)
    >>> wave.apply(np.array([1.0, 0.0])).tolist()
    [0.4375, 0.4375, 0.125]
    """

    inside: float
    outside: float
    half_width: float
    inputs: int
    codes: int

    def __post_init__(self) -> None:
        if not (self.inputs >= 1 and self.codes >= 1):
            raise ValueError("inputs and codes must be at least 1")
        if not (self.half_width > 0 and self.inside >= self.outside >= 0):
            raise ValueError("half_width must be positive, and inside >= outside >= 0")
        if not abs(2 * self.half_width * self.inside + self.outside - 1) <= _SLACK:
            raise ValueError("2 half_width inside + outside must be 1")

    @cached_property
    def value_edges(self) -> Floats:
        """(inputs + 1,) where the bins of values begin and end."""
        return np.linspace(0, 1, self.inputs + 1)

    @cached_property
    def report_edges(self) -> Floats:
        """(codes + 1,) where the bins of reports begin and end."""
        return np.linspace(-self.half_width, 1 + self.half_width, self.codes + 1)

    def matrix(self) -> Floats:
        """(codes, inputs) probabilities, by the overlap of each window with each pair of bins."""
        between = self._nearer(self.half_width) - self._nearer(-self.half_width)
        return self._levelled(np.ones(1), between * self.inputs)

    def _nearer(self, u: float) -> Floats:
        """The area of each pair of bins where y - x <= u."""
        x0, x1 = self.value_edges[:-1], self.value_edges[1:]
        y0, y1 = self.report_edges[:-1, None], self.report_edges[1:, None]

        def corner(t: Floats) -> Floats:
            return np.square(np.maximum(u + t, 0)) / 2

        return corner(x1 - y0) - corner(x1 - y1) - corner(x0 - y0) + corner(x0 - y1)

    def apply(self, distribution: Floats) -> Floats:
        return self._levelled(distribution, self._to_reports(distribution * self.inputs))

    def adjoint(self, weights: Floats) -> Floats:
        return self._levelled(weights, self._to_values(weights) * self.inputs)

    def _levelled(self, vector: Floats, covered: Floats) -> Floats:
        """Density q for all of a vector, and p - q more for what the windows cover."""
        level = self.outside * vector.sum() * (1 + 2 * self.half_width) / self.codes
        product: Floats = level + (self.inside - self.outside) * covered
        return product

    @cached_property
    def _to_reports(self) -> _Windows:
        return _Windows(self.value_edges, self.report_edges, self.half_width)

    @cached_property
    def _to_values(self) -> _Windows:
        return _Windows(self.report_edges, self.value_edges, self.half_width)


class _Windows:
    """Heights on bins -> how much of them lies within b of y, integrated over y in other bins."""

    def __init__(self, edges: Floats, others: Floats, half_width: float) -> None:
        self.step = float(edges[-1] - edges[0]) / (edges.size - 1)
        self.ends = [self._place(t, edges) for t in (others + half_width, others - half_width)]

    def _place(self, points: Floats, edges: Floats) -> tuple[NDArray[np.intp], Floats]:
        """The bin that each point falls into, and how far; the last reaches to infinity."""
        bins = np.floor((points - edges[0]) / self.step)
        index = np.clip(bins, 0, edges.size - 1).astype(np.intp)
        return index, np.maximum(points - edges[index], 0)

    def __call__(self, heights: ArrayLike) -> Floats:
        """The second antiderivative of the heights, differenced twice."""
        v = np.append(heights, 0.0)  # the antiderivatives go on beyond the last bin
        first, second = np.zeros(v.size), np.zeros(v.size)
        np.cumsum(v[:-1] * self.step, out=first[1:])
        np.cumsum((first[:-1] + first[1:]) * (self.step / 2), out=second[1:])
        upper, lower = (second[i] + s * (first[i] + s * v[i] / 2) for i, s in self.ends)
        return np.diff(upper - lower)
