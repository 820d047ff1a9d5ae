"""Lasting shifts in a series of released figures: a law of its course, and a CUSUM against it.

What is looked at is released already, so that nothing more is revealed. A figure y of window t is
taken as

    y = level + season of t + u + e,    u' = phi * u + sqrt(1 - phi^2) * tau * (0, 1),

with e the noise of the release, of known standard error, and u a deviation from window to window
that goes on in part. Candidates of (tau, phi, with or without seasons) are run side by side through
a Kalman filter and weighed by how well they predicted (a Bayesian mixture), so that what is not yet
known of the law widens its predictions. By the mixture's distribution function each figure becomes
a residual that is standard normal as long as the law holds (Rosenblatt 1952, "Remarks on a
multivariate transformation"); two CUSUMs add them up (Page 1954, "Continuous inspection schemes").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from mechanisms.compat.roots import brentq

Floats = NDArray[np.float64]

LEARNED = 28
"""Windows of which the law is learned before any alarm, and three seasons at the least."""

SLACK = 0.5
"""The reference value of the CUSUM, in standard deviations: best for lasting shifts by one. At one
false alarm in 365 windows it finds shifts by 2.1, 1.45 and 0.64 in 3, 5 and 16 windows (median)."""

_TAUS, _PHIS, _PRIOR = np.geomspace(0.05, 2, 27), (0.0, 0.3, 0.6, 0.9), (0.6, 0.2, 0.12, 0.08)
# By the windows of two weeks ago candidates are weighed: a shift that has just begun would soon
# count as the deviation that goes on in part (phi), and be found a third later.
_LAG = 14
_LEAST = 1e-15  # a probability: a residual of 7.9 is an alarm by itself


@lru_cache(maxsize=64)
def threshold(windows: float) -> float:
    """Where two CUSUMs have to stand for an alarm.

    Args:
        windows: between two false alarms, on average; at least 10.

    Returns:
        The number h that both start from 0 and pass once in so many windows: each does once in
        twice as many (Kemp 1961, "The average run length of the cumulative sum chart").

    Raises:
        ValueError: windows are too few, or more than 1e9.

    >>> round(threshold(365), 2)
    4.76
    """
    if not 10 <= windows <= 1e9:
        raise ValueError("windows must be between 10 and 1e9")
    return brentq(lambda h: math.log(_run_length(h) / (2 * windows)), 0.01, 30, xtol=1e-6)


def _run_length(h: float) -> float:
    """Windows until one CUSUM passes h, on average: Page's integral equation, by Gauss-Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(96)
    sums = (nodes + 1) * h / 2
    after = np.append(0.0, sums)[:, None]
    density = np.exp(-((sums - after + SLACK) ** 2) / 2) / math.sqrt(2 * math.pi)
    steps = np.hstack([ndtr(SLACK - after), density * weights * h / 2])
    return float(np.linalg.solve(np.eye(97) - steps, np.ones(97))[0])


@dataclass(frozen=True)
class Alarm:
    """A shift that has lasted.

    Attributes:
        at: the place of the figure with which it was found.
        since: the place of the first one that is shifted, by the estimate of the CUSUM.
        size: by how much figures have deviated since then, on average, in their unit; a little
            more than the truth where chance has helped.
        error: the standard error of that, for a shift that began then.
    """

    at: int
    since: int
    size: float
    error: float


@dataclass(frozen=True)
class Watch:
    """What was seen of a series.

    Attributes:
        alarms: the oldest first.
        learning: figures that are missing before the first alarm is possible.
        spread: the standard deviation of the newest figure about its prediction; NaN of none.
    """

    alarms: tuple[Alarm, ...]
    learning: int
    spread: float


class Filter:
    """Predictions of a figure from all figures before it.

    Args:
        first: (...) the first figures, of one series or of several with the same errors.
        scale: of their deviations, in their unit: candidates of tau are 1/20 to 2 times as large.
        period: windows of a season; 1 of none.
        laws: (tau, phi, deviation of seasons, weight) of each candidate, if not those of above.
    """

    def __init__(self, first: Floats, scale: float, period: int, laws: Sequence[Any] = ()) -> None:
        seasons = (0.0, 1.0) if period > 1 else (0.0,)
        known = laws or [
            (tau * scale, phi, season * scale, weight)
            for tau in _TAUS
            for phi, weight in zip(_PHIS, _PRIOR, strict=True)
            for season in seasons
        ]
        self._tau, self._phi, season, weight = np.array(known, np.float64).T
        # u, the level, and a deviation of each place of a season, which is small about the level.
        parts = [self._tau, np.full(season.size, 10 * scale), *[season] * period]
        self.covariance = np.stack(parts, 1)[:, :, None] ** 2 * np.eye(2 + period)
        self.state = np.zeros((*first.shape, *self._tau.shape, 2 + period))
        self.state[..., 1] = first[..., None]
        self.weights = np.log(weight) + np.zeros(self.state.shape[:-1])

    def predict(self, error: float, place: int, gap: float) -> None:
        """Go on to the next figure.

        Args:
            error: its standard error.
            place: in its season, from 0 on.
            gap: windows since the figure before.
        """
        kept, u = self._phi**gap, self.covariance
        new = self._tau**2 * (1 - kept**2)
        self.state[..., 0] *= kept
        u[:, 0, :] *= kept[:, None]
        u[:, :, 0] *= kept[:, None]
        u[:, 0, 0] += new
        seen = [0, 1, 2 + place]
        self._mean = self.state[..., seen].sum(-1)
        self._with = u[:, :, seen].sum(-1)
        # Never less than what is new of u: differences of large numbers may come out below 0.
        self._variance = np.maximum(self._with[:, seen].sum(-1), new) + error**2

    def residual(self, figure: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """How far a figure is from its prediction.

        Args:
            figure: (...) as it came.
            weights: (..., laws) logarithms of the candidates' weights.

        Returns:
            (...) the standard normal residual; the predicted mean; the variance about it.
        """
        share = np.exp(weights - weights.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        score = (figure[..., None] - self._mean) / np.sqrt(self._variance)
        below, above = ((share * ndtr(side)).sum(-1) for side in (score, -score))
        residual = np.where(
            below < above, ndtri(np.maximum(below, _LEAST)), -ndtri(np.maximum(above, _LEAST))
        )
        mean = (share * self._mean).sum(-1)
        about = (share * (self._variance + (self._mean - mean[..., None]) ** 2)).sum(-1)
        return residual, mean, about

    def learn(self, figure: Floats) -> None:
        """Take in a figure: the state of each candidate, and how well it has predicted."""
        miss = figure[..., None] - self._mean
        self.weights = self.weights - (miss**2 / self._variance + np.log(self._variance)) / 2
        gain = self._with / self._variance[:, None]
        self.state = self.state + miss[..., None] * gain
        self.covariance = self.covariance - gain[:, :, None] * self._with[:, None, :]


def watch(figures: Floats, errors: Floats, times: Floats, windows: float, period: int = 1) -> Watch:
    """Look for lasting shifts.

    Args:
        figures: (n,) finite, the oldest first.
        errors: (n,) their standard errors; 0 where none is known: noise is deviation, too, then.
        times: (n,) whole numbers that increase: which window each is of; the season is by them.
        windows: between two false alarms, on average; at least 10.
        period: windows of a season, such as 7 of days; 1 of none.

    Returns:
        All alarms, each from what came before it. After one the level is learned anew.

    Raises:
        ValueError: windows are too few, or times do not increase.
    """
    h, learned = threshold(windows), max(LEARNED, 3 * period)
    if not bool(np.all(np.diff(times) > 0)):
        raise ValueError("times must increase")
    missing = max(0, learned - figures.size)
    if missing:
        return Watch((), missing, math.nan)
    early = figures[:learned]
    least = 1e-4 * float(np.abs(early).max()) or 1.0  # of figures that never changed
    scale = max(float(early.std()), float(errors[:learned].max()), least)
    course = Filter(figures[0], scale, period)
    gaps, sums, began = np.diff(times, prepend=times[0]), [0.0, 0.0], [0, 0]
    weights, misses, alarms, about = [course.weights], [], [], np.array(math.nan)
    for t, figure in enumerate(figures):
        course.predict(float(errors[t]), int(times[t]) % period, float(gaps[t]))
        residual, mean, about = course.residual(figure, weights[max(0, t - _LAG)])
        misses.append((float(figure - mean), float(about)))
        for side, sign in enumerate((1.0, -1.0) if t >= learned else ()):
            sums[side] = max(0.0, sums[side] + sign * float(residual) - SLACK)
            began[side] = began[side] if sums[side] else t + 1
        if max(sums) > h:
            since = began[int(np.argmax(sums))]
            size, error = _shift(misses[since:])
            alarms.append(Alarm(t, since, size, error))
            # The level may be another one now: the next figures say which. This one teaches
            # nothing, for it may be of one bad day.
            course.covariance[:, 1, 1] += (2 * size) ** 2
            sums, began = [0.0, 0.0], [t + 1, t + 1]
        else:
            course.learn(figure)
        weights.append(course.weights)
    return Watch(tuple(alarms), 0, math.sqrt(about))


def _shift(misses: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The average deviation from predictions, and its standard error."""
    deviations, variances = zip(*misses, strict=True)
    return math.fsum(deviations) / len(misses), math.sqrt(math.fsum(variances)) / len(misses)
