"""A made census: people whose income is a sum over what they are, and chance."""

from __future__ import annotations

import numpy as np

from mechanisms.channel import Floats
from mechanisms.learning.features import Features
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom

FEATURES = Features(
    (("age", 15, 90), ("schooling", 0, 20), ("hours", 0, 80)),
    (
        ("sex", ("1", "2")),
        ("status", ("1", "2", "3", "4")),
        ("trade", tuple(f"{trade}" for trade in range(8))),
    ),
)
_SLOPES = np.array([0.1, 0.25, 0.2, -0.12, 0.1, 0.05, -0.05, *np.linspace(-0.15, 0.15, 7), -0.25])
_SPREAD = 0.15  # of what the attributes do not tell


def census(n: int) -> tuple[Numbers, Floats]:
    """Some people; the same ones for the same n.

    Returns:
        ((n, inputs) rows, as `FEATURES` has them; (n,) incomes, cut to [-1, 1]).
    """
    chance = SeededRandom(n).generator()
    numbers = np.clip(chance.normal([-0.2, 0.1, 0.0], [0.45, 0.3, 0.3], (n, 3)), -1, 1)
    categories = np.column_stack(
        [
            chance.choice(2, n),
            chance.choice(4, n, p=[0.5, 0.3, 0.15, 0.05]),
            chance.choice(8, n, p=np.arange(8, 0, -1) / 36),
        ]
    )
    rows = FEATURES.rows(numbers.astype(np.float32), categories)
    incomes = rows @ _SLOPES + chance.normal(0, _SPREAD, n)
    return rows, np.asarray(np.clip(incomes, -1, 1))
