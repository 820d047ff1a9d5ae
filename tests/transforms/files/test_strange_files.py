"""Files as other programs write them: the right value of each, or one true line."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from transforms.expressions.values import column_values
from transforms.files import avro, format, parquet
from transforms.files.kinds import Agreed, agreed, micros, of_log, of_stream
from transforms.files.reading import PLAIN, Reading, parsed
from transforms.files.source import UnreadableError, begin, head, look, tables

END = 253_402_214_400  # 9999-12-31 in seconds, as Spark's "never ends"


def written(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def read(path: str, columns: list[str], reading: Reading = PLAIN) -> dict[str, list[Any]]:
    """Columns of a file whose rows are as many as a look at it says."""
    parts = [*tables(path, columns, reading)]
    assert sum(part.num_rows for part in parts) == look(path, reading).rows
    return pa.concat_tables(parts).to_pydict() if parts else {column: [] for column in columns}


def refusal(path: str, reading: Reading = PLAIN) -> str:
    with pytest.raises(UnreadableError) as caught:
        [*tables(path, look(path, reading).schema.names, reading)]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def of_parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


# ---- times


def int96(days: int) -> bytes:
    """Three INT96 times: a nanosecond before 1970, 7 ns into a day counted from 1970, and null."""
    nanos = pa.array([-1, 86_400 * 10**9 * 5 + 7, None], pa.timestamp("ns"))
    plain = of_parquet(
        pa.table({"t": nanos, "n": [1, 2, 3]}),
        use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False,
        write_statistics=False,
    )  # fmt: skip
    fifth = struct.pack("<qI", 7, 2_440_588 + 5)
    assert plain.count(fifth) == 1
    return plain.replace(fifth, struct.pack("<qI", 7, 2_440_588 + days))


@pytest.mark.parametrize("some", [1 << 20, 2])
@pytest.mark.parametrize(
    ("days", "seconds"),
    [
        (5, 5 * 86_400),
        (END // 86_400, END),
        (-200_000, -200_000 * 86_400),
        (2**31 - 2_440_589, None),
    ],
)
def test_int96_is_the_day_that_was_written_or_null(
    days: int, seconds: int | None, some: int, tmp_path: Path, monkeypatch
) -> None:
    """2^31 days are beyond 64 bits of microseconds: they came round to another time."""
    monkeypatch.setattr(parquet, "_SOME", some)
    monkeypatch.setattr(parquet, "_WHOLE", some - 1)
    path = written(tmp_path, "log.parquet", int96(days))
    assert look(path).schema.field("t").type == pa.timestamp("us")
    found = pa.concat_tables(tables(path, ["n", "t"]))["t"].cast(pa.int64()).to_pylist()
    # A nanosecond before 1970 is the microsecond before it, and no part of 1970.
    assert found == [-1, None if seconds is None else seconds * 10**6, None]


def test_nanoseconds_before_1970_round_down() -> None:
    nanos = [-1, -1000, -1001, 0, 999, 1000, None]
    wanted = [-1, -1, -2, 0, 0, 1, None]
    for zone in (None, "UTC", "Europe/Oslo"):
        column = pa.array(nanos, pa.timestamp("ns", zone))
        assert micros(column).cast(pa.int64()).to_pylist() == wanted
        assert micros(column).type == pa.timestamp("us", zone)
        # And so by expressions, whose days begin at midnight.
        assert column_values(column).cast(pa.int64()).to_pylist() == wanted


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_orc_names_the_column_whose_times_its_reader_cannot_hold(unit: str, tmp_path: Path) -> None:
    far = END * (10**6 if unit == "us" else 10**3)
    rows = pa.table({"n": [1, 2], "t": pa.array([0, far], pa.timestamp(unit))})
    sink = io.BytesIO()
    pyarrow.orc.write_table(rows, sink)
    path = written(tmp_path, "log.orc", sink.getvalue())
    assert read(path, ["n"]) == {"n": [1, 2]}
    said = refusal(path)
    assert "column 't' holds a time before 1677-09-21 or after 2262-04-11" in said


# ---- Avro


def of_avro(fields: dict[str, Any], rows: list[dict[str, Any]], codec: str = "null") -> bytes:
    sink = io.BytesIO()
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = {"type": "record", "name": "row", "namespace": "a.b", "fields": named}
    fastavro.writer(sink, schema, rows, codec=codec)
    return sink.getvalue()


NO_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 0}
NOTHING = {"type": "fixed", "name": "f", "size": 0}
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "c", "type": "Colour"}]}


@pytest.mark.parametrize(
    ("kind", "values", "arrow", "found"),
    [
        ({"type": "string", "logicalType": "datetime"}, ["a", "b"], pa.string(), ["a", "b"]),
        ({"type": "string", "logicalType": "uuid"}, ["a"], pa.string(), ["a"]),
        ({"type": "int", "logicalType": "unheard-of"}, [7], pa.int32(), [7]),
        ({"type": "long", "logicalType": "date"}, [7], pa.int64(), [7]),  # of int alone
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
         [Decimal("-1.23"), Decimal("999.99")], pa.decimal128(5, 2),
         [Decimal("-1.23"), Decimal("999.99")]),
        (NO_DECIMAL, [b"\1"], pa.binary(), [b"\1"]),
        (["null", "int", "long"], [None, 1, 2**40], pa.int64(), [None, 1, 2**40]),
        (["int", "double"], [1, 0.5], pa.float64(), [1.0, 0.5]),
        (["null", COLOURS], ["RED", None], pa.string(), ["RED", None]),
        ({"type": "array", "items": "double"}, [[1.0], []], pa.list_(pa.float64()), [[1.0], []]),
        ({"type": "long", "logicalType": "timestamp-millis"}, [END * 1000],
         pa.timestamp("ms", "UTC"), [END * 1000]),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, [2**62],
         pa.timestamp("us"), [2**62]),
    ],
)  # fmt: skip
def test_avro_is_what_its_specification_says(
    kind: Any, values: list, arrow: pa.DataType, found: list, tmp_path: Path
) -> None:
    plain = kind
    if isinstance(kind, dict) and kind.get("logicalType") not in (None, "decimal"):
        plain = {key: part for key, part in kind.items() if key != "logicalType"}  # as they are
    elif kind == NO_DECIMAL:
        plain = "bytes"
    content = of_avro({"x": plain}, [{"x": value} for value in values])
    content = _said(content, {"x": kind})
    path = written(tmp_path, "log.avro", content)
    assert look(path).schema.field("x").type == arrow
    [part] = tables(path, ["x"])
    column = part["x"].cast(pa.int64()) if pa.types.is_timestamp(arrow) else part["x"]
    assert column.to_pylist() == found


def _said(content: bytes, fields: dict[str, Any]) -> bytes:
    """The same file whose head says other types of its columns."""
    stream = io.BytesIO(content)
    head: Any = fastavro.schemaless_reader(stream, avro._HEAD, None)
    schema = json.loads(head["meta"]["avro.schema"])
    for field in schema["fields"]:
        field["type"] = fields.get(field["name"], field["type"])
    head["meta"]["avro.schema"] = json.dumps(schema).encode()
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, avro._HEAD, head)
    return sink.getvalue() + stream.read()


def test_names_of_avro_may_be_used_again(tmp_path: Path) -> None:
    fields = {
        "a": COLOURS,
        "b": ["null", "Colour"],
        "p": POINT,
        "q": {"type": "array", "items": "Point"},
    }
    row = {"a": "RED", "b": "BLUE", "p": {"c": "RED"}, "q": [{"c": "RED"}]}
    path = written(tmp_path, "log.avro", of_avro(fields, [row] * 3))
    # The type is defined in a column of which nobody asks.
    assert read(path, ["b"]) == {"b": ["BLUE"] * 3}
    assert read(path, ["p", "a"]) == {"p": [None] * 3, "a": ["RED"] * 3}


def snappy(content: bytes) -> bytes:
    packed = pa.Codec("snappy").compress(content, asbytes=True)
    return packed + zlib.crc32(content).to_bytes(4, "big")


def zstandard(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


def packed(content: bytes, codec: str, pack: Callable[[bytes], bytes]) -> bytes:
    """A file whose blocks are packed by a codec that fastavro does not bring."""
    stream = io.BytesIO(content)
    head: Any = fastavro.schemaless_reader(stream, avro._HEAD, None)
    head["meta"]["avro.codec"] = codec.encode()
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, avro._HEAD, head)
    stream.seek(0)
    for block in avro.Container(stream).blocks():
        bytes_of = pack(block.content)
        for number in (block.rows, len(bytes_of)):
            fastavro.schemaless_writer(sink, "long", number)
        sink.write(bytes_of + head["sync"])
    return sink.getvalue()


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_every_codec_of_avro_is_read(codec: str, tmp_path: Path) -> None:
    own = {"snappy": snappy, "zstandard": zstandard}.get(codec)
    rows = [{"n": k} for k in range(5000)]
    content = of_avro({"n": "long"}, rows, "null" if own else codec)
    content = packed(content, codec, own) if own else content
    assert read(written(tmp_path, "log.avro", content), ["n"]) == {"n": [*range(5000)]}
    short = written(tmp_path, "short.avro", content[:-20])
    assert "is not a readable Avro file" in refusal(short)


def test_another_codec_of_avro_is_named(tmp_path: Path) -> None:
    content = packed(of_avro({"n": "long"}, [{"n": 1}]), "lz4", bytes)
    said = refusal(written(tmp_path, "log.avro", content))
    assert "packed by another codec than null, deflate, snappy, zstandard, bzip2, xz" in said


def record(name: str, *kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"f{k}", "type": kind} for k, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


def nested(depth: int) -> Any:
    """A record that has 2^depth fields, of no size, in all."""
    kind: Any = "null"
    for level in range(depth):
        kind = record(f"r{level}", kind, f"r{level - 1}" if level else "null")
    return kind


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ({"type": "array", "items": "null"}, "column 'x' holds arrays of what takes no bytes"),
        ({"type": "map", "values": record("e")}, "column 'x' holds maps of what takes no bytes"),
        ({"type": "array", "items": NOTHING}, "column 'x' holds arrays"),
        ({"type": "array", "items": record("e", record("g", "null"))}, "column 'x' holds arrays"),
        (["null", {"type": "array", "items": {"type": "array", "items": "null"}}], "holds arrays"),
        (record("Tree", ["null", "Tree"]), "column 'x' holds records that hold themselves"),
        (nested(40), "column 'x' holds records within records of more than 100,000 fields"),
    ],
)  # fmt: skip
def test_what_no_bytes_of_avro_bound_is_refused_by_the_schema(
    kind: Any, said: str, tmp_path: Path
) -> None:
    """Of 2^31 rows, or of 2^31 items of one, in a column of which nobody asks."""
    content = _said(of_avro({"n": "int", "x": "int"}, [{"n": 1, "x": 1}]), {"x": kind})
    path = written(tmp_path, "log.avro", content)
    assert said in refusal(path)
    with pytest.raises(UnreadableError):
        [*tables(path, ["n"])]


def test_rows_of_avro_that_take_no_bytes_are_refused(tmp_path: Path) -> None:
    content = of_avro({"x": "null"}, [{"x": None}] * 3)
    assert "its rows take no bytes" in refusal(written(tmp_path, "log.avro", content))


def test_a_block_of_avro_has_a_bound(tmp_path: Path, monkeypatch) -> None:
    large = packed(of_avro({"x": "bytes"}, [{"x": bytes(1 << 17)}]), "zstandard", zstandard)
    monkeypatch.setattr(avro, "LARGEST_BLOCK", 1 << 16)
    for codec in ("null", "deflate", "bzip2", "xz"):
        content = of_avro({"x": "bytes"}, [{"x": bytes(1 << 17)}], codec)
        path = written(tmp_path, f"{codec}.avro", content)
        assert "a block of its rows is larger than" in refusal(path)
    with pytest.raises(format.Mangled, match="a block of its rows is larger than"):
        avro._snappy(snappy(bytes(1 << 17)))
    path = written(tmp_path, "zstandard.avro", large)
    assert "a block of its rows is larger than" in refusal(path)


def test_a_text_of_avro_that_is_no_utf8_is_null(tmp_path: Path) -> None:
    content = _said(of_avro({"x": "bytes"}, [{"x": b"\xff"}, {"x": b"ok"}]), {"x": "string"})
    assert read(written(tmp_path, "log.avro", content), ["x"]) == {"x": [None, "ok"]}


# ---- text


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_json_lines_may_begin_with_a_mark(packed: str, tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"a": "1"}\r\n{"a": "2"}\n'
    if packed:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, format.PACKED[packed]) as stream:
            stream.write(content)
        content = sink.getvalue().to_pybytes()
    assert read(written(tmp_path, f"log.jsonl{packed}", content), ["a"]) == {"a": ["1", "2"]}


@pytest.mark.parametrize(
    "value",
    [
        '[{"a": 1}, {"a": 2}]',
        '[\n{"a": 1}\n]',
        '[\n  {"a": 1},\n  {"a": 2}\n]',
        '{\n  "a": 1\n}',
        '[{"a": 1},\n{"a": 2}]',
        '\ufeff[\n{"a": 1}]',
    ],
)
def test_json_that_is_no_lines_is_refused_as_such(value: str, tmp_path: Path) -> None:
    path = written(tmp_path, "log.json", value.encode())
    assert "it is one JSON value, an array or one over many lines" in refusal(path)


@pytest.mark.parametrize(
    "lines", ['{"a": \n{"a": 2}', '[1]\n{"a": 2}', '"x"\n{"a": 2}', '{"a": "1\n{"a": 2}']
)
def test_a_torn_first_line_of_json_is_one_row(lines: str, tmp_path: Path) -> None:
    path = written(tmp_path, "log.jsonl", lines.encode())
    assert read(path, ["a"]) == {"a": [None, "2"]}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a,b", []),  # a header that ends without a line's end
        (b"\xef\xbb\xbfa,b\r\n1,2", ["1"]),
        (b'a,b\n"x\ny",2\r\n', ["x\ny"]),
        (b"a,b\n1\x00,2\n", ["1\x00"]),
        (b"a,b\r1,2\r", ["1"]),
    ],
)
def test_csv_as_many_programs_write_it(content: bytes, found: list, tmp_path: Path) -> None:
    path = written(tmp_path, "log.csv", content)
    assert look(path).schema.names == ["a", "b"]
    assert read(path, ["a"]) == {"a": found}


# ---- names


def of_stream_file(table: pa.Table, codec: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table, max_chunksize=2)
    return sink.getvalue()


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("name", ["log.arrow", "log.arrows", "log.ipc", "log"])
def test_streams_of_arrow_are_read(name: str, codec: str | None, tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "y", None], "n": [1, 2, 3]})
    path = written(tmp_path, name, of_stream_file(table, codec))
    assert read(path, ["n"]) == {"n": [1, 2, 3]}
    assert read(path, ["n", "a"]) == table.select(["n", "a"]).to_pydict()


def test_dictionaries_of_a_stream_may_grow(tmp_path: Path) -> None:
    sink, schema = io.BytesIO(), pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))])
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for texts in (["x"], ["x", "y"]):
            column = pa.DictionaryArray.from_arrays([*range(len(texts))], texts)
            stream.write_batch(pa.record_batch([column.cast(schema.field(0).type)], schema))
    path = written(tmp_path, "log.arrows", sink.getvalue())
    decoded = pc.cast(pa.concat_tables(tables(path, ["a"]))["a"], pa.string())
    assert decoded.to_pylist() == ["x", "x", "y"]


def test_a_name_without_an_ending_is_what_its_first_bytes_say(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2]})
    orc, arrow = io.BytesIO(), io.BytesIO()
    pyarrow.orc.write_table(rows, orc)
    with pa.ipc.new_file(arrow, rows.schema) as file:
        file.write_table(rows)
    avro = of_avro({"n": "long"}, [{"n": 1}, {"n": 2}])
    for k, content in enumerate((of_parquet(rows), orc.getvalue(), arrow.getvalue(), avro)):
        assert read(written(tmp_path, f"part-{k}.file", content), ["n"]) == {"n": [1, 2]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "app.log",
            b"12:00 x\n",
            "what {} is cannot be told: neither its name nor its first bytes",
        ),
        ("log.txt", b"a,b\n1,2\n", "give text a name that ends in .csv, .tsv, .jsonl, .ndjson"),
        (
            "log.csv.zip",
            b"PK\x03\x04" + bytes(40),
            "begins as zip does, which is not read: save it as Parquet or CSV",
        ),
        ("log.csv", b"\x1f\x8b" + bytes(40), "its first bytes are those of gzip"),
        ("log.parquet", b"ORC" + bytes(40), "those of ORC: give it a name that ends in .orc"),
        ("log.orc", b"PAR1" + bytes(40), "those of Parquet: give it a name that ends in .parquet"),
        ("log.parquet", b"SQLite format 3\x00", "those of SQLite: that is not read here"),
    ],
)
def test_what_a_file_is_instead_is_said(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, content)
    assert said.format(path) in refusal(path)


def test_a_short_memory_is_told_as_such(tmp_path: Path, monkeypatch) -> None:
    path = written(tmp_path, "log.parquet", of_parquet(pa.table({"n": [1]})))
    for error, said in (
        (MemoryError(), "its reader needs more memory than there is"),
        (pa.ArrowMemoryError("CANARY"), "its reader needs more memory than there is"),
        (ImportError("CANARY"), "the library that reads it cannot be loaded: memory may be short"),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(pq, "ParquetFile", fail)
        assert said in refusal(path)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_what_is_packed_has_a_bound(codec: str, tmp_path: Path, monkeypatch) -> None:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(b"a\n" + b"1\n" * (1 << 21))
    ending = {"gzip": ".gz", "zstd": ".zst"}[codec]
    path = written(tmp_path, f"log.csv{ending}", sink.getvalue().to_pybytes())
    assert look(path).rows == 1 << 21
    monkeypatch.setattr(format, "_MOST", 1 << 16)
    monkeypatch.setattr(format, "_TIMES", 100)
    assert "it unpacks to more than 100 times its size" in refusal(path)


# ---- columns


def test_rows_without_columns_are_rows(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    sink = io.BytesIO()
    polars.DataFrame(height=3).write_parquet(sink)
    path = written(tmp_path, "day=1/log.parquet", sink.getvalue())
    assert read(path, []) == {}
    assert read(path, ["day"]) == {"day": ["1"] * 3}
    lines = written(tmp_path, "log.jsonl", b"1\n2\n3\n")  # none is an object
    assert sum(part.num_rows for part in tables(lines, [])) == look(lines).rows == 3


def test_a_column_of_the_file_counts_before_its_folder_and_has_its_type(tmp_path: Path) -> None:
    reading = Reading((("k", "int"), ("n", "int")))
    for name, content in (("a.csv", b"k,x\n7,1\n"), ("a.jsonl", b'{"k": 7, "x": 1}\n')):
        path = written(tmp_path, f"k=5/n=6/{name}", content)
        assert look(path, reading).schema.field("k").type == pa.int64()
        assert read(path, ["k", "n", "x"], reading) == {"k": [7], "n": [6], "x": ["1"]}
    path = written(tmp_path, "k=5/a.parquet", of_parquet(pa.table({"k": ["own"]})))
    assert read(path, ["k"], reading) == {"k": ["own"]}


@pytest.mark.parametrize(
    ("types", "one"),
    [
        ([pa.int32(), pa.int64(), pa.null()], pa.int64()),
        ([pa.int8(), pa.uint32()], pa.int64()),
        ([pa.uint64(), pa.uint8()], pa.uint64()),
        ([pa.uint64(), pa.int8()], None),
        ([pa.int64(), pa.float64()], pa.float64()),
        ([pa.decimal128(9, 2), pa.float32()], pa.float64()),
        ([pa.string(), pa.large_string()], pa.large_string()),
        ([pa.string(), pa.dictionary(pa.int8(), pa.string())], pa.string()),
        ([pa.timestamp("ns"), pa.timestamp("ms", "Europe/Oslo")], pa.timestamp("us", "UTC")),
        ([pa.date32(), pa.date64()], pa.date32()),
        ([pa.list_(pa.float32()), pa.list_(pa.float64())], pa.large_list(pa.float64())),
        ([pa.string(), pa.int64()], None),
        ([pa.string(), pa.binary()], None),
        ([pa.bool_(), pa.int8()], None),
        ([pa.null()], pa.null()),
    ],
)
def test_files_agree_on_a_type_or_do_not(types: list[pa.DataType], one: pa.DataType | None) -> None:
    for order in (types, types[::-1]):
        assert agreed(order) == one


def test_columns_are_read_as_their_files_agree() -> None:
    logs = [
        pa.table({"n": pa.array([1], pa.int32()), "t": pa.array([-1], pa.timestamp("ns"))}),
        pa.table({"n": [2.5], "t": pa.array([-1], pa.timestamp("us", "UTC"))}),
        pa.table({"n": pa.nulls(1), "t": pa.nulls(1)}),
        pa.table({"n": pa.array([], pa.string()), "t": pa.array([], pa.bool_())}),  # no rows
    ]
    one = of_log([log.schema for log in logs], [log.num_rows for log in logs])
    read = [one.read(log) for log in logs]
    assert len({table.schema for table in read}) == 1
    assert {one.schema(log.schema) for log in logs} == {read[0].schema}
    whole = pa.concat_tables(read)
    assert whole["n"].to_pylist() == [1.0, 2.5, None]
    assert whole["t"].cast(pa.int64()).to_pylist() == [-1, -1, None]
    alike = of_log([logs[0].schema] * 3, [1, 1, 1])
    assert alike == Agreed()  # and nothing is made anew
    told = of_log([logs[0].schema, pa.schema([("n", pa.string())])], [1, 1])
    assert told == Agreed()  # those that disagree stay as they are, for whoever asks


def test_a_stream_reads_nulls_as_what_came_before() -> None:
    stream = of_stream({"n": "integers", "x": "struct<>"})
    table = stream.read(pa.table({"n": pa.nulls(2), "x": pa.nulls(2)}))
    assert table.schema.types == [pa.int64(), pa.null()]
    dictionary = pa.table({"n": pa.array([1], pa.int8())})
    assert stream.read(dictionary).schema == dictionary.schema


# ---- Arrow


def of_arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table, max_chunksize=2)
    return sink.getvalue()


@pytest.mark.parametrize("write", [of_arrow, of_stream_file, of_parquet])
def test_columns_of_one_name_do_not_stop_the_others(
    write: Callable[[pa.Table], bytes], tmp_path: Path
) -> None:
    parts = [pa.array([1, 2, 3]), pa.array(["a", "b", "c"]), pa.array([4, 5, 6])]
    path = written(tmp_path, "log", write(pa.table(parts, names=["n", "city", "n"])))
    assert look(path).rows == 3
    assert read(path, ["city"]) == {"city": ["a", "b", "c"]}
    assert sum(part.num_rows for part in tables(path, [])) == 3
    twice = written(tmp_path, "two", write(pa.table(parts[::2], names=["n", "n"])))
    assert sum(part.num_rows for part in tables(twice, [])) == look(twice).rows == 3


def test_a_column_of_arrow_that_contradicts_itself_is_named(tmp_path: Path) -> None:
    ends = struct.pack("<4i", 0, 3, 6, 9)
    content = of_arrow(pa.table({"n": [1, 2, 3], "text": ["aaa", "bbb", "ccc"]}))
    assert content.count(struct.pack("<3i", 0, 3, 6)) == 1
    assert ends not in content  # two batches
    broken = content.replace(struct.pack("<3i", 0, 3, 6), struct.pack("<3i", 0, 1 << 30, 6))
    path = written(tmp_path, "log.arrow", broken)
    assert read(path, ["n"]) == {"n": [1, 2, 3]}
    assert "column 'text' contradicts itself" in refusal(path)


@pytest.mark.parametrize("unit", ["month_interval", "day_time_interval"])
def test_intervals_that_pyarrow_has_no_name_for_stop_no_other_column(
    unit: str, tmp_path: Path
) -> None:
    """No program writes them through pyarrow: the unit in the schema is changed behind its back."""
    rows = pa.table({"span": pa.nulls(3, pa.month_day_nano_interval()), "n": [1, 2, 3]})
    content = of_stream_file(rows)
    code = bytes([("month_interval", "day_time_interval").index(unit), 0])
    made = (
        content[:place] + code + content[place + 2 :]
        for place in range(len(content) - 1)
        if content[place : place + 2] == b"\x02\x00"
    )
    path = written(tmp_path, "log.arrows", next(c for c in made if _unit_of(c) == unit))
    assert read(path, ["span", "n"]) == {"span": [None] * 3, "n": [1, 2, 3]}


def _unit_of(content: bytes) -> str:
    try:
        return str(pa.ipc.open_stream(content).schema.field(0).type)
    except (pa.ArrowException, OSError, IndexError):
        return ""


def test_a_log_of_many_columns_is_settled() -> None:
    """Each column is looked at once: held against each other one, 30,000 took 200 CPU seconds."""
    schema = pa.schema([(f"k{k}", pa.string()) for k in range(30_000)])
    other = schema.set(7, pa.field("k7", pa.null()))
    assert of_log([schema, other], [1, 1]).types == (("k7", pa.string()),)


def test_lines_that_name_other_members_without_end_are_refused(tmp_path: Path) -> None:
    lines = ("{" + ",".join(f'"{k}-{n}":1' for n in range(1001)) + "}" for k in range(100))
    (path := tmp_path / "log.jsonl").write_text("\n".join(lines))
    with pytest.raises(UnreadableError, match="its lines have more than 100,000 members"):
        look(str(path))


# ---- CSV


@pytest.mark.parametrize("rows", [0, 3, 500_000])  # within a block of the parser, and beyond
@pytest.mark.parametrize("last", [b'7,"x\n8,y\n9,z\n', b'"7,x\n8,y\n', b'7,"x', b'7,"x""\n'])
def test_a_quote_that_is_never_closed_is_told_with_its_row(
    rows: int, last: bytes, tmp_path: Path
) -> None:
    start = b'a,b\n1,"p\nq"\n' + b"1,x,ragged\n" + b"12345,some words\n" * rows
    said = refusal(written(tmp_path, "log.csv", start + last))
    assert f"a quote is opened in row {rows + 3:,} and not closed" in said


def test_another_quote_does_not_close_it(tmp_path: Path) -> None:
    lines = b"a,b\n" + b"1,x\n" * 9 + b'2,5" disk\n' + b"1,x\n" * 9 + b'3,"y\n' + b"1,x\n" * 9
    said = refusal(written(tmp_path, "log.csv", lines))
    assert "a quote is opened in row 20 and not closed" in said


@pytest.mark.parametrize(
    "line", [b'7,5" disk\n', b'7,"a""b"\n', b'7,"a"b"c\n', b'7,x"\n', b'7",x', b'7,x,"y" "\n']
)
def test_quotes_within_fields_may_be_odd_in_number(line: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, "log.csv", b"a,b\n1,x\n" + line)
    assert len(read(path, ["a"])["a"]) == 2


def test_names_of_columns_may_be_long(tmp_path: Path) -> None:
    names = [f"column_{k}" * 10 for k in range(5000)]  # beyond what is parsed at first
    path = written(tmp_path, "log.csv", f"{','.join(names)}\n{'1,' * 4999}1\n".encode())
    assert look(path).schema.names == names
    assert read(path, names[-1:]) == {names[-1]: ["1"]}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("encoding", ["", "utf-16"])
def test_utf16_without_a_mark_has_one_error(ending: str, encoding: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"log.{ending}", '{"a": 1}\n'.encode("utf-16-le"))
    for step in (look, begin, head) if ending == "csv" else (look, begin):
        with pytest.raises(UnreadableError, match="no byte order mark: name utf-16-le, or -be"):
            step(path, Reading(encoding=encoding))


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_mark_of_wide_signs_says_the_encoding(encoding: str, name: str, tmp_path: Path) -> None:
    content = '{"a": 1}\n'.encode(encoding)
    if name.endswith(".gz"):
        content = gzip.compress(content)
    path = written(tmp_path, name, content)
    for step in (look, begin):
        with pytest.raises(UnreadableError, match=f"mark is that of {encoding}: name this enc"):
            step(path, PLAIN)
    assert look(path, Reading(encoding=encoding)).schema.names


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1", None, "007", "9" * 18], [1, None, 7, 10**18 - 1]),
        (["1", "", "2"], [1, None, 2]),
        (["1", "9" * 19, "-2"], [1, None, -2]),
        (["1", "1e3", "2"], [1, None, 2]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_digits_are_the_whole_numbers_that_patterns_take(texts: list, values: list) -> None:
    column = pa.array(["x", *texts, "0x10"])
    for part in (pa.array(texts, pa.string()), column.slice(1, len(texts))):
        assert parsed(part, pa.int64()).to_pylist() == values
