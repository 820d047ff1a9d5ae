"""How many steps, how long, how smooth: chosen before anybody reports, from public numbers alone.

Under local privacy it is noise that decides. A user reports once, so all steps together add up n
noisy gradients whatever their number, and what noise leaves in the weights grows with the time that
descent is given, steps * rate: the mean loss gains about

    curvature * (mean |row|^2) * variance / n * time^2

while what is still to be learned shrinks with time. So the time is chosen for the noise to cost a
fixed share of the loss, and stops an ill-conditioned fit early, as a penalty would. The number of
steps matters little; it is large enough for momentum, which keeps the longest direction of the
rows stable at rates that also serve the short ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechanisms.channel import require_integer
from mechanisms.learning.objective import Objective
from mechanisms.vector.base import VectorMean

CLIP = 0.5  # of gradient coordinates, where rows lie in [-1, 1]
TYPICAL = 0.3  # the root mean square of a cut coordinate, in parts of the clip: most are near 0

_MOST_STEPS = 50  # each is a round of reports
_NOISE = 4.0  # variances of one report: the least group that a step is given
_SETTLING = 8.0  # times that momentum forgets within a run
_SHARE = 0.35  # of the loss of a model that knows nothing: what noise may cost
_SAFE = 2 / 3  # of the rate at which the longest possible row would no longer be stable


@dataclass(frozen=True)
class Schedule:
    """The steps of a run.

    Attributes:
        steps: T, how many.
        rate: how far a step goes along the smoothed gradient.
        momentum: beta: the smoothed gradient is (1 - beta) times the present one and beta times
            the smoothed one before.
        averaged: the share of steps, the last ones, whose weights are averaged.

    Raises:
        ValueError: one of them is out of range.

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods", USSR
        Computational Mathematics and Mathematical Physics 1964; Rakhlin, Shamir, Sridharan,
        "Making gradient descent optimal for strongly convex stochastic optimization", ICML 2012,
        for averages of the last steps.

    >>> Schedule(steps=30, rate=0.1).begin_average
    20
    """

    steps: int
    rate: float
    momentum: float = 0.0
    averaged: float = 1 / 3

    def __post_init__(self) -> None:
        require_integer("steps", self.steps)
        if not self.steps >= 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be a positive, finite number, not {self.rate}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), not {self.momentum}")
        if not 0 <= self.averaged <= 1:
            raise ValueError(f"averaged must lie in [0, 1], not {self.averaged}")

    @property
    def begin_average(self) -> int:
        """After how many steps averaging begins; one step is averaged at least."""
        return min(self.steps - 1, round(self.steps * (1 - self.averaged)))


def typical_variance(mechanism: VectorMean) -> float:
    """The variance of a coordinate of one report, where the gradient is as gradients are.

    Most of their coordinates are near 0, where mechanisms differ from what they do at worst.
    """
    return float(mechanism.variance(TYPICAL))


def plan_steps(n: int, mechanism: VectorMean) -> int:
    """As many steps as leave each group large enough to be heard, and no more than are of use.

    A group has 4 times as many users as the variance of a coordinate of one report, which grows as
    dimension / epsilon^2: a step then knows each coordinate to half of the clip.

    Args:
        n: how many users there are.
        mechanism: through which they report gradients.

    Returns:
        1 .. 50.

    >>> from mechanisms.vector.multi import multi_optimal
    >>> plan_steps(10_000, multi_optimal(1.0, 60)), plan_steps(1_000_000, multi_optimal(1.0, 60))
    (10, 50)
    """
    require_integer("n", n)
    if not n >= 1:
        raise ValueError(f"n must be at least 1, not {n}")
    return max(1, min(_MOST_STEPS, n, int(n / (_NOISE * typical_variance(mechanism)))))


def plan(
    objective: Objective,
    mechanism: VectorMean,
    n: int,
    longest: float | None = None,
    clip: float = CLIP,
    steps: int | None = None,
    rate: float | None = None,
) -> Schedule:
    """The schedule for a population.

    Args:
        objective: what is fitted.
        mechanism: through which users report gradients.
        n: how many users there are, or the fewest that there may be.
        longest: the most that the squares of a row's numbers add up to, as `Features.longest`; by
            default as many as there are inputs.
        clip: at which the coordinates of gradients are cut.
        steps: how many; planned, unless told.
        rate: planned, unless told.

    Returns:
        Steps whose time is sqrt(2 s n / (curvature * longest * clip^2 * variance)), s being what
        noise may cost, or shorter where the rate would exceed what is stable for any rows.

    Raises:
        ValueError: a number is out of range.
    """
    steps = plan_steps(n, mechanism) if steps is None else steps
    require_integer("steps", steps)
    if not 1 <= steps <= n:
        raise ValueError(f"steps must lie in 1 .. n = {n}: each needs a user; not {steps}")
    momentum = max(0.0, 1 - _SETTLING / steps)
    if rate is not None:
        return Schedule(steps, rate, momentum)
    squares = objective.loss.curvature * (objective.inputs if longest is None else longest)
    # Heavy balls are stable below 2 (1 + beta) / (1 - beta) over the curvature.
    stable = _SAFE * 2 * (1 + momentum) / (1 - momentum) / squares
    cost = _SHARE * objective.loss.ignorance
    time = math.sqrt(2 * cost * n / (squares * clip**2 * typical_variance(mechanism)))
    return Schedule(steps, min(stable, time / steps), momentum)
