"""One binomial law, slow and right to forty digits: in decimals, fractions and large integers."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
ONE = 1 << 300
# Stirling's series; what follows is below 10^-39 from 2,000 on.
_SERIES = [(12, 1), (-360, 3), (1260, 5), (-1680, 7), (1188, 9)]


def _log_factorial(n: int) -> Decimal:
    x = Decimal(n)
    series = sum(1 / (c * x**power) for c, power in _SERIES)
    return x * x.ln() - x + (2 * _PI * x).ln() / 2 + series


def binomial_chance(n: int, chance: float, count: int) -> Decimal:
    """P(count), of at least 2,000 ones and as many zeros."""
    with localcontext(prec=70):
        p = Decimal(chance)
        ways = _log_factorial(n) - _log_factorial(count) - _log_factorial(n - count)
        return (ways + count * p.ln() + (n - count) * (1 - p).ln()).exp()


def gain_of_one(n: int, chance: float, count: int) -> Fraction:
    """P(count - 1) / P(count)."""
    p = Fraction(chance)
    return Fraction(count, n - count + 1) * (1 - p) / p


def relative_run(n: int, chance: float, first: int, size: int) -> list[int]:
    """P(count) / P(first) of so many counts from the first on, in units of 2^-300."""
    one, all_ = Fraction(chance).as_integer_ratio()
    weight, run = ONE, []
    for count in range(first, first + size):
        run.append(weight)
        weight = weight * (n - count) * one // ((count + 1) * (all_ - one))
    return run
