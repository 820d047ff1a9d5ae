"""The papers' closed forms, under their own names: valid in a range that is checked, and loose.

Nothing that hushbeam publishes rests on them; the exact accountant is in `amplification`.

How many dummies the papers' closed forms ask for: inverses of their bounds, with their ranges.

As in `published`, nothing but a comparison rests on them; they are loose.
"""

import math
from collections.abc import Callable

from mechanisms.channel import require_epsilon
from mechanisms.privacy.binomial_edges import seldom_below
from mechanisms.privacy.divergence import require_batch, require_delta

_MISSED = 1e-3  # of delta: for sending fewer dummies than counted on


def _require_shuffled(delta: float, n: int) -> None:
    """Refuse a delta or a batch size that means nothing in the shuffle model (NaN included)."""
    if not 0 < delta < 1:
        raise ValueError(
            f"delta must lie strictly between 0 and 1 in the shuffle model, not {delta}"
        )
    if not n >= 2:
        raise ValueError(f"a shuffled batch needs at least 2 reports, not {n}")


def theorem_1_epsilon(epsilon_local: float, hash_range: int, n: int, delta: float) -> float:
    """HP-SDP's Theorem 1: the shuffled epsilon of n SRR reports.

    Args:
        epsilon_local: of one report, in nats.
        hash_range: g, the number of symbols (d for k-ary response).
        n: how many reports are shuffled.
        delta: in (0, 1).

    Returns:
        sqrt(14 ln(2/delta) (e^epsilon_local + g - 1) / (n - 1)).

    Raises:
        ValueError: the result is outside the range in which the theorem is proven.

    Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of
        Software 2022, Theorem 1, after Balle, Bell, Gascon, Nissim, "The privacy blanket of the
        shuffle model", CRYPTO 2019, Theorem 3.1: epsilon <= 1, blanket >= 27 g / ((n-1) epsilon).
    """
    require_epsilon(epsilon_local)
    _require_shuffled(delta, n)
    odds = math.exp(epsilon_local) + hash_range - 1
    epsilon = math.sqrt(14 * math.log(2 / delta) * odds / (n - 1))
    if not epsilon <= 1:
        raise ValueError(
            f"Theorem 1 is proven for epsilon <= 1 and gives {epsilon:.3g} here; "
            "more reports or a smaller epsilon_local bring it into range"
        )
    if not hash_range / odds >= 27 * hash_range / ((n - 1) * epsilon):
        raise ValueError("Theorem 1's blanket condition fails: delta is too close to 1")
    return epsilon


def theorem_1_budget(epsilon: float, n: int, delta: float) -> float:
    """e^epsilon_local + g - 1, the total odds that Theorem 1 allows for a target (its inverse).

    Args:
        epsilon: the shuffled target; above 1 the theorem is used at 1, where its range ends.
        n: the least number of reports.
        delta: in (0, 1).
    """
    require_epsilon(epsilon)
    _require_shuffled(delta, n)
    return (n - 1) * min(epsilon, 1.0) ** 2 / (14 * math.log(2 / delta))


def theorem_1_local_epsilon(epsilon: float, n: int, delta: float, hash_range: int) -> float | None:
    """The largest epsilon_local for which Theorem 1 reaches a target, or None if none does.

    The returned value meets the target when put back into the theorem.
    """
    odds = theorem_1_budget(epsilon, n, delta) - hash_range + 1
    if not odds > 1:
        return None
    # One part in 10^12 down: far more than rounding, far less than anyone can measure.
    epsilon_local = math.log(odds) * (1 - 1e-12)
    try:
        reached = theorem_1_epsilon(epsilon_local, hash_range, n, delta)
    except ValueError:
        return None
    return epsilon_local if reached <= epsilon else None


def theorem_1_hash_range(epsilon: float, n: int, delta: float) -> int:
    """g = (m + 2)/3 rounded, the range with the least error for rare values under Theorem 1."""
    return max(2, round((theorem_1_budget(epsilon, n, delta) + 2) / 3))


def aue_noise(epsilon: float, delta: float, n: int) -> float:
    """1 - p of AUE: how often a user leaves a bucket's extra message out, by the paper's bound.

    Args:
        epsilon: of the whole histogram, at most 2.
        delta: of the whole histogram, in (0, 1).
        n: how many users report.

    Returns:
        200 ln(4/delta) / (epsilon^2 n), for which each of the two changed buckets is
        (epsilon/2, delta/2)-private.

    Raises:
        ValueError: there are too few users for the bound.

    Source: Balcer, Cheu, "Separating local and shuffled differential privacy via histograms",
        ITC 2020.
    """
    require_epsilon(epsilon)
    _require_shuffled(delta, n)
    least = 400 * math.log(4 / delta) / epsilon**2
    if not (epsilon <= 2 and n >= least):
        raise ValueError(
            f"AUE's bound is proven for epsilon <= 2 and n >= {math.ceil(least):,} here, not {n:,}"
        )
    return 200 * math.log(4 / delta) / (epsilon**2 * n)


def boolean_sum_epsilon(coins: float, delta: float, n: int) -> float:
    """epsilon of n shuffled bits, of which lambda are coins, by DDPS's bound; or a ValueError.

    Source: Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed differential privacy via shuffling",
        EUROCRYPT 2019, the protocol for Boolean sums: lambda in [14 ln(4/delta), n]. The original
        was not at hand; tests hold the formula against the exact accountant.
    """
    _require_shuffled(delta, n)
    least = 14 * math.log(4 / delta)
    if not least <= coins <= n:
        raise ValueError(f"DDPS's bound is proven for {least:.4g} to n coins, not for {coins:.4g}")
    surely = coins - math.sqrt(2 * coins * math.log(2 / delta))
    return math.sqrt(32 * math.log(4 / delta) / surely) * (1 - surely / n)


def unary_sum_bits(epsilon: float, delta: float, n: int, bits: int) -> float:
    """The least lambda of DDPS for codes of r bits; or a ValueError where its bound has none.

    Source: as `boolean_sum_epsilon`, at epsilon / sqrt(8 r ln(2/delta)) and delta / (2 r) for each
        place where r is not 1: Dwork, Roth, "The algorithmic foundations of differential privacy",
        2014, Corollary 3.21, for epsilon up to 1.
    """
    require_epsilon(epsilon)
    _require_shuffled(delta, n)
    if not epsilon <= 1:
        raise ValueError(f"DDPS's bound is proven for epsilon up to 1, not {epsilon}")
    single, rest = epsilon, delta
    if bits > 1:
        single, rest = epsilon / math.sqrt(8 * bits * math.log(2 / delta)), delta / (2 * bits)
    low, high = 14 * math.log(4 / rest), float(n)
    if not (low <= n and boolean_sum_epsilon(high, rest, n) <= single):
        raise ValueError(
            f"n must be larger than {n:,} for DDPS's bound with {bits} bits a user at epsilon "
            f"{epsilon}; take fewer bits, or the exact bound"
        )
    for _ in range(60):  # it falls as there are more coins
        middle = (low + high) / 2
        met = boolean_sum_epsilon(middle, rest, n) <= single
        low, high = (low, middle) if met else (middle, high)
    return high


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
