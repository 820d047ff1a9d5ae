"""Prime numbers, for hash families over prime fields."""

from __future__ import annotations

import math
from itertools import count


def is_prime(number: int) -> bool:
    """Whether a number is prime, by trial division: microseconds up to 10^9.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    if number < 4:
        return number >= 2
    if number % 2 == 0:
        return False
    # Hash ranges stay below 2^28, where a cleverer test would save nothing.
    return all(number % divisor for divisor in range(3, math.isqrt(number) + 1, 2))


def next_prime(number: int) -> int:
    """The least prime that is not below a number.

    >>> next_prime(8), next_prime(-3)
    (11, 2)
    """
    return next(n for n in count(max(number, 2)) if is_prime(n))


def previous_prime(number: int) -> int:
    """The greatest prime that is not above a number; 2 if there is none.

    >>> previous_prime(8), previous_prime(0)
    (7, 2)
    """
    return next((n for n in range(number, 2, -1) if is_prime(n)), 2)
