"""Whether counts can have come from honest clients at all, whatever the population holds.

Poisoned reports follow no row of the channel. What n honest clients send is a sum of independent
draws, each from some row, so the count of any set of codes lies, in the order of distributions,
between Binomial(n, least probability of the set in any row) and Binomial(n, greatest). Counts far
outside are nobody's population. The test sees what is crude, such as reports that all support one
value; reports that imitate a population of the attacker's choice it cannot tell from one.

Source: Cheu, Smith, Ullman, "Manipulation attacks in local differential privacy", IEEE S&P 2021,
on what can be forged. Stochastic dominance of sums of independent trials: Shaked, Shanthikumar,
"Stochastic orders", 2007, theorem 1.A.3.
"""

from __future__ import annotations

import numpy as np

from mechanisms.channel import Counts, Floats, Mechanism
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.noise_laws import binomial_cdf, binomial_sf
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.mean.public_groups import PublicGroups

_LARGEST_CHANNEL = 1 << 22  # inputs times codes that are looked at one by one
_ROUNDING = 1e-9  # relative: probabilities are exact rationals, rounded to doubles and added up


def chance(mechanism: Mechanism, counts: Counts) -> float:
    """How likely counts as far out as these are, at the very most.

    Of each value it looks at how many reports support it, where reports support values; else, of
    channels small enough, at each code and at each run of codes from the first. All that is
    looked at is paid for (union bound).

    Args:
        mechanism: what the clients were to run.
        counts: (codes,) how often each message came.

    Returns:
        An upper bound of the probability, over honest clients' randomness, whatever they hold;
        1 where a client sends several messages, or nothing could be tested.

    >>> from mechanisms.catalog import build
    >>> grr = build("grr", epsilon=1.0, domain_size=4)
    >>> chance(grr, np.array([0, 0, 1000, 0])) < 1e-100
    True
    >>> chance(grr, np.array([250, 250, 250, 250]))
    1.0
    """
    counts = np.asarray(counts)
    match mechanism:
        case Levels():
            return _least([chance(mechanism.oracle, row) for row in mechanism.divided(counts)])
        case PublicGroups():
            return _least([chance(mechanism.mechanism, row) for row in mechanism.parts(counts)])
        case LinearHash():
            low, high = np.array(mechanism.other), np.array(mechanism.keep)
            return _tail(mechanism.support(counts), int(counts.sum()), low, high)
    size = mechanism.inputs * mechanism.codes
    if mechanism.messages != 1 or not size <= _LARGEST_CHANNEL:
        return 1.0
    low, high = _extremes(mechanism)
    seen = np.concatenate([counts, np.cumsum(counts)])
    return _tail(seen, int(counts.sum()), low, high)


def _least(chances: list[float]) -> float:
    """That any of several tests comes out as it did."""
    return min(1.0, len(chances) * min(chances))


def _sets(law: Floats) -> Floats:
    """(2 codes,) the probability of each code, and of each run of codes from the first."""
    return np.concatenate([law, np.cumsum(law)])


def _extremes(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """(2 codes,) the least and the greatest probability of each set, over all inputs."""
    low = high = _sets(mechanism.channel(0))
    for cell in range(1, mechanism.inputs):
        law = _sets(mechanism.channel(cell))
        low, high = np.minimum(low, law), np.maximum(high, law)
    return low, high


def _tail(seen: Counts, n: int, low: Floats, high: Floats) -> float:
    """The least probability of any of some counts under the laws that bound them, times all."""
    above = binomial_sf(seen - 1, n, np.clip(high * (1 + _ROUNDING), 0, 1))
    below = binomial_cdf(seen, n, np.clip(low * (1 - _ROUNDING), 0, 1))
    # Each count is tested from both sides, and all of them share one probability.
    return float(min(1.0, 2 * seen.size * min(np.min(above), np.min(below))))
