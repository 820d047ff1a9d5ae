"""Avro's blocks in step: the same values as row by row, and no row of damaged bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from transforms.files import avro
from transforms.files.avro_columns import BlockBytes, ColumnsInStep
from transforms.files.source import UnreadableError, look, tables

ROWS = 1000
ENDS = [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**55, -(2**55), 2**62, 2**63 - 1,
        -(2**63)]  # fmt: skip
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
INNER = [{"name": "s", "type": "string"}, {"name": "c", "type": "Colour"},
         {"name": "n", "type": ["null", "long"]}]  # fmt: skip
KINDS: dict[str, Any] = {
    "long": "long",
    "colour": COLOURS,
    "inner": {"type": "record", "name": "Inner", "fields": INNER},
    "text": "string",
    "maybe": ["null", "string"],
    "double": "double",
    "float": "float",
    "truth": "boolean",
    "nothing": "null",
    "never": ["null"],
    "two": ["int", "null", "long"],
    "any": ["string", "double", "null", "Inner"],
    "hash": {"type": "fixed", "name": "Hash", "size": 3},
    "maybe_double": ["double", "null"],
    "maybe_colour": ["null", "Colour"],
    "bytes": "bytes",
    "small": "int",
}


def rows(number: int = ROWS) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)

    def row(k: int) -> dict[str, Any]:
        text = "\N{SNOWMAN}x" * int(rng.geometric(0.1))
        colour = ("RED", "BLUE")[k % 2]
        inner = {"s": text, "c": colour, "n": None if k % 3 else ENDS[k % len(ENDS)]}
        return {
            "long": ENDS[k % len(ENDS)] if k % 2 else int(rng.integers(1 << 62)) >> k % 62,
            "colour": colour, "inner": inner, "text": text, "maybe": None if k % 5 else text[:2],
            "double": float(k) / 3, "float": k / 4, "truth": k % 3 == 0, "nothing": None,
            "never": None, "two": (None, k, 2**40 + k)[k % 3],
            "any": (text, 0.5, None, inner)[k % 4], "hash": k.to_bytes(3, "big"),
            "maybe_double": None if k % 7 else k / 2, "maybe_colour": None if k % 2 else colour,
            "bytes": bytes([k % 256] * (k % 4)), "small": k - ROWS // 2,
        }  # fmt: skip

    return [row(k) for k in range(number)]


def content(kinds: dict[str, Any], records: list[Any], interval: int = 800) -> bytes:
    sink = io.BytesIO()
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "row", "fields": fields}
    fastavro.writer(sink, schema, records, sync_interval=interval)
    return sink.getvalue()


def both(path: Path, columns: list[str], monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """The rows in step, and one by one."""
    ways = []
    for least in (1, 1 << 40):
        monkeypatch.setattr(avro, "_IN_STEP", least)
        if least > 1:
            monkeypatch.setattr(ColumnsInStep, "read", None)
        ways.append(pa.concat_tables(tables(str(path), columns)))
    monkeypatch.undo()
    return ways


@pytest.mark.parametrize("interval", [1, 800, 1 << 30])
def test_every_kind_is_read_in_step_as_row_by_row(
    interval: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.avro"
    records = rows(ROWS if interval > 1 else 200)
    path.write_bytes(content(KINDS, records, interval))
    monkeypatch.setattr(avro, "_TOGETHER", 1 << 15)
    in_step, one_by_one = both(path, [*KINDS], monkeypatch)
    assert in_step.equals(one_by_one)
    assert in_step.schema == look(str(path)).schema
    for name in ("long", "text", "maybe", "two", "maybe_colour", "double", "hash"):
        assert in_step[name].to_pylist() == [record[name] for record in records]
    for name in KINDS:  # of which alone nothing else is read
        assert in_step[name].equals(both(path, [name], monkeypatch)[0][name])


def test_times_are_read_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {
        "day": {"type": "int", "logicalType": "date"},
        "at": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "clock": {"type": "long", "logicalType": "time-micros"},
        "noon": {"type": "int", "logicalType": "time-millis"},
    }
    records = [{"day": k, "at": None if k % 9 else 10**12 + k, "clock": k, "noon": k}
               for k in range(1000)]  # fmt: skip
    path = tmp_path / "log.avro"
    path.write_bytes(content(times, records))
    in_step, one_by_one = both(path, [*times], monkeypatch)
    assert in_step.equals(one_by_one)
    assert in_step["at"].type == pa.timestamp("ms", "UTC")


def test_lists_are_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"n": "long", "list": {"type": "array", "items": "long"}}
    records = [{"n": k, "list": [k] * (k % 3)} for k in range(1000)]
    path = tmp_path / "log.avro"
    path.write_bytes(content(kinds, records, 100))
    in_step, one_by_one = both(path, ["n", "list"], monkeypatch)
    assert in_step.equals(one_by_one)
    assert in_step.to_pylist() == records


def test_a_text_that_is_no_utf8_is_null_in_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"x": b"\xff\xfe" if k % 10 == 0 else b"ok\0"} for k in range(1000)]
    told = content({"x": "bytes"}, records, 50).replace(b'"bytes"', b'"string"')
    told = told.replace(b'{"name": "x", "type": "string"}', b'{"name": "x","type": "string"}', 1)
    path = tmp_path / "log.avro"
    path.write_bytes(told)
    in_step, one_by_one = both(path, ["x"], monkeypatch)
    assert in_step.equals(one_by_one)
    assert in_step["x"].to_pylist()[:2] == [None, "ok\0"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", b"\x80"),  # goes on behind the block
        ("long", b"\xff" * 10 + b"\x01"),  # longer than 64 bits
        ("int", b"\x80\x80\x80\x80\x20"),  # beyond 32 bits
        ("string", b"\x08abc"),  # longer than the block
        ("string", b"\x05abc"),  # of a length below 0
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (["null", "long"], b"\x04\x00"),  # of no branch
        (["null", "long"], b"\x01\x00"),
        (COLOURS, b"\x04"),  # of no symbol
        (COLOURS, b"\x01"),
        ("double", b"1234567"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_no_row_is_made_of_damaged_bytes(
    kind: Any, value: bytes, last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"long": b"\x02", "int": b"\x02", "string": b"\x06abc", "double": b"12345678"}
    good = whole.get(kind, b"\x00") if isinstance(kind, str) else b"\x00"
    values = [good] * 5 + [value] + [good] * 5 * (not last)
    monkeypatch.setattr(avro, "_IN_STEP", 1)
    path, sink = tmp_path / "log.avro", io.BytesIO(content({"x": kind}, []))
    sync = sink.getvalue()[-16:]
    sink.seek(0, io.SEEK_END)
    for one in values:
        sink.write(bytes([2, 2 * len(one)]) + one + sync)
    path.write_bytes(sink.getvalue())
    with pytest.raises(UnreadableError, match="is not a readable Avro file"):
        [*tables(str(path), ["x"])]


def test_numbers_of_every_length_end_where_they_end() -> None:
    values = np.array([*ENDS, *(1 << k for k in range(63)), *(-(1 << k) for k in range(63))])
    sink, starts = io.BytesIO(), []
    for value in values.tolist():
        starts.append(sink.tell())
        fastavro.schemaless_writer(sink, "long", value)
    numbers, after = BlockBytes([sink.getvalue()]).numbers(np.array(starts))
    assert numbers.tolist() == values.tolist()
    assert after.tolist() == [*starts[1:], sink.tell()]
    assert BlockBytes([sink.getvalue()]).after(np.array(starts)).tolist() == after.tolist()
