"""Numbers as people read them: to the digits that their error allows."""

from __future__ import annotations

import math

_GIANT = 1e18  # from which a number's exponent is read, and not its digits


def digits(value: float | None, error: float | None) -> str:
    """A number to the digits that its error allows: two of the error's.

    >>> digits(12345.678, 1.36), digits(-3.14159e9, 2e6), digits(0.0123456, 0.001)
    ('12,345.7', '-3,141,600,000', '0.0123')
    >>> digits(12345.678, math.inf), digits(-0.001, 0.2)
    ('12,345.7', '0.00')
    >>> digits(1.4e300, 2e299)
    '1.4e+300'
    """
    if value is None or error is None:
        return "unknown" if value is None else f"{value:,.6g}"
    if not (abs(value) < _GIANT and 0 < error < math.inf):
        return f"{value:,.6g}"
    places = 1 - math.floor(math.log10(error))
    if isinstance(value, int):
        return f"{round(value, min(places, 0)):,}"
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}"  # no 0 has a sign


def three_digits(number: float) -> str:
    """A number that is foretold, to three digits and without an exponent, if it is no giant.

    >>> three_digits(5463.2), three_digits(1.3579), three_digits(0.00041234), three_digits(1e12)
    ('5,460', '1.36', '0.000412', '1e+12')
    """
    return f"{float(f'{number:.3g}'):,.10g}"


def percent(share: float | None, error: float | None) -> str:
    """A share in percent, to the digits that its error allows.

    >>> percent(0.0512345, 0.00016), percent(None, 0.1)
    ('5.123', 'unknown')
    """
    return digits(*(None if number is None else 100 * number for number in (share, error)))


def between(lower: float | None, upper: float | None, error: float | None, times: float = 1) -> str:
    """An interval, whose end may be open where numbers were clipped; empty if nothing is known.

    >>> between(140.6, 145.3, 1.2), between(180, None, None), between(None, 0.25, 0.1, 100)
    ('140.6 to 145.3', '180 or more', '25 or less')
    """
    low, high = (
        "" if end is None else digits(times * end, None if error is None else times * error)
        for end in (lower, upper)
    )
    if low and high:
        return f"{low} to {high}"
    return f"{low} or more" if low else f"{high} or less" if high else ""


def spread(lower: float | None, upper: float | None) -> float | None:
    """What stands for a standard error where only an interval is known: a quarter of it.

    >>> spread(1.0, 3.0)
    0.5
    """
    return None if lower is None or upper is None or not upper > lower else (upper - lower) / 4
