"""Slow, obvious versions of what the vector mechanisms compute: reports listed one by one."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy

from tests.oracles.mean import lumped
from tests.oracles.statistics import follows, sample_size, tilted


def corner_law(dimension: int, own: int, keep: Fraction, closed: bool) -> list[Fraction]:
    """MeanEST's law by its definition, corner by corner.

    Args:
        dimension: d.
        own: the user's corner, its lowest bit the first coordinate.
        keep: the probability of the user's side.
        closed: whether both sides hold the ties, as published; else they keep a share of 2^-d.
    """
    products = [dimension - 2 * (corner ^ own).bit_count() for corner in range(1 << dimension)]
    ties = products.count(0)
    side = (len(products) + ties) // 2 if closed else Fraction(len(products), 2)
    law = []
    for x in products:
        near, far = (x >= 0, x <= 0) if closed else (x > 0, x < 0)
        chance = keep * near / side + (1 - keep) * far / side
        law.append(Fraction(1, len(products)) if not closed and x == 0 else Fraction(chance))
    return law


def tally_follows(mechanism, cell: int, rng) -> None:
    """Assert that reports of an input follow its channel, and that a test 30 % off would not."""
    law = mechanism.channel(cell)
    groups, coarse = lumped(law, 5e-3)
    wrong = tilted(coarse)
    counts = mechanism.tally(cell, sample_size(coarse, wrong), rng)
    assert counts[law == 0].sum() == 0
    coarse_counts = np.bincount(groups, counts, minlength=len(coarse))
    assert follows(coarse_counts, coarse)
    assert not follows(coarse_counts, wrong)


def direction(seed: int, length: int, number: int) -> np.ndarray:
    """A public direction, word by word: SplitMix64, then normal quantiles of its halves."""
    digest = hashlib.sha256(b"hushbeam public directions %d" % seed).digest()
    key, width, mask = int.from_bytes(digest[:8], "big"), (length + 1) // 2, (1 << 64) - 1
    normal = []
    for j in range(1, width + 1):
        z = (key + (number * width + j) * 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        normal += [NormalDist().inv_cdf((half + 0.5) / 2**32) for half in (z % 2**32, z >> 32)]
    row = np.array(normal[:length])
    return row / np.sqrt(row @ row)


def ranked_means(mechanism, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square of a decoded report, given the seed: from every codebook's own law.

    Returns:
        ((codebooks, dimension) the mean row of each codebook, and of the squares).
    """
    unit = np.append(row, np.sqrt(mechanism.radius**2 - row @ row)) / mechanism.radius
    means, squares = [], []
    for book in range(mechanism.codebooks):
        lines = mechanism.directions.rows(book * mechanism.lines + np.arange(mechanism.lines))
        ends = np.concatenate([lines, -lines])
        nearest = np.argsort(-(ends @ unit))[: mechanism.cap_size]
        law = np.full(len(ends), mechanism.law.outside / mechanism.law.total)
        law[nearest] = mechanism.law.inside / mechanism.law.total
        reports = ends[:, : mechanism.dimension] * (mechanism.radius / mechanism.length)
        means.append(law @ reports)
        squares.append(law @ reports**2)
    return np.array(means), np.array(squares)


def source_rows(n: int, dimension: int, rng) -> np.ndarray:
    """Rows as in the experiments of Sun, Yang, Cheng, Su: N(1/3, 1/16), cut off at -1 and 1."""
    return np.clip(rng.generator().normal(1 / 3, 0.25, (n, dimension)), -1, 1)


def james_stein(row: np.ndarray, variance: float, target: np.ndarray, lost: int) -> np.ndarray:
    """The positive-part estimator, from its formula."""
    apart = row - target
    return target + max(0.0, 1 - (len(row) - lost) * variance / (apart @ apart)) * apart


class Cap(NamedTuple):
    """A cap of the unit sphere, {v: <u, v> >= gamma}, as PrivUnit uses it.

    Attributes:
        gamma: its height.
        chance: p, the probability of a report from the cap.
        length: m, the mean of the report's component along u; reports are divided by it.
    """

    gamma: float
    chance: float
    length: float


def best_cap(epsilon: float, sphere: int) -> Cap:
    """PrivUnit's cap of largest length, in the continuum: what a finite code can come near to.

    Args:
        epsilon: privacy loss of one report, in nats.
        sphere: D, the dimension of the space, at least 2.

    Returns:
        The cap. The variance of a report about a unit vector is 1 / length^2 - 1 in all.

    Source: Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its
        applications in private federated learning", 2018, Algorithm 1, with height and chance
        chosen together for the least variance, as in Asi, Feldman, Talwar, "Optimal algorithms
        for mean estimation under local differential privacy", ICML 2022.
    """
    top = min(1 - 1e-9, 14 / math.sqrt(sphere))
    optimum = scipy.optimize.minimize_scalar(
        lambda gamma: -_cap(gamma, epsilon, sphere).length,
        bounds=(0.0, top),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return _cap(float(optimum.x), epsilon, sphere)


def _cap(gamma: float, epsilon: float, sphere: int) -> Cap:
    """The cap of a given height."""
    share = float(scipy.special.betainc((sphere - 1) / 2, 0.5, 1 - gamma * gamma)) / 2
    odds = math.exp(epsilon)
    chance = odds * share / (odds * share + 1 - share)
    surface = math.exp(scipy.special.gammaln(sphere / 2) - scipy.special.gammaln((sphere - 1) / 2))
    moment = surface / math.sqrt(math.pi) * (1 - gamma * gamma) ** ((sphere - 1) / 2) / (sphere - 1)
    return Cap(gamma, chance, moment * (chance / share - (1 - chance) / (1 - share)))
