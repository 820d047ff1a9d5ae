"""`hushbeam evaluate mean`: errors of means, and what mechanisms guarantee in truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from mechanisms.channel import Counts
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.window import Window
from mechanisms.postprocess import expectation_maximisation
from mechanisms.postprocess.channel_products import SlidingWindow, UniformBins
from mechanisms.randomness import SeededRandom
from pipelines.evaluate import mean_attack as evaluate_mean_attack
from pipelines.evaluate.cells import Cell
from pipelines.evaluate.comparison import Evaluation, Study, evaluate
from pipelines.evaluate.mean_data import Numbers, read_all_numbers
from pipelines.evaluate.mean_figures import MeanFigures
from pipelines.evaluate.mean_systems import System, audit, systems
from pipelines.evaluate.results import Measure
from pipelines.requests import Whole, request

MEASURES = (
    Measure("absolute_error", "absolute error of the mean, on [-1, 1]"),
    Measure("squared_error", "squared error of the mean, on [-1, 1]"),
)

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and the number of users
        ("low", pa.float64()),  # what -1 stands for
        ("high", pa.float64()),  # what 1 stands for
        ("n", pa.int64()),  # users
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # asked of one report
        ("delta", pa.float64()),  # asked of one report; some systems spend none
        ("alpha", pa.float64()),  # of DCT; null where there is none, or the best was taken
        ("repetition", pa.int64()),
        ("truth", pa.float64()),  # the mean of the values, on [-1, 1] like all that follows
        ("estimate", pa.float64()),
        ("error", pa.float64()),  # estimate - truth
        ("absolute_error", pa.float64()),
        ("squared_error", pa.float64()),
        ("predicted_variance", pa.float64()),  # of the estimate; null for EM, which is biased
        ("iterations", pa.int64()),  # of EM
        ("claimed_delta", pa.float64()),  # what the system says that it spends at epsilon
        ("true_delta", pa.float64()),  # what it spends at epsilon, by enumeration
        ("true_epsilon", pa.float64()),  # what it spends without a delta; null if nothing bounds it
        ("guarantee_holds", pa.bool_()),  # true_delta is at most claimed_delta
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class MeanEvaluation(Evaluation):
    """What a person wants compared."""

    systems: tuple[str, ...] = Field(min_length=1)
    data: tuple[str, ...] = Field(min_length=1)
    ns: tuple[Whole, ...] = ()
    alphas: tuple[str, ...] = Field(("5",), min_length=1)
    attack: bool = False


@dataclass(frozen=True)
class Fitted:
    """A mechanism for a population, and what is computed of them once.

    Attributes:
        system: which, and how its counts become a mean.
        mechanism: with the parameters of the cell.
        numbers: the population.
        claimed_delta: what the system says that it spends.
    """

    system: System
    mechanism: ScalarMean
    numbers: Numbers
    claimed_delta: float

    @cached_property
    def known(self) -> dict[str, Any]:
        """What every repetition has in common."""
        found = audit(self.mechanism, self.mechanism.epsilon)
        return {
            "data": self.numbers.base,
            "low": self.numbers.low,
            "high": self.numbers.high,
            "system": self.system.name,
            "alpha": self.system.alpha,
            "truth": self.numbers.mean,
            "predicted_variance": None if self.system.smooth is not None else self._variance,
            "claimed_delta": self.claimed_delta,
            "true_delta": found.delta,
            "true_epsilon": found.epsilon if found.epsilon < math.inf else None,
            "guarantee_holds": found.delta <= self.claimed_delta,
        }

    @property
    def _variance(self) -> float:
        """Of the unbiased mean, relative to the population's."""
        variances = self.mechanism.variance(self.numbers.values)
        return float(variances @ self.numbers.histogram) / self.numbers.n**2

    def counts(self, rng: SeededRandom) -> Counts:
        """Let everybody report, some at a time, and count the reports."""
        mechanism, counts = self.mechanism, np.zeros(self.mechanism.codes, np.int64)
        for values in self.numbers.blocks():
            counts += mechanism.count(mechanism.perturb(mechanism.encode(values, rng), rng))
        return counts

    def estimate(self, counts: Counts) -> dict[str, float]:
        """The mean, from the counts alone."""
        if self.system.smooth is None:
            return {"estimate": float(self.mechanism.estimate(counts))}
        fitted = expectation_maximisation.fit(
            counts, self._bins, smooth=self.system.smooth, accelerate=not self.system.smooth
        )
        mean = expectation_maximisation.mean_of_bins(fitted.distribution)
        return {"estimate": mean, "iterations": fitted.iterations}

    @property
    def _bins(self) -> UniformBins:
        """The channel of a window mechanism as expectation maximisation sees it."""
        if not isinstance(self.mechanism, Window):
            raise TypeError("expectation maximisation is for window mechanisms here")
        bins = min(expectation_maximisation.bins_for(self.numbers.n), self.mechanism.cells)
        return UniformBins(SlidingWindow.of(self.mechanism.law), bins)


@dataclass(frozen=True)
class MeanExperiment:
    """Simulated reports of known populations, and their means.

    Attributes:
        populations: data set -> its numbers.
        systems: the name in a cell's line -> the system.
    """

    populations: Mapping[str, Numbers]
    systems: Mapping[str, System]

    def fit(self, cell: Cell) -> Fitted:
        """The mechanism of a cell."""
        system = self.systems[cell.line.system]
        mechanism = system.build(cell.epsilon, cell.delta)
        claimed = system.claimed_delta(cell.delta)
        return Fitted(system, mechanism, self.populations[cell.data], claimed)

    def known(self, fitted: Fitted) -> dict[str, Any]:
        """What a mechanism guarantees and promises."""
        return fitted.known

    def measure(self, cell: Cell, fitted: Fitted, rng: SeededRandom) -> dict[str, float]:
        """The error of one release."""
        found = fitted.estimate(fitted.counts(rng))
        error = found["estimate"] - fitted.known["truth"]
        return {**found, "error": error, "absolute_error": abs(error), "squared_error": error**2}


def run(asked: Mapping[str, Any]) -> int:
    """Compare mechanisms, and leave a folder with the results.

    Args:
        asked: option -> what was typed.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its data are wrong, or no system can serve any of it.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    options = request(MeanEvaluation, asked)
    chosen = systems(options.systems, options.alphas)
    data = read_all_numbers(options.data, options.ns)
    experiment = MeanExperiment(
        {each.name: each for each in data}, {each.key: each for each in chosen.values()}
    )
    identity = {"--ns": sorted(set(options.ns)), "--alphas": list(dict.fromkeys(options.alphas))}
    figures = MeanFigures(data, chosen)
    code = evaluate(
        options, Study(experiment, data, list(chosen), COLUMNS, MEASURES, identity, figures)
    )
    if options.attack:
        evaluate_mean_attack.run(options, data, chosen)
    return code
