"""The laws of unary reports' sizes, and what leaving sizes out does."""

from __future__ import annotations

import numpy as np
import pytest

from hushbeam.studies.systems.set_sizes import SetSizes
from mechanisms.frequency.unary import Unary

SMALL = [Unary(1.0, 5), Unary(2.0, 4, symmetric=True)]


@pytest.mark.parametrize("mechanism", SMALL, ids=str)
def test_the_laws_are_those_of_all_reports(mechanism: Unary) -> None:
    law, keep, other = (np.zeros(mechanism.domain_size + 1) for _ in range(3))
    for report, likely in mechanism.report_law(0).items():
        law[len(report)] += float(likely)
        keep[len(report)] += float(likely) * (0 in report)
        other[len(report)] += float(likely) * (1 in report)
    sizes = SetSizes(mechanism)
    for made, expected in ((sizes.law, law), (sizes.keep, keep), (sizes.other, other)):
        np.testing.assert_allclose(made, expected, atol=1e-12)


@pytest.mark.parametrize("mechanism", SMALL, ids=str)
def test_estimates_are_unbiased_whatever_sizes_are_left_out(mechanism: Unary) -> None:
    """From the exact law of a user's report, as a batch of it; a size that is full is left out."""
    d, batch = mechanism.domain_size, 10**9
    supports, sizes = np.zeros((d + 1, d)), np.zeros(d + 1)
    for report, likely in mechanism.report_law(0).items():
        sizes[len(report)] += float(likely) * batch
        supports[len(report), list(report)] += float(likely) * batch
    known = SetSizes(mechanism)
    whole = np.rint(sizes).astype(np.int64)
    assert known.trusted(whole).all()
    np.testing.assert_allclose(known.estimate(supports, whole), np.eye(d)[0], atol=1e-6)
    crowded = whole.copy()
    crowded[2] += batch // 100
    assert known.trusted(crowded).tolist() == [size != 2 for size in range(d + 1)]
    np.testing.assert_allclose(known.estimate(supports, crowded), np.eye(d)[0], atol=1e-6)


def test_what_no_honest_client_sends_is_no_estimate() -> None:
    sizes = np.zeros(6, np.int64)
    sizes[5] = 1000
    with pytest.raises(ValueError, match="hardly any report"):
        SetSizes(SMALL[0]).estimate(np.zeros((6, 5), np.int64), sizes)
