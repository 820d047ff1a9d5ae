"""Populations of numbers have the moments of their laws, and columns are scaled and clipped."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import special

from hushbeam.studies.populations.numbers import NumberPopulation, read_numbers
from pipelines.errors import RequestError


def every_value(numbers: NumberPopulation) -> np.ndarray:
    return np.concatenate(list(numbers.blocks()))


@pytest.mark.parametrize(
    ("text", "mean", "deviation"),
    [
        ("gauss:100000,0.1,0.05", 0.1, 0.05),
        ("exponential:100000,20", 0.05, 0.05),
        ("uniform:100000", 0, 1 / math.sqrt(3)),
        ("beta:100000,2,5", 2 * 2 / 7 - 1, 2 * math.sqrt(10 / (49 * 8))),
        ("spike:100000,0.8", 0.8, 0),
    ],
)
def test_made_populations_have_the_moments_of_their_laws(text, mean, deviation) -> None:
    (numbers,) = read_numbers([text])
    values = every_value(numbers)
    assert values.size == numbers.n == 100_000
    assert np.abs(values).max() <= 1
    assert numbers.mean == pytest.approx(values.mean(), abs=1e-12)
    assert values.mean() == pytest.approx(mean, abs=1e-5)
    assert values.std() == pytest.approx(deviation, abs=1e-4)
    assert numbers.title.endswith("(n = 100,000)")


def test_what_lies_beyond_is_clipped() -> None:
    (numbers,) = read_numbers(["exponential:10000,0.5"])
    values = every_value(numbers)
    assert np.mean(values == 1) == pytest.approx(math.exp(-0.5), abs=1e-4)
    assert values.min() >= 0
    (gauss,) = read_numbers(["gauss:10000,0,1"])
    below = np.mean(every_value(gauss) == -1)
    assert below == pytest.approx(special.ndtr(-1), abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 600_001])
def test_blocks_hold_everybody_once(n) -> None:
    (numbers,) = read_numbers(["gauss:7,0,0.3"], [n])
    values = every_value(numbers)
    assert np.array_equal(values, np.repeat(numbers.values, numbers.histogram))
    assert values.size == n
    assert abs(values.mean()) < 1e-4 + 1e-3 * (n < 10)  # symmetric, also where it is tiny


def test_a_column_is_scaled_clipped_and_rid_of_what_is_no_number(tmp_path) -> None:
    path = tmp_path / "log.parquet"
    floats = [0.0, 10.0, 5.0, 5.0, None, math.nan, math.inf, 99.0, -3.0]
    integers = [0, 10, 5, 5, None, None, None, 99, -3]
    decimals = [None if number is None else Decimal(number) for number in integers]
    words = ["a"] * len(floats)
    table = {"x": floats, "i": integers, "d": decimals, "w": words, "e": pa.nulls(9, pa.int8())}
    pq.write_table(pa.table(table), path)
    for column in "xid":
        (numbers,) = read_numbers([f"{path}:{column},0,10"])
        assert numbers.name == f"log:{column},0,10"
        assert sorted(every_value(numbers)) == [-1, -1, 0, 0, 1, 1]
        assert (numbers.low, numbers.high, numbers.n) == (0, 10, 6)
    with pytest.raises(RequestError, match="holds string"):
        read_numbers([f"{path}:w,0,1"])
    with pytest.raises(RequestError, match="holds no number"):
        read_numbers([f"{path}:e,0,1"])


def test_rows_that_are_chosen_are_the_same_ones_always(tmp_path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"x": np.arange(1000)}), path)
    some, more, everybody = read_numbers([f"{path}:x,0,999"], [100, 300, 1000])
    assert (some.n, more.n, everybody.n) == (100, 300, 1000)
    assert some.d == 100  # nobody twice
    assert {one.base for one in (some, more, everybody)} == {"log:x,0,999"}
    assert len({one.name for one in (some, more, everybody)}) == 3
    (again,) = read_numbers([f"{path}:x,0,999"], [100])
    assert again.digest == some.digest != more.digest
    with pytest.raises(RequestError, match=r"1 to 1,000 users can be chosen, not 1,001"):
        read_numbers([f"{path}:x,0,999"], [1001])


def test_the_digest_knows_the_values_and_not_their_counts_only() -> None:
    (one,), (other,) = read_numbers(["spike:10,0.5"]), read_numbers(["spike:10,0.25"])
    assert np.array_equal(one.histogram, other.histogram)
    assert one.digest != other.digest


@pytest.mark.parametrize(
    "text",
    [
        "gauss:100,0", "gauss:100,0,0", "gauss:100,0,-1", "gauss:x,0,1", "gauss:1.5,0,1",
        "gauss:0,0,1", "gauss:nan,0,1", "exponential:100,0", "exponential:100", "uniform:100,1",
        "uniform:", "uniform:1e10", "beta:100,0,1", "spike:100,1.5", "normal:100,10", "log.parquet",
        "log.parquet:x", "log.parquet:x,1", "log.parquet:x,1,1", "log.parquet:x,2,1",
        "log.parquet:x,nan,1", "nowhere.parquet:x,0,1",
    ],
)  # fmt: skip
def test_what_makes_no_population_is_refused(text) -> None:
    with pytest.raises(RequestError, match=r"^--data: "):
        read_numbers([text])
