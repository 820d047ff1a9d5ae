"""How far liars can move a quotient of two averages, such as a mean of those who have a number."""

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats

HONEST = np.array([[-1.0, 1.0], [1.0, 1.0]])
"""What values at the ends of [-1, 1] add to a sum, and to a number of values."""

NOBODY = np.zeros((1, 2))
"""What is added by whoever has no value, or one of another group."""


def quotient_reach(averages: tuple[ArrayLike, ArrayLike], reports: Floats, share: float) -> Floats:
    """How far a quotient may be from what it were had a share of the reports been others.

    What liars change of the two averages lies among the mixtures of differences between two
    reports, times the share. A quotient with a positive denominator is monotone along every line,
    so over that set it is largest and least at a corner.

    Args:
        averages: the numerator and the denominator as they were published; of any one shape.
        reports: (k, 2) what one report adds to either, at the extremes: all that can be sent lies
            in their convex hull.
        share: of reports that are lies.

    Returns:
        Of the shape of the averages; infinite where so many liars can take the denominator to 0.

    >>> float(quotient_reach((0.2, 1.0), HONEST, 0.01).round(9))
    0.02
    >>> round(float(quotient_reach((0.1, 0.5), np.append(HONEST, NOBODY, axis=0), 0.01)), 4)
    0.04
    """
    above, below = (np.asarray(part, np.float64)[..., None] for part in averages)
    change = share * (reports[:, None] - reports).reshape(-1, 2)
    lowest = below + change[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs((above + change[:, 0]) / lowest - above / below).max(axis=-1)
    return np.asarray(np.where((lowest > 0).all(axis=-1), moved, np.inf))
