"""The most that an attacker who has only samples can prove against a promise.

A quarter of the samples ranks what may be seen by how much it speaks for one input, another
chooses where to cut the ranking, and the rest bound from below how much likelier the set beyond is
under one input than under the other. What is chosen never sees what it is measured on, so the bound
holds for any ranking, however wild; a good one makes it large.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechanisms.privacy.trial import Trial
from mechanisms.randomness import RandomSource

RISK = 1e-6  # probability that an attack accuses an honest sampler

Rows = NDArray[np.float64]  # (samples, columns)
Score = Callable[[Rows], NDArray[np.float64]]

_FEWEST = 1000
_CUTS = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999)
_LOUDEST = 3  # columns, whose joint law is looked at in parts
_PARTS = 8
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing


@dataclass(frozen=True)
class Measured:
    """What samples of a release prove.

    Attributes:
        epsilon: a lower bound on the loss at the promised delta; it exceeds the truth with
            the probability that was allowed.
        pair: the inputs that were told apart best.
        samples: that were drawn of each.
    """

    epsilon: float
    pair: tuple[Any, Any]
    samples: int


def measure(
    trial: Trial, rng: RandomSource, samples: int = 100_000, risk: float = RISK
) -> Measured:
    """Tell neighbouring inputs apart from what is released of them.

    Args:
        trial: what is released, and promised.
        rng: draws it.
        samples: of each of two inputs, at least 1000.
        risk: probability with which the bound may exceed the truth, at the most.

    Returns:
        The largest bound over all pairs, in both directions.

    Raises:
        ValueError: there are too few samples.

    Source: Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of
        the binomial", 1934; Neyman, Pearson 1933 for the optimality of ratio sets.
    """
    if not samples >= _FEWEST:
        raise ValueError(f"an attack needs at least {_FEWEST} samples, not {samples}")
    miss = risk / (2 * len(trial.pairs))  # in either direction
    bounds = [(_of_pair(trial, pair, rng, samples, miss), pair) for pair in trial.pairs]
    epsilon, pair = max(bounds, key=lambda one: one[0])
    return Measured(epsilon, pair, samples)


def lower_bound(hits: int, others: int, n: int, delta: float, risk: float) -> float:
    """epsilon from below, given how often a set was hit under each of two inputs.

    Args:
        hits: under the input for which it speaks.
        others: under the other.
        n: samples of each.
        delta: that is allowed.
        risk: with which each of two limits may fail.
    """
    # Clopper-Pearson limits hold at any sample size; normal ones fail for the rare codes that tell
    # the most.
    low = float(special.betaincinv(hits, n - hits + 1, risk)) if hits else 0.0
    high = float(special.betainccinv(others + 1, n - others, risk)) if others < n else 1.0
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def _of_pair(
    trial: Trial, pair: tuple[Any, Any], rng: RandomSource, samples: int, risk: float
) -> float:
    """The bound for one pair of inputs."""
    sizes = samples // 4, samples // 4, samples - 2 * (samples // 4)
    learnt, chosen, tested = (
        tuple(np.asarray(trial.draw(one, size, rng), np.float64) for one in pair) for size in sizes
    )
    delta, half = trial.promise.delta, risk / 2
    best = 0.0
    for first in (0, 1):
        _, score, cut = max(
            _cuts(learnt, chosen, first, delta, half), key=lambda candidate: candidate[0]
        )
        best = max(best, _reached([*map(score, tested)], first, cut, delta, half))
    return best


def _cuts(
    learnt: tuple[Rows, ...], chosen: tuple[Rows, ...], first: int, delta: float, risk: float
) -> Iterator[tuple[float, Score, float]]:
    """(bound, ranking, where to cut it) of all that are tried; each ranks the rows once."""
    for score in _scores(learnt[first], learnt[1 - first]):
        heights = [*map(score, chosen)]
        for cut in np.unique(np.quantile(score(np.concatenate(learnt)), _CUTS)):
            yield _reached(heights, first, cut, delta, risk), score, cut


def _reached(
    heights: Sequence[NDArray[np.float64]], first: int, cut: float, delta: float, risk: float
) -> float:
    """The bound by the set of what scores so much or more."""
    hits, others = (int(np.count_nonzero(heights[place] >= cut)) for place in (first, 1 - first))
    return lower_bound(hits, others, heights[0].size, delta, risk)


def _scores(first: Rows, second: Rows) -> Iterator[Score]:
    """Rankings of what is seen, what speaks loudest for the first input highest."""
    yield _tabulated(first, second, _keys)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large to square says nothing
        apart = first.mean(axis=0) - second.mean(axis=0)
        squares = first.var(axis=0) + second.var(axis=0)
        # What never varies, and differs, is to be louder than anything that does.
        squares = np.maximum(squares, 1e-12 * apart**2)
    known = np.isfinite(apart) & np.isfinite(squares) & (squares > 0)
    apart, squares = np.where(known, apart, 0.0), np.where(known, squares, 1.0)
    columns = np.argsort(-np.abs(apart) / np.sqrt(squares), kind="stable")[:_LOUDEST]
    # Weights of a linear score that is best for normal laws, columns taken one by one.
    weights = apart / squares
    yield lambda rows: rows @ weights
    for number in range(1, columns.size + 1):
        parts = _Parts(columns[:number], np.concatenate([first, second]))
        yield _tabulated(first, second, parts)


class _Parts:
    """Which part of the range of some columns a row lies in, as one number."""

    def __init__(self, columns: NDArray[np.intp], rows: Rows) -> None:
        at = np.linspace(0, 1, _PARTS + 1)[1:-1]
        self._edges = [(column, np.unique(np.quantile(rows[:, column], at))) for column in columns]

    def __call__(self, rows: Rows) -> NDArray[np.uint64]:
        number = np.zeros(len(rows), np.uint64)
        for column, edges in self._edges:
            part = np.searchsorted(edges, rows[:, column], side="right")
            # On an edge or beyond it: counts are whole numbers, and most edges are some of them.
            part = 2 * part + np.isin(rows[:, column], edges)
            number = number * np.uint64(4 * _PARTS) + part.astype(np.uint64)
        return number


def _keys(rows: Rows) -> NDArray[np.uint64]:
    """A number for each row that tells it from others; two that share one cost power only."""
    key = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        key = (key ^ np.ascontiguousarray(column).view(np.uint64)) * _MIX
        key ^= key >> np.uint64(29)
    return key


def _tabulated(first: Rows, second: Rows, numbered: Callable[[Rows], NDArray[np.uint64]]) -> Score:
    """How much likelier what is numbered alike was under the first input."""
    one, other = numbered(first), numbered(second)
    known, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    hits = np.bincount(places[: one.size], minlength=known.size)
    others = np.bincount(places[one.size :], minlength=known.size)
    # One more of each keeps the ratios of those finite that were never seen.
    ratios = np.log((hits + 1) / (others + 1))

    def score(rows: Rows) -> NDArray[np.float64]:
        numbers = numbered(rows)
        at = np.minimum(np.searchsorted(known, numbers), known.size - 1)
        return np.where(known[at] == numbers, ratios[at], 0.0)

    return score
