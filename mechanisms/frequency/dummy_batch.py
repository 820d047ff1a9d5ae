"""What mechanisms have in common whose messages hide among dummies in a shuffled batch.

Dummies that fall into each bin on their own, whose batches are accounted for exactly.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms import honesty
from mechanisms.channel import (
    Counts,
    Guarantee,
    Mechanism,
    Messages,
    Report,
    require_epsilon,
    require_integer,
)
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta, two_bins_epsilon
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.dummy_shares import Keys

if TYPE_CHECKING:
    from typing_extensions import Self

    from mechanisms.frequency.task import FrequencyTask
    from mechanisms.targets.rules import Target

_LARGEST_ALPHABET = 1 << 28  # codes; the collector's table takes 8 bytes for each
_BLOCK = 1 << 20  # messages made at a time
_MOST_REPORTS = 1 << 16  # that are listed
STEEPEST = 12.0  # a larger epsilon is met by meeting this one: see `batch_delta`


class BatchOfUsers(Mechanism):
    """What is private in a shuffled batch of at least n users only: see `DummyBatch`."""

    epsilon: float
    delta: float
    n: int
    honest_share: float
    bound: str
    bounds: ClassVar[tuple[str, ...]] = ("exact",)

    def _require_terms(self) -> None:
        """Refuse terms of the promise that are none."""
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_integer("n", self.n)
        require_batch(self.n)
        honesty.require_share(self.honest_share)
        if self.bound not in self.bounds:
            raise ValueError(
                f"bound must be {' or '.join(self.bounds)} for {type(self).__name__}, "
                f"not {self.bound}"
            )

    def honest(self, n: int) -> int:
        """How many of n users' dummies the guarantee counts on."""
        return honesty.crowd(n, self.honest_share)

    def least_batch(self, honest: int) -> int:
        """The least number of users of whom so many count."""
        return honesty.least_users(honest, self.honest_share)

    @property
    def trial_users(self) -> int:
        return self.honest(self.n)

    def counted_on(self, n: int, honest_share: float) -> int:
        """All of them: the accountant of dummies leaves out by itself who is not counted on.

        Raises:
            ValueError: it counts on more users than that.
        """
        if not self.honest_share <= honest_share:
            raise ValueError(
                f"these dummies hide a user if a share of {self.honest_share:g} send theirs, which "
                f"is more than an honest_share of {honest_share:g}"
            )
        return n

    @property
    def guarantee(self) -> Guarantee:
        """What a batch of n users guarantees."""
        closed = "the closed form of the mechanism's paper; the exact accountant finds less"
        how = self.accounting if self.bound == "exact" else closed
        how += f"; {honesty.in_words(self.n, self.honest_share)}"
        return Guarantee("shuffle", self.epsilon, self.delta, "report", how)

    def _claimed(self, n: int, delta: float) -> float:
        """The epsilon that is known from how the mechanism was made; more users lose no more."""
        met = self.bound == "exact" and n >= self.n and delta >= self.delta
        return self.epsilon if met else math.inf


@dataclass(frozen=True)
class DummyBatch(BatchOfUsers, SeveralMessages):
    """A batch of users who add random messages to their own: private together, not alone.

    A user's messages come in ascending order: any other might tell which of them is the true one.

    Attributes:
        epsilon: privacy loss of a batch, in nats.
        delta: the probability mass outside it, in (0, 1).
        n: the least number of users of a batch; a larger one is more private.
        domain_size: d, the number of values.
        honest_share: the share of the other users, in (0, 1], whose dummies the guarantee counts
            on. The rest may send what they like, or nothing.
        bound: "exact", or "published" to follow the closed form of the mechanism's paper.
    """

    epsilon: float
    delta: float
    n: int
    domain_size: int
    honest_share: float = 0.9
    bound: str = "exact"

    accounting: ClassVar[str] = (
        "numerical accountant: the exact law of the two bins that one value can change, rounded up"
    )

    def __post_init__(self) -> None:
        self._require_terms()
        require_integer("domain_size", self.domain_size)
        if not (2 <= self.domain_size and self.codes <= _LARGEST_ALPHABET):
            raise ValueError(
                f"domain_size must be at least 2 and need no more than {_LARGEST_ALPHABET} "
                f"counters, not {self.domain_size}"
            )
        if not self.dummies >= 0:  # what cannot be met is refused now, not when it is used
            raise ArithmeticError("the number of dummies was not found")

    @classmethod
    def meeting(cls, target: "Target[FrequencyTask]", **more: Any) -> "Self":
        """The dummies that a batch needs to meet a target; nothing protects a single report.

        Args:
            target: of the shuffle model.
            **more: parameters of a subclass.

        Raises:
            ValueError: a report is to be private by itself, or the target is out of reach.
        """
        (epsilon, delta, _), share = target.batch, target.honest_share
        mechanism = cls(
            epsilon, delta, target.n, target.task.domain_size,
            honest_share=share, bound=target.bound, **more,
        )  # fmt: skip
        if not mechanism.local.epsilon <= target.cap:
            raise ValueError(
                "a report among dummies is private in the shuffled batch only: "
                f"no epsilon_local of {target.cap:g} holds for it alone"
            )
        return mechanism

    @property
    @abstractmethod
    def dummies(self) -> float:
        """How many messages a user adds on average."""

    @abstractmethod
    def _extras(self, size: int, rng: RandomSource) -> Keys:
        """The messages that so many users add, in any order."""

    @abstractmethod
    def _extra_law(self) -> Mapping[Report, Fraction]:
        """The exact law of what one user adds."""

    # ---- the oracle --------------------------------------------------------------------------

    @property
    def codes(self) -> int:
        return self.domain_size

    @property
    def messages(self) -> float:
        return 1 + self.dummies

    @property
    def keep(self) -> float:
        """Expected messages that support the value of the user who sends them."""
        return 1 + self.other

    @property
    def other(self) -> float:
        """Expected messages of a user that support any one other value."""
        return self.dummies / self.domain_size

    @property
    def contrast(self) -> float:
        return 1.0

    def support(self, counts: Counts) -> Counts:
        """The counts themselves: every message supports the value that it names."""
        return np.asarray(counts, np.int64)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: permutations of the values take any pair to any other."""
        return [(0, 1)]

    @property
    def local(self) -> Guarantee:
        return Guarantee.none(
            "whoever sees one user's messages before they are shuffled, as the shuffler does, "
            "finds the true value among them"
        )

    def constants(self) -> dict[str, float]:
        return super().constants() | {"dummies": self.dummies}

    # ---- client ------------------------------------------------------------------------------

    def send(self, cells: ArrayLike, rng: RandomSource) -> tuple[Messages, NDArray[np.int64]]:
        keys = [np.empty(0, np.int64), *self._blocks(cells, rng)]
        senders, messages = np.divmod(np.concatenate(keys), self.codes)
        return messages.astype(np.uint64), senders

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        blocks = [(keys % self.codes).astype(np.uint64) for keys in self._blocks(cells, rng)]
        return np.concatenate([np.empty(0, np.uint64), *blocks])

    def _blocks(self, cells: ArrayLike, rng: RandomSource) -> Iterator[Keys]:
        """Everybody's messages, so many users at a time that memory stays small."""
        values = self._checked(cells)
        step = max(1, int(_BLOCK / self.messages))
        for start in range(0, values.size, step):
            block = values[start : start + step]
            own = np.arange(block.size) * self.codes + self._truth(block, rng)
            # Sorted keys put each user's messages in ascending order; the true one has no place of
            # its own.
            keys = np.sort(np.concatenate([own, self._extras(block.size, rng)]))
            keys += start * self.codes
            yield keys

    def _truth(self, values: NDArray[np.integer], rng: RandomSource) -> NDArray[np.int64]:
        """The code of each user's own message."""
        return values.astype(np.int64)

    # ---- liars, simulated --------------------------------------------------------------------

    def flood(self, targets: int) -> int:
        """The most messages that one client may send which all name one of so many values."""
        return self.lifts[1]

    def forged(self, targets: NDArray[np.int64], users: int, rng: SeededRandom) -> Counts:
        """As `FrequencyOracle.forged`: as many messages as any client may send, on targets alone.

        Nobody can tell after the shuffle how many messages were one user's.
        """
        even = np.full(targets.size, 1 / targets.size)
        counts = np.zeros(self.codes, np.int64)
        counts[targets] = rng.generator().multinomial(users * self.flood(targets.size), even)
        return counts

    def scattered(self, users: int, rng: SeededRandom) -> Counts:
        even = np.full(self.codes, 1 / self.codes)
        sent = round(self.messages * users)  # as many as honest users would
        return np.asarray(rng.generator().multinomial(sent, even), np.int64)

    # ---- what a report is --------------------------------------------------------------------

    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        self._checked([cell])
        law: dict[Report, Fraction] = {}
        for code, likely in self._truth_law(cell).items():
            for extra, chance in self._extra_law().items():
                report = tuple(sorted((code, *extra)))
                law[report] = law.get(report, Fraction(0)) + likely * chance
        return law

    def _truth_law(self, cell: int) -> Mapping[int, Fraction]:
        """The law of a user's own message."""
        return {cell: Fraction(1)}


def uniform_bags(number: Mapping[int, Fraction], codes: int) -> Mapping[Report, Fraction]:
    """The law of a bag of uniform messages, from the law of their number.

    Raises:
        ValueError: there are too many bags to list.
    """
    most = max(number)
    if not math.comb(most + codes, codes) <= _MOST_REPORTS:
        raise ValueError(
            f"there are too many reports to list: up to {most} messages in {codes} bins"
        )
    law: dict[Report, Fraction] = {}
    for size, likely in number.items():
        for bag in combinations_with_replacement(range(codes), size):
            ways = math.factorial(size)
            for code in set(bag):
                ways //= math.factorial(bag.count(code))
            law[bag] = likely * Fraction(ways, codes**size)
    return law


class IndependentBins(DummyBatch):
    """Dummies that fall into each bin on their own: the two bins of a replaced value say all."""

    @abstractmethod
    def bin_law(self, users: int) -> BinLaw:
        """What is seen in one bin among so many users' dummies; the drawing's errors included."""

    def revealing_law(self, users: int) -> BinLaw:
        """A law that tells no more than what is seen; that itself, unless it is out of reach."""
        return self.bin_law(users)

    def hiding_law(self, users: int) -> BinLaw | None:
        """A law that tells no less than what is seen, or None if none is known."""
        return self.bin_law(users)

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """delta of a shuffled batch.

        Args:
            n: how many users; any number, not only those the mechanism is made for.
            epsilon: at least 0, in nats.

        Returns:
            (lower, upper): what is lost if all users add their dummies; and a bound on what is
            lost if only the honest share does.
        """
        require_batch(n)
        require_loss(epsilon)
        everyone, counted = self.revealing_law(n), self._counted(n)
        lower = two_bins_delta(everyone, everyone, epsilon)[0]
        if counted is None:
            return lower, 1.0
        # What drawing from tables may add grows with e^epsilon; a smaller epsilon's delta holds.
        upper = min(
            two_bins_delta(counted, counted, met)[1] for met in (epsilon, min(epsilon, STEEPEST))
        )
        return min(lower, upper), upper

    def _counted(self, n: int) -> BinLaw | None:
        """The law that the guarantee for n users rests on."""
        return self.hiding_law(self.honest(n))

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """epsilon of a shuffled batch.

        Args:
            n: how many users; any number, not only those the mechanism is made for.
            delta: in (0, 1).

        Returns:
            (lower, upper), as in `batch_delta`; infinite where no law is known.
        """
        require_batch(n)
        require_delta(delta)
        lower, counted = two_bins_epsilon(self.revealing_law(n), delta)[0], self._counted(n)
        upper = two_bins_epsilon(counted, delta)[1] if counted else math.inf
        upper = min(upper, self._claimed(n, delta))
        return min(lower, upper), upper
