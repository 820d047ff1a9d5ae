"""Populations: made ones add up to what they say, and a column is read as a histogram only."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushbeam.studies.populations.histograms import apportioned, read_histogram
from pipelines.errors import RequestError


def test_normal_is_the_normal_law_in_equal_bins() -> None:
    data = read_histogram("normal:600000,600")
    assert (data.n, data.d) == (600_000, 600)
    edges = np.linspace(-4, 4, 601)
    expected = np.diff(stats.norm.cdf(edges)) / (stats.norm.cdf(4) - stats.norm.cdf(-4))
    assert np.abs(data.histogram - 600_000 * expected).max() < 1
    assert data.histogram.argmax() in (299, 300)


def test_zipf_falls_like_its_exponent() -> None:
    data = read_histogram("zipf:1e6,100,2")
    assert (data.name, data.n, data.d) == ("zipf:1000000,100,2", 1_000_000, 100)
    assert data.histogram[0] / data.histogram[9] == pytest.approx(100, rel=1e-3)
    assert (np.diff(data.histogram) <= 0).all()
    assert read_histogram("zipf:1000,10").name == "zipf:1000,10,1.2"
    assert read_histogram("zipf:1000,10,0").histogram.tolist() == [100] * 10


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=30), st.integers(1, 10_000))
def test_apportioned_adds_up_and_is_off_by_less_than_one(weights: list[float], n: int) -> None:
    shares = np.array(weights) / np.sum(weights)
    counts = apportioned(shares, n)
    assert counts.sum() == n
    assert (np.abs(counts - shares * n) < 1 + 1e-6).all()
    assert (counts >= 0).all()


@pytest.mark.parametrize(
    ("values", "histogram"),
    [
        (pa.array([7, 3, 7, None, -1, 7]), [1, 1, 3]),
        (pa.array(["b", "a", "b"]), [1, 2]),
        (pa.array(["b", "a", None, "b"]).dictionary_encode(), [1, 2]),
        (pa.array([True, False, True]), [1, 2]),
        (pa.array([datetime.date(2026, 1, 2), datetime.date(2025, 1, 2)]), [1, 1]),
    ],
)
def test_a_column_is_counted_in_the_order_of_its_values(tmp_path, values, histogram) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"x": values, "other": values}), path, row_group_size=2)
    data = read_histogram(f"{path}:x")
    assert data.histogram.tolist() == histogram
    assert data.name == "log:x"


def test_the_digest_tells_data_apart(tmp_path) -> None:
    for name, values in (("a", [1, 2, 2]), ("b", [1, 1, 2])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    a, b = read_histogram(f"{tmp_path}/a.parquet:x"), read_histogram(f"{tmp_path}/b.parquet:x")
    assert a.digest != b.digest
    assert a.digest == read_histogram(f"{tmp_path}/a.parquet:x").digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("normal:600000", "is not of the form"),
        ("normal:600000,600,2", "is not of the form"),
        ("zipf:600000,600,1,1", "is not of the form"),
        ("zipf:1e5,x", "is not of the form"),
        ("zipf:1e5,10.5", "is not of the form"),
        ("zipf:nan,10", "is not of the form"),
        ("zipf:inf,10", "is not of the form"),
        ("zipf:100,10,-1", "exponent"),
        ("zipf:1,10", "1 users"),
        ("zipf:1e10,10", "10,000,000,000 users"),
        ("normal:100,1", "1 values"),
        ("normal:100,1e9", "1,000,000,000 values"),
        ("log.parquet", "is not of the form"),
        (":column", "is not of the form"),
        ("log.parquet:", "is not of the form"),
        ("nowhere.parquet:x", "there is no file"),
    ],
)
def test_what_is_no_data_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_histogram(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith("--data: ")
    assert "\n" not in str(caught.value)


def test_columns_that_are_no_categories_are_refused_without_a_value(tmp_path) -> None:
    path = tmp_path / "log.parquet"
    columns = {"real": [0.123456, 2.5], "list": [[1], [2]], "one": [77777, 77777]}
    pq.write_table(pa.table(columns), path)
    for column, said in (("real", "double"), ("list", "list"), ("one", "1 values"), ("no", "no")):
        with pytest.raises(RequestError) as caught:
            read_histogram(f"{path}:{column}")
        assert said in str(caught.value)
        assert not any(value in str(caught.value) for value in ("0.123456", "77777"))
