"""Where populations come from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.populations.sources import (
    dice,
    is_number,
    made,
    numbers,
    once,
    parquet,
    read_columns,
    sizes,
)
from pipelines.errors import RequestError


class Named(NamedTuple):
    name: str
    text: str


def test_every_population_comes_once_in_the_order_of_the_request():
    def read(text):
        return [Named(f"{text}-{k}", text) for k in range(2)]

    populations = once(["b", "a", "b"], read)
    assert [one.name for one in populations] == ["b-0", "b-1", "a-0", "a-1"]
    with pytest.raises(RequestError, match="--data: two data sets are called x; rename a file"):
        once(["one", "other"], lambda text: [Named("x", text)])


def test_a_family_has_its_numbers():
    families = {"zipf": (2, 3)}
    assert made("zipf:1e2,5", families, 2, "FORM") == ("zipf", [100.0, 5.0])
    assert made("log.parquet:zipf", families, 2, "FORM") is None
    assert made("zipf", families, 2, "FORM") is None
    for text in ("zipf:", "zipf:1", "zipf:1,2,3,4", "zipf:1.5,2", "zipf:x,2", "zipf:1,inf"):
        with pytest.raises(RequestError, match=f"--data: {text} is not of the form FORM"):
            made(text, families, 2, "FORM")


def test_of_a_file_as_many_rows_are_used_as_it_has():
    assert sizes((), 10, "log") == (10,)
    assert sizes((3, 10), 10, "log") == (3, 10)
    for n in (1, 11):
        with pytest.raises(RequestError, match=f"of log 2 to 10 users can be chosen, not {n}"):
            sizes((5, n), 10, "log", least=2)


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


def test_a_column_is_there_once(tmp_path):
    path = str(tmp_path / "twins.parquet")
    whole = pa.array([1, 2], pa.int16())
    pq.write_table(pa.Table.from_arrays([whole, whole, whole], ["n", "n", "x"]), path)
    assert read_columns(path, ["x"]).schema.field("x").type == pa.int16()
    for column, has in (("n", "several columns"), ("absent", "no column")):
        with pytest.raises(RequestError, match=f"has {has} '{column}'; it has: n, n"):
            read_columns(path, [column])


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
