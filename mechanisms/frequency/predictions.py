"""What to expect of a histogram after its projection, for a guess of the truth."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.planner.design import Design
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom

_DRAWS = 4000  # of noise: the error of a prediction is about the root of two over it


def error_after_projection(
    design: Design[FrequencyOracle], frequencies: Floats, runs: int | None = None
) -> float:
    """Predicted mean squared error per value after POP, for a guess of the truth.

    Args:
        design: the mechanism.
        frequencies: (domain_size,) the guess; adds up to 1.
        runs: how many simulated releases are averaged; by default, as many as a prediction to 3 %
            takes, the more the fewer values there are.

    Returns:
        In squared frequency units. The noise is simulated as normal, and the estimates' sum varies
        as the mechanism's does; with a fixed seed, so that equal questions get equal answers.
    """
    rng, d = SeededRandom(0), len(frequencies)
    runs = max(3, _DRAWS // d) if runs is None else runs
    variance = design.mechanism.variance(frequencies, design.target.n)
    # What all estimates have in common, and what is left to each.
    common = design.mechanism.sum_variance(design.target.n) / d**2
    alone = np.sqrt(np.maximum(variance - common, 0) / (1 - 1 / d))
    squares = []
    for _ in range(runs):
        # 53 bits fill a double; the half keeps the quantile of 0, which is infinite, from being
        # asked for.
        uniform = (rng.words(d + 1) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
        normal = special.ndtri(uniform)
        noise = alone * (normal[1:] - normal[1:].mean()) + math.sqrt(common) * normal[0]
        released = project(frequencies + noise)
        squares.append(float(np.mean((released - frequencies) ** 2)))
    return float(np.mean(squares))


def zipf(domain_size: int, exponent: float = 1.1) -> Floats:
    """Zipf frequencies: the usual guess for telemetry."""
    weights = np.arange(1, domain_size + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())
