"""Samplers: the reports that are made follow the law that privacy was proven for."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from tests.mechanisms.contract.cases import ALONE, CENTRAL, LISTED, TOGETHER, over
from tests.oracles.mean import lumped
from tests.oracles.statistics import follows, sample_size, tilted


@over(LISTED)
def test_channel_is_a_distribution(case):
    mechanism = case.mechanism
    for cell in range(mechanism.inputs):
        numerators, denominator = mechanism.weights(cell)
        assert len(numerators) == mechanism.outcomes
        assert sum(int(x) for x in numerators) == denominator
        assert min(numerators) >= 0
        np.testing.assert_allclose(mechanism.channel(cell).sum(), 1, rtol=1e-12)


def together(law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes put together to some half percent each; to less, if that would be all of them."""
    for least in (5e-3, 1e-3, 1e-4):
        groups, coarse = lumped(law, least)
        if coarse.size > 1:
            return groups, coarse
    raise AssertionError("one outcome is all that ever comes")


@pytest.mark.verify
@over(ALONE + TOGETHER + CENTRAL)
def test_sampler_follows_its_channel_and_no_other(case):
    """A false alarm comes once in 10^9 runs, and so is a law that is 30 % off let through."""
    listed = case.listed
    for cell in {0, listed.inputs // 2, listed.inputs - 1}:
        law = listed.channel(cell)
        groups, coarse = together(law)
        wrong = tilted(coarse)
        counts = listed.tally(cell, sample_size(coarse, wrong), SeededRandom(1000 + cell))
        assert counts[law == 0].sum() == 0
        coarse_counts = np.bincount(groups, counts, minlength=len(coarse))
        assert follows(coarse_counts, coarse)
        assert not follows(coarse_counts, wrong)


@over(LISTED)
def test_inputs_out_of_range_are_refused(case):
    for cell in (-1, case.mechanism.inputs):
        with pytest.raises(ValueError, match="cells"):
            case.mechanism.weights(cell)
