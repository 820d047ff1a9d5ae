"""How many of a batch's users a guarantee counts on, where some may not follow the protocol.

Whoever does not may tell an attacker what was sent in their name, or send what the attacker likes.
Their messages are then known, and can be taken out of the batch by whoever looks at it: what is
left is a batch of those who follow the protocol, and it is all that hides a user.
"""

import math


def require_share(honest_share: float) -> None:
    """Refuse a share of users that is none, or more than all (NaN included)."""
    if not 0 < honest_share <= 1:
        raise ValueError(f"honest_share must lie in (0, 1], not {honest_share}")


def crowd(n: int, honest_share: float) -> int:
    """Of how many reports the batch is that hides a user: the user's own and those counted on.

    Args:
        n: how many users report, at least 1.
        honest_share: of the others, how many follow the protocol at the least; in (0, 1].

    >>> crowd(10_000, 0.5), crowd(10_000, 1.0), crowd(1, 0.5)
    (5000, 10000, 1)
    """
    # Rounded down: no user is counted on who need not be there. The protected user is, for whoever
    # does not follow the protocol is promised nothing.
    return math.floor(honest_share * (n - 1)) + 1


def least_users(counted: int, honest_share: float) -> int:
    """The least number of users of whom so many are counted on.

    Args:
        counted: at least 1.
        honest_share: as in `crowd`.

    >>> least_users(5000, 0.5), crowd(9999, 0.5), crowd(9998, 0.5)
    (9999, 5000, 4999)
    """
    # Division rounds either way, so the search starts below and ends where `crowd` itself agrees.
    n = max(1, math.ceil((counted - 1) / honest_share) - 1)
    while crowd(n, honest_share) < counted:
        n += 1
    return n


def in_words(n: int, honest_share: float) -> str:
    """Who is counted on, for a statement that says how a guarantee is known."""
    if honest_share == 1:
        return "every report of the batch counts as randomised"
    return f"it holds even if only {crowd(n, honest_share):,} of {n:,} users follow the protocol"
