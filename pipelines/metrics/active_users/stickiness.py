"""The share of the active users of a span who were active in a shorter one, with its limits."""

from __future__ import annotations

from mechanisms.channel import Floats
from mechanisms.counters.activity import Figure
from mechanisms.counters.choose import NoisyCounters
from mechanisms.mean.fieller import RatioEstimate, quotients
from pipelines.metrics.counting.result import FigureError


def shares(
    design: NoisyCounters,
    part: Figure,
    whole: Figure,
    counts: Floats,
    numbers: Floats,
    confidence: float,
) -> RatioEstimate:
    """Of each number the share, and all shares that it does not refute.

    Args:
        design: of the counters.
        part: what the counts are of, counters of one level.
        whole: what the numbers are of: those counters and more.
        counts: (k,) unbiased.
        numbers: (k,) unbiased.
        confidence: of limits in [0, 1], of each share alone.
    """
    rest = FigureError.of_level(design, whole.level, len(whole.cells) - len(part.cells))
    within, all_ = (
        FigureError.of_level(design, one.level, len(one.cells)) for one in (part, whole)
    )
    # Where the share is m, the noise of count - m number is 1 - m of the part's less m of the
    # rest's. Its tails are heaviest at the ends, where it is of the fewest counters.
    far = max(one.far(confidence) for one in (within, rest))
    # Counts are whole, so noise goes in steps: half of one, where its deviation is the least.
    far += 0.5 * all_.sigma / (within.sigma * rest.sigma)
    # Whoever is in the part is in the whole: their noise is in both.
    return quotients(counts, numbers, within.sigma, all_.sigma, far, within.sigma**2)
