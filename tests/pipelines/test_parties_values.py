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


def metric(line_type: pa.DataType | None = None, **options: Any) -> Any:
    """As much of a metric as is asked."""
    asked = SimpleNamespace(column="city", **options)
    return SimpleNamespace(name="m", line_type=line_type or pa.string(), options=asked)


def read(
    monkeypatch: pytest.MonkeyPatch, data: bytes, line_type: pa.DataType | None = None
) -> list[pa.Table]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return list(values.tables(metric(line_type)))


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
    (table,) = read(monkeypatch, b"1\n2.5\nnan\nx\n", pa.float64())
    assert [str(value) for value in table["city"].to_pylist()] == ["1.0", "2.5", "nan", "None"]
    assert read(monkeypatch, b"") == []
