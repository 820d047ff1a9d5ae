"""How many dummies the papers' closed forms ask for: inverses of their bounds, with their ranges.

As in `published`, nothing but a comparison rests on them; they are loose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mechanisms.channel import require_epsilon
from mechanisms.privacy.binomial_sums import seldom_below
from mechanisms.privacy.divergence import require_batch, require_delta

_MISSED = 1e-3  # of delta: for sending fewer dummies than counted on


def puredump_messages(epsilon: float, delta: float, bins: int) -> int:
    """How many uniform messages in a batch meet a target by pureDUMP's bound.

    Args:
        epsilon: of the batch, in (0, 1].
        delta: in (0, 0.2907].
        bins: d.

    Returns:
        The least S with sqrt(14 d ln(2/delta) / (S - 1)) <= epsilon.

    Raises:
        ValueError: an argument is outside the range in which the bound is proven.

    Source: Li, Liu, Ren et al., "Privacy enhancement via dummy points in the shuffle model", IEEE
        TDSC 2023, solved for the dummies; the constant is quoted from later work, the original was
        not at hand.
    """
    require_epsilon(epsilon)
    if not epsilon <= 1:
        raise ValueError(f"DUMP's published bound is proven for epsilon up to 1, not {epsilon}")
    require_delta(delta)
    if not delta <= 0.2907:
        raise ValueError(f"DUMP's published bound is proven for delta up to 0.2907, not {delta}")
    return math.ceil(14 * bins * math.log(2 / delta) / epsilon**2) + 1


def puredump_dummies(epsilon: float, delta: float, bins: int, users: int) -> tuple[int, float]:
    """Uniform dummies a user by pureDUMP's bound.

    Args:
        epsilon: of the batch, in (0, 1].
        delta: in (0, 0.2907].
        bins: d.
        users: how many send dummies.

    Returns:
        (whole, chance): every user sends `whole`, and one more with that chance. The number that
        the bound asks for is missed with probability delta / 1000, for which it is held to the
        rest of delta.

    Raises:
        ValueError: an argument is outside the range in which the bound is proven.
    """
    needed = puredump_messages(epsilon, delta * (1 - _MISSED), bins)

    def surely(whole: int, chance: float) -> int:
        return users * whole + seldom_below(users, chance, delta * _MISSED)

    return _fewest(surely, needed, users)


def mixdump_dummies(
    epsilon: float, delta: float, bins: int, users: int, miss: float
) -> tuple[int, float]:
    """Uniform dummies a user by the bound for pureDUMP, other users' lies included (mixDUMP).

    A report that is wrong with some probability shows no more than a true one, and every other
    user's report is a uniform message with the blanket's probability d q.

    Args:
        epsilon: of the batch, in (0, 1].
        delta: in (0, 0.2907].
        bins: d.
        users: how many send dummies and answer by k-ary response.
        miss: q, P(a report names a given wrong bin).

    Returns:
        (whole, chance), as `puredump_dummies`.

    Raises:
        ValueError: an argument is outside the range in which the bound is proven.

    Source: the dummy blanket of Li, Liu, Ren et al., "Privacy enhancement via dummy points in the
        shuffle model", IEEE TDSC 2023, with the privacy blanket of Balle, Bell, Gascon, Nissim,
        CRYPTO 2019, section 5.1, put together here: the paper's own formula was not at hand.
    """
    require_batch(users)
    needed = puredump_messages(epsilon, delta * (1 - 2 * _MISSED), bins)
    lies = seldom_below(users - 1, bins * miss, delta * _MISSED)

    def surely(whole: int, chance: float) -> int:
        return lies + users * whole + seldom_below(users, chance, delta * _MISSED)

    return _fewest(surely, needed, users)


def _fewest(surely: Callable[[int, float], int], needed: int, users: int) -> tuple[int, float]:
    """The least (whole, chance) that surely makes as many messages as are needed."""
    missing = needed - surely(0, 0.0)
    if not missing > 0:
        return 0, 0.0
    whole = (missing - 1) // users
    low, high = 0.0, 1.0  # chance 1 is one whole more
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if surely(whole, middle) >= needed else (middle, high)
    return (whole, high) if high < 1 else (whole + 1, 0.0)
