"""What is known of a private run before anybody reports: whether noise will drown the gradient."""

import math

from mechanisms.papers.learning.local_steps import LocalSteps

# Of the clip: noise of the whole run beyond which, of what there was to learn about tables of
# people, four tenths at most were learned, and often less than nothing.
_DROWNED = 1 / 16


def caution(steps: LocalSteps, n: int) -> str | None:
    """What to tell, before anything is read, where noise will drown the gradient.

    Args:
        steps: what is done, at the scale that targets usually have.
        n: how many users report gradients.

    Returns:
        One line with the predicted noise, and what would help; None if all is well.
    """
    group = max(1, n // steps.schedule.steps)
    one_group, whole, clip = steps.predicted_noise(group), steps.predicted_noise(n), steps.clip
    if whole <= clip * _DROWNED and one_group <= clip:
        return None
    line = (
        f"noise drowns the gradient: its standard deviation is {one_group:.3g} per coordinate of "
        f"the mean of a group of {group} users, where no coordinate exceeds {clip:g}"
    )
    if whole <= clip * _DROWNED:
        return f"{line}; use fewer steps than {steps.schedule.steps}"
    needed = math.ceil(n * (whole / (clip * _DROWNED)) ** 2)
    return (
        f"{line}, and {whole:.3g} over all {n} users; use a larger epsilon, fewer attributes, "
        f"or some {needed:.2g} users"
    )
