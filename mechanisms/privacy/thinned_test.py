"""A test that tells shuffled batches of very many reports apart, evaluated without a walk.

A walk over a lattice rounds once for each user, relatively; where 10^10 users hide a loss of 10^-5
that is more than what sets the batches apart. This test looks at reports of two kinds alone, those
that are likelier given the one value and those that are likelier given the other, and of these at a
fixed number, drawn by lot: what it sees is binomial, whatever the number of users.
"""

from __future__ import annotations

import math

import numpy as np

from mechanisms.channel import Floats
from mechanisms.privacy.pair_law import PairLaw

_ALIKE = 2.0**-48  # relative difference of what roundings alone set apart
_WIDE = 4.5  # standard deviations of the number of reports that are of one of the two kinds
_FINE = 1 << 12  # cells for a standard deviation of what is seen, at most
_FAR = 12.0  # standard deviations beyond which nothing is added up
_SLACK = 1e-9  # more than all roundings below, relatively


def thinned_delta(law: PairLaw, n: int, epsilon: float) -> float:
    """The advantage of the test, rounded down.

    The test keeps a fixed number m of reports of the two kinds, and answers "first" if those of the
    first kind are enough. Of m reports the user's is one with some chance w; given that, the first
    kind has Bin(m - 1, 1/2) reports and the user's, which is of it with chance r or 1 - r. So with
    x = m / 2 + y the likelihoods are 1 +- w (2 r - 1) 2 y / m times that of Bin(m, 1/2).

    Args:
        law: the user who differs, and the others.
        n: how many reports, at least 1.
        epsilon: at least 0, in nats.

    Returns:
        P(yes | first) - e^epsilon P(yes | second), never above the truth; 0 where the two kinds are
        not each other's mirror image, or hardly come.

    Source: the number of kept reports by Bernstein's inequality (Boucheron, Lugosi, Massart,
        "Concentration inequalities", 2013, Corollary 2.11); binomial probabilities by Robbins, "A
        remark on Stirling's formula", American Mathematical Monthly 62, 1955.
    """
    gap = np.where(law.shared, law.first - law.second, 0.0)
    for_, against = gap > 0, gap < 0
    first, second, others = (
        (float(p[for_].sum()), float(p[against].sum())) for p in (law.first, law.second, law.others)
    )
    mirrored = zip((first[0], first[1], others[0]), (second[1], second[0], others[1]), strict=True)
    if not (others[0] > 0 and all(abs(a - b) <= _ALIKE * max(a, b) for a, b in mirrored)):
        return 0.0
    mean = (n - 1) * sum(others)
    spread = math.sqrt(mean)
    kept, most = math.floor(mean - _WIDE * spread), math.ceil(mean + _WIDE * spread) + 1
    if not kept > _FAR * spread:
        return 0.0
    inside = 1 - 2 * math.exp(-(_WIDE**2) / 2 / (1 + _WIDE / (3 * spread)))
    here = sum(first) * inside * kept / most
    slope = here * (first[0] - first[1]) / sum(first) * 2 / kept * (1 - _SLACK)
    # (1 + slope y) - e^epsilon (1 - slope y), positive from `least` on.
    rise, fall = (1 + math.exp(epsilon)) * slope, math.expm1(epsilon)
    least = fall / rise * (1 + _SLACK)
    return float(rise * _beyond(kept, least) * (1 - _SLACK))


def _beyond(trials: int, least: float) -> float:
    """E (Y - least)_+ for Y + trials / 2 of Bin(trials, 1/2), rounded down."""
    deviation = math.sqrt(trials) / 2
    cell = max(1, math.floor(deviation / _FINE))
    # Y and half the trials are whole together, or both lie between.
    begin = math.ceil(least - trials / 2) + trials / 2
    edges = begin + cell * np.arange(math.ceil(_FAR * deviation / cell) + 1, dtype=np.float64)
    edges = edges[edges < trials / 4]
    if edges.size < 2 or not begin >= 0:
        return 0.0
    # Probabilities fall with Y: in a cell none is below that of its last place.
    last = _probabilities(trials, edges[1:] - 1)
    steps = edges[:-1] - least + (cell - 1) / 2  # their mean over a cell
    return float((cell * last * np.maximum(steps, 0)).sum())


def _probabilities(trials: int, beyond: Floats) -> Floats:
    """P(Bin(trials, 1/2) = trials / 2 + y), rounded down, by far less than _SLACK."""
    share = 2 * beyond / trials
    up, down = trials / 2 * (1 + share), trials / 2 * (1 - share)
    divergence = trials / 2 * ((1 + share) * np.log1p(share) + (1 - share) * np.log1p(-share))
    stirling = 1 / (12 * trials + 1) - 1 / (12 * up) - 1 / (12 * down)
    exponent = stirling - divergence + np.log(trials / (2 * math.pi * up * down)) / 2
    # Each logarithm is off by a unit of `share`, whose multiple is `beyond`.
    return np.asarray(np.exp(exponent - 2.0**-44 * (beyond + 1)) * (1 - 2.0**-40))
