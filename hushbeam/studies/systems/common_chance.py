"""Training runs side by side on the same chance.

A coordinate of a gradient becomes a decoded report by inverting the report's distribution at a
uniform number. Every mechanism is given the same numbers, the same groups and the same choice of
coordinates, so that of two runs most of the chance is common, and their difference shows what the
mechanisms make of it. Each report has exactly the law that the mechanism's own client gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.learning.scores import Numbers
from mechanisms.mean.scalar import ScalarMean
from mechanisms.papers.learning.local_steps import LocalSteps, TrainingState, gradients_at
from mechanisms.randomness import SeededRandom
from mechanisms.vector.sampled import SampledCoordinates


@dataclass(frozen=True)
class Quantiles:
    """The distributions of a scalar mechanism's decoded reports, ready to be inverted.

    Attributes:
        mechanism: whose reports they are.

    >>> from mechanisms.mean.two_point import duchi
    >>> halves = Quantiles(duchi(1.0, cells=2))
    >>> halves.reports(np.zeros(2), np.full(2, 0.5), np.array([0.49, 0.51])).round(3).tolist()
    [-2.164, 2.164]
    """

    mechanism: ScalarMean

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """(codes,) from the lowest decoded report to the highest."""
        return np.argsort(self.mechanism.decoded, kind="stable")

    @cached_property
    def _decoded(self) -> Floats:
        """(codes,) ascending."""
        return np.asarray(self.mechanism.decoded[self._order])

    @cached_property
    def _cumulative(self) -> Floats:
        """(inputs * codes,) cell + the probability of a report up to this one, ascending."""
        table = np.stack([self.mechanism.channel(c) for c in range(self.mechanism.inputs)])
        cumulative = np.minimum(np.cumsum(table[:, self._order], axis=1), 1)
        cumulative[:, -1] = 1  # whatever rounding left
        return np.asarray((cumulative + np.arange(len(cumulative))[:, None]).ravel())

    def reports(self, values: Floats, coins: Floats, uniforms: Floats) -> Floats:
        """Decoded reports.

        Args:
            values: (n,) in [-1, 1].
            coins: (n,) uniform in [0, 1), by which values are rounded to the grid.
            uniforms: (n,) uniform in [0, 1), at which distributions are inverted.

        Returns:
            (n,) unbiased.
        """
        cells = np.floor((values + 1) / 2 * self.mechanism.cells + coins)
        cells = np.clip(cells, 0, self.mechanism.cells)
        place = np.searchsorted(self._cumulative, cells + uniforms, side="right")
        codes = self._decoded.size
        # A sum that is rounded up to the next cell belongs to the last report of this one.
        place = np.minimum(place - cells.astype(np.int64) * codes, codes - 1)
        return np.asarray(self._decoded[place])


class CommonSteps(LocalSteps):
    """Steps whose collector gets mean gradients, however they came about, in place of counts."""

    def mean_gradient(self, counts: NDArray[Any], scale: float = 1.0) -> Floats:
        return np.asarray(counts)


@dataclass(frozen=True)
class CommonRun:
    """A run on chance that does not depend on the mechanism.

    Attributes:
        steps: what is done.
        quantiles: of the mechanism's reports of one coordinate; None where nothing is noisy.
    """

    steps: CommonSteps
    quantiles: Quantiles | None

    def train(self, rows: Numbers, targets: Numbers, seed: int) -> TrainingState:
        """The last model of a run over rows in a random order, each group being a slice of them.

        What the opening reports is the same whatever mechanism gradients are reported through.

        Args:
            rows: (n, inputs).
            targets: (n,).
            seed: of all that is random; equal seeds mean common chance.
        """
        model = self.steps.start(SeededRandom(seed))
        groups = np.array_split(np.arange(len(rows)), self.steps.groups)
        if (opening := self.steps.opening) is not None:
            reports = opening.report(targets[groups.pop(0)], SeededRandom(2 * seed))
            model = self.steps.open(model, opening.mechanism.count(reports))
        for step, group in enumerate(groups):
            part = slice(group[0], group[-1] + 1)
            gradient = self._mean(model, rows[part], targets[part], seed + step + 1)
            model = self.steps.advance(model, gradient)
        return model

    def _mean(self, model: TrainingState, rows: Numbers, targets: Numbers, seed: int) -> Any:
        """(parameters,) the estimated mean gradient of a group, cut."""
        steps, objective, clip = self.steps, self.steps.objective, self.steps.clip * model.scale
        if self.quantiles is None:
            cut = np.clip(objective.gradients(model.weights, rows, targets), -clip, clip)
            return cut.mean(axis=0, dtype=np.float64)
        mechanism = steps.mechanism
        if not isinstance(mechanism, SampledCoordinates):
            raise TypeError("common chance is for sampled coordinates")
        n, k = len(rows), mechanism.sampled
        chosen = mechanism.choose(n, SeededRandom(2 * seed))
        values = gradients_at(objective, model.weights, rows, targets, chosen).astype(np.float64)
        # For each of k a column of its own, so that the first is common whatever k is.
        words = SeededRandom(2 * seed + 1).words(2 * n * k).reshape(k, 2, n)
        uniforms = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        sums = np.zeros(mechanism.dimension)
        for column, (coins, places) in enumerate(uniforms):
            scaled = np.asarray(np.clip(values[:, column] / clip, -1, 1), np.float64)
            decoded = self.quantiles.reports(scaled, coins, places)
            sums += np.bincount(chosen[:, column], decoded, mechanism.dimension)
        return sums * (mechanism.scale * clip / n)
