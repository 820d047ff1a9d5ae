"""How many steps a local run has, by which mechanism, from groups of which size."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.learning.gradient_reports import gradient_mechanism
from mechanisms.learning.objective import Objective
from mechanisms.learning.opening import opens
from mechanisms.learning.schedule import plan_steps
from mechanisms.learning.whole_run import plan_run
from mechanisms.mean.task import MeanTask
from mechanisms.planner import AUTO
from mechanisms.planner.design import Design
from mechanisms.planner.search import search
from mechanisms.targets.target import Target, default_delta
from mechanisms.vector.base import CubeMean, VectorMean
from mechanisms.vector.task import VectorTask
from pipelines.errors import RequestError
from pipelines.metrics.terms import counted_share
from pipelines.train.local import FITTED, LocalPlan, PrivateCurve
from pipelines.train.options import TrainOptions

_FIRST_STEPS = 50  # as many as are tried at first
_POINTS, _POINT_REPORTS = 10, 2500  # of a private curve: at most, and that each should have
_SPREAD = 5.0  # standard deviations by which a group may fall short of its expected size
_USABLE = 0.9  # of the rows: so many are counted on
_HELD_BACK = 0.05  # of the users, where nobody says
_JUDGES = 100  # who answer each question at the least, for the answers to be worth the users


def plan_local(options: TrainOptions, rows: int, objective: Objective, longest: float) -> LocalPlan:
    """How a run goes, before anything is read.

    Args:
        options: of the request.
        rows: how many rows there are.
        objective: the model.
        longest: the most that the squares of a row's numbers add up to.

    Raises:
        RequestError: there are too few rows for the steps, or nobody knows how many users.
        ValueError: the target is out of reach.
    """
    held_back = _held_back(options, rows, objective)
    everyone = _expected(options, rows, objective, held_back)
    n = math.floor(everyone * (1 - held_back))
    groups = _groups(options, objective, options.steps or 1)
    if n < groups:
        needed = "as many" if groups == (options.steps or 1) else f"{groups:,}"
        raise RequestError(
            f"--steps: {options.steps or 1:,} steps need {needed} {options.unit}s at the least, "
            f"and {n:,} are there to train; take fewer steps"
        )
    steps, design, least = _steps(options, n, objective)
    opening = None
    if _groups(options, objective, steps) > steps:
        opening = _design(_target(options, least, 2), AUTO)
    local = plan_run(
        objective, design.mechanism, None if opening is None else _of_numbers(opening), n, longest,
        options.clip, steps, options.learning_rate,
    )  # fmt: skip
    curve = _curve(options, everyone - n, steps, objective) if held_back else None
    return LocalPlan(
        options, design, local, n // local.groups, least, held_back, opening, curve
    )  # fmt: skip


def _held_back(options: TrainOptions, rows: int, objective: Objective) -> float:
    """The share of users who train nothing and tell how well the model does."""
    if options.hold_back is not None:
        return options.hold_back
    # Public rows tell it at no cost; and where reports spend what they may, a smaller batch of
    # them would weaken the promise.
    if options.validation is not None or options.epsilon is None:
        return 0.0
    judges = _HELD_BACK * _expected(options, rows, objective, _HELD_BACK)
    enough = judges >= _JUDGES * (1 + objective.loss.baseline.questions)
    return _HELD_BACK if enough else 0.0


def _groups(options: TrainOptions, objective: Objective, steps: int) -> int:
    """Into how many groups users are divided: one more than there are steps, for an opening."""
    return steps + (options.clip is None and opens(objective, steps))


def _expected(options: TrainOptions, rows: int, objective: Objective, held_back: float) -> int:
    """How many users will report."""
    if options.user_column is None:
        return rows
    if options.min_reports is None or options.steps is None:
        raise RequestError(
            "--steps and --min-reports are missing: with --user-column, say how many steps there "
            "are to be and how many users each has at the least, for rows do not tell"
        )
    training = options.min_reports * _groups(options, objective, options.steps)
    return math.ceil(training / (1 - held_back))


def _steps(
    options: TrainOptions, n: int, objective: Objective
) -> tuple[int, Design[VectorMean], int]:
    """How many steps there are, the mechanism of a report, and the least group."""
    steps = options.steps or min(_FIRST_STEPS, n)
    while True:
        least = _least(options, n / _groups(options, objective, steps))
        target = _target(options, least, objective.parameters)
        design = _design(target, options.chosen_mechanism)
        fitting = plan_steps(n, design.mechanism)
        if options.steps is not None or fitting >= steps:
            return steps, design, least
        # Fewer steps have larger groups, which hide more of a report in a shuffled batch.
        steps = fitting


def _design(target: Target[VectorTask], name: str) -> Design[VectorMean]:
    """The mechanism of a report; of those that need no shuffler, the best where gradients are."""
    if name != AUTO or target.model == "shuffle":
        return search(target, name)
    mechanism = gradient_mechanism(target.spent, target.task.dimension)
    return Design(target, FITTED, mechanism)


def _of_numbers(design: Design[VectorMean]) -> CubeMean:
    """The mechanism, which is one for numbers in [-1, 1]."""
    if not isinstance(design.mechanism, CubeMean):
        raise TypeError(f"{design.name} is not for numbers in [-1, 1]")
    return design.mechanism


def _least(options: TrainOptions, expected: float, remedy: str = "take fewer --steps") -> int:
    """The least group; in the shuffle model by default what groups surely have, to two figures."""
    if options.min_reports is not None:
        return options.min_reports
    if not options.shuffled:
        return 1
    sure = _USABLE * expected
    # Groups are drawn by dice: so far below their mean hardly any of them falls.
    sure -= _SPREAD * math.sqrt(sure)
    if not sure >= 2:
        raise RequestError(
            f"groups of some {expected:,.0f} {options.unit}s are too few to be shuffled; "
            f"{remedy}, or --model local"
        )
    unit = 10 ** max(math.floor(math.log10(sure)) - 1, 0)
    return int(sure) // unit * unit


def _target(options: TrainOptions, least: int, dimension: int) -> Target[VectorTask]:
    model = "shuffle" if options.shuffled else "local"
    default = default_delta(model, least)
    return Target(
        model=model,
        epsilon=options.epsilon,
        delta=default if options.delta is None else options.delta,
        n=least,
        task=VectorTask(dimension),
        epsilon_local=options.epsilon_local,
        unit=options.unit,
        honest_share=counted_share(options.honest_share),
        seed=0,  # of mechanisms that rest on one, which no step asks for anew
    )


def _curve(options: TrainOptions, held_back: int, steps: int, objective: Objective) -> PrivateCurve:
    """What those held back report on, with reports enough about each model."""
    questions = objective.loss.baseline.questions
    most = 1 if options.hold_back is None else _POINTS
    points = max(1, min(most, steps + 1, held_back // _POINT_REPORTS - questions))
    steps_ = np.unique(np.linspace(steps, 0, points, endpoint=points > 1).round().astype(int))
    unbounded = options.model_copy(update={"min_reports": None})
    expected = held_back / (len(steps_) + questions)
    least = _least(unbounded, expected, "have a larger --hold-back, or 0")
    of_rows = _target(options, least, 1)
    design = search(of_rows.asking(MeanTask(), seed=None))
    return PrivateCurve(tuple(steps_.tolist()), questions, design, least)
