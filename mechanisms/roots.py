"""Roots of functions, by scipy; imported late, for `scipy.optimize` takes a fifth of a second."""

from __future__ import annotations

from collections.abc import Callable

_RTOL = 2.0**-50  # scipy takes nothing less


def brentq(
    f: Callable[[float], float], low: float, high: float, xtol: float = 2e-12, rtol: float = _RTOL
) -> float:
    """Where a continuous function crosses 0, by `scipy.optimize.brentq`.

    Args:
        f: of other signs at the two ends, or 0 at one.
        low: one end.
        high: the other.
        xtol, rtol: how far off the root may be: xtol + rtol * |root|.

    Raises:
        ValueError: the signs do not differ.

    >>> round(brentq(lambda x: x * x - 2, 0, 2), 9)
    1.414213562
    """
    from scipy.optimize import brentq as found

    return float(found(f, low, high, xtol=xtol, rtol=rtol))
