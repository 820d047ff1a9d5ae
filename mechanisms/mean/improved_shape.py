"""The constants of IM, the improved mechanism, for any slack of its inner density."""

import math
from dataclasses import dataclass

from mechanisms.channel import require_epsilon
from mechanisms.compat.roots import brentq
from mechanisms.mean.scalar import require_slack, rise


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
