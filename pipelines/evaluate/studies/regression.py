"""`hushbeam evaluate train --study regression`: linear models from locally private gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field
from rich.console import Console

from mechanisms.channel import Counts, Floats
from mechanisms.learning.gradient_reports import gradient_mechanism
from mechanisms.learning.objectives import SquaredError
from mechanisms.learning.whole_run import plan_run
from mechanisms.randomness import SeededRandom
from pipelines.evaluate.engine.cells import Cell
from pipelines.evaluate.engine.differences import Differences
from pipelines.evaluate.engine.figures import Along, Sheet
from pipelines.evaluate.engine.measure import Measure
from pipelines.evaluate.engine.options import EpsilonOptions, Names, Ns, Texts, Times
from pipelines.evaluate.engine.results import Results, say, write_table
from pipelines.evaluate.engine.study import Study, by_privacy
from pipelines.evaluate.populations.tables import Examples, read_examples
from pipelines.evaluate.systems.common_chance import CommonRun, CommonSteps, Quantiles
from pipelines.evaluate.systems.gradients import (
    CONSTANT,
    DEFAULT,
    EXACT,
    MECHANISMS,
    NO_NOISE,
    lines,
)
from pipelines.requests import Whole

FOLDS = ("fold_1", "fold_2", "fold_3", "fold_4", "fold_5")

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # the table, or census
        ("n", pa.int64()),  # rows, of which four fifths are trained on
        ("d", pa.int64()),  # weights
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # wanted of one report, and of the run
        ("private", pa.bool_()),  # whether that is kept
        ("sampled", pa.int64()),  # coordinates that a user sends
        ("steps", pa.int64()),
        ("rate", pa.float64()),
        ("noise", pa.float64()),  # predicted, of a coordinate of a step's mean gradient at 0
        ("repetition", pa.int64()),  # of the whole cross-validation
        ("test_mse", pa.float64()),  # the mean over folds, on [-1, 1] like all errors
        *((fold, pa.float64()) for fold in FOLDS),  # held back in turn
        ("diverged", pa.int64()),  # runs that were given up
        ("seconds", pa.float64()),  # CPU time of all folds
    ]
)


class RegressionOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: ClassVar[tuple[float, ...]] = (1e-6,)  # no mechanism for gradients makes use of any

    systems: Names = ("paper",)
    data: Texts = ("census:20000",)
    ns: Ns = Field((), exclude=True)  # names of populations have it, too
    repetitions: Times = Field(5, description="cross-validations, of five runs each")
    own_schedules: bool = Field(False, description="plan each mechanism's steps for its own noise")
    draws: Whole = Field(
        1, ge=1, le=1000, title="N",
        description="runs with other noise that each fold's error is the mean of",
    )  # fmt: skip
    clip: float | None = Field(
        None, gt=0, le=100, title="C",
        description="where coordinates of gradients are cut (default: each run's opening chooses; "
        "0.5 is what it starts from)",
    )  # fmt: skip


@dataclass(frozen=True)
class CrossValidation(ABC):
    """Fits to four fifths of a population, and their errors on the last.

    Attributes:
        cell: what is measured.
        population: rows and targets.
        draws: of the noise, for each fold.
    """

    cell: Cell
    population: Examples
    draws: int

    @abstractmethod
    def weights(self, rows: Floats, targets: Floats, seed: int) -> tuple[Floats, bool]:
        """(parameters,) what is learned of some rows, and whether the run was given up."""

    @property
    def objective(self) -> SquaredError:
        """What is fitted."""
        return SquaredError(self.population.d)

    @property
    def known(self) -> dict[str, Any]:
        """Whether the epsilon of the cell is kept."""
        line = self.cell.line
        return {"private": line.bound == "exact" and not line.reference}

    @property
    def fits(self) -> int:
        """How many fits a fold is worth: one where nothing is drawn."""
        return 1

    def release(self, rng: SeededRandom) -> dict[str, float]:
        """One cross-validation: every fifth is held back once."""
        population, errors, diverged = self.population, np.zeros(len(FOLDS)), 0
        order = rng.permutation(population.n).astype(np.int64)
        folds = np.array_split(order, len(FOLDS))
        for fold, test in enumerate(folds):
            rest = np.concatenate([*folds[:fold], *folds[fold + 1 :]])
            # All systems take as many words, so that their chance stays common.
            for seed in rng.words(self.draws).tolist()[: self.fits]:
                # Groups are slices, so every draw needs an order of its own.
                mixed = rest[SeededRandom(seed).permutation(rest.size).astype(np.int64)]
                rows, targets = population.rows[mixed], population.targets[mixed]
                weights, given_up = self.weights(rows, targets, seed)
                errors[fold] += self.error(weights, test) / self.fits
                diverged += given_up
        parts = dict(zip(FOLDS, errors.tolist(), strict=True))
        return {"test_mse": float(errors.mean()), **parts, "diverged": diverged}

    def error(self, weights: Floats, test: Counts) -> float:
        """The mean squared error of weights on some rows."""
        rows, targets = self.population.rows[test], self.population.targets[test]
        return float(self.objective.errors(weights, rows, targets).mean(dtype=np.float64))


@dataclass(frozen=True)
class Descent(CrossValidation):
    """Steps along gradients.

    Attributes:
        run: those steps.
    """

    run: CommonRun

    @cached_property
    def known(self) -> dict[str, Any]:
        """What is sent, and how it is used."""
        steps = self.run.steps
        columns = super().known | {"steps": steps.schedule.steps, "rate": steps.schedule.rate}
        if self.run.quantiles is None:
            return columns
        group = self.population.n * (1 - 1 / len(FOLDS)) / steps.groups
        noise = steps.predicted_noise(group)
        return columns | {"sampled": int(steps.mechanism.messages), "noise": noise}

    @property
    def fits(self) -> int:
        return self.draws

    def weights(self, rows: Floats, targets: Floats, seed: int) -> tuple[Floats, bool]:
        model = self.run.train(rows, targets, seed)
        return model.average, model.diverged > 0


class LeastSquares(CrossValidation):
    """The exact fit."""

    def weights(self, rows: Floats, targets: Floats, seed: int) -> tuple[Floats, bool]:
        return self.objective.fit_exactly(rows, targets), False


class Constant(CrossValidation):
    """The mean of the targets."""

    def weights(self, rows: Floats, targets: Floats, seed: int) -> tuple[Floats, bool]:
        weights = np.zeros(self.objective.parameters)
        weights[-1] = np.mean(targets, dtype=np.float64)
        return weights, False


_WITHOUT_STEPS = {EXACT: LeastSquares, CONSTANT: Constant}


def fit(options: RegressionOptions, cell: Cell, population: Examples) -> CrossValidation:
    """The mechanism and the steps of a cell."""
    system, objective = cell.line.system, SquaredError(population.d)
    if system in _WITHOUT_STEPS:
        return _WITHOUT_STEPS[system](cell, population, options.draws)
    default = MECHANISMS[DEFAULT](cell.epsilon, population.d)
    mechanism = default if system == NO_NOISE else MECHANISMS[system](cell.epsilon, population.d)
    run = plan_run(
        objective,
        mechanism if options.own_schedules else default,
        gradient_mechanism(cell.epsilon, 2),
        population.n - math.ceil(population.n / len(FOLDS)),
        population.features.longest,
        options.clip,
    )
    steps = CommonSteps(objective, mechanism, run.schedule, run.clip, run.opening)
    quantiles = None if system == NO_NOISE else Quantiles(mechanism.mechanism)
    return Descent(cell, population, options.draws, CommonRun(steps, quantiles))


MEASURE = Measure(
    "test_mse", "squared error on held-back rows, on [-1, 1]", errors=True, parts=FOLDS
)
DIFFERENCES = Differences(MEASURE, DEFAULT)


def compare(options: RegressionOptions, results: Results) -> None:
    """Show how much each system's errors differ from the default's, on the same folds."""
    rows = list(DIFFERENCES.rows(results.rows()))
    write_table(options.output, "differences.parquet", rows, DIFFERENCES.columns)
    for sentence in DIFFERENCES.sentences(rows):
        say(Console(), sentence)


STUDY = Study(
    options=RegressionOptions,
    lines=lambda options: lines(options.systems),
    data=lambda options: read_examples(options.data, options.ns),
    fit=fit,
    columns=COLUMNS,
    measures=[MEASURE],
    along=[
        Along(
            name="-by-epsilon",
            title="five-fold cross-validation",
            axis="epsilon of the run (nats)",
        ),
        Along(
            name="-by-n-{data}",
            title="{data}",
            panel="epsilon = {epsilon:g}",
            x="n",
            axis="users",
        ),
    ],
    alone=Sheet(name="", title="epsilon = {epsilon:g}"),
    grid=lambda options, data, systems: by_privacy(options, data, systems, paired=True),
    sequel=compare,
)
