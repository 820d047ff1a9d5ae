"""Releases of a training, at small examples, for attacks: whole steps, with the shipped noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.learning.objectives import SquaredError
from mechanisms.privacy.trial import Trial, register_trial
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
        gradients = np.array(
            [training.total(start, rows[i : i + 1], targets[i : i + 1]) for i in range(len(rows))]
        )
        taken = training.taken(times * len(rows), rng).reshape(times, len(rows))
        total: NDArray[Any] = taken.astype(np.int64) @ gradients
        noise = training.noise
        return total if noise is None else total + noise.draw(total.size, rng).reshape(total.shape)

    others = [1.0, -1.0, 0.0]
    return Trial(
        "noisy sums of one lot's gradients",
        training.guarantee(delta=1e-3),
        [([*others, large], others) for large in (9.0, -9.0)],
        draw,
    )
