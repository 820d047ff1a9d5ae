"""Releases of a training, at small examples, for attacks: whole steps, with the shipped noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.central.sparse_vector import SparseVector
from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.learning.gradient_reports import gradient_mechanism
from mechanisms.learning.objectives import SquaredError
from mechanisms.privacy.trial import Trial, register_trial, trial
from mechanisms.randomness import RandomSource


@register_trial("dp-sgd")
def dp_sgd() -> Trial:
    """The noisy sum of one lot's gradients, from which a step's weights follow; a row is there or
    is not."""
    training = DpSgd(SquaredError(inputs=2), rows=4, rate=0.5, steps=1, sigma=1.0)
    start = np.zeros(2)

    def draw(targets: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        rows = np.tile([0.6, 0.8], (len(targets), 1))
        # A row's clipped gradient is what it adds to the total of any lot.
        each = np.array(
            [training.total(start, rows[i : i + 1], targets[i : i + 1]) for i in range(len(rows))]
        )
        taken = training.taken(times * len(rows), rng).reshape(times, len(rows))
        total: NDArray[Any] = taken.astype(np.int64) @ each
        noise = training.noise
        return total if noise is None else total + noise.draw(total.size, rng).reshape(total.shape)

    others = [1.0, -1.0, 0.0]
    return Trial(
        "noisy sums of one lot's gradients",
        training.guarantee(delta=1e-3),
        [([*others, large], others) for large in (9.0, -9.0)],
        draw,
    )


@register_trial("gradients")
def gradients() -> Trial:
    """One user's report of a gradient, as locally private training has it."""
    return trial(gradient_mechanism(2.0, dimension=2))


@register_trial("dssgd")
def dssgd() -> Trial:
    """What one participant uploads in one pass; all values may change."""
    technique = SparseVector(epsilon=2.0, uploads=1, dimension=3, bound=2)
    hidden = -(1 << 20)  # in the place of what was not uploaded: no noise reaches so far

    def draw(values: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        seen = np.full((times, technique.dimension), hidden)
        for row in seen:
            released = technique.release(values, 1, rng)
            row[released.places] = released.values
        return seen

    whole = technique.bound
    return Trial(
        "uploads of one participant",
        technique.guarantee,
        [([whole] * 3, [0] * 3), ([whole, 0, 0], [-whole, 0, 0]), ([whole] * 3, [-whole] * 3)],
        draw,
    )
