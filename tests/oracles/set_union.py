"""Groups that nobody declared, as a paper and a textbook have them: whole log in memory, doubles.

The weighted Gaussian of Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin, "Differentially private
set union", ICML 2020: half of delta for each of its two parts.
"""

from __future__ import annotations

import numpy as np
from scipy import integrate, optimize, stats


def sigma_of(epsilon: float, delta: float) -> float:
    """The least standard deviation of Gaussian noise of sensitivity 1 (Balle, Wang, 2018)."""

    def gap(log_sigma: float) -> float:
        s = np.exp(log_sigma)
        upper = stats.norm.cdf(0.5 / s - epsilon * s)
        return upper - np.exp(epsilon + stats.norm.logcdf(-0.5 / s - epsilon * s)) - delta

    return float(np.exp(optimize.brentq(gap, -5, 8)))


def rho_of(most: int, sigma: float, delta: float) -> float:
    """The paper's threshold, for the half of delta that is left to it."""
    t = np.arange(1, most + 1)
    return float((1 / np.sqrt(t) + sigma * stats.norm.ppf((1 - delta / 2) ** (1 / t))).max())


def weighted_gaussian(
    users: np.ndarray, strings: np.ndarray, most: int, epsilon: float, delta: float, seed: int
) -> np.ndarray:
    """The strings that are found.

    Args:
        users, strings: (pairs,) each pair once.
        most: of a user that count, drawn uniformly.
    """
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(users.size), users))
    users, strings = users[order], strings[order]
    place = np.arange(users.size) - np.searchsorted(users, users)
    users, strings = users[place < most], strings[place < most]
    have = np.bincount(users)
    weights = np.bincount(strings, 1 / np.sqrt(have[users]))
    sigma = sigma_of(epsilon, delta / 2)
    there = np.bincount(strings) > 0
    noisy = weights + rng.normal(0, sigma, weights.size)
    return np.flatnonzero(there & (noisy > rho_of(most, sigma, delta)))


def divergences(mu: float, alone: float, epsilon: float) -> tuple[float, float]:
    """By quadrature: a unit comes, with a group of its own that passes so often, and goes.

    Args:
        mu: how far what others have moves, in standard deviations of Gaussian noise.
        alone: the probability that one of its own groups is published.
        epsilon: of the divergence.
    """

    def comes(x: float) -> float:
        return max((1 - alone) * stats.norm.pdf(x - mu) - np.exp(epsilon) * stats.norm.pdf(x), 0)

    def goes(x: float) -> float:
        return max(stats.norm.pdf(x) - np.exp(epsilon) * (1 - alone) * stats.norm.pdf(x - mu), 0)

    if not mu:
        return alone, max(1 - np.exp(epsilon) * (1 - alone), 0.0)
    edges = [
        (epsilon - np.log1p(-alone)) / mu + mu / 2,
        (mu / 2 - (epsilon + np.log1p(-alone)) / mu),
    ]
    ends = {"limit": 200, "epsabs": 1e-16, "epsrel": 1e-10}
    come = integrate.quad(comes, edges[0], edges[0] + 40, **ends)[0]
    go = integrate.quad(goes, edges[1] - 40, edges[1], **ends)[0]
    return alone + come, go


MADE = {
    # name -> (users, distinct strings, exponent of their law, strings of a user on average)
    "retail baskets": (30_000, 20_000, 1.05, 10.0),
    "check-ins": (20_000, 100_000, 0.85, 25.0),
    "URLs": (50_000, 200_000, 1.2, 8.0),
}


def made(name: str, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """(user, string) pairs, each once, of made sets: Zipf laws, several strings a user."""
    users, distinct, exponent, average = MADE[name]
    rng = np.random.default_rng(seed)
    have = 1 + rng.geometric(1 / average, users)
    chances = np.arange(1, distinct + 1) ** -exponent
    drawn = rng.choice(distinct, int(have.sum()), p=chances / chances.sum())
    pairs = np.unique(np.repeat(np.arange(users), have) * distinct + drawn)
    return pairs // distinct, pairs % distinct


def central_error(most: int, bound: float, epsilon: float, delta: float, share: float) -> float:
    """The standard error of a total of each group with the rest of the price, by a textbook.

    Args:
        most: groups of a user that count.
        bound: of what a user adds to one of them.
        share: of the price, for finding groups.
    """
    gaussian = np.sqrt(most / (1 - share)) * sigma_of(epsilon, delta)
    laplace = np.sqrt(2) * most / (epsilon * (1 - share))
    return float(bound * min(gaussian, laplace))
