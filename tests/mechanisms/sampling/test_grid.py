"""A grid on [-1, 1]: its ends are kept, however fine it is."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.grid import Grid


@pytest.mark.parametrize("cells", [1, 4, 2**30, 2**31])
def test_the_ends_stay_where_they_are(cells: int) -> None:
    """At 2^31 cells the upper end is 2^63 of the die's steps: too far for a sign."""
    with np.errstate(all="raise"):
        made = Grid(cells).encode(np.array([-1.0, 0.0, 1.0] * 500), SeededRandom(1))
    assert {*made[::3].tolist()} == {0}
    assert {*made[2::3].tolist()} == {cells}
    assert np.abs(made[1::3] - cells / 2.0).max() <= 0.5
