"""The rising fit: what it is, that it keeps order, and that it cannot hurt."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.postprocess.simplex import rising

pairs = st.lists(
    st.tuples(st.floats(-2, 2), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30
).map(np.array)


def by_definition(values: np.ndarray) -> np.ndarray:
    """The largest mean that any stretch up to a point has at the least, from there on."""
    n = values.size
    means = np.array([
        [values[a : b + 1].mean() if a <= b else np.nan for b in range(n)] for a in range(n)
    ])  # fmt: skip
    fit = [max(means[a, k:].min() for a in range(k + 1)) for k in range(n)]
    return np.clip(fit, 0, 1)


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_is_the_nearest_rising_curve(rows: np.ndarray) -> None:
    np.testing.assert_allclose(rising(rows[:, 0]), by_definition(rows[:, 0]), atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_limits_that_hold_a_rising_truth_hold_it_afterwards(rows: np.ndarray) -> None:
    truth = np.sort(rows[:, 1])
    low, high = truth - rows[:, 2], truth + rows[::-1, 2]
    assert (rising(low) <= truth + 1e-12).all()
    assert (truth <= rising(high) + 1e-12).all()
