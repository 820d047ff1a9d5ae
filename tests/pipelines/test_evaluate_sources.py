"""Where populations come from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import RequestError
from pipelines.evaluate.sources import dice, is_number, kind_of, numbers, once, parquet


class Named(NamedTuple):
    name: str
    text: str


def test_every_population_comes_once_in_the_order_asked_for():
    def read(text):
        return [Named(f"{text}-{k}", text) for k in range(2)]

    found = once(["b", "a", "b"], read)
    assert [each.name for each in found] == ["b-0", "b-1", "a-0", "a-1"]
    with pytest.raises(RequestError, match="--data: two data sets are called x; rename a file"):
        once(["one", "other"], lambda text: [Named("x", text)])


@pytest.mark.parametrize("text", ["", "1,", "1,inf", "1;2", "nan", "1,0x"])
def test_what_are_no_finite_numbers_is_nothing(text):
    assert numbers(text) == []
    assert numbers("1,-2e3") == [1.0, -2000.0]


def test_a_file_that_cannot_be_read_is_named_and_not_shown(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"CANARY-VALUE")
    with (
        pytest.raises(RequestError, match="not a readable Parquet file") as caught,
        parquet(broken),
    ):
        pass
    assert "CANARY" not in str(caught.value)
    with (
        pytest.raises(RequestError, match="there is no file"),
        parquet(str(tmp_path / "absent.parquet")),
    ):
        pass


def test_a_column_has_one_kind(tmp_path):
    path = str(tmp_path / "twins.parquet")
    whole = pa.array([1, 2], pa.int16())
    pq.write_table(pa.Table.from_arrays([whole, whole, whole], ["n", "n", "x"]), path)
    with parquet(path) as file:
        assert kind_of(path, "x", file.schema_arrow) == pa.int16()
        for column in ("n", "absent"):
            with pytest.raises(RequestError, match=f"has no one column '{column}'; it has: n, n"):
                kind_of(path, column, file.schema_arrow)


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.int8(), True), (pa.float32(), True), (pa.decimal128(9, 2), True),
        (pa.string(), False), (pa.bool_(), False), (pa.list_(pa.int8()), False),
    ],
)  # fmt: skip
def test_numbers_have_a_mean(kind, fits):
    assert is_number(kind) is fits


def test_dice_depend_on_their_name_alone():
    first, again, other = (dice(name).words(100) for name in ("a 1", "a 1", "a 2"))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
