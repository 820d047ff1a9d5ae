"""Counters whose dummies the devices send, from end to end.

Every enrolled device sends its share of the dummies in every window, whether it has rows or not:
dummies of those alone who happen to be in the log would show who is missing. Some devices may not
follow the protocol, or tell what they sent; the noise of the others has to do.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms import honesty
from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Messages,
    Neighbours,
    require_epsilon,
    require_integer,
)
from mechanisms.counters.design import Range
from mechanisms.counters.devices import LAWS, DeviceNoise, Law, least_device_noise
from mechanisms.counters.levels import InLevels, Level, Slots, require_unit
from mechanisms.counters.noise import recorded
from mechanisms.counters.price import Price
from mechanisms.counters.solve import SHARE
from mechanisms.privacy.divergence import require_batch, require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.dummy_shares import DummyShare
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum
from mechanisms.sampling.integer_tables import LARGEST_MEAN

SPARED = 1e-6  # of delta: for what drawing shares from tables may add, and what slots cut off


@dataclass(frozen=True)
class DeviceCounters(InLevels):
    """Counters, the devices' dummies, and what holds for them.

    Codes 0 .. m - 1 add to the m counters of all levels; where noise is masked, codes m .. 2 m - 1
    take away from them.

    Attributes:
        levels: the footprint.
        noise: of the devices that are counted on, together.
        neighbours: which inputs look alike.
        epsilon: of all counters together, in nats.
        delta: in (0, 1).
        enrolled: n, how many devices send, whether they have rows or not; from the plan.
        honest_share: of the other devices, in (0, 1], how many follow the protocol at the least.
        beside: how many of the last levels are no part of the statistic, say what was cut.
        unit: as of `JobTotals`.

    >>> count = DeviceCounters.meeting([Level(1, 1)], "add or remove", 1.0, 1e-6, enrolled=10_000)
    >>> count.honest, round(count.variances[0], 2)
    (9000, 2.6)
    """

    levels: tuple[Level, ...]
    noise: DeviceNoise
    neighbours: Neighbours
    epsilon: float
    delta: float
    enrolled: int
    honest_share: float = 0.9
    beside: int = 0
    unit: float | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_unit(self.unit)
        require_integer("enrolled", self.enrolled)
        require_batch(self.enrolled)
        honesty.require_share(self.honest_share)
        if len(self.noise.expected) != len(self.layout.levels):
            raise ValueError("there must be noise for each level")
        self._require_statistic()
        most = max(share.most for share in self.shares)
        if not most <= LARGEST_MEAN / 2:
            counted = math.ceil(2 * most * self.honest / LARGEST_MEAN)
            least = honesty.least_users(counted, self.honest_share)
            raise ValueError(
                f"enrolled must be at least {least:,}, or a device would send more than "
                f"{LARGEST_MEAN // 2:,} dummies, not {self.enrolled:,}"
            )

    @classmethod
    def meeting(
        cls,
        levels: Sequence[Level],
        neighbours: Neighbours,
        epsilon: float,
        delta: float,
        enrolled: int,
        honest_share: float = 0.9,
        most_messages: float = math.inf,
        laws: Collection[Law] = LAWS,
        beside: Sequence[Level] = (),
        share: float = SHARE,
    ) -> "DeviceCounters":
        """The counters of a footprint with the least noise of devices that meets a target.

        Args:
            levels, neighbours, epsilon, delta, enrolled, honest_share: as above.
            most_messages: how many a device may send on average, the counters of a user among them.
            laws, beside, share: as in `least_device_noise`.
        """
        honesty.require_share(honest_share)
        every = (*levels, *beside)
        room = most_messages - sum(level.slots for level in every)
        if not room > 0:
            raise ValueError(f"a device's own counters take all of its {most_messages:g} messages")
        noise = least_device_noise(
            levels, neighbours, epsilon, delta * (1 - SPARED),
            room * honesty.crowd(enrolled, honest_share), laws, beside, share,
        )  # fmt: skip
        return cls(every, noise, neighbours, epsilon, delta, enrolled, honest_share, len(beside))

    # ---- what holds --------------------------------------------------------------------------

    @property
    def honest(self) -> int:
        """How many devices' dummies the guarantee counts on."""
        return honesty.crowd(self.enrolled, self.honest_share)

    @cached_property
    def shares(self) -> list[DummyShare]:
        """What one device adds to each level."""
        return self.noise.shares(self.levels, self.honest)

    @cached_property
    def price(self) -> Price:
        """What all counters reveal if only those devices send dummies that are counted on."""
        return self.noise.price(self.levels, self.neighbours, self.distances)

    @property
    def distances(self) -> list[float]:
        """How far, in total variation, each level's dummies are from their laws."""
        # Of all that are enrolled: shares that are drawn together are no farther from their laws.
        return [self.enrolled * share.distance for share in self.shares]

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the shuffled messages.

        Raises:
            ValueError: the noise is too small for what is claimed.
        """
        if not self.price.upper(self.epsilon) <= self.delta:
            raise ValueError(
                f"this noise does not meet epsilon {self.epsilon} at delta {self.delta}; see "
                "`DeviceCounters.meeting`"
            )
        return Guarantee(
            "shuffle",
            self.epsilon,
            self.delta,
            "user",
            f"numerical accountant: the laws of all counters that one user may change "
            f"({self.neighbours}), composed and rounded up; every enrolled device sends dummies, "
            f"with rows or without, and {self.honest:,} of {self.enrolled:,} are counted on to "
            "follow the protocol",
            self.neighbours,
        )

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""
        own = self.price.profile(self.epsilon)
        if self.neighbours == "replace":
            return own
        both = replace(self.price, neighbours="replace")
        return replace(own, apart=both.profile(2 * self.epsilon))

    @property
    def messages(self) -> float:
        """Of a device that raises as many counters as it may, on average."""
        own = sum(level.slots for level in self.levels)
        return own + self.noise.number(self.levels) / self.honest

    @property
    def number(self) -> float:
        """How many dummies there are on average, if everybody follows the protocol."""
        return self.noise.number(self.levels) * self._more

    @property
    def constants(self) -> dict[str, Any]:
        """What the noise is, for statements."""
        return {
            "levels": [list(level) for level in self.levels],
            "expected_dummies": [mean * self._more for mean in self.noise.messages],
            "noise": recorded(self.noise),
        }

    @property
    def _counters(self) -> int:
        return int(self.layout.starts[-1])

    @property
    def codes(self) -> int:
        """How many a message may have."""
        return self._counters * self.shares[0].signs

    @property
    def nulls(self) -> NDArray[np.int64]:
        """(0,) nobody sends empty slots."""
        return np.zeros(0, np.int64)

    # ---- a device ----------------------------------------------------------------------------

    def send(self, sets: Sequence[Slots], rng: RandomSource) -> tuple[Messages, NDArray[np.int64]]:
        """What devices send: their counters among dummies.

        Args:
            sets: as in `Layout.reports`; a device without rows has a row of -1.
            rng: the generator of the client's process.

        Returns:
            ((m,) uint64 codes, (m,) their senders), each sender's codes in ascending order: any
            other might tell which of them are dummies.
        """
        reports = self.layout.reports(sets).astype(np.int64)
        owners = np.arange(len(reports))[:, None] * self.codes
        keys = [(owners + reports)[reports < self._counters]]
        for start, share in zip(self.layout.starts, self.shares, strict=False):
            senders, codes = np.divmod(share.draw(len(reports), rng), share.codes)
            signs, places = np.divmod(codes, share.bins)
            keys.append(senders * self.codes + signs * self._counters + start + places)
        senders, messages = np.divmod(np.sort(np.concatenate(keys)), self.codes)
        return messages.astype(np.uint64), senders

    # ---- all devices, where one job draws for them -------------------------------------------

    def ranges(self, most: int) -> list[Range]:
        """All that are enrolled, in ranges whose dummies workers may draw on their own, once each.

        Args:
            most: dummies of a range on average, or clusters of them, unless a device sends more.

        Returns:
            Of each level its ranges: of devices, not of counters.
        """
        ranges = []
        for place, share in enumerate(self.shares):
            parts = min(max(1, math.ceil(share.most * self.enrolled / most)), self.enrolled)
            ends = [self.enrolled * part // parts for part in range(parts + 1)]
            ranges += [Range((place,), start, stop) for start, stop in pairwise(ends)]
        return ranges

    def draw(self, range_: Range, rng: RandomSource) -> tuple[Counts, Counts]:
        """What some devices add to a level together: to be drawn once a window.

        Args:
            range_: one of `ranges`.
            rng: the generator of the job's process.

        Returns:
            ((k,) codes, (k,) how many dummies of each).
        """
        [place], start, stop = range_
        share = self.noise.shares(self.levels, self.honest / (stop - start))[place]
        signs, places = np.divmod(share.draw(1, rng), share.bins)
        codes = signs * self._counters + self.layout.starts[place] + places
        unique, times = np.unique(codes, return_counts=True)
        return unique, times.astype(np.int64)

    # ---- the collector -----------------------------------------------------------------------

    def count(self, messages: ArrayLike) -> Counts:
        """The collector's state; that of several batches is the sum of theirs.

        Args:
            messages: (m,) uint64; what is no code is dropped.

        Returns:
            (codes,) int64.
        """
        words = np.asarray(messages, np.uint64)
        known = words[words < np.uint64(self.codes)].astype(np.int64)
        return np.bincount(known, minlength=self.codes).astype(np.int64)

    def centred(self, counts: ArrayLike) -> list[Floats]:
        """The counters of each level less the dummies of all enrolled devices: unbiased.

        Args:
            counts: (codes,) as `count` makes them.
        """
        added, *taken = np.asarray(counts, np.float64).reshape(-1, self._counters)
        rows = np.split(added - sum(taken), self.layout.starts[1:-1])
        pairs = zip(rows, self.noise.expected, strict=True)
        return [row - mean * self._more for row, mean in pairs]

    @property
    def variances(self) -> list[float]:
        """Of each level's counters."""
        return [variance * self._more for variance in self.noise.variances]

    @property
    def column_variance(self) -> float:
        """Of the weighted sum of one counter of each level of the statistic."""
        rows = zip(self.statistic, self.variances, strict=False)
        return sum(level.weight**2 * variance for level, variance in rows)

    def error_law(self, columns: int = 1, taken: int = 0) -> IntegerNoise:
        """The law of that sum's error if everybody follows the protocol, and weights are whole.

        Args:
            columns: how many such sums are added up.
            taken: how many of them are taken away: 1 of 2 where numbers have signs.

        Raises:
            ValueError: the law is too long to tabulate; it is all but normal then.
        """
        laws = zip(self.noise.added(self._more), self.statistic, strict=False)
        rows = [(*law, int(level.weight)) for law, level in laws]
        turned = [(first, pmf, -weight) for first, pmf, weight in rows]
        law = weighted_sum(rows * (columns - taken) + turned * taken)
        return IntegerNoise(law.first - law.mean(), law.pmf)

    def level_law(self, place: int) -> IntegerNoise:
        """The law of the error of one counter of a level, as `error_law`."""
        return _level_laws(self.noise, self._more)[place]

    def simulate(self, raised: ArrayLike, rng: SeededRandom) -> Counts:
        """The collector's counts, from sums in place of messages: the same law, at once.

        Args:
            raised: as in `Counters.simulate`; nobody sends nulls.
            rng: draws the dummies of all that are enrolled.
        """
        counts = self.noise.simulated(self.levels, self._more, rng)
        counts[: self._counters] += np.asarray(raised, np.int64)[: self._counters]
        return counts

    @property
    def _more(self) -> float:
        """How much more noise there is if everybody follows the protocol."""
        return self.enrolled / self.honest

    @property
    def lifts(self) -> list[int]:
        """How far a device's messages ever move a counter of each level, its own included."""
        return [1 + share.lift for share in self.shares]


@lru_cache(maxsize=32)  # each limit of each figure asks for the law of each level
def _level_laws(noise: DeviceNoise, more: float) -> list[IntegerNoise]:
    laws = noise.added(more)
    return [IntegerNoise(first - IntegerNoise(first, pmf).mean(), pmf) for first, pmf in laws]
