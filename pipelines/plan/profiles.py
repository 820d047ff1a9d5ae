"""The curve behind what a metric's release promises: what a ledger composes tightly."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.metrics.metric import Metric
from pipelines.wording import upward

# Rounded up, so that an entry of a ledger stays short.
_EPSILON_DIGITS, _DELTA_DIGITS = 6, 4


def profile_of(metric: Metric, promised: Guarantee) -> PrivacyLoss:
    """What a metric's release reveals, at every epsilon.

    Returns:
        An upper bound that nowhere exceeds what the promise says, but for rounding; of a release
        without a promise, that it may reveal everything.
    """
    if not promised.epsilon < math.inf:
        return PrivacyLoss((0.0,), (1.0,))
    if metric.permanent is not None:  # the designs' own curves are of one window alone
        return PrivacyLoss.from_guarantee(promised)
    return _short(metric.profile)


@lru_cache(maxsize=256)  # of metrics of one shape, and again for each look at a plan
def _short(profile: PrivacyLoss) -> PrivacyLoss:
    """The same in fewer digits, none of them down."""
    points = zip(profile.epsilons, profile.deltas, strict=True)
    short = {
        upward(epsilon, _EPSILON_DIGITS): min(1.0, upward(delta, _DELTA_DIGITS))
        for epsilon, delta in points
    }
    shorter = PrivacyLoss.from_profile(list(short), list(short.values()))
    return shorter if profile.apart is None else replace(shorter, apart=_short(profile.apart))
