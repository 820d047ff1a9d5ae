"""Reports show the delta that IM spends."""

from __future__ import annotations

import pytest

from hushbeam.studies.papers.im import measured_delta
from mechanisms.papers import published
from mechanisms.privacy.divergence import tight_delta
from mechanisms.randomness import SeededRandom


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "claimed"),
    [
        (published.im_published(0.5, 0.01), 0.5, 0.01),
        (published.im_published(1.0, 0.01), 1.0, 0.01),
        (published.dct_published(0.1), 0.1, 0.0),
    ],
)
def test_reports_show_the_delta_that_was_enumerated(mechanism, epsilon, claimed) -> None:
    measured, error = measured_delta(mechanism, epsilon, 100_000, SeededRandom(2))
    assert abs(measured - tight_delta(mechanism, epsilon)) < 6.5 * error
    assert measured - 6.5 * error > claimed
