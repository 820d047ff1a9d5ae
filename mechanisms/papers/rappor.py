"""RAPPOR: noisy Bloom filters, in cohorts, with a response that can be kept for ever.

A user of cohort c holds the h bits of the value's filter in that cohort. Each of the b bits is
flipped with chance s (the permanent response), and that again with chance r (the instantaneous
response). A user who reports once may draw both flips as one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Guarantee, Messages, require_epsilon, require_integer
from mechanisms.frequency.oracle import SMALL
from mechanisms.papers.noisy_filters import NoisyFilters
from mechanisms.papers.public_hash import most_functions
from mechanisms.randomness import RandomSource
from mechanisms.registry import register

_WORD = 1 << 64
_MOST_COUNTERS = 1 << 26
_BLOCK = 1 << 22  # bits of the users whose coins are tossed at a time


@register(
    "rappor",
    task="frequency",
    sends="a Bloom filter, flipped permanently and then each time",
    source="Erlingsson, Pihur, Korolova, CCS 2014",
    seeded=True,
    several=True,
    postprocess="auto",
    small=[{**sizes, "bits": 4, "hashes": 2, "cohorts": 2} for sizes in SMALL],
)
@dataclass(frozen=True)
class Rappor(NoisyFilters):
    """A Bloom filter in a random cohort, each bit flipped by a coin; the set bits are messages.

    The code of bit j of cohort c is c bits + j. One more message, cohorts bits + c, says that a
    user of the cohort reported, for after the shuffle nothing else would tell.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        bits: b, the length of a filter.
        hashes: h, how many bits a value sets, less than b.
        cohorts: how many families of hash functions there are.
        permanent: privacy loss, in nats, of all reports ever made of one unchanging value by a
            client that keeps its permanent response; at least epsilon, 2 epsilon if None.
        seed: the public randomness of the hash functions. It is the same for all clients of a
            collection, by design, and may be printed: no noise comes from it.

    Source: Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving
        ordinal response", CCS 2014, sections 3 and 4, with q = 1 - p. Here the h bits of a filter
        are distinct, a cohort is drawn with each response, and chances are exact rationals.

    >>> mechanism = Rappor(epsilon=2.0, domain_size=1000)
    >>> mechanism.codes, round(mechanism.flip, 4), round(mechanism.permanent_flip, 4)
    (8256, 0.3775, 0.2689)
    >>> round(mechanism.messages, 1)
    49.8
    """

    epsilon: float
    domain_size: int
    bits: int = 128
    hashes: int = 2
    cohorts: int = 64
    permanent: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        for name in ("domain_size", "bits", "hashes", "cohorts", "seed"):
            require_integer(name, getattr(self, name))
        self._require_sizes()
        self._require_permanent()
        if not 2 * self.flip_weight < _WORD:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    def _require_sizes(self) -> None:
        """Refuse filters and cohorts that cannot be, or are too many to count."""
        b, h, d = self.bits, self.hashes, self.domain_size
        if not d >= 2:
            raise ValueError(f"domain_size must be at least 2, not {d}")
        if not 2 <= b < _MOST_COUNTERS:
            raise ValueError(f"bits must lie in 2 .. {_MOST_COUNTERS - 1}, not {b}")
        if not 1 <= h < b:
            raise ValueError(f"hashes must lie in 1 .. {b - 1}, below bits, {b}; not {h}")
        most = min(_MOST_COUNTERS // (b + 1), most_functions(d) // h)
        if not 1 <= self.cohorts <= most:
            raise ValueError(
                f"cohorts must lie in 1 .. {most} at bits {b} and hashes {h}, not {self.cohorts}"
            )

    def _require_permanent(self) -> None:
        """Refuse a permanent loss that is no number, or below that of one report."""
        try:
            meant = self.epsilon <= self.permanent_epsilon < math.inf
        except TypeError:
            meant = False
        if not meant:
            raise ValueError(
                f"permanent must be finite and at least epsilon, {self.epsilon}, for all reports "
                f"ever made lose no less than one of them; not {self.permanent!r}"
            )

    # ---- the two responses -------------------------------------------------------------------

    @property
    def permanent_epsilon(self) -> float:
        """The loss of all reports of one unchanging value, in nats."""
        return 2 * self.epsilon if self.permanent is None else self.permanent

    def _flip_weight(self, epsilon: float) -> int:
        """The chance of a flip, in units of 2^-64, at which two filters lose at most epsilon."""
        # The quotient is rounded, hence the next double below.
        share = math.nextafter(epsilon / self.differing, 0.0)
        return ceiling(_WORD / (exponential_bounds(share)[0] + 1))

    @cached_property
    def flip_weight(self) -> int:
        """P(a report's bit differs from the filter's), in units of 2^-64: 1 - q* = p*."""
        return self._flip_weight(self.epsilon)

    @cached_property
    def permanent_flip_weight(self) -> int:
        """P(a permanent bit differs from the filter's), in units of 2^-64: f/2."""
        return self._flip_weight(self.permanent_epsilon)

    @property
    def permanent_flip(self) -> float:
        """P(a permanent bit differs from the filter's): f/2 of the paper."""
        return self.permanent_flip_weight / _WORD

    @property
    def instantaneous_flip(self) -> Fraction:
        """P(a report's bit differs from the permanent one): r with s + r (1 - 2s) = the flip."""
        s = self.permanent_flip_weight
        return Fraction(self.flip_weight - s, _WORD - 2 * s)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon,
            0.0,
            f"closed form: two filters differ in at most {self.differing} bits, each of which "
            "has its own coin; the 64-bit thresholds are rounded to the private side",
        )

    @property
    def permanent_guarantee(self) -> Guarantee:
        """What all reports ever made of one value reveal, if the client keeps its response."""
        return Guarantee(
            "local",
            self.permanent_epsilon,
            0.0,
            "all reports of one unchanging value",
            "closed form: reports are made from the cohort and the permanent bits alone, which "
            "the client draws once for a value and keeps; a client that draws them anew spends "
            "epsilon with each report instead",
        )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "permanent": self.permanent_epsilon,
            "flip": self.flip,
            "permanent_flip": self.permanent_flip,
            "collision": self.collision,
        }

    # ---- client ------------------------------------------------------------------------------

    def send(self, cells: ArrayLike, rng: RandomSource) -> tuple[Messages, NDArray[np.int64]]:
        messages, senders = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for start, cohorts, filters in self._reports(cells, rng):
            messages.append(self._messages(cohorts, filters))
            senders.append(start + _senders(filters))
        return np.concatenate(messages), np.concatenate(senders)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        reports = self._reports(cells, rng)
        parts = [self._messages(cohorts, filters) for _, cohorts, filters in reports]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def _reports(
        self, cells: ArrayLike, rng: RandomSource
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.bool_]]]:
        """Blocks of users: the first one's number, cohorts, bits; both responses drawn as one."""
        values = self._checked(cells)
        for start in range(0, values.size, self._users):
            block = values[start : start + self._users]
            yield start, *self._flipped(block, self.flip_weight, rng)

    @property
    def _users(self) -> int:
        """How many users' coins are tossed at a time."""
        return max(1, _BLOCK // self.bits)

    def _flipped(
        self, values: NDArray[Any], weight: int, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Uniform cohorts, and the values' filters in them with every bit flipped by a coin."""
        cohorts = rng.integers(self.cohorts, values.size).astype(np.int64)
        # All coins are tossed, also those of bits that are 0, in one draw: which bits are the
        # value's shows neither in the time nor in the number of random words.
        flips = rng.bernoulli(weight, values.size * self.bits).reshape(-1, self.bits)
        users = np.arange(values.size)[:, None]
        flips[users, self.filters.positions(cohorts, values)] ^= True
        return cohorts, flips

    def _messages(self, cohorts: NDArray[np.int64], filters: NDArray[np.bool_]) -> Messages:
        """Each user's header, and a message for each bit that is set."""
        messages = np.flatnonzero(filters)
        # A place in the grid is user bits + j: the cohort's number is put for the user's.
        shift = (cohorts - np.arange(cohorts.size)) * self.bits
        messages += np.repeat(shift, np.count_nonzero(filters, axis=1))
        return np.concatenate([self.headers + cohorts, messages]).view(np.uint64)

    def permanent_response(
        self, cells: ArrayLike, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What a client that will report a value again draws once, and keeps.

        Args:
            cells: (n,) integers in 0 .. domain_size - 1.
            rng: the generator of this process.

        Returns:
            ((n,) int64 cohorts; (n, bits) permanent bits). Both must be kept: a new cohort for
            the same value is a new permanent response, with a loss of its own.

        Raises:
            ValueError: a cell is not an integer in range.
        """
        return self._flipped(self._checked(cells), self.permanent_flip_weight, rng)

    def instantaneous_response(
        self, cohorts: ArrayLike, permanent: ArrayLike, rng: RandomSource
    ) -> tuple[Messages, NDArray[np.int64]]:
        """One report from what was kept; of the same law as `send`, over both draws.

        Args:
            cohorts: (n,) integers, from `permanent_response`.
            permanent: (n, bits) of the same.
            rng: the generator of this process.

        Returns:
            ((m,) uint64 messages; (m,) int64 numbers of their senders).
        """
        chance, bits = self.instantaneous_flip, np.array(permanent, np.bool_)
        for start in range(0, len(bits), self._users):
            block = bits[start : start + self._users]
            # The chance has a denominator that is no power of two: integers below it keep it exact.
            draws = rng.integers(chance.denominator, block.size).reshape(block.shape)
            block ^= draws < np.uint64(chance.numerator)
        return self._messages(np.asarray(cohorts, np.int64), bits), _senders(bits)


def _senders(filters: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Whose each message is, in the order of `_messages`."""
    users = np.arange(len(filters))
    return np.concatenate([users, np.repeat(users, np.count_nonzero(filters, axis=1))])
