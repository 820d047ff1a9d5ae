"""Counters whose dummies the devices send, in reports that are all of one size.

A shuffler that takes sealed reports sees how many words each of them has, and with them, if a
device sent as many as it has, whether it had something to say. So every enrolled device fills the
same typed slots: those that its user may fill, some for its dummies, and nulls in the rest. How
many there are is then what the plan says, and how many nulls the collector sees is what the
counters leave of it, which tells nothing beside them: nulls need no dummies.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Messages
from mechanisms.counters.design import Range
from mechanisms.counters.device_design import SPARED, DeviceCounters
from mechanisms.counters.devices import PoissonCounters
from mechanisms.counters.levels import Layout
from mechanisms.counters.price import changes
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.integer_tables import poisson

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class SlottedDevices(DeviceCounters):
    """Counters, the devices' Poisson dummies in slots, and what holds for them.

    Attributes:
        room: of each level, how many slots of a report are for dummies. A device that draws more
            leaves out the rest: how likely that is for any device at all is a part of delta.

    >>> from mechanisms.counters.levels import Level
    >>> asked = [Level(1, 1)], "add or remove", 1.0, 1e-6, 10_000
    >>> count = SlottedDevices.of(DeviceCounters.meeting(*asked, laws=["poisson"]))
    >>> count.room, count.messages, round(count.variances[0], 1)
    ((5,), 6.0, 37.9)
    """

    room: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.noise, PoissonCounters):
            raise ValueError("slots are for Poisson dummies: clusters of others fill too many")
        if not (len(self.room) == len(self.levels) and min(self.room) >= 0):
            raise ValueError("room must be a number of slots, at least 0, for each level")

    @classmethod
    def of(cls, free: DeviceCounters, most_messages: float = math.inf) -> "Self":
        """The same counters and noise, in slots: as few as half of what is spared of delta allows.

        Args:
            free: of Poisson dummies.
            most_messages: how many slots a report may have.
        """
        levels, share = free.levels, SPARED * free.delta / 2 / len(free.levels)
        times = [changes(lv.slots, lv.counters, free.neighbours) for lv in levels]
        unit = share / (1 + math.exp(free.epsilon)) / free.enrolled
        parts = zip(free.shares, times, strict=True)
        room = tuple(poisson(one.most).end(unit / changed) for one, changed in parts)
        design = cls(**{f.name: getattr(free, f.name) for f in fields(free)}, room=room)
        if not design.messages <= most_messages:
            raise ValueError(
                f"a device's report would have {design.messages:,.0f} slots, {sum(room):,} of them "
                f"for its dummies, and may have {most_messages:,.0f}; have more devices, fewer "
                "counters, or more epsilon"
            )
        return design

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.levels, self.room)

    @property
    def distances(self) -> list[float]:
        parts = zip(super().distances, self.shares, self.room, strict=True)
        cut = [d + self.enrolled * poisson(one.most).beyond(room) for d, one, room in parts]
        return [min(distance, 1 - 2**-53) for distance in cut]  # which promises nothing

    @property
    def messages(self) -> float:
        return float(self.layout.types.size)

    @property
    def least_reports(self) -> int:
        """How many devices must have sent."""
        return self.honest

    @property
    def codes(self) -> int:
        return self.layout.codes

    @property
    def nulls(self) -> NDArray[np.int64]:
        return self.layout.nulls

    def filled(self, words: Messages, rng: RandomSource) -> Messages:
        """The reports of devices, dummies among them.

        Args:
            words: (n, k) what they have to say, nulls included; all nulls where they have no rows.
            rng: the generator of the client's process.

        Returns:
            (n, F) codes, each level's in ascending order: any other might tell which are dummies.
        """
        own = np.split(words, np.cumsum([level.slots for level in self.levels])[:-1], axis=1)
        parts: list[NDArray[np.uint64]] = []
        for place, (share, room) in enumerate(zip(self.shares, self.room, strict=True)):
            # What is left out depends on the dummies alone, never on what the device has to say.
            senders, places = np.divmod(np.sort(share.draw(len(words), rng)), share.bins)
            rank = np.arange(senders.size) - np.searchsorted(senders, senders)
            kept = rank < room
            drawn = np.full((len(words), room), self.layout.nulls[place], np.uint64)
            drawn[senders[kept], rank[kept]] = self.layout.starts[place] + places[kept]
            both = [own[place].astype(np.uint64), drawn]
            parts.append(np.sort(np.concatenate(both, axis=1), axis=1))
        return np.concatenate(parts, axis=1)

    def ranges(self, most: int) -> list[Range]:
        """None: nobody but the devices draws."""
        return []

    def reports(self, counts: ArrayLike) -> float:
        """How many devices have sent, by the words that came; less what a liar has spoilt."""
        return float(np.sum(counts)) / self.layout.types.size

    def centred(self, counts: ArrayLike) -> list[Floats]:
        """The counters of each level less the dummies of all devices that have sent: unbiased."""
        means = np.array(self.noise.expected) * self.reports(counts) / self.honest
        rows = zip(self.layout.split(counts), means.tolist(), strict=True)
        return [row - mean for row, mean in rows]

    def simulate(self, raised: ArrayLike, rng: SeededRandom) -> Counts:
        counts = super().simulate(raised, rng)
        sums = [int(row.sum()) for row in np.split(counts, self.layout.starts[1:-1])]
        slots = np.bincount(self.layout.types) * self.enrolled
        return np.concatenate([counts, slots - sums])

    @property
    def lifts(self) -> list[int]:
        """How far one device moves a counter of each level, whatever it sends."""
        return self.layout.poisoning
