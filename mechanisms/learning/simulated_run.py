"""A private run on rows that are at hand, by the code that real users run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.learning.local_steps import LocalSteps, Model
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource


def simulate(
    steps: LocalSteps, rows: Numbers, targets: ArrayLike, rng: RandomSource
) -> Iterator[Model]:
    """Draw the groups, then let one after the other report and the model move.

    Args:
        steps: what is done.
        rows: (n, inputs), at least as many as there are steps.
        targets: (n,).
        rng: draws the groups, then all else.

    Yields:
        The model after 0, 1, .. steps.

    Raises:
        ValueError: there are fewer rows than steps.
    """
    told = np.asarray(targets)
    if not len(rows) >= steps.schedule.steps:
        raise ValueError(
            f"{len(rows)} users are too few for {steps.schedule.steps} steps: each needs one"
        )
    order = rng.permutation(len(rows)).astype(np.int64)
    yield (model := steps.start(rng))
    for group in np.array_split(order, steps.schedule.steps):
        messages = steps.report(model.weights, rows[group], told[group], rng)
        model = steps.advance(model, steps.mechanism.count(messages))
        yield model
