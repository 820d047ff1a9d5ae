"""Many equal rounds: releases of a round that are alike count each."""

from __future__ import annotations

import pytest

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Guarantee
from mechanisms.papers.sparse_vector import accounted, shifted_loss


def test_two_equal_releases_of_a_round_count_twice():
    loss = shifted_loss(DiscreteLaplace(0.05, 1))
    each = Guarantee("central", 0.05, 1e-12, "row", "exact")
    both = Guarantee("central", 0.1, 2e-12, "row", "exact")
    twice = accounted(both, [loss, loss], 50, 1e-6)
    assert twice.epsilon == pytest.approx(accounted(each, [loss], 100, 1e-6).epsilon, rel=1e-9)
    assert twice.epsilon > 1.2 * accounted(each, [loss], 50, 1e-6).epsilon
