"""Which outputs an input can lead to: noise in doubles gives inputs away, integer codes cannot."""

from __future__ import annotations

import numpy as np

from mechanisms.papers.laplace import laplace
from mechanisms.randomness import SeededRandom

DRAWS = 20_000


def naive(value: float, rng: SeededRandom) -> np.ndarray:
    """(DRAWS,) the textbook's Laplace mechanism in doubles, epsilon 1 on [-1, 1]."""
    uniform = (rng.words(DRAWS) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
    centred = uniform - 0.5
    return value - 2.0 * np.sign(centred) * np.log1p(-2 * np.abs(centred))


def shared(first: np.ndarray, second: np.ndarray) -> float:
    """The share of distinct outputs of the first input that the second leads to as well."""
    return float(np.isin(np.unique(first), np.unique(second)).mean())


def test_the_leak_is_found_where_there_is_one():
    """Mironov, CCS 2012: the low bits of a noisy double depend on what the noise was added to."""
    at_zero, at_a_third = naive(0.0, SeededRandom(1)), naive(1 / 3, SeededRandom(1))
    assert shared(at_zero, at_a_third) < 0.01
    # At 1/3 the outputs are multiples of a coarser unit wherever they are small.
    small = [x[np.abs(x) < 2.0**-6] for x in (at_zero, at_a_third)]
    fine = [float((np.remainder(x, 2.0**-54) != 0).mean()) for x in small]
    assert fine[0] > 0.9
    assert fine[1] < 0.5


def test_none_is_found_in_codes():
    """Both inputs lead to the same decoded numbers: no set of outputs tells them apart."""
    mechanism = laplace(1.0, 64)
    first, second = (
        mechanism.decode(
            mechanism.perturb(
                mechanism.encode(np.full(DRAWS * 20, value), SeededRandom(2)), SeededRandom(3)
            )
        )
        for value in (0.0, 1 / 3)
    )
    likely = [np.unique(x)[np.unique(x, return_counts=True)[1] > 60] for x in (first, second)]
    assert shared(likely[0], second) == shared(likely[1], first) == 1.0
