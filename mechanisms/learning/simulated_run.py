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
        rows: (n, inputs), at least as many as there are groups; two for each, with an opening.
        targets: (n,).
        rng: draws the groups, then all else.

    Yields:
        The model after 0, 1, .. steps; that after 0 has the opening's estimates, if there is one.

    Raises:
        ValueError: there are fewer rows than that.
    """
    labels = np.asarray(targets)
    needed = steps.groups * (1 if steps.opening is None else 2)
    if not len(rows) >= needed:
        raise ValueError(
            f"{len(rows)} users are too few for {steps.schedule.steps} steps: {needed} are needed"
        )
    # A random partition: a group of neighbouring rows might be of one kind.
    groups = np.array_split(rng.permutation(len(rows)).astype(np.int64), steps.groups)
    model = steps.start(rng)
    if steps.opening is not None:
        messages = steps.opening.report(labels[groups.pop(0)], rng)
        model = steps.open(model, steps.opening.mechanism.count(messages))
    yield model
    for group in groups:
        messages = steps.report(model.weights, rows[group], labels[group], rng, model.scale)
        model = steps.advance(model, steps.mechanism.count(messages))
        yield model
