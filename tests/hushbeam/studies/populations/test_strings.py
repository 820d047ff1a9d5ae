"""Strings that nobody declared, made and from a column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.populations.strings import read_strings
from pipelines.errors import RequestError


def test_made_strings_are_distinct_and_fit_their_alphabet() -> None:
    strings = read_strings(["zipf:1e6,1e4,1.1"])[0]
    assert len(set(strings.values)) == strings.d == len(strings.values) == 10_000
    assert {len(value) for value in strings.values} == {8, 9, 10, 11, 12}
    assert set("".join(strings.values)) == set(strings.characters)
    assert strings.max_length == 12
    assert strings.histogram[0] == strings.histogram.max()


def test_a_column_keeps_its_strings_beside_their_counts(tmp_path) -> None:
    path = tmp_path / "log.parquet"
    columns = {"word": ["b", "a", None, "b"], "number": [-7, 12, 12, 12], "real": [0.5] * 4}
    pq.write_table(pa.table(columns), path)
    words, numbers = read_strings([f"{path}:word", f"{path}:number"])
    assert (words.values, words.histogram.tolist()) == (("a", "b"), [1, 2])
    assert (words.characters, words.max_length) == ("", 32)
    assert (numbers.values, numbers.histogram.tolist()) == (("-7", "12"), [1, 3])
    assert (set(numbers.characters), numbers.max_length) == (set("-0123456789"), 10)
    with pytest.raises(RequestError, match="holds double"):
        read_strings([f"{path}:real"])


def test_what_makes_no_strings_is_refused(tmp_path) -> None:
    with pytest.raises(RequestError, match="makes no strings"):
        read_strings(["normal:100,10"])
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"x": ["a", folder]}), tmp_path / folder / "log.parquet")
    with pytest.raises(RequestError, match="two data sets are called log:x"):
        read_strings([f"{tmp_path}/{folder}/log.parquet:x" for folder in ("one", "other")])
