"""What a pass of the sparse vector technique shows, enumerated: one order, every noise value."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.papers.sparse_vector import SparseVector


def table(noise: DiscreteLaplace) -> tuple[np.ndarray, np.ndarray]:
    """The noise values and their probabilities."""
    weights, total = noise.weights
    return np.arange(-noise.bound, noise.bound + 1), weights / float(total)


def reaching(noise: DiscreteLaplace, levels: np.ndarray) -> np.ndarray:
    """P(noise >= level), by a sum over the table that starts at its far end."""
    _, law = table(noise)
    tail = np.append(law[::-1].cumsum()[::-1], 0.0)
    return tail[np.clip(levels + noise.bound, 0, law.size)]


def round_law(mechanism: SparseVector, sizes: list[int], threshold: int) -> np.ndarray:
    """(m + 1,) P(a round over these sizes ends at place i); the last: at none."""
    z, law = table(mechanism.threshold_noise)
    passed, still = [], law
    for size in sizes:
        above = reaching(mechanism.query_noise, threshold + z - size)
        passed.append(float((still * above).sum()))
        still = still * reaching(mechanism.query_noise, 1 - (threshold + z - size))
    return np.array([*passed, float(still.sum())])


def place_law(mechanism: SparseVector, values: list[int], threshold: int) -> dict:
    """SourceLines, in the order met -> probability, when values are met from first to last."""
    sizes, uploads, law = [abs(v) for v in values], mechanism.uploads, {}
    for m in range(uploads + 1):
        for places in combinations(range(len(sizes)), m):
            chance, start = 1.0, 0
            for place in places:
                chance *= round_law(mechanism, sizes[start:], threshold)[place - start]
                start = place + 1
            if m < uploads:
                chance *= round_law(mechanism, sizes[start:], threshold)[-1]
            law[places] = chance
    return law


def released_law(mechanism: SparseVector, values: list[int], threshold: int) -> np.ndarray:
    """P(places, noisy values) over everything that can be shown, as one long row.

    Values of neighbouring inputs are put on one line of integers, -bound - B .. bound + B.
    """
    noise = mechanism.value_noise
    _, law = table(noise)
    parts = []
    for places, chance in place_law(mechanism, values, threshold).items():
        joint = np.array([chance])
        for place in places:
            line = np.zeros(law.size + 2 * mechanism.bound)
            start = mechanism.bound + values[place]
            line[start : start + law.size] = law
            joint = np.multiply.outer(joint, line).ravel()
        parts.append(joint)
    return np.concatenate(parts)


def compared_law(mechanism: SparseVector, values: list[int], threshold: int) -> np.ndarray:
    """A refuted variant, for one upload: what is released is the noisy size that was compared.

    Returns:
        P(place, noisy size), as one long row, and P(nothing) at its end.
    """
    z, law = table(mechanism.threshold_noise)
    y, noise = table(mechanism.query_noise)
    rows, still = [], law
    for size in map(abs, values):
        # Mass of the thresholds that a noisy size reaches, for every noisy size.
        reached = np.searchsorted(threshold + z, size + y, side="right")
        line = np.zeros(y.size + mechanism.bound)
        line[size : size + y.size] = noise * np.append(0.0, still.cumsum())[reached]
        rows.append(line)
        still = still * reaching(mechanism.query_noise, 1 - (threshold + z - size))
    return np.concatenate([*rows, [still.sum()]])


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """delta(epsilon) of one ordered pair of laws."""
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum())
