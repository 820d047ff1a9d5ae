"""The guarantee of a shuffled batch of any mechanism's reports, from below and from above."""

import math
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np

from mechanisms.channel import Floats, Mechanism
from mechanisms.privacy import blanket
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.privacy.one_bit import OneBit
from mechanisms.privacy.pair_law import PairLaw, ShuffleLaws, clone_laws, covering, grouped

_PAIRS = 1 << 9  # more pairs of inputs than this are not enumerated
_LARGEST_TABLE = 1 << 25  # nor are channels with more entries


@runtime_checkable
class Shuffleable(Protocol):
    """A mechanism that states its own laws, because it has too many codes to tabulate."""

    def shuffle_laws(self) -> ShuffleLaws:
        """The pair laws between which its shuffled batches lie."""


@runtime_checkable
class BatchAccounted(Protocol):
    """A mechanism that accounts for its shuffled batch by itself: its users send several messages.

    Both methods bracket the truth from below and from above.
    """

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """As `shuffled_delta`."""

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """As `shuffled_epsilon`."""


def laws_of(mechanism: Mechanism) -> ShuffleLaws:
    """How the shuffle accountant sees a mechanism.

    Args:
        mechanism: any finite channel. One with a method `shuffle_laws` speaks for itself; others
            are tabulated from `weights`.

    Returns:
        The exact blanket (the code-wise least probability over all inputs) for every
        representative pair, and batches whose other users all hold one value: for each pair the
        value that hides least. A channel too large to tabulate, or whose users send several
        messages, gets the clones bound, which needs its exact epsilon only; shuffling messages
        one by one shows no more than shuffling whole reports. Reports of one bit are named, too:
        the accountant looks for the worst of their batches itself.

    Raises:
        ValueError: the channel is too large, and no epsilon bounds a report.
    """
    laws = upper_laws(mechanism)
    return replace(laws, attained=_attained(mechanism)) if _enumerated(mechanism) else laws


# A search ends at a mechanism that it has tried, whose curve and batches are looked at next.
@lru_cache(maxsize=64)
def upper_laws(mechanism: Mechanism) -> ShuffleLaws:
    """As `laws_of`, perhaps without batches that exist: for whoever asks for upper bounds alone."""
    laws = mechanism.shuffle_laws() if isinstance(mechanism, Shuffleable) else _tabulated(mechanism)
    return replace(laws, bits=_bits(mechanism))


def _bits(mechanism: Mechanism) -> OneBit | None:
    """The ends between which the laws of a mechanism's inputs lie, if a report is one bit."""
    if not (mechanism.codes == 2 == mechanism.outcomes and mechanism.inputs <= _LARGEST_TABLE):
        return None
    rows = sorted(
        (tuple(mechanism.channel(cell).tolist()) for cell in range(mechanism.inputs)),
        key=lambda row: (row[1], -row[0]),
    )
    return OneBit(high=rows[-1], low=rows[0])


def _pairs(mechanism: Mechanism) -> list[tuple[int, int]]:
    """The pairs of inputs that stand for all; more than `_PAIRS` are as good as none."""
    return list(islice(mechanism.pairs(), _PAIRS + 1))


def _enumerated(mechanism: Mechanism) -> bool:
    """Whether the laws of a mechanism are read off its channel, input by input."""
    if isinstance(mechanism, Shuffleable):  # whose reports may be too many to be listed
        return False
    several = mechanism.outcomes != mechanism.codes
    large = mechanism.inputs * mechanism.codes > _LARGEST_TABLE
    return not (several or large) and len(_pairs(mechanism)) <= _PAIRS


def _tabulated(mechanism: Mechanism) -> ShuffleLaws:
    """The laws of a mechanism that does not state them, from its channel; none that is attained."""
    epsilon = tight_epsilon(mechanism)
    if not _enumerated(mechanism):
        # About the largest power of e that a double holds; NaN and infinity fail here, too.
        if not epsilon <= 700:
            raise ValueError(
                f"a channel of {mechanism.inputs} inputs and {mechanism.codes} codes is too large "
                "to tabulate, and no finite epsilon bounds one report"
            )
        return clone_laws(epsilon)
    pairs, least = _pairs(mechanism), mechanism.blanket()
    rows = {cell: mechanism.channel(cell) for pair in pairs for cell in pair}
    dominating = covering(grouped(rows[i], rows[j], least, blanket=True) for i, j in pairs)
    return ShuffleLaws(dominating, (), epsilon)


def _attained(mechanism: Mechanism) -> tuple[PairLaw, ...]:
    """Batches that exist, of a mechanism whose channel is small enough to be enumerated."""
    table = np.stack([mechanism.channel(cell) for cell in range(mechanism.inputs)])
    attained = [
        grouped(table[i], table[j], table[_revealing(table, i, j)]) for i, j in _pairs(mechanism)
    ]
    # Any one is a valid lower bound. Each one more costs a walk over the lattice, and a bound needs
    # only one that is good: those that differ most.
    return tuple(sorted(_distinct(attained), key=_gap, reverse=True)[:4])


def _revealing(table: Floats, one: int, other: int) -> int:
    """The input that hides a pair least when everyone else holds it."""
    # The square of `PairLaw.spread` for each input as the others': the larger it is, the further
    # apart the sums of losses are.
    gap = (table[one] - table[other]) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.where(gap > 0, gap / table, 0.0)
    return int(np.argmax(shown.sum(axis=1)))


def _distinct(laws: list[PairLaw]) -> tuple[PairLaw, ...]:
    """Without the laws that a symmetry makes equal."""
    seen = {np.concatenate([law.first, law.second, law.others]).tobytes(): law for law in laws}
    return tuple(seen.values())


def _gap(law: PairLaw) -> float:
    """How far apart the batches are; codes that others never send come first."""
    return math.inf if law.first[law.others == 0].any() else law.spread()


def shuffled_delta(mechanism: Mechanism, n: int, epsilon: float) -> tuple[float, float]:
    """delta of a shuffled batch at a given epsilon.

    Args:
        mechanism: any finite channel.
        n: how many reports are shuffled, at least 1. One user's value may be replaced.
        epsilon: at least 0, in nats.

    Returns:
        (lower, upper), between which the truth lies. Publish `upper`.

    Raises:
        ValueError: n or epsilon is out of range, or not a number.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> lower, upper = shuffled_delta(k_ary(2.0, 4), n=1000, epsilon=0.3)
    >>> f"{lower:.3e} {upper:.3e}"
    '1.013e-05 1.020e-05'
    """
    if isinstance(mechanism, BatchAccounted):
        return mechanism.batch_delta(n, epsilon)
    return blanket.delta_bounds(laws_of(mechanism), n, epsilon)


def shuffled_epsilon(mechanism: Mechanism, n: int, delta: float) -> tuple[float, float]:
    """epsilon of a shuffled batch at a given delta.

    Args:
        mechanism: any finite channel.
        n: how many reports are shuffled, at least 1. One user's value may be replaced.
        delta: in (0, 1).

    Returns:
        (lower, upper), between which the truth lies. Publish `upper`; it is never above what one
        report alone guarantees.

    Raises:
        ValueError: n or delta is out of range, or not a number.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> lower, upper = shuffled_epsilon(k_ary(4.0, 100), n=10**6, delta=1e-6)
    >>> f"{lower:.4f} {upper:.4f}"
    '0.0198 0.0198'
    """
    if isinstance(mechanism, BatchAccounted):
        return mechanism.batch_epsilon(n, delta)
    return blanket.epsilon_bounds(laws_of(mechanism), n, delta)
