"""Populations of rows have the moments of their laws, and columns are scaled and clipped."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.populations.rows import RowPopulation, read_rows
from pipelines.errors import RequestError

PAPER = "gauss:10000,400,0.33333333,0.25"  # Multi-RPHM's: N(1/3, 1/16)


def every_row(rows: RowPopulation) -> np.ndarray:
    return np.concatenate(list(rows.blocks()))


def test_made_rows_have_the_moments_of_their_law() -> None:
    (rows,) = read_rows([PAPER], dimensions=[300])
    values = every_row(rows)
    assert values.shape == (rows.n, rows.d) == (10_000, 300)
    assert np.abs(values).max() == 1
    # 3,000,000 numbers, whose mean has a standard error of 1.4e-4; 6.5 of them.
    assert values.mean() == pytest.approx(0.33304, abs=9e-4)
    assert rows.mean == pytest.approx(values.mean(axis=0), abs=1e-12)
    assert rows.mean_square == pytest.approx(np.mean(values**2), abs=1e-12)
    assert rows.mean_square == pytest.approx(0.172978, abs=9e-4)
    assert rows.mean_square_of_means == pytest.approx(0.110914, abs=9e-4)
    assert rows.spread == pytest.approx(np.var(values.mean(axis=0)), rel=1e-9)
    # Numbers of a row, and of a column, have nothing to do with one another: 299,000 pairs.
    assert abs(np.corrcoef(values[:1000, :-1].ravel(), values[:1000, 1:].ravel())[0, 1]) < 0.012
    assert abs(np.corrcoef(values[:999].ravel(), values[1:1000].ravel())[0, 1]) < 0.012


def test_fewer_users_are_the_first_of_more() -> None:
    few, many = read_rows([PAPER], ns=[10, 30_000], dimensions=[200])
    assert np.array_equal(every_row(few), every_row(many)[:10])
    assert np.unique(every_row(many)[:, 0]).size > 20_000  # blocks do not repeat one another
    assert (few.name, many.name) == tuple(f"gauss:{n},200,0.333333,0.25" for n in (10, 30_000))
    assert few.digest != many.digest


def test_means_may_lie_apart() -> None:
    (rows,) = read_rows(["gauss:4000,50,0.1,0.1,0.2"])
    assert rows.spread == pytest.approx(0.04, rel=0.1)
    assert np.all(np.diff(rows.mean) > 0)
    assert rows.base == "gauss:0.1,0.1,0.2"


def test_columns_are_scaled_clipped_and_rid_of_gaps(tmp_path) -> None:
    path = tmp_path / "log.parquet"
    table = {
        "x": [0.0, 10.0, 5.0, None, math.nan, 99.0, -3.0, 5.0],
        "i": [1, 2, 3, 4, 5, 5, 1, None],
        "list": [[0, 2], [1, 1], [2, 0], [0, 0], [1, 1], [2, 2], [0, 1], [1, 1]],
        "bytes": pa.array([bytes([k, 255]) for k in range(8)], pa.binary(2)),
        "loose": pa.array([bytes([k, 255]) for k in range(8)]),
        "fixed": pa.array([[k, 0.5] for k in range(8)], pa.list_(pa.float32(), 2)),
        "gaps": [[1, 2], None, [1, 2], [1, 2], [1, 2], [1, None], [1, 2], [1, 2]],
    }
    pq.write_table(pa.table(table), path)
    (rows,) = read_rows([f"{path}:x=0,10:i=1,5:list=0,2"])
    assert every_row(rows).tolist() == [
        [-1, -1, -1, 1], [1, -0.5, 0, 0], [0, 0, 1, -1], [1, 1, 1, 1], [-1, -1, -1, 0],
    ]  # fmt: skip
    assert (rows.n, rows.d, rows.name) == (5, 4, "log:x=0,10:i=1,5:list=0,2")
    assert rows.mean == pytest.approx([0, -0.3, 0, 0.2])
    for column in ("bytes", "loose"):
        (rows,) = read_rows([f"{path}:{column}=0,255"])
        expected = [[k / 127.5 - 1, 1] for k in range(8)]
        assert every_row(rows) == pytest.approx(np.array(expected), abs=1e-6)
    (rows,) = read_rows([f"{path}:fixed=-1,1"])
    assert every_row(rows)[:3].tolist() == [[0, 0.5], [1, 0.5], [1, 0.5]]
    (rows,) = read_rows([f"{path}:gaps=0,4"])
    assert every_row(rows).tolist() == [[-0.5, 0]] * 6


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("word=0,1", "holds string"),
        ("uneven=0,1", "unequal"),
        ("none=0,1", "fewer than two rows"),
        ("nulls=0,1", "empty, unequal"),
        ("absent=0,1", "has no column 'absent'"),
        ("x=0,1:x=0,1", "named twice"),
        ("x=1,0", "not of the form"),
        ("x=0", "not of the form"),
        ("x=0,nan", "not of the form"),
        ("x=0,inf", "not of the form"),
    ],
)
def test_columns_without_rows_of_numbers_are_refused(tmp_path, column, said) -> None:
    path = tmp_path / "log.parquet"
    table = {"x": [0.1, 0.2], "word": ["a", "b"], "uneven": [[1], [1, 2]], "none": [math.nan, 1.0]}
    nulls = pa.array([None, None], pa.list_(pa.int64()))
    pq.write_table(pa.table({**table, "nulls": nulls}), path)
    with pytest.raises(RequestError, match=said):
        read_rows([f"{path}:{column}"])
