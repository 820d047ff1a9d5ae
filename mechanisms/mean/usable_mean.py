"""The mean of those who have a number, and the share of those who have none, each with its error.

All is relative to the users who reported. The mean is a quotient of two unbiased estimates: the
sum of the numbers over all users, and the share of users who have one.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.mean.fieller import unrefuted
from mechanisms.mean.intervals import MeanEstimate, half_width
from mechanisms.mean.with_unusable import WithUnusable


class ShareEstimate(NamedTuple):
    """A share of the users.

    Attributes:
        share: as likely as any, in [0, 1].
        unbiased: straight from the counts.
        standard_error: of `unbiased`.
        lower: end of an interval inside [0, 1].
        upper: its other end.
    """

    share: float
    unbiased: float
    standard_error: float
    lower: float
    upper: float


def usable_mean(
    mechanism: WithUnusable, counts: Counts, confidence: float, worst: bool = False
) -> MeanEstimate:
    """The mean of those who have a number.

    Args:
        mechanism: what users ran.
        counts: (codes,) from its `count`, at least one of them positive.
        confidence: the probability that the interval covers, in (0, 1).
        worst: take the largest variance that any values could have, rather than the reports' own.

    Returns:
        The estimate, n being all who reported. Its interval holds every mean that the reports do
        not refute: where nobody may have a number that is all of [-1, 1]. `unbiased` is the
        quotient, NaN where nobody seems to have one.

    >>> from mechanisms.mean.two_point import duchi
    >>> mean = usable_mean(WithUnusable(duchi(3.0)), np.array([100, 300, 600]), 0.95)
    >>> round(mean.unbiased, 2), bool(mean.lower < mean.unbiased < mean.upper)
    (0.65, True)
    """
    batch = _Batch.of(mechanism, counts, worst)
    ratio = batch.sums / batch.share if batch.share > 0 else math.nan
    centre = np.clip([ratio], -1.0, 1.0)
    error = np.sqrt(batch.variance(centre) / batch.n) / max(batch.share, 0.0)
    (lower,), (upper,) = unrefuted(partial(batch.allowed, confidence=confidence), centre, error)
    middle = 0.0 if math.isnan(ratio) else float(centre[0])
    return MeanEstimate(
        batch.n, ratio, float(error[0]), min(float(lower), middle), max(float(upper), middle)
    )


def unusable_share(mechanism: WithUnusable, counts: Counts, confidence: float) -> ShareEstimate:
    """The share of users who have no number that can be used; arguments as `usable_mean`."""
    n, weights = int(np.sum(counts)), mechanism.presence
    unbiased = 1.0 - float(counts @ weights) / n
    share = min(max(unbiased, 0.0), 1.0)
    present, absent = mechanism.presence_moments
    # What a report varies by where its user has a number, and where not.
    with_one, without = present - 1, absent
    variance = (1 - share) * with_one + share * without
    reach = 1 + float(np.abs(weights).max())
    largest = np.array(max(with_one, without))
    half = float(half_width(np.array(variance), largest, np.array(reach), n, confidence))
    lower, upper = max(unbiased - half, 0.0), min(unbiased + half, 1.0)
    # Where no share agrees with the reports, the interval is no point either.
    lower, upper = min(lower, share, 1 - half / 2), max(upper, share, half / 2)
    return ShareEstimate(share, unbiased, math.sqrt(variance / n), max(lower, 0.0), min(upper, 1.0))


@dataclass(frozen=True)
class _Batch:
    """What reports say before anything is divided.

    Attributes:
        mechanism: what users ran.
        n: how many reports.
        sums: the unbiased sum of the numbers, over n.
        share: of users who have one, unbiased.
        squares: the mean square of `mechanism.sums` over the reports.
        known: of the numbers' squares, over n, a bound from below.
        worst: whether the largest variance is taken that any values could have.
    """

    mechanism: WithUnusable
    n: int
    sums: float
    share: float
    squares: float
    known: float
    worst: bool

    @classmethod
    def of(cls, mechanism: WithUnusable, counts: Counts, worst: bool) -> "_Batch":
        """The batch of some counts."""
        n, sums, presence = int(np.sum(counts)), mechanism.sums, mechanism.presence
        means = np.stack([presence, sums, sums**2]) @ counts / n
        share, total, squares = (float(mean) for mean in means)
        known = _squares(mechanism, share, squares)
        return cls(mechanism, n, total, share, squares, known, worst)

    def variance(self, means: Floats) -> Floats:
        """Of a user's part in (sum - mean * share), the values given; of the shape of `means`."""
        least, largest = self.mechanism.between(means)
        if self.worst:
            return largest
        usual, share = self.mechanism.presence[0], min(max(self.share, 0.0), 1.0)
        present, absent = self.mechanism.presence_moments
        total = self.squares - 2 * means * usual * self.sums
        total = total + means**2 * (share * present + (1 - share) * absent)
        # The spread of the numbers themselves is no error, as far as it is known.
        spread = np.maximum(self.known - 2 * means * self.sums + means**2 * share, 0)
        return np.asarray(np.clip(total - spread + 1 / self.mechanism.cells**2, least, largest))

    def allowed(self, means: Floats, confidence: float) -> NDArray[np.bool_]:
        """Which means the reports do not refute."""
        mechanism = self.mechanism
        sums, presence = (float(np.abs(x).max()) for x in (mechanism.sums, mechanism.presence))
        reach = sums + np.abs(means) * presence + 1 + np.abs(means)
        _, largest = mechanism.between(means)
        half = half_width(self.variance(means), largest, reach, self.n, confidence)
        return np.asarray(np.abs(self.sums - means * self.share) <= half)


def _squares(mechanism: WithUnusable, share: float, squares: float) -> float:
    """The numbers' mean square over all users, from that of the reports, or less.

    The mean square of a report is a known function of the number, and with most mechanisms a
    parabola. Elsewhere the parabola is lowered until it is nowhere above.
    """
    numbers = np.append(np.ones(mechanism.mechanism.inputs), 0.0)
    wanted = np.append(mechanism.mechanism.grid**2, 0.0)
    known = np.stack([numbers, 1 - numbers, mechanism.moments], axis=1)
    fitted = np.linalg.lstsq(known, wanted)[0]
    excess = float(np.max(known @ fitted - wanted))
    return float(fitted @ [share, 1 - share, squares]) - max(excess, 0.0)
