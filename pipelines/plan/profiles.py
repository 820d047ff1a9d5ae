"""The curve behind what a metric's release promises: what a ledger composes tightly."""

from __future__ import annotations

import math

from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.ledger.accounting import short
from pipelines.metrics.metric import Metric


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
    return short(metric.profile)
