"""The share of units that have no value which can be used, as far as noise lets it be known."""

from __future__ import annotations

from typing import NamedTuple

# Above which share of units a reader is told, and above which nothing but the share is published.
MANY, ALL = 0.05, 0.95
# How sure the interval is whose lower end is held to either. What counts these units has 1 % of
# epsilon, so its noise is often more than all units: at 95 % one release in 80 of a small log said
# that half of it is unusable where a hundredth is. An end is passed by noise alone once in 2,000.
SURE = 0.999


class Share(NamedTuple):
    """The units that have no value which can be used.

    Attributes:
        estimate: their share, in 0 .. 1.
        lower: of its interval.
        upper: of it.
    """

    estimate: float
    lower: float
    upper: float

    @classmethod
    def of(cls, unbiased: float, lower: float, upper: float) -> Share:
        """One that lies in 0 .. 1, and within its interval."""
        inside = min(max(unbiased, 0.0), 1.0)
        return cls(inside, max(min(lower, inside), 0.0), min(max(upper, inside), 1.0))

    def __str__(self) -> str:
        ends = (f"{100 * end:.3g}" for end in (self.lower, self.upper))
        return f"{100 * self.estimate:.3g} % ({' to '.join(ends)} %)"

    @classmethod
    def of_counts(cls, unusable: tuple[float, float], usable: tuple[float, float]) -> Share:
        """The share of one noisy count among two.

        Whatever the noises have to do with each other: the share is least where few are unusable
        and all others usable, so both halves may be half as sure as the share is to be.

        Args:
            unusable: how many units there are, and how far off that may be.
            usable: the same of all others.

        >>> Share.of_counts((990.0, 3.0), (10.0, 3.0)).lower > 0.98
        True
        >>> Share.of_counts((1.0, 5.0), (-1.0, 5.0))  # of nobody nothing is known
        Share(estimate=1.0, lower=0.0, upper=1.0)
        """
        (none, far), (some, also) = unusable, usable

        def share(none: float, some: float, of_nobody: float) -> float:
            none, some = max(none, 0.0), max(some, 0.0)
            return none / (none + some) if none + some > 0 else of_nobody

        ends = share(none - far, some + also, 0.0), share(none + far, some - also, 1.0)
        return cls.of(share(none, some, 0.0), *ends)
