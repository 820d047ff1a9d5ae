"""What to expect of each mechanism for rows, given a guess of the data, before anybody reports."""

import math
from typing import Any, NamedTuple

from mechanisms.catalog import find, of_task
from mechanisms.planner.search import Design, search
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.targets.rules import Target
from mechanisms.vector.base import VectorMean
from mechanisms.vector.task import VectorTask, grid

PAPER = (0.11091426015168161, 0.17297782861546748)
"""Mean square of the means, and mean square, of N(1/3, 1/16) cut off at -1 and 1."""


class Prediction(NamedTuple):
    """Errors of one way to estimate d means; squared ones on average over the coordinates.

    Attributes:
        name: of a mechanism, or "random projection" (without noise) or "zeros" (without data).
        error: mean squared error of what it publishes without shrinking.
        to_zero: after the best shrinking towards 0 (an oracle's; James and Stein's comes near
            where d is large), or None if it shrinks already.
        to_mean: after the best shrinking towards the coordinates' own mean, or None.
        half_width: of an interval around one coordinate, or None where there is a bias.
        simultaneous: of d intervals that hold together, or None.
        design: of the mechanism and what it guarantees, or None where there is a bias.
    """

    name: str
    error: float
    to_zero: float | None = None
    to_mean: float | None = None
    half_width: float | None = None
    simultaneous: float | None = None
    design: Design[VectorMean] | None = None


def predict(
    target: Target[VectorTask],
    mean_square: float | None = None,
    second_moment: float | None = None,
    spread: float | None = None,
    confidence: float = 0.95,
) -> tuple[Prediction, ...]:
    """The errors of all mechanisms at a target's least number of rows.

    Args:
        target: what must hold.
        mean_square: mu2, of the coordinates of the mean row; by default the second moment.
        second_moment: e2, of all numbers of all rows; by default the most there can be.
        spread: mean square of the means' distances from their own mean; by default mu2.
        confidence: of the intervals, in (0, 1).

    Returns:
        First what publishes no data, then random projection, then each mechanism that works here,
        the least error first. In the shuffle model those whose batches are accounted for best.

    Raises:
        ValueError: not 0 <= spread <= mean_square <= second_moment <= 1, or confidence is out of
            range.

    Source: Sun, Yang, Cheng, Su, Big Data Research 2020, for the mechanisms; James, Stein 1961.

    >>> target = Target("local", 1.0, 0.0, 10_000, VectorTask(400))
    >>> [f"{x.name} {x.error:.3f}" for x in predict(target, *PAPER) if "multi" in x.name]
    ['multi_hm * q/d 0.070', 'multi_rphm 0.094', 'multi_optimal 0.167', 'multi_hm 0.178']
    """
    e2 = target.task.mean_square if second_moment is None else second_moment
    mu2 = e2 if mean_square is None else mean_square
    apart = mu2 if spread is None else spread
    if not (0 <= apart <= mu2 <= e2 <= 1 and e2 > 0):
        raise ValueError(
            "spread, mean_square and second_moment must rise from 0 to 1 in this order, not "
            f"{apart}, {mu2}, {e2}"
        )
    one, all_of_them = (normal_quantile(confidence, times) for times in (1, target.task.dimension))
    predictions = []
    for design in _designs(target):
        noise = (
            float(design.mechanism.variance(math.sqrt(e2))) / target.n
            + design.mechanism.seed_variance
        )
        d, width = target.task.dimension, math.sqrt(noise)
        # The coordinates' own mean is estimated with its noise; what shrinks is the rest.
        to_mean = noise / d + (1 - 1 / d) * _shrunk(noise, apart)
        intervals = one * width, all_of_them * width
        predictions.append(
            Prediction(design.name, noise, _shrunk(noise, mu2), to_mean, *intervals, design)
        )
    biased = [Prediction("zeros", mu2)]
    projection = _projection(target)
    if projection is not None:
        biased.append(Prediction("random projection", (1 - projection.kept) * mu2))
        predictions.append(Prediction("multi_rphm", projection.error(mu2, e2, target.n)))
        predictions += [
            _multiplied(x.error, projection.kept, mu2) for x in predictions if x.name == "multi_hm"
        ]
    return (*biased, *sorted(predictions, key=lambda row: row.error))


def crossover(target: Target[VectorTask], mean_square: float, second_moment: float) -> float:
    """n*, the number of rows from which Multi-HM is better without a random projection.

    Below it shrinking is better still: whoever multiplies Multi-HM's estimate by q / d errs by
    rho (1 - rho) (mu2 - e2 / n) less than Multi-RPHM, for every rho = q / d.

    Args:
        target: its dimension, and what a report spends.
        mean_square: mu2, of the coordinates of the mean row; positive.
        second_moment: e2, of all numbers of all rows.

    Returns:
        (1 + rho) d (V + e2) / mu2 where one coordinate is sampled; infinite if mu2 is 0.
    """
    projection = _projection(target)
    if projection is None:
        raise ValueError("multi_rphm is a mechanism of the local model")
    return projection.crossover(mean_square, second_moment) if mean_square > 0 else math.inf


def _designs(target: Target[VectorTask]) -> list[Design[VectorMean]]:
    """What reports rows without a bias, within the target."""
    designs = []
    # Of a batch also where reports spend what they may: those whose batches are accounted for best.
    for one in of_task(VectorTask.name).values():
        compared = target.model in one.searched or (one.baseline and target.model == "local")
        if not compared or not target.task.admits(one):
            continue
        try:
            designs.append(search(target, one.name))
        except ValueError:  # out of this one's reach; `design` says why if it is asked for
            continue
    return designs


def _projection(target: Target[VectorTask]) -> Any:
    """Multi-RPHM as the paper has it, where nothing amplifies; else None."""
    if target.model != "local":
        return None
    dimension = target.task.dimension
    return find("multi_rphm", of_task(VectorTask.name)).build(
        epsilon=target.spent, dimension=dimension, cells=grid(target.model, dimension)
    )


def _multiplied(noise: float, share: float, square: float) -> Prediction:
    """Multi-HM's estimate times q / d: what a projection amounts to, without its bias' spread."""
    return Prediction("multi_hm * q/d", (1 - share) ** 2 * square + share**2 * noise)


def _shrunk(noise: float, square: float) -> float:
    """The error left by the best factor, square / (square + noise)."""
    return square * noise / (square + noise) if square > 0 else 0.0
