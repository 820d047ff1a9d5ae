"""One release of a simulated population, by the code that makes real ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.choice import publish
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.planner.search import Design
from mechanisms.randomness import SeededRandom


class Simulated(NamedTuple):
    """What a release would have said.

    Attributes:
        unbiased: (d,) frequencies straight from the counts.
        released: (d,) after what the system does with them.
    """

    unbiased: Floats
    released: Floats


def simulate(design: Design[FrequencyOracle], histogram: ArrayLike, rng: SeededRandom) -> Simulated:
    """Let a population report, and collect.

    Args:
        design: a system that was fitted to a target.
        histogram: (d,) integers, how many users hold each value.
        rng: repeatable randomness.

    Returns:
        Frequencies whose law is that of a real release of these values.
    """
    holders = np.asarray(histogram)
    return collect(design, design.mechanism.simulate(holders, rng), int(holders.sum()), rng)


def collect(
    design: Design[FrequencyOracle], counts: Counts, n: int, rng: SeededRandom
) -> Simulated:
    """What is released of counts.

    Args:
        design: as in `simulate`.
        counts: (codes,) the collector's state.
        n: how many users reported.
        rng: repeatable randomness.
    """
    unbiased, estimate = design.mechanism.release(counts, rng, n)
    processed = publish(design.postprocess, design.mechanism, unbiased, n, estimate)
    return Simulated(unbiased, processed.shares)
