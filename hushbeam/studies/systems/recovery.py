"""Frequencies with what liars may have added taken off again, as LDPRecover does it."""

from __future__ import annotations

import numpy as np

from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.simplex import project


def ldp_recover(mechanism: FrequencyOracle, unbiased: Floats, ratio: float = 0.2) -> Floats:
    """Shares of honest users, if liars' reports support one value each on average.

    Liars' own estimates then add up to (1 - q d) / (p - q). Nobody knows on which values, so they
    are spread evenly over those whose estimate is positive; taken off in the proportion of liars,
    and projected on nonnegative shares that add up to 1.

    Args:
        mechanism: what perturbed the reports.
        unbiased: (d,) shares, poisoned or not.
        ratio: eta, how many liars there are for each honest user, as the collector supposes; the
            paper takes 0.2, whatever is true.

    Returns:
        (d,) shares. Where q d is far above 1 (hashes, unary encodings), what is taken off is
        negative: shares are raised, and the projection undoes it, but for those that were not
        positive.

    Source: Sun, Ye, Hu, Duan, Wo, Xu, Yang, "LDPRecover: Recovering frequencies from poisoning
        attacks against local differential privacy", ICDE 2024 (arXiv 2403.09351): the genuine
        frequency estimator f_X = (1 + eta) f_Z - eta f_Y with the adaptive attack's f_Y, and the
        refinement. Its LDPRecover*, which knows the targets, is not here.

    >>> from mechanisms.catalog import build
    >>> grr = build("grr", epsilon=1.0, domain_size=4)
    >>> ldp_recover(grr, np.array([0.6, 0.3, 0.1, 0.0])).round(3).tolist()
    [0.653, 0.293, 0.053, 0.0]
    """
    counted = np.flatnonzero(unbiased > 0)
    lying = np.zeros_like(unbiased)
    total = (1 - mechanism.other * unbiased.size) / mechanism.contrast
    lying[counted] = total / max(counted.size, 1)
    return project((1 + ratio) * unbiased - ratio * lying)
