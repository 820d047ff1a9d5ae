"""Files and domains, looked at before a job runs."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from pipelines.errors import Notice, RequestError
from pipelines.logs import inputs
from tests.fakes import canaries
from tests.oracles.transforms import run
from transforms.elements.progress import FILES, READ, ROWS
from transforms.files.reading import PLAIN

TEXT = pa.string()


def declared(folder: Path, content: bytes, column: pa.DataType = TEXT) -> list[object]:
    path = folder / "domain.txt"
    path.write_bytes(content)
    return inputs.read_domain(str(path), column, other=False).labels().to_pylist()


def test_footers_tell_rows_and_types(log: str) -> None:
    telemetry = inputs.open_telemetry((log,))
    assert (len(telemetry.files), telemetry.rows) == (3, canaries.ROWS)
    assert telemetry.column_type("number", "--column") == pa.int16()


def test_a_file_is_counted_once_by_whatever_path(log: str, tmp_path: Path, monkeypatch) -> None:
    folder = Path(log).parent
    (tmp_path / "link.parquet").symlink_to(folder / "part-0.parquet")
    monkeypatch.chdir(folder)
    paths = (log, "part-0.parquet", "./part-1.parquet", str(tmp_path / "link.parquet"))
    assert inputs.open_telemetry(paths).rows == canaries.ROWS
    assert inputs.open_telemetry(tuple(reversed(paths))).rows == canaries.ROWS
    assert inputs.open_telemetry(("*.parquet",)).rows == canaries.ROWS  # a glob without a folder


def test_a_thousand_files_of_arrow_are_looked_at(tmp_path: Path) -> None:
    """Threads that counted at once waited for each other in Arrow, and for ever."""
    first = tmp_path / "0.arrow"
    feather.write_feather(pa.table({"n": range(100)}), first)
    for number in range(1, 1000):
        os.link(first, tmp_path / f"{number}.arrow")
    names = tuple(str(tmp_path / f"{number}.arrow") for number in range(1000))
    looks = inputs._in_threads(inputs._looked_at, names, PLAIN)
    assert [look.rows for look in looks] == [100] * 1000


def test_an_empty_file_among_others_is_no_fault(log: str, tmp_path: Path) -> None:
    pq.write_table(canaries.table().slice(0, 0), tmp_path / "none.parquet")
    telemetry = inputs.open_telemetry((log, str(tmp_path / "none.parquet")))
    assert (len(telemetry.files), telemetry.rows) == (4, canaries.ROWS)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),  # as a spreadsheet saves it
        (b" a \nb c\n", [" a ", "b c"]),  # a value is its line, blanks included
        ("é\n日本\n".encode(), ["é", "日本"]),
        # What str.splitlines takes for ends of lines may stand inside a value.
        ("a\x0bb\nc\x85d\ne\u2028f\n".encode(), ["a\x0bb", "c\x85d", "e\u2028f"]),
        (b"A\na\n", ["A", "a"]),
        (b"null\nNone\n", ["null", "None"]),
    ],
)
def test_a_domain_file_has_a_value_a_line(
    tmp_path: Path, content: bytes, values: list[str]
) -> None:
    assert declared(tmp_path, content) == values


def test_a_domain_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "domain.txt"
    path.touch()
    os.truncate(path, 1 << 40)  # nothing but a hole
    with pytest.raises(RequestError, match="is larger than 256 MiB"):
        inputs.read_domain(str(path), pa.string(), other=False)


def test_ranges_may_be_negative_and_wide() -> None:
    domain = inputs.read_domain("-3..3", pa.int16(), other=True)
    assert (domain.size, domain.labels().to_pylist()) == (8, list(range(-3, 4)))
    assert inputs.read_domain("7..7", pa.int64(), other=True).size == 2
    with pytest.raises(RequestError, match="declare a coarser domain"):
        inputs.read_domain(f"1..{1 << 24}", pa.int64(), other=True)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64()])
def test_integers_may_be_declared_in_a_file(tmp_path: Path, kind: pa.DataType) -> None:
    assert declared(tmp_path, b"3\n-1\n20\n", kind) == ["3", "-1", "20"]


@pytest.mark.parametrize("name", ["a[1].parquet", "a*.parquet", "what?.parquet"])
def test_a_name_is_a_name_before_it_is_a_glob(name: str, tmp_path: Path) -> None:
    """Read as a pattern, a[1].parquet would silently be a1.parquet instead."""
    folder = tmp_path / "dir[1]"
    folder.mkdir()
    for each, rows in ((name, 5), ("a1.parquet", 3)):
        pq.write_table(canaries.table().slice(0, rows), folder / each)
    named = inputs.open_telemetry((str(folder / name),))
    assert (named.files, named.rows) == ((str(folder / name),), 5)
    read = run(lambda p: p | named.read(["value"])).elements
    assert sum(table.num_rows for table in read) == 5
    assert inputs.open_telemetry((str(folder / "*.parquet"),)).rows == 8
    assert inputs.open_telemetry((str(folder / "a[12].parquet"),)).rows == 3


@pytest.mark.parametrize("ending", ["gz", "bz2"])
def test_names_that_beam_would_unpack_are_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.parquet.{ending}"
    pq.write_table(canaries.table().slice(0, 5), path)
    with pytest.raises(RequestError, match=r"would unpack it; unpack it yourself, or give it"):
        inputs.open_telemetry((str(path),))


@pytest.mark.parametrize("content", [b"true\nyes\n", b"True\nFalse\n", b"true\nfalse\nnull\n"])
def test_a_boolean_column_is_declared_as_true_and_false(tmp_path: Path, content: bytes) -> None:
    assert declared(tmp_path, b"false\ntrue\n", pa.bool_()) == ["false", "true"]
    with pytest.raises(
        RequestError, match=r"holds bool, but the domain declares other lines than true"
    ):
        declared(tmp_path, content, pa.bool_())


def test_workers_get_no_list_of_files(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2]})
    for number in range(300):
        pq.write_table(table, tmp_path / f"{number:03}.parquet")
    pq.write_table(table.append_column("more", table["n"]), tmp_path / "999.parquet")
    telemetry = inputs.open_telemetry((f"{tmp_path}/*.parquet",))
    assert len({id(schema) for schema in telemetry.schemas}) == 2
    content = pickle.dumps(telemetry)
    assert len(content) < 4000
    there = pickle.loads(content)
    assert (there.rows, there.about, len(there.files)) == (602, 602, 2)
    assert there.columns == telemetry.columns
    assert there.all_came({ROWS: 602})
    assert not there.all_came({ROWS: 601})


def test_no_worker_counts_the_rows_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("n\n" + "123\n" * 300_000)
    telemetry = inputs.open_telemetry((str(path),))
    there = pickle.loads(pickle.dumps(telemetry))
    assert there.about == telemetry.about
    assert there.all_came({FILES: 1, READ: 7, ROWS: 7})
    assert not there.all_came({FILES: 2, READ: 7, ROWS: 7})
    with pytest.raises(ValueError, match="by no worker"):
        there.rows  # noqa: B018
    with pytest.warns(Notice, match="are counted first: the design of the noise"):
        assert telemetry.rows == 300_000


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["Oslo", "Ber\nn"], "value 2 of the list has a line break; write it as one line"),
        (["Oslo", " "], "value 2 of the list is blank; remove it"),
        (["Bern", "Oslo", "Bern"], "value 3 of the list repeats value 1; keep one of them"),
    ],
)
def test_a_list_says_which_value_is_wrong(values: list[str], why: str) -> None:
    with pytest.raises(RequestError) as refusal:
        inputs.written_out(json.dumps(values))
    assert str(refusal.value) == f"--domain: {why}"


def test_unions_and_maps_are_said_in_words(tmp_path: Path) -> None:
    union = {"name": "a", "type": ["int", "string"]}
    schema = {"type": "record", "name": "row", "fields": [union, {"name": "k", "type": "int"}]}
    with (tmp_path / "log.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"a": "x", "k": 1}])
    telemetry = inputs.open_telemetry((str(tmp_path / "log.avro"),))
    with pytest.raises(RequestError, match="holds records, maps or values of several types, but"):
        inputs.read_domain("0..3", telemetry.column_type("a", "--column"), other=False)
    with pytest.raises(RequestError, match="'a' holds records, maps or values of several types"):
        inputs.check_user_column(telemetry, "a")
