"""The mean of a number, or the frequencies of a category, from those users who reported it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.vector.quotients import Quotients

Attribute = ScalarMean | WithUnusable | FrequencyOracle


class AttributeEstimate(NamedTuple):
    """What a batch says of one attribute.

    Attributes:
        reports: how many users reported it.
        estimate: () the mean of a number in [-1, 1], or (domain_size,) frequencies: unbiased,
            never clipped; NaN where nobody reported it.
        variance: of the same shape, judged by the reports: their randomness and the choice of who
            reports; NaN where fewer than two did.
    """

    reports: int
    estimate: Floats
    variance: Floats


def attribute_estimate(mechanism: Attribute, counts: Counts, users: float) -> AttributeEstimate:
    """What the users who reported one attribute say of everybody.

    Args:
        mechanism: what randomised it.
        counts: (codes,) of its own codes.
        users: how many there are, of whom those who reported it are a uniform sample.

    Returns:
        The estimate, unbiased whoever reported. The variance of a number is that of reports of
        users drawn with replacement, which is too large if anything.
    """
    n = int(np.sum(counts))
    if isinstance(mechanism, WithUnusable):
        own = Quotients.of([mechanism], [counts])
        return AttributeEstimate(n, own.means[0], own.variances[0])
    shape = () if isinstance(mechanism, ScalarMean) else (mechanism.domain_size,)
    unknown = np.full(shape, np.nan)
    if n == 0:
        return AttributeEstimate(0, unknown, unknown)
    mean = mechanism.estimate(counts)
    if n == 1:
        return AttributeEstimate(1, mean, unknown)
    if isinstance(mechanism, ScalarMean):
        spread = float(counts @ mechanism.decoded**2) / n - float(mean) ** 2
        return AttributeEstimate(n, mean, np.asarray(max(spread, 0.0) / (n - 1)))
    likely = np.clip(mean, 0, 1)
    # Those who reported are a sample of the users without replacement: were it all of them, the
    # choice would add nothing.
    choice = max(1 - n / users, 0.0) * likely * (1 - likely) / n
    return AttributeEstimate(n, mean, mechanism.variance(likely, n) + choice)
