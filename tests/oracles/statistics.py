"""Slow, obvious versions of what the mechanisms compute, and the arithmetic of powerful tests."""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from mechanisms.algebra.finite_field import irreducible

FALSE_ALARM = 1e-9  # of one statistical test that ought to pass
MISS = 1e-9  # of one statistical test that ought to fail


def digits(value: int, base: int, length: int) -> list[int]:
    """Base-p digits, lowest first."""
    return [(value // base**k) % base for k in range(length)]


def times(a: int, b: int, q: int) -> int:
    """A product in GF(q): mod q for a prime; for 2^k, of polynomials over GF(2)."""
    if q & (q - 1):
        return a * b % q
    if q == 2:
        return a & b
    modulus, total = irreducible(q.bit_length() - 1), 0
    while b:
        total ^= a if b & 1 else 0
        a, b = a << 1, b >> 1
        a ^= modulus if a >= q else 0
    return total


def forms(q: int, t: int) -> list[list[int]]:
    """One linear form for each point of the projective space, in the order of the points.

    With a digit more, point k of t - 1 digits becomes points k q + y with the new digit -y; the
    last point has the new digit alone.
    """
    if not t:
        return []
    negative = (lambda y: -y % q) if q & (q - 1) else (lambda y: y)
    longer = [[*form, negative(y)] for form in forms(q, t - 1) for y in range(q)]
    return [*longer, [0] * (t - 1) + [1]]


def support_by_brute_force(messages, q: int, t: int, domain_size: int) -> np.ndarray:
    """For each value, the number of reports (a, y) with <a, value> = y in GF(q)."""
    all_forms = np.array(forms(q, t))
    products = np.array([[times(a, b, q) for b in range(q)] for a in range(q)])
    a, y = all_forms[np.asarray(messages) // q], np.asarray(messages) % q
    values = np.array([digits(v, q, t) for v in range(domain_size)])
    support = np.zeros(domain_size, np.int64)
    for start in range(0, len(a), 256):
        terms = products[a[start : start + 256, None], values]
        hashed = terms.sum(-1) % q if q & (q - 1) else np.bitwise_xor.reduce(terms, axis=-1)
        support += (hashed == y[start : start + 256, None]).sum(axis=0)
    return support


def simplex_projection(vector) -> np.ndarray:
    """Projection on the simplex by bisection on the shift, from its optimality conditions."""
    v = np.asarray(vector, float)
    shift = optimize.brentq(
        lambda s: np.maximum(v - s, 0).sum() - 1, v.min() - 1.5, v.max(), xtol=1e-15, maxiter=1000
    )
    return np.maximum(v - shift, 0)


def tilted(law: np.ndarray) -> np.ndarray:
    """A distribution 30 % off: every second possible outcome is 1.3 times as likely as it was."""
    weights = np.array(law, float)
    weights[np.flatnonzero(weights)[::2]] *= 1.3
    return weights / weights.sum()


def sample_size(law: np.ndarray, other: np.ndarray) -> int:
    """How many draws let a chi-square test tell `other` from `law` at both error rates.

    Under `other` the statistic is about noncentral chi-square with noncentrality n times the
    chi-square distance; n is also at least what makes the approximation good in every cell.
    """
    law, other = law[law > 0], other[law > 0]
    freedom = len(law) - 1
    threshold = stats.chi2.isf(FALSE_ALARM, freedom)
    distance = float(((other - law) ** 2 / law).sum())
    needed = optimize.brentq(
        lambda lam: stats.ncx2.cdf(threshold, freedom, lam) - MISS, 1e-3, 1e6 + 100 * freedom
    )
    return int(max(1.1 * needed / distance, 100 / law.min())) + 1


def follows(counts: np.ndarray, law: np.ndarray) -> bool:
    """Whether counts could come from a law, by Pearson's chi-square test at FALSE_ALARM."""
    counts, law = np.asarray(counts, float), np.asarray(law, float)
    if counts[law == 0].any():
        return False
    counts, law = counts[law > 0], law[law > 0]
    if len(law) == 1:
        return True
    expected = law * counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic < float(stats.chi2.isf(FALSE_ALARM, len(law) - 1))


def zipf(domain_size: int, exponent: float = 1.2) -> np.ndarray:
    """Zipf frequencies."""
    weights = 1 / np.arange(1, domain_size + 1) ** exponent
    return weights / weights.sum()


def population(frequencies: np.ndarray, n: int) -> np.ndarray:
    """n cells in proportion to frequencies, as exactly as integers allow."""
    counts = np.floor(frequencies * n).astype(int)
    counts[0] += n - counts.sum()
    return np.repeat(np.arange(len(frequencies)), counts)
