"""How a curator's run is laid out, before anything is read."""

from __future__ import annotations

from mechanisms.learning.dp_sgd import design
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.learning.objective import Objective
from mechanisms.learning.optimisers import Momentum
from mechanisms.targets.rules import default_delta
from pipelines.errors import RequestError
from pipelines.train.curator import CuratorPlan, delta_left
from pipelines.train.options import TrainOptions

_LOT, _EPOCHS, _CLIP = 4, 25, 1.0  # lots are a quarter of the rows
_LARGEST_ROWS = 1 << 32  # bytes of rows that one worker holds
_LOOK = 0.05  # of epsilon, for what tells whether the model is of any use


def plan_curator(
    options: TrainOptions, rows: int, objective: Objective, epsilon: float
) -> CuratorPlan:
    """How a run goes, before anything is read.

    Args:
        options: of the request.
        rows: how many rows there are.
        objective: the model.
        epsilon: of the release.

    Raises:
        RequestError: rows do not fit into memory, are fewer than a lot, or nobody knows how many
            users there are.
        ValueError: the target is out of reach.
    """
    _require_room(options, rows, objective)
    rows = _counted_on(options, rows)
    # Large lots: the noise does not grow with the lot, and its share of the sum shrinks.
    lot = options.lot or max(1, rows // _LOT)
    if lot > rows:
        raise RequestError(f"--lot: {lot:,} rows are more than the {rows:,} that are counted on")
    delta = default_delta("shuffle", rows) if options.delta is None else options.delta
    steps = max(1, round((options.epochs or _EPOCHS) * rows / lot))
    optimiser = None if options.learning_rate is None else Momentum(options.learning_rate)
    clip = options.clip or _CLIP
    spent, averages = _divided(options, epsilon, objective)
    left = delta_left(delta, averages)
    run = design(objective, rows, spent, left, lot / rows, steps, clip, optimiser)
    return CuratorPlan(options, rows, delta, averages, run)


def _counted_on(options: TrainOptions, rows: int) -> int:
    """How many rows, or users with one row each, a run is laid out for.

    Noise and steps follow from it and are public, so it must be so too.

    Args:
        options: of the request.
        rows: how many there are, which is published.

    Raises:
        RequestError: rows do not tell how many users there are.
    """
    if options.min_reports is not None:
        return options.min_reports
    if options.user_column is not None:
        raise RequestError(
            "--min-reports is missing: with --user-column, say how many users there are at the "
            "least, for the run is laid out for so many, and rows do not tell"
        )
    return rows


def _divided(
    options: TrainOptions, epsilon: float, objective: Objective
) -> tuple[float, NoisyAverages | None]:
    """(epsilon of the training, what tells how wrong the model is, and a constant, with the rest).

    Args:
        options: of the request; public rows tell it at no cost.
        epsilon: of the release.
        objective: the model.
    """
    if options.validation is not None:
        return epsilon, None
    averages = NoisyAverages(_LOOK * epsilon, objective.loss.baseline.moved)
    # A little is left to the rounding of sums.
    return (1 - _LOOK) * epsilon * (1 - 1e-12), averages


def _require_room(options: TrainOptions, rows: int, objective: Objective) -> None:
    """Refuse rows that do not fit into one worker's memory.

    Args:
        options: of the request.
        rows: how many rows there are.
        objective: the model.

    Raises:
        RequestError: they are too many.
    """
    # Rows are held as floats of 32 bits.
    size = 4 * objective.inputs * rows
    if not size <= _LARGEST_ROWS:
        raise RequestError(
            "--method dp-sgd holds all rows in one worker's memory, and these, of "
            f"{objective.inputs:,} inputs each, take more than {_LARGEST_ROWS >> 30} GiB; use "
            "fewer, or, for --loss linear, ridge and logistic, --method sums"
        )
