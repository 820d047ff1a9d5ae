"""Mechanisms that gradients are reported through, side by side on the same chance.

A coordinate of a gradient becomes a decoded report by inverting the report's distribution at a
uniform number. Every mechanism is given the same numbers, the same groups and the same choice of
coordinates, so that of two runs most of the chance is common, and their difference shows what the
mechanisms make of it. Each report has exactly the law that the mechanism's own client gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mechanisms import catalog
from mechanisms.channel import Floats, Guarantee
from mechanisms.learning.gradient_reports import gradient_mechanism
from mechanisms.learning.local_steps import LocalSteps, Model
from mechanisms.learning.scores import Numbers
from mechanisms.mean.published import dct_published
from mechanisms.mean.scalar import ScalarMean
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_optimal
from mechanisms.vector.rows import equal_share
from mechanisms.vector.sampled import SampledCoordinates
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Line

DEFAULT, PUBLISHED = "default", "dct_published"
NO_NOISE, EXACT, CONSTANT = "no_noise", "least_squares", "constant"
PUBLIC = (NO_NOISE, EXACT, CONSTANT)  # what needs no privacy, to compare with

_SCALAR = ("duchi", "pm", "hm", "dct")


class Unguarded(SampledCoordinates):
    """Sampled coordinates of a mechanism that guarantees nothing."""

    def __post_init__(self) -> None:
        self._require_room()

    @property
    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee


def _by_rule(name: str) -> Callable[[float, int], SampledCoordinates]:
    """Coordinates of a scalar mechanism, as many as papers send: one for 2.5 of epsilon each."""

    def build(epsilon: float, dimension: int) -> SampledCoordinates:
        sampled = max(1, min(dimension, int(epsilon / 2.5)))
        each = equal_share(epsilon, sampled)
        if name == PUBLISHED:
            return Unguarded(epsilon, dimension, sampled, dct_published(each))
        scalar = catalog.of_task("mean")[name].build(epsilon=each, cells=1024)
        return SampledCoordinates(epsilon, dimension, sampled, cast("ScalarMean", scalar))

    return build


MECHANISMS: dict[str, Callable[[float, int], SampledCoordinates]] = {
    DEFAULT: gradient_mechanism,
    "optimal": multi_optimal,
    **{name: _by_rule(name) for name in (*_SCALAR, PUBLISHED)},
}
"""Name -> the mechanism of an epsilon and a dimension."""

SETS = {
    "all": (*MECHANISMS, *PUBLIC),
    "paper": (DEFAULT, "optimal", "duchi", "pm", "hm", "dct", PUBLISHED, EXACT),
}


def lines(names: Sequence[str]) -> tuple[Line, ...]:
    """The lines that a person asked for, each once; the default is always among them.

    Raises:
        RequestError: a name is unknown.
    """
    wanted = [DEFAULT]
    for name in names:
        wanted += SETS.get(name, (name,))
    for name in wanted:
        if name not in SETS["all"]:
            known = ", ".join([*SETS["all"], *SETS])
            raise RequestError(f"--systems: unknown system {name!r}; there are: {known}")
    return tuple(Line(name, "exact", "local") for name in dict.fromkeys(wanted))


# ---- common chance -------------------------------------------------------------------------------


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
    def _reached(self) -> Floats:
        """(inputs * codes,) cell + the probability of a report up to this one, ascending."""
        table = np.stack([self.mechanism.channel(c) for c in range(self.mechanism.inputs)])
        reached = np.minimum(np.cumsum(table[:, self._order], axis=1), 1)
        reached[:, -1] = 1
        return np.asarray((reached + np.arange(len(reached))[:, None]).ravel())

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
        place = np.searchsorted(self._reached, cells + uniforms, side="right")
        codes = self._decoded.size
        # A sum that is rounded up to the next cell belongs to the last report of this one.
        place = np.minimum(place - cells.astype(np.int64) * codes, codes - 1)
        return np.asarray(self._decoded[place])


class CommonSteps(LocalSteps):
    """Steps whose collector is handed mean gradients, however they came about."""

    def mean_gradient(self, counts: NDArray[Any], scale: float = 1.0) -> Floats:
        """What it was handed."""
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

    def train(self, rows: Numbers, targets: Numbers, seed: int) -> Model:
        """The last model of a run over rows in a random order, each group being a slice of them.

        What the opening tells is the same whatever mechanism gradients are reported through.

        Args:
            rows: (n, inputs).
            targets: (n,).
            seed: of all that is random; equal seeds mean common chance.
        """
        model = self.steps.start(SeededRandom(seed))
        groups = np.array_split(np.arange(len(rows)), self.steps.groups)
        if (opening := self.steps.opening) is not None:
            told = opening.report(targets[groups.pop(0)], SeededRandom(2 * seed))
            model = self.steps.open(model, opening.mechanism.count(told))
        for step, group in enumerate(groups):
            part = slice(group[0], group[-1] + 1)
            gradient = self._mean(model, rows[part], targets[part], seed + step + 1)
            model = self.steps.advance(model, gradient)
        return model

    def _mean(self, model: Model, rows: Numbers, targets: Numbers, seed: int) -> Any:
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
        values = objective.gradients_at(model.weights, rows, targets, chosen).astype(np.float64)
        # For each of k a column of its own, so that the first is common whatever k is.
        words = SeededRandom(2 * seed + 1).words(2 * n * k).reshape(k, 2, n)
        uniforms = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        sums = np.zeros(mechanism.dimension)
        for each, (coins, at) in enumerate(uniforms):
            held = np.asarray(np.clip(values[:, each] / clip, -1, 1), np.float64)
            decoded = self.quantiles.reports(held, coins, at)
            sums += np.bincount(chosen[:, each], decoded, mechanism.dimension)
        return sums * (mechanism.scale * clip / n)
