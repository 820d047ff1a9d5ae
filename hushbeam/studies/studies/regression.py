"""`hushbeam evaluate train --study regression`: linear models from gradients, or from sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field
from rich.console import Console

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.differences import Differences
from hushbeam.studies.engine.figures import Along, Sheet
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import EpsilonOptions, Names, Ns, Texts, Times
from hushbeam.studies.engine.results import Results, say, write_table
from hushbeam.studies.engine.study import Study, by_privacy
from hushbeam.studies.populations.tables import StudyExamples, read_examples
from hushbeam.studies.systems.common_chance import CommonRun, CommonSteps, Quantiles
from hushbeam.studies.systems.gradients import (
    CONSTANT,
    DEFAULT,
    EXACT,
    MECHANISMS,
    NO_NOISE,
    lines,
)
from hushbeam.studies.systems.sums import SUMS, Fit
from mechanisms.channel import Floats
from mechanisms.learning.objectives import SquaredError
from mechanisms.learning.scores import Numbers
from mechanisms.papers.learning.gradient_reports import gradient_mechanism
from mechanisms.papers.learning.whole_run import plan_run
from mechanisms.randomness import SeededRandom
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.request.requests import Whole

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


class RegressionStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: ClassVar[tuple[float, ...]] = (1e-6,)  # of sums; gradients make use of none

    systems: Names = ("paper",)
    data: Texts = ("census:20000",)
    ns: Ns = Field((), exclude=True)  # names of populations have it, too
    repetitions: Times = option("cross-validations, of five runs each", 5, metavar="N")
    own_schedules: bool = option("plan each mechanism's steps for its own noise", False)
    draws: Whole = option(
        "runs with other noise that each fold's error is the mean of", 1, metavar="N", ge=1, le=1000
    )
    clip: float | None = option(
        "where coordinates of gradients are clipped (default: each run's opening chooses; 0.5 is "
        "what it starts from)",
        None, metavar="C", gt=0, le=100,
    )  # fmt: skip


@dataclass(frozen=True)
class Learner:
    """A way to fit a model to rows.

    Attributes:
        fit: does it.
        known: what every cross-validation has in common.
        noisy: whether another seed makes other weights.
    """

    fit: Fit
    known: Mapping[str, Any] = field(default_factory=dict)
    noisy: bool = False


def fit(options: RegressionStudyOptions, cell: Cell, population: StudyExamples) -> Simulation:
    """The mechanism and the steps of a cell."""
    objective, line = SquaredError(population.d), cell.line
    exact = {EXACT: _least_squares, CONSTANT: _constant}.get(line.system)
    if line.system in SUMS:
        made = SUMS[line.system](population, training_rows(population), cell.epsilon, cell.delta)
        learner = Learner(made, noisy=True)
    else:
        learner = Learner(exact(objective)) if exact else _descent(options, cell, population)
    known = {"private": line.bound == "exact" and not line.reference, **learner.known}
    return Simulation(known, partial(cross_validate, objective, population, learner, options.draws))


def cross_validate(
    objective: SquaredError,
    population: StudyExamples,
    learner: Learner,
    draws: int,
    rng: SeededRandom,
) -> dict[str, float]:
    """Hold every fifth of a population back once.

    Args:
        objective: what is fitted.
        population: rows and targets.
        learner: fits to four fifths.
        draws: of the noise, if there is any, whose errors are averaged for each fold.
        rng: of the folds and of all that learners draw.

    Returns:
        The columns of a repetition.
    """
    errors, diverged, fits = np.zeros(len(FOLDS)), 0, draws if learner.noisy else 1
    folds = np.array_split(rng.permutation(population.n).astype(np.int64), len(FOLDS))
    for fold, test in enumerate(folds):
        rest = np.concatenate([*folds[:fold], *folds[fold + 1 :]])
        # All systems take as many words, so that their chance stays common.
        for seed in rng.words(draws).tolist()[:fits]:
            # Groups are slices, so every draw needs an order of its own.
            mixed = rest[SeededRandom(seed).permutation(rest.size).astype(np.int64)]
            rows, targets = population.rows[mixed], population.targets[mixed]
            weights, given_up = learner.fit(rows, targets, seed)
            missed = objective.errors(weights, population.rows[test], population.targets[test])
            errors[fold] += float(missed.mean(dtype=np.float64)) / fits
            diverged += given_up
    parts = dict(zip(FOLDS, errors.tolist(), strict=True))
    return {"test_mse": float(errors.mean()), **parts, "diverged": diverged}


def _descent(options: RegressionStudyOptions, cell: Cell, population: StudyExamples) -> Learner:
    """Steps along gradients."""
    run = descent(options, cell, population)
    steps = run.steps

    def learned(rows: Numbers, targets: Numbers, seed: int) -> tuple[Floats, bool]:
        model = run.train(rows, targets, seed)
        return model.average, model.diverged > 0

    known = {"steps": steps.schedule.steps, "rate": steps.schedule.rate}
    if run.quantiles is not None:
        group = population.n * (1 - 1 / len(FOLDS)) / steps.groups
        noise = steps.predicted_noise(group)
        known |= {"sampled": int(steps.mechanism.messages), "noise": noise}
    return Learner(learned, known, noisy=True)


def descent(options: RegressionStudyOptions, cell: Cell, population: StudyExamples) -> CommonRun:
    """The run of a system, which is planned for the default's noise unless it is for its own."""
    system, d = cell.line.system, population.d
    default = MECHANISMS[DEFAULT](cell.epsilon, d)
    mechanism = default if system == NO_NOISE else MECHANISMS[system](cell.epsilon, d)
    objective = SquaredError(d)
    run = plan_run(
        objective,
        mechanism if options.own_schedules else default,
        gradient_mechanism(cell.epsilon, 2),
        training_rows(population),
        population.features.longest,
        options.clip,
    )
    steps = CommonSteps(objective, mechanism, run.schedule, run.clip, run.opening)
    return CommonRun(steps, None if system == NO_NOISE else Quantiles(mechanism.mechanism))


def training_rows(population: StudyExamples) -> int:
    """How many rows are left where a fifth is held back."""
    return population.n - math.ceil(population.n / len(FOLDS))


def _least_squares(objective: SquaredError) -> Fit:
    return lambda rows, targets, seed: (objective.fit_exactly(rows, targets), False)


def _constant(objective: SquaredError) -> Fit:
    """The mean of the targets."""

    def learned(rows: Numbers, targets: Numbers, seed: int) -> tuple[Floats, bool]:
        weights = np.zeros(objective.parameters)
        weights[-1] = np.mean(targets, dtype=np.float64)
        return weights, False

    return learned


MEASURE = Measure(
    "test_mse", "squared error on held-back rows, on [-1, 1]", errors=True, parts=FOLDS
)
DIFFERENCES = Differences(MEASURE, DEFAULT)


def compare(options: RegressionStudyOptions, results: Results) -> None:
    """Show how much each system's errors differ from the default's, on the same folds."""
    rows = list(DIFFERENCES.rows(results.rows()))
    write_table(options.output, "differences.parquet", rows, DIFFERENCES.columns)
    answers.tell(differences=rows)
    for sentence in DIFFERENCES.sentences(rows):
        say(Console(), sentence)


STUDY = Study(
    options=RegressionStudyOptions,
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
