"""Releases of trainings that are for studies alone, at small examples, for attacks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.papers.learning.gradient_reports import gradient_mechanism
from mechanisms.papers.sparse_vector import SparseVector
from mechanisms.privacy.trial import Trial, register_trial, trial
from mechanisms.randomness import RandomSource


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
