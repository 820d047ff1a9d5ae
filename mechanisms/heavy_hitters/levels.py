"""The reports of users who were divided among the levels of a tree of prefixes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee, Kinds, Mechanism, Messages
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.privacy.amplification import BatchAccounted, Shuffleable, shuffled_epsilon
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.privacy.pair_law import ShuffleLaws, clone_laws
from mechanisms.privacy.trial import Trial, register_trial
from mechanisms.randomness import RandomSource

_LARGEST_ALPHABET = 1 << 26  # codes; the collector's table takes 8 bytes for each


@dataclass(frozen=True)
class Levels(Mechanism):
    """One frequency oracle, run by each of several groups of users on an input of its own.

    A client draws its group by dice that do not look at the value, finds the bucket of its value
    under the group's public hash, and reports the group in the clear and the bucket through the
    oracle. An input cell is a pair: group * domain_size + bucket. The client of a value may be
    asked for any one cell of each group, and which one it is is not secret; so the neighbours of
    a cell are the other cells of its group, and one group's pairs stand for those of all.
    What a client runs once its group is drawn is therefore exactly what an audit enumerates.

    Attributes:
        oracle: of the buckets; its users send one message each.
        shares: how likely each group is, as integers.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> levels = Levels(k_ary(1.0, 4), shares=(1, 1, 2))
    >>> levels.inputs, levels.codes, levels.guarantee.epsilon
    (12, 12, 1.0)
    """

    oracle: FrequencyOracle
    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (self.shares and all(share >= 1 for share in self.shares)):
            raise ValueError("shares must be positive integers, one for each group")
        if not self.oracle.messages == 1 or isinstance(self.oracle, BatchAccounted):
            raise ValueError("the oracle must be one whose users send one message each")
        if getattr(self.oracle, "public_seed", False):
            raise ValueError("the oracle must not hash its values itself: they are hashed before")
        if not self.codes <= _LARGEST_ALPHABET:
            raise ValueError(
                f"{self.groups} groups with {self.oracle.codes} counters each are more than "
                f"{_LARGEST_ALPHABET} counters"
            )

    @property
    def groups(self) -> int:
        """How many groups the users are divided into."""
        return len(self.shares)

    @property
    def inputs(self) -> int:
        return self.groups * self.oracle.inputs

    @property
    def codes(self) -> int:
        return self.groups * self.oracle.codes

    @property
    def guarantee(self) -> Guarantee:
        alone = self.oracle.guarantee
        how = f"{alone.how}; the group is drawn without a look at the value, and sent in the clear"
        return Guarantee(alone.model, alone.epsilon, alone.delta, alone.unit, how)

    def constants(self) -> dict[str, float]:
        return self.oracle.constants() | {"groups": self.groups}

    # ---- the law of a report -----------------------------------------------------------------

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        group, bucket = divmod(int(self._checked([cell])[0]), self.oracle.inputs)
        law, denominator = self.oracle.weights(bucket)
        table = np.zeros((self.groups, law.size), law.dtype)
        table[group] = law
        return table.ravel(), denominator

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        (group, bucket), (stranger, beside) = (
            divmod(cell, self.oracle.inputs) for cell in (one, other)
        )
        if group == stranger:
            return self.oracle.kinds(bucket, beside)
        return super().kinds(one, other)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """The oracle's pairs in the first group: all groups run the same channel."""
        return self.oracle.pairs()

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch of all groups' reports reveals: what one of the oracle's would.

        Take the privacy blanket of the whole report, group and code: the least probability of
        (g, c) over all values is share_g times the oracle's own blanket of c. At a draw (g, c)
        from it the loss (P - e^epsilon P')/blanket of two values does not depend on share_g, so
        for values that differ in every group it has the law it has for the oracle, and so has the
        sum of n such losses, whose positive part bounds delta (Balle, Bell, Gascon, Nissim 2019,
        Lemma 5.3). All n reports count, not only those of the user's own group.

        Two values may also share their bucket in some groups. Oracles that state their own
        shuffle laws treat all pairs of values alike, and for each pair there is a permutation of
        the codes that swaps the two laws p, q and keeps the blanket w. On a code and its image a
        group that tells the values apart has losses (p - e q)/w and (q - e p)/w, with e =
        e^epsilon, and a group that does not has (1 - e) p/w and (1 - e) q/w: the same sum, and a
        smaller difference, (e - 1)|p - q|/w instead of (e + 1)|p - q|/w. Its losses are thus
        smaller in the convex order, and with them the expectation of any convex function of their
        sum. Values that differ in every group are the worst there are.

        Of other oracles nothing is used but the exact epsilon, through the clones bound.
        """
        if isinstance(self.oracle, Shuffleable):
            return self.oracle.shuffle_laws()
        return clone_laws(tight_epsilon(self.oracle))

    # ---- client and collector ----------------------------------------------------------------

    @cached_property
    def _group_of_slot(self) -> NDArray[np.int64]:
        """Each group as often as its share says."""
        return np.repeat(np.arange(self.groups), self.shares)

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """The groups of some users, drawn before anybody looks at their values.

        Args:
            size: how many users.
            rng: the generator of this process.

        Returns:
            (size,) integers in 0 .. groups - 1, in proportion to the shares.
        """
        # Shares are integers, so uniform slots make a draw that follows them exactly.
        slots = rng.integers(self._group_of_slot.size, size)
        groups: NDArray[np.int64] = self._group_of_slot[slots.astype(np.int64)]
        return groups

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        groups, buckets = np.divmod(self._checked(cells), self.oracle.inputs)
        messages = self.oracle.perturb(buckets, rng)
        return groups.astype(np.uint64) * np.uint64(self.oracle.codes) + messages

    def divided(self, counts: Counts) -> Counts:
        """The collector's state, (groups, codes of the oracle)."""
        return counts.reshape(self.groups, self.oracle.codes)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """Unbiased shares of each bucket among the users of its group.

        Args:
            counts: (codes,) from `count`.
            n: not needed: how many users a group has is in the counts.

        Returns:
            (inputs,) float64; 0 for a group nobody is in.
        """
        users = self.divided(counts).sum(axis=1).tolist()
        groups = zip(self.supports(counts), users, strict=True)
        shares = [self.oracle.shares(support, n) if n else 0.0 * support for support, n in groups]
        return np.concatenate(shares)

    def supports(self, counts: Counts) -> Iterator[Counts]:
        """(oracle.inputs,) how many reports support each bucket, of one group after the other.

        All groups' together are larger than a cache.
        """
        return map(self.oracle.support, self.divided(counts))


@register_trial("levels")
def levels() -> Trial:
    """The counters of all levels: a few users' shuffled reports, each at a level by dice."""
    made, users, delta = Levels(k_ary(2.0, 3), shares=(1, 2)), 4, 0.02

    def draw(values: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        groups = made.draw(times * users, rng)
        # Each level hashes a value to a bucket of its own.
        buckets = (np.tile(values, times) + groups) % made.oracle.inputs
        messages = made.perturb(groups * made.oracle.inputs + buckets, rng).astype(np.int64)
        places = np.repeat(np.arange(times) * made.codes, users) + messages
        return np.bincount(places, minlength=times * made.codes).reshape(times, made.codes)

    epsilon = shuffled_epsilon(made, users, delta)[1]
    promise = Guarantee("shuffle", epsilon, delta, "report", made.accounting)
    pairs = [([0, *[other] * 3], [1, *[other] * 3]) for other in (0, 1, 2)]
    return Trial(f"counters of all levels, of {users} users", promise, pairs, draw)
