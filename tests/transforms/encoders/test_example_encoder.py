"""Rows that a model learns from: what lacks a value is there, and says that it has no target."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.randomness import SeededRandom
from tests.oracles.encoders import encode_table
from transforms.encoders.attributes import Category, Number
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import IntegerRange
from transforms.encoders.examples import ExampleEncoder

TABLE = pa.table(
    {
        "x": pa.array([1.0, None, 3.0, 4.0, float("inf")]),
        "k": pa.array([1, 1, 9, 2, 0], pa.int64()),
        "y": pa.array([0.0, 1.0, 2.0, None, 4.0]),
    }
)
X, Y, K = (Number("x", Bounds(0.0, 4.0)), Number("y", Bounds(0.0, 4.0)),
           Category("k", IntegerRange(0, 2)))  # fmt: skip
LACKING = [False, True, True, True, True]


@pytest.mark.parametrize("target", [Y, K])
def test_rows_that_lack_a_value_hold_public_ones_and_no_target(target) -> None:
    others = [one for one in (X, Y, K) if one != target]
    encoder = ExampleEncoder((*others, target))
    block, rejects = encode_table(encoder, TABLE, rng=SeededRandom(1))
    assert rejects == {}
    assert block.size == 5
    numbers, categories = block.numbers, block.categories
    told = np.isnan(numbers[:, -1]) if target is Y else categories[:, -1] == -1
    assert told.tolist() == LACKING
    looked_at = numbers[:, :-1] if target is Y else numbers
    assert not looked_at[1:].any()
    assert categories[0].tolist() == [1]
    if target is Y:
        assert not categories[1:].any()
