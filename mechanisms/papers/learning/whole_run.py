"""All of a private run, from public numbers alone: its steps, and whether it has an opening.

The stronger noise is, the sooner a descent ends, and the nearer to the mean its constant therefore
begins; but never nearer than halfway, for what goes with the constant is learned on the way. That,
and how fast, was chosen on the tables that `docs/appendix/reproduction-training.md` shows.
"""

from dataclasses import replace

from mechanisms.learning.objective import Objective
from mechanisms.papers.learning.local_steps import LocalSteps
from mechanisms.papers.learning.opening import Opening, opens
from mechanisms.papers.learning.schedule import CLIP, hurry, plan, plan_steps
from mechanisms.vector.base import CubeMean, VectorMean

_HALFWAY = 0.5  # of the way to the mean: as near as a descent begins
_HASTE = 1.5  # times its `hurry`: how much of the way that is


def plan_run(
    objective: Objective,
    mechanism: VectorMean,
    of_targets: CubeMean | None,
    n: int,
    longest: float | None = None,
    clip: float | None = None,
    steps: int | None = None,
    rate: float | None = None,
) -> LocalSteps:
    """What users and collector do, groups being equal.

    Args:
        objective: what is fitted.
        mechanism: through which users report gradients.
        of_targets: through which those of an opening report, for rows of 2 numbers; None for no
            opening.
        n: how many users there are, or the fewest that there may be.
        longest: the most that the squares of a row's numbers add up to; see `schedule.plan`.
        clip: at which the coordinates of gradients are cut; None to let the opening choose, or to
            cut as usual where there is none.
        steps: how many gradients' steps; planned if it is None.
        rate: planned if it is None.

    Returns:
        The run. If it has an opening, one group in steps + 1 is that.

    Raises:
        ValueError: a number is out of range.

    >>> from mechanisms.papers.learning.gradient_reports import gradient_mechanism
    >>> from mechanisms.learning.objectives import SquaredError
    >>> of_targets = gradient_mechanism(1.0, 2)
    >>> run = plan_run(SquaredError(9), gradient_mechanism(1.0, 9), of_targets, n=51_000)
    >>> run.schedule.steps, run.groups, round(run.opening.trust, 2), round(run.schedule.lead, 1)
    (50, 51, 0.14, 3.1)
    """
    steps = plan_steps(n, mechanism) if steps is None else steps
    cut = CLIP if clip is None else clip
    if of_targets is None or clip is not None or not opens(objective, steps):
        schedule = plan(objective, mechanism, n, longest, cut, steps, rate)
        return LocalSteps(objective, mechanism, schedule, cut)
    # The opening takes one group of equal size, whose users report no gradient.
    of_steps = n * steps // (steps + 1)
    schedule = plan(objective, mechanism, of_steps, longest, cut, steps, rate)
    trust = min(_HALFWAY, _HASTE * hurry(objective, mechanism, of_steps, longest, cut))
    # A constant that begins halfway need not go further than the others do.
    lead = schedule.lead - (schedule.lead - 1) * trust / _HALFWAY
    opening = Opening(of_targets, trust)
    return LocalSteps(objective, mechanism, replace(schedule, lead=lead), cut, opening)
