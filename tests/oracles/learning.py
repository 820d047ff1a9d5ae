"""Slow, obvious versions of what learning computes: gradients by differences, rows one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mechanisms.papers.learning.local_steps import LocalSteps, TrainingState
from mechanisms.randomness import RandomSource

# Reference constants; see `vectors.json`, whose form this has.
GROUP_MEAN_VARIANCE = [
    {
        "params": {"dim": 90, "eps": 1.0, "group": 10000, "clipped_gradient_coordinate": 0.5},
        "attributes_sampled": 1,
        "variance": 0.040825932439536305,
    }
]


def numeric_gradients(objective, weights, rows, targets, step: float = 1e-6) -> np.ndarray:
    """(n, parameters) central differences of the losses."""
    columns = []
    for direction in np.eye(objective.parameters):
        ahead = objective.losses(weights + step * direction, rows, targets)
        behind = objective.losses(weights - step * direction, rows, targets)
        columns.append((ahead - behind) / (2 * step))
    return np.stack(columns, axis=1)


def numeric_mean_gradient(objective, weights, rows, targets, step: float = 1e-6) -> np.ndarray:
    """(parameters,) central differences of the mean loss with its penalty."""
    return np.array(
        [
            objective.objective(weights + step * direction, rows, targets)
            - objective.objective(weights - step * direction, rows, targets)
            for direction in np.eye(objective.parameters)
        ]
    ) / (2 * step)


def clipped_sum(gradients: np.ndarray, clip: float) -> np.ndarray:
    """(parameters,) gradients cut one by one, then added up."""
    total = np.zeros(gradients.shape[1])
    for gradient in gradients:
        total += gradient / max(1.0, np.linalg.norm(gradient) / clip)
    return total


def design_row(features, numbers, places) -> list[float]:
    """One user's row, attribute by attribute."""
    row = [float(x) for x in numbers]
    for (_, values), place in zip(features.categories, places, strict=True):
        row += [1.0 if place == other else 0.0 for other in range(1, len(values))]
    return [*row, 1.0]


def descent(rate: float, momentum: float, begin_average: int, gradients, weights):
    """Where given gradients take the weights, and the mean of the last weights."""
    smooth, seen, path = np.zeros(len(weights)), 0.0, []
    for gradient in gradients:
        smooth = momentum * smooth + (1 - momentum) * gradient
        seen = momentum * seen + (1 - momentum)
        weights = weights - rate * smooth / seen
        path.append(weights)
    return weights, np.mean(path[begin_average:], axis=0)


def linear_population(n: int, dimension: int, seed: int, noise: float = 0.1):
    """Rows spread evenly over a cube, and targets that are linear in them but for normal noise."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.uniform(-1, 1, (n, dimension)), np.ones(n)])
    weights = rng.uniform(-1, 1, dimension + 1)
    weights *= 0.6 / np.abs(weights).sum()
    targets = np.clip(rows @ weights + rng.normal(0, noise, n), -1, 1)
    return rows.astype(np.float32), targets.astype(np.float32)


def simulate(
    steps: LocalSteps, rows: np.ndarray, targets: np.ndarray, rng: RandomSource
) -> Iterator[TrainingState]:
    """A private run on rows that are at hand: one group after the other reports, the model moves.

    Args:
        steps: what is done.
        rows: (n, inputs), at least as many as there are groups; two for each, with an opening.
        targets: (n,).
        rng: draws the groups, then all else.

    Yields:
        The model after 0, 1, .. steps; that after 0 has the opening's estimates, if there is one.
    """
    # A random partition: a group of neighbouring rows might be of one kind.
    groups = np.array_split(rng.permutation(len(rows)).astype(np.int64), steps.groups)
    model = steps.start(rng)
    if steps.opening is not None:
        messages = steps.opening.report(targets[groups.pop(0)], rng)
        model = steps.open(model, steps.opening.mechanism.count(messages))
    yield model
    for group in groups:
        messages = steps.report(model.weights, rows[group], targets[group], rng, model.scale)
        model = steps.advance(model, steps.mechanism.count(messages))
        yield model
