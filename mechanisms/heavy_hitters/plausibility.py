"""Whether counts can have come from honest clients at all, whatever the population holds.

Poisoned reports follow no row of the channel. What n honest clients send is a sum of independent
draws, each from some row, so the count of any set of codes lies, in the order of distributions,
between Binomial(n, least probability of the set in any row) and Binomial(n, greatest). Counts far
outside are nobody's population. What honest clients draw without a look at their value, such as the
hash function or the level of a tree, has one law whatever they hold: whoever chooses it for what it
supports shows at once. Reports that imitate a population of the attacker's choice the test cannot
tell from one; for k-ary response that is all there is to imitate.

Source: Cheu, Smith, Ullman, "Manipulation attacks in local differential privacy", IEEE S&P 2021,
on what can be forged. Stochastic dominance of sums of independent trials: Shaked, Shanthikumar,
"Stochastic orders", 2007, theorem 1.A.3.
"""

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

    Of hashed reports it looks at how many support each value, and how many there are of each hash
    function and of each code; of those of a tree's levels, at how many each level has; else, of
    channels small enough, at each code and at each run of codes from the first. All that is looked
    at is paid for (union bound).

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
            rows, drawn = mechanism.divided(counts), np.array(mechanism.shares)
            law = drawn / drawn.sum()
            sizes = _tail(rows.sum(axis=1), int(counts.sum()), law, law)
            return _least([sizes, *(chance(mechanism.oracle, row) for row in rows)])
        case PublicGroups():
            return _least([chance(mechanism.mechanism, row) for row in mechanism.parts(counts)])
        case LinearHash():
            return _hashed(mechanism, counts)
    size = mechanism.inputs * mechanism.codes
    if mechanism.messages != 1 or not size <= _LARGEST_CHANNEL:
        return 1.0
    low, high = _extremes(mechanism)
    seen = np.concatenate([counts, np.cumsum(counts)])
    return _tail(seen, int(counts.sum()), low, high)


def _hashed(mechanism: LinearHash, counts: Counts) -> float:
    """How likely the supports of values, the hash functions and the codes are at the very most."""
    ends = [(mechanism.support(counts), mechanism.other, mechanism.keep)]
    if mechanism.digits > 1 and mechanism.codes <= _LARGEST_CHANNEL:
        weight = 1 / mechanism.points  # a function is drawn whatever the value
        drawn = counts.reshape(mechanism.points, -1).sum(axis=1)
        miss = (1 - mechanism.keep) / (mechanism.hash_range - 1)
        ends += [(drawn, weight, weight), (counts, weight * miss, weight * mechanism.keep)]
    seen, low, high = zip(*ends, strict=True)
    sizes = [part.size for part in seen]
    laws = np.repeat(low, sizes), np.repeat(high, sizes)
    return _tail(np.concatenate(seen), int(counts.sum()), *laws)


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
