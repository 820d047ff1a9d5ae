"""How many steps, how long, how smooth: chosen before anybody reports, from public numbers alone.

Under local privacy it is noise that decides. A user reports once, so all steps together add up n
noisy gradients whatever their number, and what noise leaves in the weights grows with the time that
descent is given, steps * rate: the mean loss gains about

    curvature * (mean |row|^2) * variance / n * time^2

while what is still to be learned shrinks with time. Where noise is moderate, the time is chosen for
it to cost a fixed share of the loss, and stops an ill-conditioned fit early, as a penalty would.
Where it is strong, only the first descent pays, whose gain grows like time: the time is then
shorter still, so that what noise costs vanishes where nothing can be learned. Constants, through
which a model says the same of everybody, are few and decide most, so their weights go further.
The number of steps matters little; it is large enough for momentum, which keeps the longest
direction of the rows stable at rates that also serve the short ones.

CLIP, TYPICAL, the share and the lead were chosen on the tables that
`docs/appendix/reproduction-training.md` then shows: on others they may be less apt.
"""

import math
from dataclasses import dataclass

from mechanisms.channel import require_integer
from mechanisms.learning.objective import Objective
from mechanisms.vector.base import VectorMean

CLIP = 0.5  # of gradient coordinates, where rows lie in [-1, 1]
SPREAD = 0.25  # standard deviation of the targets in those tables, or thereabouts
# The root mean square of a cut coordinate, in parts of the clip. In all tables that were tried it
# was 0.23 .. 0.4 over all coordinates alike, and 0.4 .. 0.6 with weights by how much the loss
# bends; where it bends most, much of the noise is forgotten again.
TYPICAL = 0.4

_MOST_STEPS = 50  # each is a round of reports
_NOISE = 4.0  # variances of one report: the least group that a step is given
_SETTLING = 8.0  # times that momentum forgets within a run
_SHARE = 0.4  # of the loss of a model that knows nothing: what noise may cost
_LEAD = 4.0  # times as far as others go the weights of constants, in models of one layer
_SAFE = 2 / 3  # of the rate at which the longest possible row would no longer be stable


@dataclass(frozen=True)
class StepSchedule:
    """The steps of a run.

    Attributes:
        steps: T, how many.
        rate: how far a step goes along the smoothed gradient.
        momentum: beta: the smoothed gradient is (1 - beta) times the present one and beta times
            the smoothed one before.
        averaged: the share of steps, the last ones, whose weights are averaged.
        lead: how many times as far the weights of constants go.

    Raises:
        ValueError: one of them is out of range.

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods", USSR
        Computational Mathematics and Mathematical Physics 1964; Rakhlin, Shamir, Sridharan,
        "Making gradient descent optimal for strongly convex stochastic optimization", ICML 2012,
        for averages of the last steps.

    >>> StepSchedule(steps=30, rate=0.1).begin_average
    20
    """

    steps: int
    rate: float
    momentum: float = 0.0
    averaged: float = 1 / 3
    lead: float = 1.0

    def __post_init__(self) -> None:
        require_integer("steps", self.steps, 1)
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be a positive, finite number, not {self.rate}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), not {self.momentum}")
        if not 0 <= self.averaged <= 1:
            raise ValueError(f"averaged must lie in [0, 1], not {self.averaged}")
        if not 0 < self.lead < math.inf:
            raise ValueError(f"lead must be a positive, finite number, not {self.lead}")

    @property
    def begin_average(self) -> int:
        """After how many steps averaging begins; one step is averaged at least."""
        return min(self.steps - 1, round(self.steps * (1 - self.averaged)))


def typical_variance(mechanism: VectorMean) -> float:
    """The variance of a coordinate of one report, where the gradient is as gradients are.

    Most of their coordinates are near 0, where mechanisms differ from what they do at worst. The
    mean loss suffers from the noise of a coordinate as much as it bends along it, which is most
    along those that are not 0 for most rows.
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
    require_integer("n", n, 1)
    return max(1, min(_MOST_STEPS, n, int(n / (_NOISE * typical_variance(mechanism)))))


def plan(
    objective: Objective,
    mechanism: VectorMean,
    n: int,
    longest: float | None = None,
    clip: float = CLIP,
    steps: int | None = None,
    rate: float | None = None,
) -> StepSchedule:
    """The schedule for a population.

    Args:
        objective: what is fitted.
        mechanism: through which users report gradients.
        n: how many users there are, or the fewest that there may be.
        longest: the most that the squares of a row's numbers add up to, as `Features.longest`; by
            default as many as there are inputs.
        clip: at which the coordinates of gradients are cut.
        steps: how many; planned if it is None.
        rate: planned if it is None.

    Returns:
        Steps whose time is that of `best_time`, or is shorter where the rate would exceed what is
        stable for any rows.

    Raises:
        ValueError: a number is out of range.
    """
    steps = plan_steps(n, mechanism) if steps is None else steps
    require_integer("steps", steps)
    if not 1 <= steps <= n:
        raise ValueError(f"steps must lie in 1 .. n = {n}: each needs a user; not {steps}")
    # Momentum that forgot more slowly would still carry the start when the run is over.
    momentum = max(0.0, 1 - _SETTLING / steps)
    if rate is not None:
        return StepSchedule(steps, rate, momentum)
    curvature, length = objective.loss.curvature, _length(objective, longest)
    # What hidden layers add to each unit is no such constant.
    lead = _LEAD if len(objective.shapes) == 1 else 1.0
    # Heavy balls are stable below 2 (1 + beta) / (1 - beta) over the curvature.
    bend = curvature * (length - 1 + lead)
    stable = _SAFE * 2 * (1 + momentum) / (1 - momentum) / bend
    time = best_time(*_noise(objective, mechanism, n, length, clip))
    # The time is what matters; more steps cut it finer, as far as the rate stays stable.
    return StepSchedule(steps, min(stable, time / steps), momentum, lead=lead)


def best_time(cost: float, ignorance: float, curvature: float) -> float:
    """How long to descend, in steps times rate.

    Args:
        cost: what noise costs the mean loss, over the square of the time.
        ignorance: the loss of a model that knows nothing.
        curvature: of the loss.

    Returns:
        Half the harmonic mean of two times: that at which noise has cost its share, and, where
        noise is strong, that up to which a descent at the speed of the beginning outweighs it.

    >>> round(best_time(1e-6, 1.0, 2.0)), round(best_time(100.0, 1.0, 2.0), 3)
    (632, 0.009)
    """
    moderate, strong = _times(cost, ignorance, curvature)
    return 1 / (1 / moderate + 1 / strong)


def hurry(
    objective: Objective,
    mechanism: VectorMean,
    n: int,
    longest: float | None = None,
    clip: float = CLIP,
) -> float:
    """How strong noise is, for a descent whose time is `best_time`.

    Args:
        objective: what is fitted.
        mechanism: through which users report gradients.
        n: how many they are.
        longest: as for `plan`.
        clip: as for `plan`.

    Returns:
        In (0, 1): by which part the descent is shorter than it would be if only the fixed share
        of the loss had to be kept. Next to 1, it ends before it has found much.
    """
    length = _length(objective, longest)
    moderate, strong = _times(*_noise(objective, mechanism, n, length, clip))
    return moderate / (moderate + strong)


def _length(objective: Objective, longest: float | None) -> float:
    """The most that the squares of a row's numbers add up to."""
    return objective.inputs if longest is None else longest


def _noise(
    objective: Objective, mechanism: VectorMean, n: int, length: float, clip: float
) -> tuple[float, float, float]:
    """What noise costs over the square of the time; the loss of ignorance; the curvature."""
    loss = objective.loss
    cost = loss.curvature / 2 * length * clip**2 * typical_variance(mechanism) / n
    return cost, loss.ignorance, loss.curvature


def _times(cost: float, ignorance: float, curvature: float) -> tuple[float, float]:
    """How long to descend where noise is moderate, and where it is strong."""
    return math.sqrt(_SHARE * ignorance / cost), ignorance * curvature / 2 / cost
