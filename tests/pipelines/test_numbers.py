"""What the jobs about numbers share: bounds, least batches, and how a statement begins."""

from __future__ import annotations

import pandas as pd
import pytest
from pydantic import ValidationError

import hushbeam
from mechanisms.channel import Guarantee
from pipelines.errors import RequestError
from pipelines.logs.numbers import of_squares, open_numbers, read_bounds
from pipelines.metrics.options import NumberOptions
from pipelines.releases.statement import counted, head, parquet
from pipelines.request.requests import request
from transforms.elements.progress import ROWS


def options(**changes: object) -> NumberOptions:
    asked = {"input": ("a",), "column": "v", "output": "out", "epsilon": 1.0, "bounds": "0,1"}
    return NumberOptions(**(asked | changes))


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("0,1", (0, 1)),
        ("-5,5", (-5, 5)),
        (" 1e3 , 2.5e3 ", (1000, 2500)),
        ("-1e307,1e307", (-1e307, 1e307)),
        ("0.1,0.2", (0.1, 0.2)),
    ],
)
def test_bounds_are_two_numbers(text, bounds):
    assert read_bounds(text) == bounds


@pytest.mark.parametrize(
    "text",
    [None, "", "1", "1,2,3", "x,1", "nan,1", "1,nan", "-inf,0", "2,1", "1,1"],
)
def test_what_are_no_bounds_is_refused_in_one_line(text):
    with pytest.raises(RequestError, match="--bounds") as caught:
        read_bounds(text)
    assert "\n" not in str(caught.value)


def test_bounds_whose_squares_are_no_numbers_are_refused():
    """A run that has drawn its noise, and been charged, is too late to learn of it."""
    ends = of_squares(read_bounds("-1e100,1e100"))
    assert ends == (-1e100, 1e100)
    frame = pd.DataFrame({"v": [1.0]})
    with pytest.raises(RequestError, match="squares are added up, so they must lie within 1e"):
        hushbeam.variance(frame, column="v", bounds=(-1e101, 0), epsilon=1)


def test_options_are_checked_before_anything_is_read():
    for wrong in ({"epsilon": 0}, {"delta": 1}, {"cells": 0}, {"colour": "red"}, {"input": ()}):
        with pytest.raises(ValidationError):
            options(**wrong)
    asked = {"input": ("a",), "column": "v", "output": "out", "epsilon": "nan"}
    with pytest.raises(RequestError, match="--epsilon must be a finite number, not 'nan'"):
        request(NumberOptions, asked)
    assert options().unit == "row"
    assert options(user_column="u").unit == "user"


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(RequestError, match="no file matches"):
        open_numbers(options(input=("no-such.parquet",), output=str(tmp_path / "out")))


def test_a_statement_begins_with_what_is_promised():
    local = Guarantee("local", 2.0, 0.0, "user", "by hand")
    released = Guarantee("shuffle", 1.0, 1e-6, "user", "by hand")
    start = head("mean", (released, local), "Values.", ["Beware."], 500)
    assert (start["release"], start["release_id"]) == ("mean", None)
    assert len(start["in_words"]) == 5
    assert "500 or more reports" in start["in_words"][0]
    assert start["in_words"][1] == "Values."
    assert start["in_words"][3] == "Beware."
    assert start["guarantees"]["local"]["epsilon"] == 2
    alone = head("mean", (local, local), "Values.", [], 1)
    assert len(alone["in_words"]) == 3


def test_a_statement_counts_rows_apart_from_rejects():
    found = counted(5, 1, {ROWS: 9, "null value": 3}, unusable=True, unit="row")
    assert (found["n"], found["rows_read"], found["invalid_reports"]) == (5, 9, 1)
    assert found["rejects"] == {"null value": 3}
    assert "rejects by reason" in found["published_exactly"]
    hidden = counted(5, 0, {ROWS: 5}, unusable=False, unit="row")
    assert hidden["published_exactly"] == "the number of reports and of rows read"


def test_a_statement_counts_no_rows_of_users():
    tallies = {ROWS: 9, "null user": 2, "asked for another metric": 1}
    found = counted(5, 0, tallies, unusable=False, unit="user")
    assert found == {
        "published_exactly": "the number of reports", "n": 5, "rejects": {}, "invalid_reports": 0
    }  # fmt: skip
    asked = counted(5, 0, tallies | {"null value": 3}, unusable=True, unit="user per window")
    assert asked["published_exactly"] == "the number of reports and of rejects by reason"
    assert asked["rejects"] == {"null value": 3}


def test_tables_become_files():
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"a": [1, 2]})
    assert pq.read_table(io.BytesIO(parquet(table))) == table
