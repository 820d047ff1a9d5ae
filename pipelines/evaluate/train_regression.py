"""`hushbeam evaluate train --study regression`: linear models from locally private gradients."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field
from rich.console import Console

from mechanisms.channel import Counts, Floats
from mechanisms.learning.gradient_reports import gradient_mechanism
from mechanisms.learning.objectives import SquaredError
from mechanisms.learning.whole_run import plan_run
from mechanisms.randomness import SeededRandom
from pipelines.evaluate.cells import Cell
from pipelines.evaluate.comparison import RESULTS, Evaluation, Study, evaluate
from pipelines.evaluate.journal import write_whole
from pipelines.evaluate.results import Measure
from pipelines.evaluate.train_data import Rows, read_all_rows
from pipelines.evaluate.train_differences import differences, told
from pipelines.evaluate.train_figures import FOLDS, TrainFigures
from pipelines.evaluate.train_systems import (
    CONSTANT,
    DEFAULT,
    EXACT,
    MECHANISMS,
    NO_NOISE,
    PUBLIC,
    PUBLISHED,
    CommonRun,
    CommonSteps,
    Quantiles,
    lines,
)
from pipelines.requests import Whole, request

MEASURES = (Measure("test_mse", "squared error on held-back rows, on [-1, 1]"),)

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # the table, or census
        ("n", pa.int64()),  # rows, of which four fifths are trained on
        ("d", pa.int64()),  # weights
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # asked of one report, and of the run
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


class RegressionEvaluation(Evaluation):
    """What a person wants compared."""

    systems: tuple[str, ...] = Field(("paper",), min_length=1)
    data: tuple[str, ...] = Field(("census:20000",), min_length=1)
    ns: tuple[Whole, ...] = ()
    repetitions: Whole = Field(5, ge=1, le=1_000_000)
    own_schedules: bool = False
    draws: Whole = Field(1, ge=1, le=1000)
    clip: float | None = Field(None, gt=0, le=100)


@dataclass(frozen=True)
class Fitted:
    """What the folds of a setting have in common.

    Attributes:
        system: by its name.
        population: rows and targets.
        objective: what is fitted.
        run: how; None where nothing is descended.
    """

    system: str
    population: Rows
    objective: SquaredError
    run: CommonRun | None

    def weights(self, rows: Floats, targets: Floats, seed: int) -> tuple[Floats, bool]:
        """(parameters,) what is learned of some rows, and whether the run was given up."""
        if self.run is not None:
            model = self.run.train(rows, targets, seed)
            return model.average, model.diverged > 0
        if self.system == EXACT:
            return self.objective.fit_exactly(rows, targets), False
        constant = np.zeros(self.objective.parameters)
        constant[-1] = np.mean(targets, dtype=np.float64)
        return constant, False

    def error(self, weights: Floats, held: Counts) -> float:
        """The mean squared error of weights on some rows."""
        rows, targets = self.population.rows[held], self.population.targets[held]
        return float(self.objective.errors(weights, rows, targets).mean(dtype=np.float64))


@dataclass(frozen=True)
class RegressionExperiment:
    """Cross-validated test errors.

    Attributes:
        populations: data set -> its rows.
        own_schedules: whether each mechanism's steps are planned for its own noise, and not for
            that of the default.
        draws: how often each training run is repeated with other groups and noise; its error is
            the mean.
        clip: at which coordinates of gradients are cut; None to let each run's opening choose.
    """

    populations: Mapping[str, Rows]
    own_schedules: bool = False
    draws: int = 1
    clip: float | None = None

    def fit(self, cell: Cell) -> Fitted:
        """The mechanism and the steps of a cell."""
        population, system = self.populations[cell.data], cell.line.system
        objective = SquaredError(population.d)
        if system in (EXACT, CONSTANT):
            return Fitted(system, population, objective, None)
        noisy = MECHANISMS[DEFAULT if system == NO_NOISE else system]
        mechanism = noisy(cell.epsilon, population.d)
        # What noise is planned for: everybody's own, or everywhere the default's.
        known = mechanism if self.own_schedules else MECHANISMS[DEFAULT](cell.epsilon, population.d)
        least = population.n - math.ceil(population.n / len(FOLDS))
        longest = population.features.longest
        of_targets = gradient_mechanism(cell.epsilon, 2)
        run = plan_run(objective, known, of_targets, least, longest, self.clip)
        steps = CommonSteps(objective, mechanism, run.schedule, run.clip, run.opening)
        quantiles = None if system == NO_NOISE else Quantiles(mechanism.mechanism)
        return Fitted(system, population, objective, CommonRun(steps, quantiles))

    def known(self, fitted: Fitted) -> dict[str, Any]:
        """What is sent, and how it is used."""
        about: dict[str, Any] = {
            "data": fitted.population.base,
            "private": fitted.system not in (*PUBLIC, PUBLISHED),
        }
        if fitted.run is None:
            return about
        steps = fitted.run.steps
        if fitted.run.quantiles is not None:
            group = fitted.population.n * (1 - 1 / len(FOLDS)) / steps.groups
            about["sampled"] = int(steps.mechanism.messages)
            about["noise"] = steps.predicted_noise(group)
        return {**about, "steps": steps.schedule.steps, "rate": steps.schedule.rate}

    def measure(self, cell: Cell, fitted: Fitted, rng: SeededRandom) -> dict[str, float]:
        """One cross-validation: every fifth is held back once."""
        population, errors = fitted.population, np.zeros(len(FOLDS))
        order = rng.permutation(population.n).astype(np.int64)
        folds, given_up = np.array_split(order, len(FOLDS)), 0
        draws = self.draws if fitted.run is not None else 1
        for fold, held in enumerate(folds):
            rest = np.concatenate([*folds[:fold], *folds[fold + 1 :]])
            for seed in rng.words(self.draws).tolist()[:draws]:
                # Groups are slices, so every draw needs an order of its own.
                mixed = rest[SeededRandom(seed).permutation(rest.size).astype(np.int64)]
                weights, diverged = fitted.weights(
                    population.rows[mixed], population.targets[mixed], seed
                )
                errors[fold] += fitted.error(weights, held) / draws
                given_up += diverged
        each = dict(zip(FOLDS, errors.tolist(), strict=True))
        return {"test_mse": float(errors.mean()), **each, "diverged": given_up}


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
    options = request(RegressionEvaluation, asked)
    chosen = lines(options.systems)
    data = read_all_rows(options.data, options.ns)
    experiment = RegressionExperiment(
        {each.name: each for each in data}, options.own_schedules, options.draws, options.clip
    )
    own = ("own_schedules", "draws", "clip")
    identity = {"--" + name.replace("_", "-"): getattr(options, name) for name in own}
    identity["--study"] = "regression"
    figures = TrainFigures(data, [line.system for line in chosen])
    study = Study(experiment, data, chosen, COLUMNS, MEASURES, identity, figures, paired=True)
    code = evaluate(options, study)
    _compare(options.output)
    return code


def _compare(folder: str) -> None:
    """How much each system's errors differ from the default's, on the same folds."""
    found = differences(f"{folder}/{RESULTS}")
    buffer = io.BytesIO()
    pq.write_table(found, buffer)
    write_whole(folder, "differences.parquet", buffer.getvalue())
    screen = Console()
    for text in told(found):
        screen.print(text, highlight=False, markup=False, soft_wrap=True)
