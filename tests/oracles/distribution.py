"""The distribution of a column of numbers done slowly, and populations that are hard to cover."""

from __future__ import annotations

import numpy as np

from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.randomness import SeededRandom


def spiky(n: int) -> np.ndarray:
    """Five values, two of them at the bounds or near them, two close together."""
    shares = {-1.0: 0.4, -0.31: 0.3, -0.3: 0.1, 0.123456: 0.15, 0.9: 0.05}
    return np.repeat(list(shares), np.diff(np.floor(np.cumsum([0, *shares.values()]) * n + 0.5)
                                           .astype(int)))  # fmt: skip


def smooth(n: int) -> np.ndarray:
    """A bell between the bounds."""
    ranks = (np.arange(n) + 0.5) / n
    return np.clip(0.25 * np.log(ranks / (1 - ranks)), -1, 1)


def lopsided(n: int) -> np.ndarray:
    """Nearly all at one bound, a few at the other."""
    return np.where(np.arange(n) < n // 100, 1.0, -1.0)


def constant(n: int) -> np.ndarray:
    """One value, between grid points."""
    return np.full(n, 0.77)


POPULATIONS = {"spiky": spiky, "smooth": smooth, "lopsided": lopsided, "constant": constant}


def share_up_to(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """F at some points, value by value; values that rounding has moved by 1e-12 count as equal."""
    return np.array([np.mean(values <= point + 1e-12) for point in points])


def rounded_shares(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The expected share of values that a coin rounds to each point."""
    step = points[1] - points[0]
    return np.array([np.mean(np.maximum(0, 1 - np.abs(values - x) / step)) for x in points])


def many_counts(
    reconstruction: Reconstruction, values: np.ndarray, runs: int, seed: int
) -> np.ndarray:
    """(runs, codes) counts of as many collections from the same users.

    Each value is rounded by its own coin and reported through the table. Users of one value are
    alike, so their reports are drawn together.
    """
    table, rng = reconstruction.table, SeededRandom(seed).generator()
    codes, inputs = table.shape
    total = np.zeros((runs, codes), np.int64)
    for value, users in zip(*np.unique(values, return_counts=True), strict=True):
        place = (value + 1) * (inputs - 1) / 2
        below = min(int(place), inputs - 2)
        law = (1 - (place - below)) * table[:, below] + (place - below) * table[:, below + 1]
        total += rng.multinomial(users, law / law.sum(), size=runs)
    return total


def coarse(values: np.ndarray, steps: int) -> np.ndarray:
    """The values on a grid, so that there are few different ones to draw together."""
    return np.rint((values + 1) * steps / 2) * 2 / steps - 1
