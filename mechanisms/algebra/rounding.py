"""Real constants as exact rationals that err to a known side."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 60


def exponential_bounds(x: float) -> tuple[Fraction, Fraction]:
    """Rationals on either side of e^x, a part in 10^55 apart.

    `Decimal.exp` is correctly rounded (General Decimal Arithmetic specification, 1.70), so the
    true value is within a unit in the last of 60 digits; we leave five digits of room.

    Args:
        x: finite, |x| <= 10^5.

    Returns:
        (lower, upper) with lower < e^x < upper (equal to 1 at x = 0).

    Raises:
        ValueError: x is not finite or too large.

    >>> lower, upper = exponential_bounds(1.0)
    >>> float(lower) == float(upper) == math.e
    True
    """
    if not abs(x) <= 1e5:
        raise ValueError(f"e^x is computed for |x| <= 100000 only, not {x}")
    if x == 0:
        return Fraction(1), Fraction(1)
    with localcontext() as context:
        context.prec = _DIGITS
        # A double is a decimal exactly, so nothing but the exponential itself is rounded.
        value = Fraction(Decimal(x).exp())
    slack = value / 10 ** (_DIGITS - 5)
    return value - slack, value + slack


def ceiling(value: Fraction) -> int:
    """The least integer that is not below a rational."""
    return math.ceil(value)
