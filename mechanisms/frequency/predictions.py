"""What to expect of a histogram after its projection, for a guess of the truth."""

from __future__ import annotations

import numpy as np
from scipy import special

from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.planner.design import Design
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom


def error_after_projection(
    design: Design[FrequencyOracle], frequencies: Floats, runs: int = 3
) -> float:
    """Predicted mean squared error per value after POP, for a guess of the truth.

    Args:
        design: the mechanism.
        frequencies: (domain_size,) the guess; adds up to 1.
        runs: how many simulated releases are averaged.

    Returns:
        In squared frequency units. The noise is simulated as independent and normal, with a fixed
        seed, so that equal questions get equal answers.
    """
    rng, d = SeededRandom(0), len(frequencies)
    scale = np.sqrt(design.mechanism.variance(frequencies, design.target.n))
    squares = []
    for _ in range(runs):
        # 53 bits fill a double; the half keeps the quantile of 0, which is infinite, from being
        # asked for.
        uniform = (rng.words(d) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
        released = project(frequencies + scale * special.ndtri(uniform))
        squares.append(float(np.mean((released - frequencies) ** 2)))
    return float(np.mean(squares))


def zipf(domain_size: int, exponent: float = 1.1) -> Floats:
    """Zipf frequencies: the usual guess for telemetry."""
    weights = np.arange(1, domain_size + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())
