"""Lasting shifts in a series of released figures: a law of its course, and a CUSUM against it.

What is looked at is released already, so that nothing more is revealed. A figure y of window t is

    y = level + season of t + u + e,    u' = phi * u + sqrt(1 - phi^2) * tau * (0, 1),

with e the noise of the release, of known standard error, and u a deviation that goes on in part.
Candidates of (tau, phi, with or without seasons) run side by side through a Kalman filter, and are
weighed by how well they predicted: what is not known yet of the law widens predictions. By the
mixture's distribution function each figure becomes a residual, standard normal as long as the law
holds (Rosenblatt 1952, "Remarks on a multivariate transformation"). Two CUSUMs add residuals up
(Page 1954, "Continuous inspection schemes").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from mechanisms.compat.roots import brentq

Floats = NDArray[np.float64]

# Of the CUSUM, in standard deviations: best for lasting shifts by one. At one false alarm in 365
# windows it finds shifts by 2.1, 1.45 and 0.64 in 3, 5 and 16 windows (median).
SLACK = 0.5

_TAUS, _PHIS, _PRIOR = np.geomspace(0.05, 2, 27), (0.0, 0.3, 0.6, 0.9), (0.6, 0.2, 0.12, 0.08)
# Candidates are weighed by the windows up to two weeks ago: a shift that has just begun would soon
# count as the deviation that goes on in part (phi), and be found a third later.
_LAG = 14
_LEAST = 1e-15  # a probability: a residual of 7.9 is an alarm by itself


def learned(period: int) -> int:
    """Windows of which the law is learned before any alarm, of a season of so many."""
    return max(28, 3 * period)


def threshold(windows: float) -> float:
    """Where two CUSUMs have to stand for an alarm.

    Args:
        windows: between two false alarms, on average; 10 to 1e9.

    Returns:
        What one of two that start from 0 passes once in so many windows: each does once in twice
        as many (Kemp 1961, "The average run length of the cumulative sum chart").

    Raises:
        ValueError: windows are too few or too many.

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
        since: the place of the first one that is shifted, where that is likeliest.
        size: the mean deviation since then, in their unit; too large where it was hard to find.
        error: the standard error of that, for a shift that began then.
    """

    at: int
    since: int
    size: float
    error: float


class Filter:
    """Predictions of a figure from all figures before it.

    Args:
        first: (...) the first figures, of one series or of several with the same errors.
        scale: of deviations, in their unit: candidates of tau are 1/20 to 2 times as large.
        period: windows of a season; 1 of none.
        laws: (tau, phi, deviation of seasons, weight) of each candidate, if not those of above.
    """

    def __init__(
        self, first: Floats, scale: float, period: int, laws: Sequence[Sequence[float]] = ()
    ) -> None:
        known = laws or [
            (tau * scale, phi, season * scale, weight)
            for tau in _TAUS
            for phi, weight in zip(_PHIS, _PRIOR, strict=True)
            for season in ((0.0, 1.0) if period > 1 else (0.0,))
        ]
        self._tau, self._phi, season, weight = np.array(known, np.float64).T
        # u, the level, and a deviation of each place of a season.
        parts = [self._tau, np.full(season.size, 10 * scale), *[season] * period]
        self.covariance = np.stack(parts, 1)[:, :, None] ** 2 * np.eye(2 + period)
        self.state = np.zeros((*first.shape, *self._tau.shape, 2 + period))
        self.state[..., 1] = first[..., None]
        self.weights = np.log(weight) + np.zeros(self.state.shape[:-1])

    def predict(self, error: float, place: int, gap: float) -> None:
        """Go on to the next figure: its standard error, its place in the season, windows since."""
        kept, known = self._phi**gap, self.covariance
        new = self._tau**2 * (1 - kept**2)
        self.state[..., 0] *= kept
        known[:, 0, :] *= kept[:, None]
        known[:, :, 0] *= kept[:, None]
        known[:, 0, 0] += new
        seen = [0, 1, 2 + place]
        self._mean = self.state[..., seen].sum(-1)
        self._with = known[:, :, seen].sum(-1)
        # Never less than what is new of u: differences of large numbers may come out below 0.
        self._variance = np.maximum(self._with[:, seen].sum(-1), new) + error**2

    def residual(self, figure: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """How far figures (...) are from predictions, with (..., laws) logarithms of weights.

        Returns:
            (...) the standard normal residual; the predicted mean; the variance about it.
        """
        share = np.exp(weights - weights.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        score = (figure[..., None] - self._mean) / np.sqrt(self._variance)
        below, above = ((share * ndtr(side)).sum(-1) for side in (score, -score))
        residual = np.sign(above - below) * ndtri(np.maximum(np.minimum(below, above), _LEAST))
        mean = (share * self._mean).sum(-1)
        about = (share * (self._variance + (self._mean - mean[..., None]) ** 2)).sum(-1)
        return residual, mean, about

    def learn(self, figure: Floats) -> None:
        """Take in figures (...): the state of each candidate, and how well it has predicted."""
        miss = figure[..., None] - self._mean
        self.weights = self.weights - (miss**2 / self._variance + np.log(self._variance)) / 2
        gain = self._with / self._variance[:, None]
        self.state = self.state + miss[..., None] * gain
        self.covariance = self.covariance - gain[:, :, None] * self._with[:, None, :]


def watch(
    figures: Floats, errors: Floats, times: Floats, windows: float, period: int = 1
) -> list[Alarm]:
    """Look for lasting shifts.

    Args:
        figures: (n,) finite, the oldest first.
        errors: (n,) their standard errors; 0 where none is known: noise is deviation, too, then.
        times: (n,) whole numbers that increase: which window each is of; the season is by them.
        windows: between two false alarms, on average; 10 to 1e9.
        period: windows of a season, such as 7 of days; 1 of none.

    Returns:
        All alarms, each from what came before it; none of fewer figures than are `learned`. After
        one the level is learned anew.

    Raises:
        ValueError: windows are too few or too many, or times do not increase.
    """
    h, first = threshold(windows), learned(period)
    if not bool(np.all(np.diff(times) > 0)):
        raise ValueError("times must increase")
    if figures.size < first:
        return []
    least = 1e-4 * float(np.abs(figures[:first]).max()) or 1.0  # of figures that never changed
    scale = max(float(figures[:first].std()), float(errors[:first].max()), least)
    course = Filter(figures[0], scale, period)
    gaps, sums, began = np.diff(times, prepend=times[0]), [0.0, 0.0], [0, 0]
    weights, misses, alarms = [course.weights], [], list[Alarm]()
    for t, figure in enumerate(figures):
        course.predict(float(errors[t]), int(times[t]) % period, float(gaps[t]))
        residual, mean, about = map(float, course.residual(figure, weights[max(0, t - _LAG)]))
        misses.append((residual, float(figure) - mean, about))
        for side, sign in enumerate((1, -1) if t >= first else ()):
            sums[side] = max(0.0, sums[side] + sign * residual - SLACK)
            began[side] = began[side] if sums[side] else t + 1
        if max(sums) > h:
            alarms.append(_shift(t, misses[began[int(np.argmax(sums))] :]))
            # The level may be another one now: the next figures say which. This one teaches
            # nothing, for it may be of one bad day.
            course.covariance[:, 1, 1] += (2 * alarms[-1].size) ** 2
            sums, began = [0.0, 0.0], [t + 1, t + 1]
        else:
            course.learn(figure)
        weights.append(course.weights)
    return alarms


def _shift(at: int, misses: Sequence[tuple[float, float, float]]) -> Alarm:
    """An alarm from (residual, deviation, variance) of each figure since its CUSUM was 0.

    The shift began where it is likeliest that one of unknown size did (Hinkley 1971, "Inference
    about the change-point from cumulative sum tests").
    """
    residuals, deviations, variances = np.array(misses).T[:, ::-1]  # the newest first
    counts = np.arange(1, len(misses) + 1)
    n = int(counts[np.argmax(np.abs(np.cumsum(residuals)) / np.sqrt(counts))])
    size, error = float(deviations[:n].mean()), math.sqrt(float(variances[:n].sum())) / n
    return Alarm(at, at - n + 1, size, error)
