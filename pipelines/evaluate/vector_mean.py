"""`hushbeam evaluate vector-mean`: errors of many means at once, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from mechanisms.channel import Floats
from mechanisms.randomness import SeededRandom
from mechanisms.vector.base import VectorMean
from mechanisms.vector.privunit import PrivUnit
from mechanisms.vector.random_projection import MultiRphm
from mechanisms.vector.rows import shortened
from pipelines.evaluate import vector_mean_crossing
from pipelines.evaluate.cells import Cell
from pipelines.evaluate.comparison import Evaluation, Study, evaluate
from pipelines.evaluate.results import Measure
from pipelines.evaluate.vector_mean_data import Rows, read_all_rows
from pipelines.evaluate.vector_mean_figures import VectorFigures
from pipelines.evaluate.vector_mean_systems import PROJECTION, Shrunk, System, radius, systems
from pipelines.requests import Whole, request

MEASURES = (Measure("squared_error", "mean squared error of a coordinate, on [-1, 1]"),)

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and the number of users
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # numbers of each
        ("mean_square_of_means", pa.float64()),  # mu2, which publishing zeros errs by
        ("mean_square", pa.float64()),  # e2, of all numbers
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # asked of one user's report
        ("epsilon_spent", pa.float64()),  # null where no mechanism is at work
        ("repetition", pa.int64()),
        ("squared_error", pa.float64()),  # against the users' own mean, average of coordinates
        ("predicted_error", pa.float64()),  # of the same; null where nothing predicts it
        ("factor", pa.float64()),  # by which the estimate was multiplied or moved
        ("shortened", pa.int64()),  # rows longer than PrivUnit's radius, which it cuts off
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class VectorMeanEvaluation(Evaluation):
    """What a person wants compared."""

    deltas: tuple[float, ...] = (0.0,)  # no mechanism for rows makes use of any
    systems: tuple[str, ...] = Field(min_length=1)
    data: tuple[str, ...] = Field(min_length=1)
    ns: tuple[Whole, ...] = ()
    dimensions: tuple[Whole, ...] = ()


@dataclass(frozen=True)
class Fitted:
    """A mechanism for a population.

    Attributes:
        system: which, and what becomes of its estimate.
        mechanism: with the parameters of the cell, under any public seed; None where there is none.
        rows: the population.
        epsilon: asked of one report.
    """

    system: System
    mechanism: VectorMean | None
    rows: Rows
    epsilon: float

    @cached_property
    def known(self) -> dict[str, Any]:
        """What every repetition has in common."""
        reports = self.mechanism if self.system.mechanism != PROJECTION else None
        return {
            "data": self.rows.base,
            "system": self.system.name,
            "mean_square_of_means": self.rows.mean_square_of_means,
            "mean_square": self.rows.mean_square,
            "epsilon_spent": None if reports is None else reports.guarantee.epsilon,
            "predicted_error": self.system.predicted(self.rows, self.epsilon),
        }

    def release(self, rng: SeededRandom) -> tuple[Shrunk, int]:
        """One release, under a public seed of its own, and how many rows were cut off."""
        mechanism = _reseeded(self.mechanism, rng)
        if mechanism is None:
            return Shrunk(np.zeros(self.rows.d), 0.0), 0
        if self.system.mechanism == PROJECTION and isinstance(mechanism, MultiRphm):
            matrix = mechanism.matrix
            return Shrunk(matrix @ (self.rows.mean @ matrix), 1.0), 0
        counts, cut = mechanism.count(np.empty(0, np.uint64)), 0
        for block in self.rows.blocks():
            if isinstance(mechanism, PrivUnit):
                block, longer = _cut(block, radius(self.rows))
                cut += longer
            counts = counts + mechanism.count(mechanism.report(block, rng))
        variance = mechanism.estimated_variance(counts)
        return self.system.treated(mechanism.estimate(counts), variance), cut


@dataclass(frozen=True)
class VectorMeanExperiment:
    """Simulated reports of known rows, and their means.

    Attributes:
        populations: data set -> its rows.
        systems: the name in a cell's line -> the system.
    """

    populations: Mapping[str, Rows]
    systems: Mapping[str, System]

    def fit(self, cell: Cell) -> Fitted:
        """The mechanism of a cell."""
        system, rows = self.systems[cell.line.system], self.populations[cell.data]
        return Fitted(system, system.build(rows, cell.epsilon), rows, cell.epsilon)

    def known(self, fitted: Fitted) -> dict[str, Any]:
        """What a mechanism spends and is expected to err by."""
        return fitted.known

    def measure(self, cell: Cell, fitted: Fitted, rng: SeededRandom) -> dict[str, float]:
        """The error of one release."""
        (estimate, factor), cut = fitted.release(rng)
        error = float(np.mean((estimate - fitted.rows.mean) ** 2))
        return {"squared_error": error, "factor": factor, "shortened": cut}


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
    options = request(VectorMeanEvaluation, asked)
    chosen = systems(options.systems)
    data = read_all_rows(options.data, options.ns, options.dimensions)
    experiment = VectorMeanExperiment(
        {each.name: each for each in data}, {each.name: each for each in chosen.values()}
    )
    identity = {
        "--ns": sorted(set(options.ns)),
        "--dimensions": sorted(set(options.dimensions)),
    }
    figures = VectorFigures(data, chosen)
    code = evaluate(
        options, Study(experiment, data, list(chosen), COLUMNS, MEASURES, identity, figures)
    )
    vector_mean_crossing.run(options.output, data)
    return code


def _reseeded(mechanism: VectorMean | None, rng: SeededRandom) -> VectorMean | None:
    """The same under another public seed, if it has one: errors are averages over seeds too."""
    if isinstance(mechanism, MultiRphm | PrivUnit):
        return replace(mechanism, seed=int(rng.integers(1 << 63, 1)[0]))
    return mechanism


def _cut(block: Floats, longest: float) -> tuple[Floats, int]:
    """Rows, none longer than allowed, and how many were."""
    lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
    return shortened(block, longest), int(np.count_nonzero(lengths > longest))
