"""Windows of two papers, made private: IM's, and DCT's with margins that no window reaches.

The window of least variance (`mechanisms.mean.widths`) is never worse.

The constants of IM, the improved mechanism, hold for any slack of its inner density.
"""

import math
from dataclasses import dataclass

import numpy as np

from mechanisms.channel import require_epsilon
from mechanisms.compat.roots import brentq
from mechanisms.mean.scalar import (
    LARGEST_ALPHABET,
    SMALL,
    SMALL_WITH_DELTA,
    require_cells,
    require_slack,
    rise,
)
from mechanisms.mean.widths import codes_of, moments
from mechanisms.mean.window import Window
from mechanisms.registry import register

_WIDEST_DCT = 4.0  # d beyond which the best alpha is not searched: four times the domain's half


@register(
    "im",
    task="mean",
    sends="the same by the improved mechanism, its delta claim corrected",
    source="Zhang, Zhu, Zhou, Yuan, J. Electronics and Information Technology 2023, corrected",
    small=SMALL + SMALL_WITH_DELTA,
)
def improved(epsilon: float, delta: float = 0.0, cells: int = 1024) -> Window:
    """IM, the improved mechanism, with the density slack that makes its delta claim true.

    Args:
        epsilon: privacy loss of one report, in nats; above 2 ln(1 + 4 delta).
        delta: the probability mass outside it, in [0, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism, which spends delta exactly.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zhang et al. 2023 (see `widths.noise`), Algorithm 1, corrected: its delta is added to a
        density, which shifts up to 39 times as much mass; here the slack is solved for.
    """
    require_improved(epsilon, delta)
    require_cells(cells)
    shape = improved_shape(epsilon, improved_slack(epsilon, delta))
    return Window(epsilon, cells, codes_of(shape.ratio, cells), delta)


@register(
    "dct",
    task="mean",
    sends="the same with a narrow window, made private",
    source="Zhu, Wang, Sun, J. Computer Research and Development, made private",
    small=SMALL,
)
def dct(epsilon: float, cells: int = 1024, alpha: float | None = 5.0) -> Window:
    """DCT made private: its range and its window, over a range that no longer shows the value.

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.
        alpha: the paper's parameter: the report spreads over d = 1 / (alpha epsilon) on either
            side of the value, half of it the window. None takes the d of least worst-case
            variance instead.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zhu, Wang, Sun, "A perturbation mechanism for classified transformation satisfying
        LDP", J. Computer Research and Development, Algorithm 3, corrected: as published the
        report is uniform on [v - d, v + d], which no finite epsilon bounds.
    """
    require_epsilon(epsilon)
    require_cells(cells)
    if alpha is None:
        margins = np.arange(1.0, max(2.0, _WIDEST_DCT * cells / 4))
        slope, spread = moments(epsilon, 0.0, cells, 2 * margins, margins)
        margin = 1 + int(np.argmin(spread + 1 / slope))
        return Window(epsilon, cells, 2 * margin, margin=margin)
    d = published_reach(epsilon, cells, alpha)
    return Window(epsilon, cells, codes_of(d / 2, cells), margin=codes_of(d / 4, cells))


def published_reach(epsilon: float, cells: int, alpha: float) -> float:
    """d = 1 / (alpha epsilon), how far DCT's report spreads; refused where that is too far."""
    require_epsilon(epsilon)
    require_cells(cells)
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha must be a positive, finite number, not {alpha}")
    farthest = LARGEST_ALPHABET / cells - 2
    if not alpha * epsilon * farthest >= 1:
        raise ValueError(
            f"epsilon must be at least {1 / (alpha * farthest):g} at alpha {alpha} and {cells} "
            f"cells, not {epsilon}: the range would have more than {LARGEST_ALPHABET} codes"
        )
    return 1 / (alpha * epsilon)


@dataclass(frozen=True)
class ImprovedShape:
    """IM's constants: a window of half-width reach - centre around `centre` times the value.

    Attributes:
        outer: q, the density outside the window.
        inner: p, the density inside it.
        centre: a, how far the window moves.
        reach: C, the end of the range.
    """

    outer: float
    inner: float
    centre: float
    reach: float

    @property
    def ratio(self) -> float:
        """m: the window's half-width over `centre`."""
        return (self.reach - self.centre) / self.centre

    @property
    def outside(self) -> float:
        """The length of -1's window outside of 1's: density slack times this is delta."""
        return 2 * min(self.reach - self.centre, self.centre)


def improved_shape(epsilon: float, slack: float) -> ImprovedShape:
    """IM's constants for a slack of the inner density: p = e^epsilon q + slack.

    Source: Zhang et al. 2023, eqs. of Algorithm 1, with the root in the form that does not cancel.
    """
    # q of the paper, with e^epsilon - 1 taken apart so that small epsilons do not cancel.
    s = 1 + rise(epsilon / 2)
    q = (rise(epsilon / 2) - 4 * slack) / (2 * s * (s + 1 + 4 * slack))
    p, contrast = s * s * q + slack, q * rise(epsilon) + slack
    centre = 2 * p / contrast / (1 + math.sqrt(max(0.0, 1 - 8 * q * p / contrast)))
    return ImprovedShape(q, p, centre, (1 + 2 * centre * contrast) / (2 * p))


def improved_slack(epsilon: float, delta: float) -> float:
    """tau, the density slack at which IM spends delta exactly: tau times `outside` is delta."""
    most = rise(epsilon / 2) / 4

    def gap(share: float) -> float:
        return share * most * improved_shape(epsilon, share * most).outside - delta

    # Where the whole slack is used no density is left outside of the window: the end of the range.
    return most * float(brentq(gap, 0.0, 1.0, xtol=1e-300)) if delta else 0.0


def require_improved(epsilon: float, delta: float) -> None:
    """Refuse what leaves nothing outside IM's window."""
    require_epsilon(epsilon)
    require_slack(delta)
    limit = 2 * math.log1p(4 * delta)
    if not epsilon > limit:
        raise ValueError(
            f"epsilon must exceed 2 ln(1 + 4 delta) = {limit:g} for the improved mechanism, not "
            f"{epsilon}; window_optimal has no such limit"
        )
