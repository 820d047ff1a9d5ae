"""Each share moved to where the others say that such estimates come from.

The law of the true shares is fitted to all unbiased estimates at once; what is published of each
is its expectation given its own estimate. Where a few values stand out of thousands of rare ones
no other of our rules comes near: heads stay where they are, and the rest becomes alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.frequency.risk import Candidate, Errors

_FOLDS = 4  # a share has no say in the law that it is held against, so that risks are unbiased
_BULK = 10.0  # standard deviations up to which the shares that are thought of lie densely
_DENSE, _SPARSE = 96, 160  # how many there are, and how many beyond
_AROUND = np.linspace(-6.0, 6.0, 17)  # standard deviations from them at which means are computed
_EVENLY = 512  # and as many more, from the least estimate to the largest
_TOGETHER = 512  # places at a time
_ITERATIONS = 40
_IMPOSSIBLE = 1e-200  # likelihood: thirty standard deviations from all shares that are thought of


def empirical_bayes(unbiased: Floats, errors: Errors) -> Candidate:
    """The posterior means.

    Args:
        unbiased: (d,) shares that add up to 1.
        errors: of them.

    Returns:
        What is published: nonnegative, adding up to 1.

    Source: Robbins, "An empirical Bayes approach to statistics", Berkeley Symposium 1956; the law
        of greatest likelihood by expectation maximisation over a grid: Jiang, Zhang, "General
        maximum likelihood empirical Bayes estimation of normal means", Annals of Statistics 2009.
    """
    fold = np.arange(unbiased.size) % _FOLDS
    tables = [_means(unbiased[fold != one], unbiased, errors) for one in range(_FOLDS)]

    def plain(estimates: Floats) -> Floats:
        means = np.empty_like(estimates)
        for one, (places, table) in enumerate(tables):
            means[one::_FOLDS] = np.interp(estimates[one::_FOLDS], places, table)
        return means

    total = float(plain(unbiased).sum())
    shares = plain(unbiased) / total
    return Candidate("empirical-bayes", shares, lambda y: plain(y) / total, 1 - shares)


def _means(others: Floats, unbiased: Floats, errors: Errors) -> tuple[Floats, Floats]:
    """Places, ascending, and the posterior means of estimates that lie there."""
    deviation = float(np.sqrt(errors.variance.mean()))
    shares = _grid(others, unbiased.size, deviation)
    # Means are tabulated, so that their number does not grow with that of the values.
    evenly = np.linspace(unbiased.min(), unbiased.max(), _EVENLY)
    around = (shares[:, None] + deviation * _AROUND).ravel()
    places = np.unique(np.concatenate([around, evenly]))
    nearest = np.searchsorted((places[1:] + places[:-1]) / 2, others)
    counts = np.bincount(nearest, minlength=places.size)
    occupied = counts > 0
    law = _fitted(errors.likelihood(places[occupied, None] - shares), counts[occupied])
    # What nothing else is like stays where it is: one value of all may be anywhere.
    width = float(np.ptp(unbiased)) + deviation
    alone = deviation / width / unbiased.size
    moments = np.stack([law, law * shares], axis=1)
    # Some at a time: all of them at once took 50 MB, and most of the time to have pages for them.
    parts = np.split(places, range(_TOGETHER, places.size, _TOGETHER))
    tables = [errors.likelihood(part[:, None] - shares) @ moments for part in parts]
    weight, sums = np.concatenate(tables).T
    return places, (sums + alone * np.maximum(places, 0)) / (weight + alone)


def _grid(others: Floats, values: int, deviation: float) -> Floats:
    """The shares that are thought of, ascending: 0 among them, and that of all alike."""
    largest = max(float(others.max()), deviation)
    dense = np.linspace(0, min(largest, _BULK * deviation), _DENSE)
    beyond = others[others > dense[-1]]
    sparse = np.quantile(beyond, np.linspace(0, 1, _SPARSE)) if beyond.size else beyond
    return np.unique(np.concatenate([dense, sparse, [1 / values]]))


def _fitted(likelihood: Floats, counts: NDArray[np.int64]) -> Floats:
    """The law over the grid under which the estimates are likeliest, or nearly."""
    law = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    # What no honest client's share comes to, as where all reports were made up, says nothing of it.
    possible = likelihood.max(axis=1) > _IMPOSSIBLE
    likelihood, counts = likelihood[possible], counts[possible]
    for _ in range(_ITERATIONS if counts.size else 0):
        predicted = np.maximum(likelihood @ law, _IMPOSSIBLE)
        law *= (counts / predicted) @ likelihood / counts.sum()
    return np.asarray(law / law.sum())
