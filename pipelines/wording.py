"""A guarantee in words that a reader without the mathematics can hold us to."""

from __future__ import annotations

import math

from mechanisms.channel import Guarantee


def meaning(guarantee: Guarantee, min_reports: int) -> str:
    """What a guarantee promises, in two sentences.

    Args:
        guarantee: of one report (local) or of a batch (shuffle).
        min_reports: the least batch for which a shuffle guarantee was computed.
    """
    who = {
        "local": "anyone who sees a single report, the operator of this job included",
        "shuffle": f"anyone who sees this release, or the shuffled batch of {min_reports:,} or "
        "more reports it was made from",
    }[guarantee.model]
    what = (
        f"For {who}, had one {guarantee.unit}'s value been any other, the probability of whatever "
        f"they see would have changed by a factor of at most {factor(guarantee.epsilon)}"
    )
    if guarantee.delta:
        what += f", but for outcomes of total probability at most {guarantee.delta:g}"
    return f"{what}. (epsilon = {guarantee.epsilon:.6g}, delta = {guarantee.delta:g}; {guarantee.how}.)"


def factor(epsilon: float) -> str:
    """e^epsilon, rounded up.

    >>> factor(1.0), factor(12.0)
    ('2.72', '163,000')
    """
    value = math.exp(min(epsilon, 700))
    digits = 2 - math.floor(math.log10(value))
    scale = 10.0**digits
    rounded = math.ceil(value * scale * (1 - 1e-12)) / scale
    return f"{rounded:,.0f}" if digits <= 0 else f"{rounded:.{digits}f}"
