"""How wide a window should be: two answers from the literature, and the best one.

On a continuous range a window mechanism is known by the ratio m of the window's half-width to the
distance its centre moves; on N cells that is a width of m N codes.
"""

import math

import numpy as np

from mechanisms.channel import Floats, require_epsilon
from mechanisms.mean.scalar import (
    SMALL,
    SMALL_WITH_DELTA,
    require_cells,
    require_slack,
    rise,
)
from mechanisms.mean.window import Window
from mechanisms.registry import register

_LARGEST_WAVE = 100.0  # the square wave is then far narrower than any cell


@register(
    "pm",
    task="mean",
    sends="a number, likelier in a window around the value",
    source="Wang, Xiao, Yang et al., ICDE 2019",
    small=SMALL,
)
def piecewise(epsilon: float, cells: int = 1024) -> Window:
    """PM, the piecewise mechanism: m = e^(-epsilon/2).

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range.

    Source: Wang et al., "Collecting and analyzing multidimensional data with local differential
        privacy", ICDE 2019, Algorithm 2; also Zhu, Wang, Sun, J. Computer Research and
        Development, Algorithm 2, whose eq. 3 is misprinted: the denominator of p is
        2 e^(epsilon/2) + 2.
    """
    require_epsilon(epsilon)
    require_cells(cells)
    return Window(epsilon, cells, codes_of(math.exp(-epsilon / 2), cells))


@register(
    "nm",
    task="mean",
    sends="the same by a square wave, its delta claim corrected",
    source="Zhang, Zhu, Zhou, Yuan, J. Electronics and Information Technology 2023, corrected",
    # At local epsilons of 0.5 to 6 and in shuffled batches, cumulative shares estimated from the
    # square wave were the nearest to the truth on smooth and uniform data. Of spikes others are
    # at times nearer, by up to a half. See docs/distributions.md.
    distributions=0,
    small=SMALL + SMALL_WITH_DELTA,
)
def noise(epsilon: float, delta: float = 0.0, cells: int = 1024) -> Window:
    """NM, the square wave with delta: m = 2 b. Its counts also suit expectation maximisation.

    Args:
        epsilon: privacy loss of one report, in nats; above 4 delta.
        delta: the probability mass outside it, in [0, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism, which spends delta exactly.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zhang, Zhu, Zhou, Yuan, "Mean estimation mechanisms under (epsilon, delta)-local
        differential privacy", J. Electronics and Information Technology 2023, Algorithm 2,
        corrected: its delta is a density, of which the report reveals only 2 b delta; and its b
        has a pole near epsilon = 2 delta. The half-width here is the square wave's own.
    """
    require_epsilon(epsilon)
    require_slack(delta)
    require_cells(cells)
    if not epsilon > 4 * delta:
        raise ValueError(
            f"epsilon must exceed 4 delta = {4 * delta:g} for the noise mechanism, not {epsilon}; "
            "window_optimal has no such limit"
        )
    return Window(epsilon, cells, codes_of(2 * square_wave_width(epsilon), cells), delta)


@register(
    "window_optimal",
    task="mean",
    sends="the same by the best window",
    source="the best width of a piecewise mechanism, by trying every one",
    searched=True,
    small=SMALL + SMALL_WITH_DELTA,
)
def window_optimal(epsilon: float, delta: float = 0.0, cells: int = 1024) -> Window:
    """The window of least worst-case variance, by trying every width up to the grid's.

    Args:
        epsilon: privacy loss of one report, in nats.
        delta: the probability mass outside it, in [0, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism, which spends delta exactly.

    Raises:
        ValueError: a parameter is out of range.
    """
    require_epsilon(epsilon)
    require_slack(delta)
    require_cells(cells)
    # A window wider than the grid never pays: all widths that can be best are tried at once.
    widths = np.arange(1.0, cells + 1)
    slope, spread = moments(epsilon, delta, cells, widths)
    return Window(epsilon, cells, 1 + int(np.argmin(spread + 1 / slope)), delta)


def square_wave_width(epsilon: float) -> float:
    """b, the half-width that tells most about a value of [0, 1]; in (0, 1/2).

    Source: Li et al., "Estimating numerical distributions under local differential privacy",
        SIGMOD 2020, section 5.3; written so that small epsilons do not cancel.
    """
    if epsilon < 1e-5:
        return 0.5 - epsilon / 3
    epsilon = min(epsilon, _LARGEST_WAVE)
    growth = math.expm1(epsilon)
    curve = growth - epsilon
    return (epsilon * growth - curve) / (2 * (1 + growth) * curve)


def moments(
    epsilon: float, delta: float, cells: int, widths: Floats, margins: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """What windows of many widths come to: (slope, spread) of their `WindowLaw`, in doubles.

    The variance of a value x on the grid is spread + x^2 (1 / slope - 1).
    """
    rest = cells + 2 * np.asarray(margins)
    # As `WindowLaw.within`, in doubles: what is chosen by it is built from exact integers after.
    overlap, codes = np.minimum(widths, cells), widths + rest
    contrast = (rise(epsilon) * overlap + delta * codes) / (overlap - delta * widths)
    total = widths * contrast + codes
    slope = widths * contrast / total
    squares = contrast / total * (widths**3 - widths) + (codes**3 - codes) / total
    return slope, squares / 3 / (cells * slope) ** 2


def codes_of(share: float, cells: int) -> int:
    """A length in units of the grid, in codes; at least one."""
    return max(1, round(share * cells))
