"""What tables of noise have in common: all of 2^64, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.mean.additive import symmetric_table


def test_a_table_that_is_too_full_is_an_error():
    assert symmetric_table(np.array([3, 2, 1], np.uint64)).tolist() == [(1 << 64) - 6, 2, 1]
    with pytest.raises(ArithmeticError):
        symmetric_table(np.array([1 << 63, 1 << 62, 1], np.uint64))
