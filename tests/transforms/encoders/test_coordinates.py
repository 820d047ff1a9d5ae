"""Coordinates picked from columns and lists: the right numbers, uniformly, rounded without bias."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.two_point import duchi
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.encoders import encode_table
from tests.oracles.statistics import follows, sample_size
from transforms.encoders.attributes import Category, Number, NumberList
from transforms.encoders.block import CellBlock
from transforms.encoders.bounds import Bounds
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.domain import IntegerRange

LIMITS = [Bounds(-1.0, 1.0), Bounds(0.0, 100.0), Bounds(-5.0, 0.0)]


def picked(attributes, mechanism, table, seed=1) -> np.ndarray:
    """(n, k) the picked cells."""
    encoder = CoordinateEncoder(attributes, mechanism)
    block, _ = encode_table(encoder, table, rng=SeededRandom(seed))
    assert block.cells.dtype == np.uint32
    assert block.users is None
    return block.cells


def rows_of(n: int, width: int) -> np.ndarray:
    """(n, width) grid points of 8 cells in [-1, 1], different in every coordinate and row."""
    return ((np.arange(n * width).reshape(n, width) * 7) % 9) / 4 - 1


@pytest.mark.parametrize("sampled", [1, 2, 4])
@pytest.mark.parametrize("shape", ["columns", "list", "fixed list", "both", "integers"])
def test_what_is_picked_is_what_stands_there(sampled, shape):
    """On grid points rounding draws nothing, so every cell can be held against its row."""
    n, d = 3000, 4
    rows = rows_of(n, d)
    mechanism = SampledCoordinates(1.0, d, sampled, duchi(1.0 / sampled, cells=8))
    one, names = Bounds(-1.0, 1.0), [f"f{i}" for i in range(d)]
    columns = {name: rows[:, i] for i, name in enumerate(names)}
    attributes = tuple(Number(name, one) for name in names)
    if shape == "integers":
        columns = {name: (4 * values).astype(np.int8) for name, values in columns.items()}
        attributes = tuple(Number(name, Bounds(-4.0, 4.0)) for name in names)
    elif shape == "list":
        columns, attributes = {"v": pa.array(rows.tolist())}, (NumberList("v", d, one),)
    elif shape == "fixed list":
        flat = pa.array(rows.ravel())
        columns = {"v": pa.FixedSizeListArray.from_arrays(flat, d)}
        attributes = (NumberList("v", d, one),)
    elif shape == "both":
        columns = {"x": rows[:, 0], "v": pa.array(rows[:, 1:].tolist())}
        attributes = (Number("x", one), NumberList("v", d - 1, one))
    cells = picked(attributes, mechanism, pa.table(columns))
    assert cells.shape == (n, sampled)
    coordinates, inner = np.divmod(cells, mechanism.mechanism.inputs)
    expected = np.take_along_axis(rows, coordinates.astype(np.int64), axis=1)
    np.testing.assert_array_equal(mechanism.mechanism.grid[inner], expected)
    assert (np.diff(coordinates.astype(np.int64), axis=1) > 0).all()


def test_every_coordinate_is_as_likely():
    d = 5
    law = np.full(d, 1 / d)
    n = sample_size(law, law * np.array([1.3, 0.925, 0.925, 0.925, 0.925]))
    mechanism = multi_hm(1.0, d, cells=4)
    table = pa.table({"v": pa.array(np.zeros((n, d)).tolist())})
    cells = picked((NumberList("v", d, LIMITS[0]),), mechanism, table, seed=9)
    assert follows(np.bincount(cells[:, 0] // 5, minlength=d), law)


def test_rejected_rows_leave_no_word():
    table = pa.table({"v": pa.array([[0.0, 1.0], [np.nan, 1.0], None, [1.0], [1.0, 1.0]])})
    mechanism = SampledCoordinates(1.0, 2, 1, duchi(1.0, cells=2))
    encoder, rng = CoordinateEncoder((NumberList("v", 2, LIMITS[0]),), mechanism), SeededRandom(1)
    for _ in range(20):
        block, rejects = encode_table(encoder, table, rng=rng)
        assert block.size == 2
        assert sum(rejects.values()) == 3
        assert set((block.cells % 3).ravel().tolist()) <= {1, 2}


def test_nothing_but_unusable_rows_is_nothing():
    table = pa.table({"v": pa.array([[], None], pa.list_(pa.float64()))})
    mechanism = SampledCoordinates(1.0, 2, 1, duchi(1.0, cells=2))
    encoder = CoordinateEncoder((NumberList("v", 2, LIMITS[0]),), mechanism)
    assert encode_table(encoder, table)[0].cells.shape == (0, 1)


@pytest.mark.parametrize("sampled", [1, 2])
def test_the_road_of_words_is_unbiased(sampled):
    """Different bounds for every coordinate; within 6 standard errors of the mechanism's own."""
    n, rng = 60_000, np.random.default_rng(4)
    scaled = np.clip(rng.normal([0.5, -0.2, 0.9], 0.3, (n, 3)), -1, 1)
    columns = {
        f"f{i}": bounds.low + (scaled[:, i] + 1) * bounds.half for i, bounds in enumerate(LIMITS)
    }
    attributes = tuple(Number(f"f{i}", bounds) for i, bounds in enumerate(LIMITS))
    mechanism = multi_optimal(2.0, 3, cells=16, sampled=sampled)
    cells = picked(attributes, mechanism, pa.table(columns), seed=21)
    messages = CellBlock(cells, None).perturbed(
        PublicGroups(mechanism.mechanism, 3), SeededRandom(22)
    )
    assert messages.size == sampled * n
    counts = mechanism.count(messages)
    estimate = mechanism.estimate(counts)
    error = np.sqrt(mechanism.variance(scaled).sum(axis=0)) / n
    assert (np.abs(estimate - scaled.mean(axis=0)) < 6 * error).all()
    ratio = mechanism.estimated_variance(counts) / error**2
    assert ((0.9 < ratio) & (ratio < 1.2)).all()  # the users' spread is in the reports' own


@pytest.mark.parametrize(
    ("attributes", "mechanism", "expected"),
    [
        ((Number("x", LIMITS[0]),), multi_hm(1.0, 2), "rows have 1 numbers"),
        ((Category("x", IntegerRange(0, 3)),), multi_hm(1.0, 1), "rows have 0 numbers"),
        ((NumberList("v", 1 << 13, LIMITS[0]),),
         SampledCoordinates(1.0, 1 << 13, 1, duchi(1.0, cells=1 << 20)), "use fewer cells"),
    ],
)  # fmt: skip
def test_refuses_what_does_not_fit(attributes, mechanism, expected):
    with pytest.raises(ValueError, match=expected):
        CoordinateEncoder(attributes, mechanism)
