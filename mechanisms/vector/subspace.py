"""Random subspaces that everybody can rebuild from a public seed, and what they cost."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np
import scipy

from mechanisms.channel import Floats
from mechanisms.randomness import SeededRandom


@lru_cache(maxsize=4)
def orthonormal(rows: int, columns: int, seed: int) -> Floats:
    """A random matrix with orthonormal columns, which everybody can rebuild from a public seed.

    Its column space is uniform among all subspaces (Haar). No privacy rests on it, so that the last
    digits, in which machines may differ, do not matter.

    Args:
        rows: d.
        columns: q, at most d.
        seed: any integer.

    Returns:
        (rows, columns) float64, not writeable.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups", Notices
        of the AMS 2007, section 5.

    >>> matrix = orthonormal(5, 2, seed=1)
    >>> bool(np.allclose(matrix.T @ matrix, np.eye(2)))
    True
    """
    label = hashlib.sha256(b"hushbeam public projection %d" % seed).digest()
    words = SeededRandom(int.from_bytes(label, "big")).words(rows * columns)
    normal = scipy.special.ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
    factor, triangle = np.linalg.qr(normal.reshape(rows, columns))
    # A QR factorisation fixes signs in its own way; only with these is the matrix Haar distributed.
    matrix: Floats = factor * np.where(np.diag(triangle) < 0, -1.0, 1.0)
    matrix.flags.writeable = False
    return matrix


def cut_off(mean_square_of_means: float, mean_square: float) -> tuple[float, float]:
    """What cutting off at -1 and 1 does to a projected coordinate, taken for normal.

    Args:
        mean_square_of_means: of the coordinates of the mean row.
        mean_square: of all numbers of all users; at least as large, and positive.

    Returns:
        (mean square of what is left, mean square of the shift of a coordinate's mean).

    >>> tuple(round(x, 6) for x in cut_off(0.110914, 0.172978))
    (0.167943, 0.000131)
    """
    inner, spread = math.sqrt(mean_square_of_means), mean_square - mean_square_of_means
    edge = 1 / math.sqrt(mean_square)
    tail = scipy.special.erfc(edge / math.sqrt(2))
    within = (1 - tail) - 2 * edge * _density(edge)

    def integrand(z: float) -> float:
        return float(_shift(inner * z, math.sqrt(spread)) ** 2 * _density(z))

    from scipy import integrate  # a fifth of a second, for the few who name this mechanism

    shift = integrate.quad(integrand, -12, 12, epsrel=1e-10, limit=200)[0] if spread > 0 else 0.0
    return float(mean_square * within + tail), float(shift)


def _shift(mean: float, deviation: float) -> float:
    """By how much cutting off at -1 and 1 moves the mean of a normal number."""
    low, high = (-1 - mean) / deviation, (1 - mean) / deviation
    below = deviation * (_density(low) + low * scipy.special.ndtr(low))
    above = deviation * (_density(high) - high * scipy.special.ndtr(-high))
    return float(below - above)


def _density(z: float) -> float:
    """Of the normal law."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
