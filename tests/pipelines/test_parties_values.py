"""Values that come one a line: any bytes, in bounded memory."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import RequestError
from pipelines.parties import values

LIMIT = 1 << 20


class Endless(io.RawIOBase):
    """A line that never ends; what it was asked for at most, and in all.

    Attributes:
        given: bytes so far.
    """

    given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = b"CANARY--"[:1] * len(buffer)
        self.given += len(buffer)
        assert self.given <= 4 * LIMIT, "it reads on and on"
        return len(buffer)


def metric(**types: pa.DataType) -> Any:
    """As much of a metric as is asked."""
    encoder = SimpleNamespace(line_types=types or {"city": pa.string()})
    return SimpleNamespace(name="m", encoder=lambda: encoder)


def read(monkeypatch: pytest.MonkeyPatch, data: bytes, **types: pa.DataType) -> list[pa.Table]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return list(values.tables(metric(**types)))


def test_an_endless_line_is_refused_by_its_number_alone(monkeypatch) -> None:
    endless = Endless()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(endless)))
    with pytest.raises(RequestError) as refusal:
        list(values.tables(metric()))
    assert str(refusal.value) == "--input: line 1 is longer than 1 MiB: values come one a line"
    assert endless.given < 2 * LIMIT


@pytest.mark.parametrize("before", [0, 1, 70_000])
def test_the_line_that_is_too_long_is_named(monkeypatch, before: int) -> None:
    longest = b"x" * (LIMIT - 1) + b"\n"
    data = b"CANARY\n" * before + longest
    tables = read(monkeypatch, data)
    assert sum(table.num_rows for table in tables) == before + 1
    assert len(tables[-1]["city"][-1].as_py()) == LIMIT - 1
    with pytest.raises(RequestError, match=rf"^--input: line {before + 2:,} is longer than 1 MiB"):
        read(monkeypatch, data + b"x" + longest)


def test_long_lines_are_not_gathered_without_bound(monkeypatch) -> None:
    tables = read(monkeypatch, (b"x" * (LIMIT - 1) + b"\n") * 20)
    assert sum(table.num_rows for table in tables) == 20
    assert max(table.nbytes for table in tables) <= 6 * LIMIT


def test_lines_are_values_or_nulls(monkeypatch) -> None:
    (table,) = read(monkeypatch, b"a\r\n\xff\n\nlast")
    assert table["city"].to_pylist() == ["a", None, "", "last"]
    (table,) = read(monkeypatch, b"1\n2.5\nnan\nx\n", city=pa.float64())
    assert [str(value) for value in table["city"].to_pylist()] == ["1.0", "2.5", "nan", "None"]
    assert read(monkeypatch, b"") == []


def test_rows_of_several_columns_come_as_json(monkeypatch) -> None:
    lines = [
        b'{"x": 1.5, "k": 3, "v": [1, 2.5]}',
        b'{"k": "4", "x": "2", "v": [], "more": 1}',
        b'{"x": true, "k": 2.5, "v": [1, null]}',
        b'{"k": 9007199254740993, "v": 5}',
        b'{"k": 1e400, "x": {}}',
    ]
    types = {"x": pa.float64(), "k": pa.int64(), "v": pa.list_(pa.float64())}
    (table,) = read(monkeypatch, b"\n".join(lines), **types)
    assert table["x"].to_pylist() == [1.5, 2.0, None, None, None]
    assert table["k"].to_pylist() == [3, 4, None, 9007199254740993, None]
    assert table["v"].to_pylist() == [[1, 2.5], [], None, None, None]
    (table,) = read(monkeypatch, b'{"v": [3]}', v=pa.list_(pa.float64()))
    assert table["v"].to_pylist() == [[3.0]]


@pytest.mark.parametrize(
    "line", [b'{"x": NaN, "k": 1}', b"CANARY", b"[1]", b"", b"\xff", b"[" * 5000], ids=repr
)
@pytest.mark.parametrize("before", [0, 70_000])
def test_a_line_that_is_no_object_is_refused_by_its_number_alone(
    monkeypatch, line: bytes, before: int
) -> None:
    """As a row without values it would be reported like any other."""
    data = b'{"x": 1, "k": 2}\n' * before + line + b"\n"
    with pytest.raises(RequestError) as refusal:
        read(monkeypatch, data, x=pa.float64(), k=pa.int64())
    assert str(refusal.value).startswith(f"--input: line {before + 1:,} is no JSON object: ")
    assert "CANARY" not in str(refusal.value)
