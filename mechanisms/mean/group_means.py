"""The mean of each private group from a batch of joint reports: a quotient, and its interval."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.oracle import support_variance
from mechanisms.mean.fieller import unrefuted
from mechanisms.mean.intervals import half_width
from mechanisms.mean.key_value import KeyValue

_GROUPS_AT_ONCE = 1 << 8


class GroupMeans(NamedTuple):
    """What a batch of reports says about each group; values on the scale of [-1, 1].

    Attributes:
        share: (groups,) unbiased share of users in the group.
        share_error: (groups,) its standard error.
        ratio: (groups,) unbiased sum over unbiased share; NaN where the share is not positive.
        standard_error: (groups,) of the ratio, by the delta method; NaN where there is none.
        lower: (groups,) end of an interval inside [-1, 1].
        upper: (groups,) its other end.
    """

    share: Floats
    share_error: Floats
    ratio: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats


def group_means(
    mechanism: KeyValue, counts: Counts, confidence: float, worst: bool = False
) -> GroupMeans:
    """The mean of each group, with its error.

    Args:
        mechanism: what users ran.
        counts: (codes,) from its `count`, at least one of them positive.
        confidence: the probability that the interval of a group covers, in (0, 1).
        worst: take the largest variance that any values could have.

    Returns:
        The estimates. The interval holds every mean that the reports do not refute (Fieller):
        where a group may be empty, that is all of [-1, 1].

    Raises:
        ValueError: there is no report, or confidence is not inside (0, 1).

    Source: Fieller, "Some problems in interval estimation", J. Royal Statistical Society
        Series B, 1954.

    >>> means = group_means(KeyValue(5.0, groups=2), np.array([10, 30, 0, 0]), 0.95)
    >>> bool(means.lower[0] < means.ratio[0] < means.upper[0]), means.upper[1].item()
    (True, 1.0)
    """
    batch = _GroupSums.of(mechanism, counts, worst)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(batch.share > 0, batch.sums / batch.share, np.nan)
        # Values lie in [-1, 1], so no mean beyond needs an error of its own.
        centre = np.clip(ratio, -1, 1)
        error = np.sqrt(batch.variance(centre) / batch.n) / batch.share
        error = np.where(batch.share > 0, error, np.nan)
    lower, upper = _intervals(batch, centre, error, confidence)
    other = mechanism.points * mechanism.lie
    share_error = np.sqrt(
        support_variance(batch.likely, batch.n, mechanism.contrast + other, other)
    )
    return GroupMeans(batch.share, share_error, ratio, error, lower, upper)


@dataclass(frozen=True)
class _GroupSums:
    """What reports say of the groups, before anything is divided.

    Attributes:
        n: how many reports.
        share: (groups,) unbiased share of users in each group.
        sums: (groups,) unbiased sum of its values, over n.
        square: (groups,) estimated mean square of its grid points.
        worst: whether the largest variance is taken that any values could have.
    """

    mechanism: KeyValue
    n: int
    share: Floats
    sums: Floats
    square: Floats
    worst: bool

    @classmethod
    def of(cls, mechanism: KeyValue, counts: Counts, worst: bool) -> "_GroupSums":
        """The batch of some counts."""
        n, share, squares = int(np.sum(counts)), mechanism.estimate(counts), mechanism.grid**2
        # Lies fall on all grid points alike, so what they add to the squares is known.
        lies = mechanism.lie * mechanism.points * np.mean(squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = (mechanism.table(counts) @ squares / n - lies) / mechanism.contrast / share
        square = np.where(share > 0, own, 1.0)
        return cls(mechanism, n, share, mechanism.sums(counts), square, worst)

    @property
    def likely(self) -> Floats:
        """The shares, inside [0, 1]."""
        return np.clip(self.share, 0, 1)

    def columns(self, part: slice) -> "_GroupSums":
        """Some of the groups, as (some, 1), to be held against candidates for their means."""
        share, sums, square = (x[part, None] for x in (self.share, self.sums, self.square))
        return replace(self, share=share, sums=sums, square=square)

    def variance(self, means: Floats) -> Floats:
        """Of a user's part in (sum - mean * share), as `KeyValue.variance`."""
        most = 1 - means**2
        spread = most if self.worst else np.clip(self.square - means**2, 0, most)
        return self.mechanism.variance(self.likely, means, spread)

    def allowed(self, means: Floats, confidence: float) -> NDArray[np.bool_]:
        """Which means the reports do not refute."""
        mechanism = self.mechanism
        lies, own = mechanism.parts(means)
        shift = means * (mechanism.points * mechanism.lie / mechanism.contrast)
        reach = (1 + np.abs(means)) * (1 / mechanism.contrast + 1) + np.abs(shift)
        most = lies + np.maximum(own, 0)
        half = half_width(self.variance(means), most, reach, self.n, confidence)
        return np.abs(self.sums - means * self.share) <= half


def _intervals(
    batch: _GroupSums, centre: Floats, error: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """(groups,) the least and the largest mean that is not refuted; the centre never is."""
    lower, upper = np.full(centre.size, -1.0), np.full(centre.size, 1.0)
    for start in range(0, centre.size, _GROUPS_AT_ONCE):
        part = slice(start, start + _GROUPS_AT_ONCE)
        columns = batch.columns(part)
        lower[part], upper[part] = unrefuted(
            partial(columns.allowed, confidence=confidence), centre[part], error[part]
        )
    inside = np.isfinite(centre)
    lower[inside] = np.minimum(lower, centre)[inside]
    upper[inside] = np.maximum(upper, centre)[inside]
    return lower, upper
