"""Files of every format: their rows and columns; and in one line why one cannot be read."""

from __future__ import annotations

import errno
import json
import math
import os
import pickle
import tempfile
from datetime import date, datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes import canaries
from tests.fakes.file_formats import WRITERS
from tests.oracles.transforms import run
from tests.oracles.wire import EXAMPLES
from transforms.files.format import CUT_OFF, MANGLED
from transforms.files.reading import PLAIN, TYPES, Reading, parsed
from transforms.files.source import FORMATS, UnreadableError, format_of, look, tables
from transforms.files.systems import FileSystems
from transforms.rows.telemetry import ReadTelemetry

ROWS = pa.table(
    {
        "city": ["Oslo", None, "São Paulo", 'a,"b"\nc', "MIXED case"],
        "n": pa.array([1, -2, None, 2**62, 0]),
        "x": [0.5, None, -1e300, 3.0, 0.1],
        "ok": [True, False, None, True, False],
    }
)
TYPED = Reading((("n", "int"), ("x", "float"), ("ok", "bool")))


def read(path: Path, columns: list[str], reading: Reading = TYPED) -> dict[str, list[object]]:
    parts = [*tables(str(path), columns, reading)]
    return pa.concat_tables(parts).to_pydict() if parts else {column: [] for column in columns}


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("ending", WRITERS)
def test_the_same_rows_are_in_a_file_of_any_format(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"log{ending}", WRITERS[ending](ROWS))
    known = look(str(path), TYPED)
    assert known.rows == len(ROWS)
    assert dict(zip(known.schema.names, known.schema.types, strict=True)) == dict(
        zip(ROWS.schema.names, ROWS.schema.types, strict=True)
    )
    assert read(path, ["x", "city"]) == ROWS.select(["x", "city"]).to_pydict()
    assert read(path, ["n", "ok"]) == ROWS.select(["n", "ok"]).to_pydict()


@pytest.mark.parametrize("ending", WRITERS)
def test_of_a_total_no_column_leaves_the_file(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"log{ending}", WRITERS[ending](ROWS))
    parts = [*tables(str(path), [], TYPED)]
    assert sum(part.num_rows for part in parts) == len(ROWS)
    assert {part.num_columns for part in parts} == {0}


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl", ".orc", ".avro", ".arrow"])
def test_a_pipeline_reads_what_a_look_has_seen(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"day=1/log{ending}", WRITERS[ending](ROWS))
    found = run(lambda p: p | ReadTelemetry((str(path),), ("n", "day"), TYPED)).elements
    rows = pa.concat_tables(found).to_pydict()
    assert rows == {"n": ROWS["n"].to_pylist(), "day": ["1"] * len(ROWS)}


def test_many_columns_of_parquet_are_read_like_few(tmp_path: Path) -> None:
    """More than are read together, of which some have nulls, and some may have none."""
    fields = [pa.field(f"f{i}", pa.int64(), nullable=i % 3 > 0) for i in range(70)]
    values = [[i, None if i % 3 else 7, -i] for i in range(70)]
    whole = pa.table(values, schema=pa.schema(fields))
    path = str(tmp_path / "wide.parquet")
    pq.write_table(whole, path, row_group_size=2)
    names = [field.name for field in fields if field.name != "f5"]
    read = [*tables(path, names, PLAIN)]
    assert [table.num_rows for table in read] == [2, 1]
    assert pa.concat_tables(read).equals(whole.select(names))
    assert read[0].schema == whole.select(names).schema


def test_texts_that_a_row_group_writes_once_are_read_as_a_dictionary(tmp_path: Path) -> None:
    """Not those of a small group, nor where most of them are written row by row."""
    rows = 1 << 14
    few = [None if i % 11 == 0 else f"city-{i % 7}" for i in range(rows)]
    own = [f"person-{i:06}" for i in range(rows)]
    whole = pa.table({"few": [*few, "last"], "own": [*own, "last"], "n": range(rows + 1)})
    path = str(tmp_path / "log.parquet")
    pq.write_table(whole, path, row_group_size=rows, dictionary_pagesize_limit=1 << 14)
    for columns, coded in ((["n", "few"], True), (["own"], False), (["n"], False)):
        large, small = tables(path, columns, PLAIN)
        kinds = [pa.types.is_dictionary(kind) for kind in large.schema.types]
        assert kinds == [coded and name == "few" for name in columns]
        assert small.schema == whole.select(columns).schema
        read = [large.to_pydict()[name] + small.to_pydict()[name] for name in columns]
        assert read == [whole[name].to_pylist() for name in columns]


def test_every_format_has_an_example_here_and_endings_of_its_own() -> None:
    endings = [ending for one in FORMATS for ending in one.endings]
    assert len(endings) == len(set(endings))
    assert {format_of(f"x{ending}").name for ending in WRITERS} == {one.name for one in FORMATS}


def test_a_name_without_a_known_ending_is_parquet(tmp_path: Path) -> None:
    path = written(tmp_path, "log.data", WRITERS[".parquet"](ROWS))
    assert look(str(path)).rows == len(ROWS)


# ---- text


def test_fields_and_rows_that_cannot_be_used_are_nulls_and_counted_as_rows(tmp_path: Path) -> None:
    lines = [
        b"city,n,x,at",
        b"Oslo,1,0.5,2026-11-20T08:00",
        b"too few",
        b"too,many,of,them,here",
        b"\xff\xfe,0x10,1_0,2026-02-31",
        b'"", +3 ,1e2,2026-11-20T08:00+02:00',
        b",,,",
        b"",  # no row
        b"x,99999999999999999999,nan,2024-02-29",
    ]
    path = written(tmp_path, "log.csv", b"\n".join(lines))
    reading = Reading((("n", "int"), ("x", "float"), ("at", "timestamp")))
    assert look(str(path), reading).rows == 7
    rows = read(path, ["city", "n", "x", "at"], reading)
    utc = timezone.utc
    assert sorted(zip(*rows.values(), strict=True), key=str) == sorted(
        [
            ("Oslo", 1, 0.5, datetime(2026, 11, 20, 8, tzinfo=utc)),
            (None, None, None, None),
            ("", 3, 100.0, datetime(2026, 11, 20, 6, tzinfo=utc)),
            (None, None, None, None),
            ("x", None, None, datetime(2024, 2, 29, tzinfo=utc)),
            (None, None, None, None),
            (None, None, None, None),
        ],
        key=str,
    )


def test_lines_that_are_no_objects_are_rows_of_nulls(tmp_path: Path) -> None:
    lines = [
        b'{"city": "Oslo", "n": 1}',
        b"   ",
        b'{"n": "2", "other": {"deep": 1}}',
        b"[1]",
        b"nothing",
        b'{"city": 17.50, "n": 3.5}',
        b'{"city": true, "n": null}',
        b'{"city": "\\ud800", "n": 5}',
    ]
    path = written(tmp_path, "log.jsonl", b"\n".join(lines))
    reading = Reading((("n", "int"), ("never", "float")))
    known = look(str(path), reading)
    assert known.rows == 7
    assert {"city", "n", "never", "other"} <= set(known.schema.names)
    assert read(path, ["city", "n", "never"], reading) == {
        "city": ["Oslo", None, None, None, "17.50", "true", None],
        "n": [1, 2, None, None, None, None, 5],
        "never": [None] * 7,
    }


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("int", ["7", " -7 ", "7.0", "", "x", "0x7", None], [7, -7, None, None, None, None, None]),
        ("float", ["7", "-.5", "1e3", "inf", "7,5"], [7.0, -0.5, 1000.0, None, None]),
        ("bool", ["true", "FALSE", "1", "yes"], [True, False, True, None]),
        ("date", ["2024-02-29", "2026-02-29", "20261120"], [date(2024, 2, 29), None, None]),
        ("string", [" a ", ""], [" a ", ""]),
    ],
)
def test_a_text_is_what_its_column_holds_or_null(kind: str, texts: list, values: list) -> None:
    assert parsed(pa.array(texts, pa.string()), TYPES[kind]).to_pylist() == values


@pytest.mark.parametrize(
    ("name", "content", "reading", "columns"),
    [
        ("a.csv", b"1;2\n", Reading(delimiter=";", header=("a", "b")), {"a": ["1"], "b": ["2"]}),
        ("b.csv", b"", Reading(header=("a",)), {"a": []}),
        ("c.csv", b"a,b\n", PLAIN, {"a": [], "b": []}),
        ("d.csv", b"\xef\xbb\xbfa\r\n1\r\n", PLAIN, {"a": ["1"]}),
        ("e.tsv", b"a\tb\n1\t,\n", PLAIN, {"a": ["1"], "b": [","]}),
        ("f.jsonl", b"", Reading((("a", "int"),)), {"a": []}),
    ],
)
def test_few_options_are_enough(
    name: str, content: bytes, reading: Reading, columns: dict, tmp_path: Path
) -> None:
    path = written(tmp_path, name, content)
    known = look(str(path), reading)
    assert (known.rows, known.schema.names) == (len(next(iter(columns.values()))), [*columns])
    assert read(path, [*columns], reading) == columns


# ---- folders


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl.zst"])
def test_folders_say_columns(ending: str, tmp_path: Path) -> None:
    place = f"day=2026-11-20/city=S%C3%A3o/k=__HIVE_DEFAULT_PARTITION__/log{ending}"
    path = written(tmp_path, place, WRITERS[ending](ROWS.select(["n", "city"])))
    reading = Reading((("n", "int"), ("day", "date")))
    known = look(str(path), reading)
    assert known.schema.field("day").type == pa.date32()
    rows = read(path, ["day", "n", "k", "city"], reading)
    assert rows["day"] == [date(2026, 11, 20)] * len(ROWS)
    assert rows["k"] == [None] * len(ROWS)
    assert rows["city"] == ROWS["city"].to_pylist()  # the file's own column


# ---- what cannot be read


def unread(path: Path, reading: Reading = PLAIN) -> str:
    with pytest.raises(UnreadableError) as caught:
        [*tables(str(path), look(str(path), reading).schema.names, reading)]
    assert caught.value.__cause__ is None
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.refused) == (str(caught.value), caught.value.refused)
    return str(caught.value)


@pytest.mark.parametrize("ending", [e for e in WRITERS if e not in (".csv", ".tsv", ".jsonl")])
def test_a_file_that_is_cut_off_is_named_with_its_format(ending: str, tmp_path: Path) -> None:
    whole = WRITERS[ending](ROWS)
    path = written(tmp_path, f"log{ending}", whole[: len(whole) - 9])
    name = format_of(str(path)).name
    whys = (MANGLED, CUT_OFF)
    assert unread(path) in [f"{path} is not a readable {name} file ({why})" for why in whys]


def test_what_people_can_mend_is_said(tmp_path: Path) -> None:
    empty = written(tmp_path, "empty.csv", b"")
    assert "it has no first line that names its columns" in unread(empty)
    strange = written(tmp_path, "strange.csv", b"\xff,b\n1,2\n")
    assert "the names of its columns are no UTF-8 text" in unread(strange)
    long = written(tmp_path, "long.csv", b'a,b\n1,"' + b"CANARY-X\n" * (1 << 21))
    assert "a row is longer than 8 MiB, or a quote is opened and not closed" in unread(long)
    line = written(tmp_path, "line.jsonl", b'"' + b"x" * (17 << 20))
    assert "a line is longer than 16 MiB" in unread(line)


def test_what_the_system_refuses_has_its_reason(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UnreadableError, match="No such file or directory") as caught:
        look(str(tmp_path / "none.csv"))
    assert caught.value.refused

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), "CANARY-PATH")

    monkeypatch.setattr(FileSystems, "open", refuse)
    monkeypatch.setattr(FileSystems, "read", refuse)
    with pytest.raises(UnreadableError, match=r"cannot read log.orc: Permission denied$") as caught:
        look("log.orc")
    assert caught.value.refused


# ---- whatever the bytes

FIELDS = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"CANARY-FIELD", b'"', b'""', b",", b"1", b"2.5", b"\n"]),
)


@st.composite
def bytes_of_csv(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(st.lists(FIELDS, max_size=4), max_size=6))
    return draw(st.sampled_from([b"", b"a,b\n"])) + b"\n".join(b",".join(row) for row in rows)


def holds(name: str, data: bytes) -> None:
    """A file is read whole, by every reading of it alike, or refused in a line."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(written(Path(folder), name, data))
        try:
            known = look(path, Reading((("a", "int"),)))
            names = list(dict.fromkeys(known.schema.names))
            for columns in (names, names[-1:], []):
                parts = tables(path, columns, Reading((("a", "int"),)))
                assert sum(part.num_rows for part in parts) == known.rows
        except UnreadableError as error:
            refusal: UnreadableError | None = error
        else:
            refusal = None
    if refusal is not None:
        assert "\n" not in str(refusal)
        assert not canaries.found(str(refusal))
        assert refusal.__cause__ is None


@given(bytes_of_csv())
@example(b'a,b\n1,"CANARY-FIELD\n')
@settings(max_examples=EXAMPLES)
def test_fuzz_csv(data: bytes) -> None:
    holds("log.csv", data)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
LINES = st.one_of(
    st.binary(max_size=12),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from("abc"), VALUES).map(lambda value: json.dumps(value).encode()),
)


@given(st.lists(LINES, max_size=6))
@settings(max_examples=EXAMPLES)
def test_fuzz_json_lines(lines: list[bytes]) -> None:
    holds("log.jsonl", b"\n".join(lines))


@pytest.mark.parametrize("between", ["0", str(2**53 + 1), "9007199254740993.0"])
def test_json_lines_do_not_complete_each_other(between: str, tmp_path: Path) -> None:
    """As one array they would be three objects: the first two one, and the last two of them."""
    lines = ['{"a": ["1"', '"2"]}', f'{{"a": "3"}},{between},{{"a": "4"}}']
    path = written(tmp_path, "log.jsonl", "\n".join(lines).encode())
    assert read(path, ["a"]) == {"a": [None] * 3}
    path.write_text("\n".join([*lines, '{"a": "5"}', f'{{"a": {2**53 + 1}}}']))
    assert read(path, ["a"]) == {"a": [None, None, None, "5", str(2**53 + 1)]}


def test_json_numbers_are_texts_as_they_are_written(tmp_path: Path) -> None:
    """Where one reader would write another text, and where one refuses what the other takes."""
    written = ["-0", "0", "1.50", "1e3", "18446744073709551616", "NaN", "1E400", "7", "-0.0"]
    path = tmp_path / "log.jsonl"
    lines = [f'{{"a": {number}, "b": "\\ud800"}}' for number in written]
    lines += ['{"a": 1, "a": 2.50}', '{"a": true}', "1.50", '{"b": -0, "a": 0}', "{'a': 1}"]
    path.write_text("\n".join(lines))

    def read(*types: tuple[str, str]) -> list[object]:
        return pa.concat_tables(tables(str(path), ["a"], Reading(types)))["a"].to_pylist()

    assert read() == [*written, "2.50", "true", None, "0", None]
    whole = [0, 0, None, None, None, None, None, 7, None, None, None, None, 0, None]
    assert read(("a", "int")) == whole
    numbers = [-0.0, 0.0, 1.5, 1000.0, 2.0**64, None, math.inf, 7.0, -0.0, 2.5, None, None, 0.0]
    assert list(map(repr, read(("a", "float")))) == list(map(repr, [*numbers, None]))


def test_json_numbers_of_one_kind_are_read_as_their_column(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"i": {2**63 - 1}, "x": 0.1}}\n{{"i": null, "x": -2.5e-3}}\n{{}}\n')
    known = Reading((("i", "int"), ("x", "float")))
    (table,) = [part for part in tables(str(path), ["i", "x"], known) if part.num_rows]
    assert table["i"].to_pylist() == [2**63 - 1, None, None]
    assert table["x"].to_pylist() == [0.1, -0.0025, None]
    path.write_text(f'{{"i": {2**63}}}\n{{"i": 3}}\n')
    (table,) = [part for part in tables(str(path), ["i"], known) if part.num_rows]
    assert table["i"].to_pylist() == [None, 3]
