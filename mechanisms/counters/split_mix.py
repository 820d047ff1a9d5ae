"""Sums and means by split and mix, with the noise of the central Laplace mechanism.

Everyone splits a whole number into m shares; the shuffler splits its noise likewise, for a single
word would stand out, and mixes them all. The collector adds them up. Where it is to be hidden who
takes part, the shuffler adds mu + Z reports of zero besides, as dummies of the number of reports;
or everybody who may take part sends, a zero for nothing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    AsFields,
    Counts,
    Guarantee,
    Neighbours,
    require_epsilon,
    require_integer,
)
from mechanisms.counters.levels import require_unit
from mechanisms.counters.noise import LARGEST_MU, Laplace
from mechanisms.counters.price import Charge, Price, require_neighbours
from mechanisms.counters.shares import (
    LARGEST_MODULUS,
    MOST_SHARES,
    distance,
    least_shares,
    require_modulus,
    split,
    total,
)
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource, Words

if TYPE_CHECKING:
    from typing_extensions import Self

    from mechanisms.counters.levels import Slots

LOST_SHARE = (
    "Every share of every report must arrive: if one is lost or doubled, the total is a random "
    "number. The collector counts the words, and withholds where some are missing or left over."
)
ONE_LIAR = (
    "One malicious client can shift the total by any amount, unseen: there is no bound on "
    "poisoning."
)
SIGMA = 40.0
_COUNT_SHARE = 0.02  # of epsilon and delta, for the number of reports where presence is hidden
_SLACKS = (1e-12, 1e-3, 3e-3, 1e-2)  # of epsilon: what composing two laws from above may round up


def _laplace(epsilon: float, delta: float, shift: int) -> Laplace:
    """Noise of a sum, of which delta goes to the ends."""
    slope = epsilon / shift
    if not shift - math.log(delta) / slope < LARGEST_MU:
        raise ValueError(
            f"a range of {shift:,} units at epsilon {epsilon:g} needs noise beyond {LARGEST_MU:,} "
            "units; round to fewer units, or choose a larger epsilon"
        )
    return Laplace.ending(slope, delta, shift)


@dataclass(frozen=True)
class SplitMix(AsFields):
    """A sum of whole numbers by split and mix.

    Attributes:
        low: the smallest number of a person, at most 0.
        high: the largest one, at least 0 and above `low`.
        most: how many people report at the most.
        honest: how many of them split honestly and tell nobody their shares, at the least.
        modulus: q, a power of two above the range of all totals with noise.
        shares: m, the messages of a report.
        noise: of the sum.
        zeros: how many reports of zero the shuffler adds; None where the number of reports is
            public, as where everybody sends.
        neighbours: which inputs look alike.
        epsilon: of sum and number together, in nats.
        delta: in (0, 1); it holds the distance of the shares, too.
        sigma: the shares of two inputs with one total are 2^-sigma apart at the most.
        unit: as of `JobTotals`.

    >>> design = SplitMix.meeting(0, 1023, 10**6, 10**6, "replace", epsilon=1.0, delta=1e-6)
    >>> design.shares, design.modulus == 1 << 30, round(design.variance**0.5 / 1023, 2)
    (8, True, 1.41)
    """

    low: int
    high: int
    most: int
    honest: int
    modulus: int
    shares: int
    noise: Laplace
    zeros: Laplace | None
    neighbours: Neighbours
    epsilon: float
    delta: float
    sigma: float = SIGMA
    unit: float | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_unit(self.unit)
        require_neighbours(self.neighbours)
        require_modulus(self.modulus)
        _require_people(self.low, self.high, self.most, self.honest)
        if not (self.zeros is None or self.neighbours == "add or remove"):
            raise ValueError('reports of zero are added under "add or remove", and only there')
        lowest, highest = self.totals
        if not LARGEST_MODULUS > highest - lowest:
            raise ValueError("totals do not fit into 62 bits; have fewer units or fewer people")
        if not self.modulus > highest - lowest:
            raise ValueError(
                f"totals lie in {lowest:,} .. {highest:,} and would wrap around at "
                f"{self.modulus:,}; have a larger modulus, fewer units or fewer people"
            )

    @classmethod
    def meeting(
        cls,
        low: int,
        high: int,
        most: int,
        honest: int,
        neighbours: Neighbours,
        epsilon: float,
        delta: float,
        sigma: float = SIGMA,
        everybody: bool = False,
    ) -> "Self":
        """The noise, the modulus and the number of shares that meet a target.

        Args:
            low, high, most, honest, neighbours, epsilon, delta, sigma: as above.
            everybody: whether all who may take part send, a zero if they have nothing.

        Raises:
            ValueError: an argument is out of range, or nothing meets the target.
        """
        require_epsilon(epsilon)
        require_delta(delta)
        require_neighbours(neighbours)
        _require_people(low, high, most, honest)
        ends = (delta - _distance_delta(epsilon, sigma)) * (1 - 1e-3)
        if not ends > 0:
            raise ValueError(
                f"delta {delta:g} is below what sigma {sigma:g} takes at epsilon {epsilon:g}; "
                "choose a larger sigma"
            )
        # Zeros are reports, and cheap: they take little from the sum.
        part = 0.0 if neighbours == "replace" or everybody else _COUNT_SHARE
        shift = cls.shift(low, high, neighbours)
        for slack in _SLACKS:
            whole = epsilon * (1 - slack)
            zeros = _laplace(part * whole, part * ends, 1) if part else None
            noise = _laplace((1 - part) * whole, (1 - part) * ends, shift)
            fields = (noise, zeros, neighbours, epsilon, delta, sigma)
            widest = cls(low, high, most, honest, LARGEST_MODULUS, MOST_SHARES, *fields)
            lowest, highest = widest.totals
            modulus = 1 << (highest - lowest).bit_length()
            shares = least_shares(honest + 1, modulus, sigma)
            design = replace(widest, modulus=modulus, shares=shares)
            if design._spent <= delta:
                return design
        raise ValueError(
            f"epsilon {epsilon:g} at delta {delta:g} is out of reach; choose a larger one"
        )

    @staticmethod
    def shift(low: int, high: int, neighbours: Neighbours) -> int:
        """By how much one person changes what noise is added to, at the most."""
        return high - low if neighbours == "replace" else max(high, -low)

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest number that a person splits."""
        return self.low, self.high

    @property
    def totals(self) -> tuple[int, int]:
        """The smallest and the largest total with noise, if nobody lies."""
        (least, largest), far = self.ends, self.farthest
        return self.most * least - far, self.most * largest + far

    @property
    def farthest(self) -> int:
        """How far noise goes, at the most."""
        return self.noise.mu

    @property
    def variance(self) -> float:
        """Of the sum, in squared units; how numbers were rounded comes on top."""
        return self.noise.variance

    @cached_property
    def price(self) -> Price:
        """What the sum with noise, and the number of reports, reveal."""
        return Price(list(self._charges()), self.neighbours)

    def _charges(self, neighbours: Neighbours | None = None) -> Iterator[Charge]:
        shift = self.shift(self.low, self.high, neighbours or self.neighbours)
        yield Charge(self.noise.seen(shift), 1, 1)
        if self.zeros is not None:
            yield Charge(self.zeros.seen(), 1, 1)

    @cached_property
    def _spent(self) -> float:
        """Of delta: the noise's, and what the shares take."""
        return self.price.upper(self.epsilon) + _distance_delta(self.epsilon, self.sigma)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the shuffled shares, and on what it depends.

        Raises:
            ValueError: noise or shares are too few for what is claimed.
        """
        # The noise is one more party that splits honestly. Further ones, and liars, whose shares
        # are known, take nothing away: to add their shares is to process what is seen.
        near = distance(self.honest + 1, self.modulus, self.shares) <= 2.0**-self.sigma
        if not (near and self._spent <= self.delta):
            raise ValueError(
                f"this noise and {self.shares} shares do not meet epsilon {self.epsilon} at delta "
                f"{self.delta}; see `SplitMix.meeting`"
            )
        return Guarantee(
            "shuffle",
            self.epsilon,
            self.delta,
            "user",
            f"the exact law of the shuffler's noise ({self.neighbours}), and (1 + e^epsilon) "
            f"2^-{self.sigma:g} for what shuffled shares tell beside their total: an upper bound "
            f"that holds if at least {self.honest:,} people split honestly and tell nobody",
        )

    @cached_property
    def crowded(self) -> tuple[float, float]:
        """(epsilon, delta) where more people come than `most`, of whom as many are drawn uniformly.

        One person more takes another's place there, so that this is the price of a replacement.
        """
        shifts = [self.shift(self.low, self.high, n) for n in (self.neighbours, "replace")]
        if shifts[0] == shifts[1]:
            return self.epsilon, self.delta
        twice = 2 * self.epsilon
        both = Price(list(self._charges("replace"))[:1], "replace")
        return twice, both.upper(twice) + _distance_delta(twice, self.sigma)

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""

        def near(epsilon: float) -> float:
            return _distance_delta(epsilon, self.sigma)

        own = self.price.profile(self.epsilon, near)
        if self.neighbours == "replace":
            return own
        # Another person takes one's place: the number of reports stays.
        both = Price(list(self._charges("replace"))[:1], "replace")
        return replace(own, apart=both.profile(2 * self.epsilon, near))

    def reports(self, numbers: ArrayLike, rng: RandomSource) -> Words:
        """What people send: a row of `shares` words each, sealed as a whole.

        Args:
            numbers: (n,) whole numbers in low .. high; `whole_amounts` rounds.
            rng: the generator of the client's process.
        """
        whole, (least, largest) = np.asarray(numbers), self.ends
        if not (whole.dtype.kind in "iu" and ((whole >= least) & (whole <= largest)).all()):
            raise ValueError(f"numbers must be integers in {least:,} .. {largest:,}")
        return self.split(whole, rng)

    def summands(self, units: "Slots", present: NDArray[np.bool_]) -> "Slots":
        """(n,) what people split who have so many units, and 0 of who has no number."""
        return np.where(present, units, 0)

    def split(self, numbers: ArrayLike, rng: RandomSource) -> Words:
        """(n, m) words of whole numbers, of people or of noise."""
        return split(numbers, self.modulus, self.shares, rng)

    def draw(self, rng: RandomSource) -> Counts:
        """(1,) the noise of the sum: to be drawn once a window."""
        return self.noise.draw(1, rng) - self.noise.mu

    def mix(self, reports: Words, rng: RandomSource) -> tuple[Words, int]:
        """The shuffler: noise and zeros added, all words in random order. Once a window.

        Args:
            reports: (n, m) as people sent them.
            rng: the generator of the shuffler's process; a key that is destroyed after use.

        Returns:
            (the words, how many reports they are of).

        Raises:
            ValueError: a report has too few or too many words, which would spoil the sum; or fewer
                reports came than honest ones are claimed, where their number is public.
        """
        if not (reports.ndim == 2 and reports.shape[1] == self.shares):
            raise ValueError(f"every report must have {self.shares} words; drop those that do not")
        # To withhold for want of people would tell who takes part where that is hidden.
        if not (self.neighbours == "add or remove" or len(reports) >= self.honest):
            raise ValueError(
                f"withheld: {len(reports):,} reports came, and {self.honest:,} must be honest; "
                "collect for longer"
            )
        empty = 0 if self.zeros is None else int(self.zeros.draw(1, rng)[0])
        own = self.split(np.append(self.draw(rng), np.zeros(empty, np.int64)), rng)
        every = np.concatenate([reports, own])
        return every.ravel()[rng.permutation(every.size)], len(every)

    def estimate(self, words: Words, reports: int) -> int:
        """The collector: the sum, unbiased.

        Args:
            words: all that the shuffler gave.
            reports: how many reports it says they are of.

        Raises:
            ValueError: the sum is withheld: words are missing or too many, or it cannot be true.
        """
        if not words.size == reports * self.shares:
            raise ValueError(
                f"withheld: {words.size:,} words came, not {self.shares} of each of {reports:,} "
                "reports; shuffle the window's reports again"
            )
        if not reports <= self.most + 1 + (0 if self.zeros is None else 2 * self.zeros.mu):
            raise ValueError(
                f"withheld: more reports came than {self.most:,} people send, so the sum may have "
                "wrapped around; have a larger `most`"
            )
        if not (words < np.uint64(self.modulus)).all():
            raise ValueError(f"withheld: words must be below {self.modulus:,}")
        return self.decode(total(words, self.modulus))

    def decode(self, added: int) -> int:
        """The sum that all words added up to, mod q.

        Raises:
            ValueError: the sum is withheld: it cannot be true.
        """
        lowest, highest = self.totals
        total = lowest + (added - lowest) % self.modulus
        if not total <= highest:
            raise ValueError("withheld: the sum lies beyond what people and noise can add up to")
        return total

    def people(self, reports: int) -> int:
        """How many reported: exactly where that is public, with noise where presence is hidden."""
        return reports - 1 - (0 if self.zeros is None else self.zeros.mu)


def _distance_delta(epsilon: float, sigma: float) -> float:
    """What the distance of the shares adds to delta, for either neighbour."""
    return 2.0**-sigma * (1 + math.exp(epsilon)) if epsilon < 700 else math.inf


def _require_people(low: int, high: int, most: int, honest: int) -> None:
    for name, size in (("low", low), ("high", high), ("most", most), ("honest", honest)):
        require_integer(name, size)
    if not low <= 0 <= high or low == high:
        raise ValueError(f"numbers must have a range that holds 0, not {low:,} .. {high:,}")
    if not 1 <= honest <= most:
        raise ValueError(f"honest must lie in 1 .. {most:,}, the most that report, not {honest:,}")
