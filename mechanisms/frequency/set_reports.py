"""Mechanisms whose report is a set of values, one message for each: what they have in common."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Kinds, Messages
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.sparse_bits import Indices

Memberships = Mapping[tuple[bool, bool], int]

LARGEST_BATCH = 10**8
"""Users whose sets of messages "auto" accounts for: of more it would take minutes."""


class SetReports(SeveralMessages):
    """A frequency oracle whose user sends the values of a random set, and treats values alike.

    A message is a value, so the collector's counts are the support. A user's messages come in
    ascending order: any other might tell which of them was drawn for the user's own value.
    """

    @property
    def codes(self) -> int:
        return self.domain_size

    @abstractmethod
    def memberships(self) -> tuple[Memberships, int]:
        """The exact law of which of two given values a set holds, the user's own being one.

        Returns:
            ((holds the user's value, holds the other one) -> numerator; the denominator).
        """

    @abstractmethod
    def _pieces(self, cells: Indices, rng: RandomSource) -> Iterator[Indices]:
        """The reports, piece by piece: user * domain_size + value, ascending."""

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        values = self._checked(cells).astype(np.int64)
        d = self.domain_size
        pieces = [(places % d).astype(np.uint64) for places in self._pieces(values, rng)]
        return np.concatenate([np.empty(0, np.uint64), *pieces])

    def send(self, cells: ArrayLike, rng: RandomSource) -> tuple[Messages, NDArray[np.int64]]:
        values = self._checked(cells).astype(np.int64)
        places = np.concatenate([np.empty(0, np.int64), *self._pieces(values, rng)])
        senders, messages = np.divmod(places, self.domain_size)
        return messages.astype(np.uint64), senders

    def support(self, counts: Counts) -> Counts:
        """The counts themselves: every message supports the value that it names."""
        return np.asarray(counts, np.int64)

    @property
    def largest_set(self) -> int:
        """The most values that any set holds."""
        return self.domain_size

    def forged(self, targets: NDArray[np.int64], users: int, rng: SeededRandom) -> Counts:
        """As `FrequencyOracle.forged`: all targets, and others up to the usual number of values.

        Source: as there, for optimised unary encoding: so that the number of a report's values
            does not give it away.
        """
        counts, source = np.zeros(self.domain_size, np.int64), rng.generator()
        hits = min(targets.size, self.largest_set)
        # Liars agree on who takes which, where a set does not hold them all.
        quotient, left = divmod(users * hits, targets.size)
        counts[targets] = quotient + (np.arange(targets.size) < left)
        others = np.delete(np.arange(self.domain_size), targets)
        padding = max(round(self.messages) - hits, 0)
        if others.size:
            chance = min(padding / others.size, 1.0)
            counts[others] = source.binomial(users, chance, others.size)
        return counts

    def scattered(self, users: int, rng: SeededRandom) -> Counts:
        # Of all sets that may be sent, each value is in as many.
        chance = 0.5 if self.largest_set == self.domain_size else self.messages / self.domain_size
        drawn = rng.generator().binomial(users, chance, self.domain_size)
        return np.asarray(drawn, np.int64)

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """Two inputs' exact laws of what tells them apart, for any domain size.

        Given which of the two values a set holds, what else it holds has the same law under
        both; so sets that agree on the two count as one report, which changes no divergence.
        """
        self._checked([one, other])
        law, denominator = self.memberships()
        kinds: Counter[tuple[int, int]] = Counter()
        for (own, second), weight in law.items():
            kinds[weight, weight if one == other else law[second, own]] += 1
        # Reports that neither input can lead to tell nothing, and have no ratio.
        del kinds[0, 0]
        return kinds, (denominator, denominator)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: permutations of the values permute the reports and take any pair to another."""
        return [(0, 1)]

    def constants(self) -> dict[str, float]:
        return super().constants() | {"keep": self.keep, "other": self.other}


def merged(places: Indices, more: Indices) -> Indices:
    """Two ascending rows of places as one, in linear time."""
    both = np.concatenate([places, more])
    both.sort(kind="stable")  # merges the runs that it finds
    return both
