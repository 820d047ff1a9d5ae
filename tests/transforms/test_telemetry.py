"""Parquet in and out: the named columns alone are read, and messages alone are written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracles.transforms import run
from transforms.rows.telemetry import CutDoFn, ReadTelemetry

N = 4000


@pytest.fixture
def log(tmp_path):
    """Two files of several row groups with a column that no job asks for."""
    for file in range(2):
        rows = np.arange(N) + file * N
        table = pa.table(
            {"user": rows % 100, "value": rows, "secret": [f"secret {row}" for row in rows]}
        )
        pq.write_table(table, tmp_path / f"{file}.parquet", row_group_size=N // 4)
    return tmp_path


def read(*columns, files) -> list[pa.Table]:
    files = tuple(map(str, files))
    return run(lambda p: p | ReadTelemetry(files, columns)).elements


def test_row_groups_of_all_files_arrive_once(log):
    tables = read("value", files=[log / "0.parquet", log / "1.parquet"])
    assert len(tables) == 8
    assert sorted(pa.concat_tables(tables)["value"].to_pylist()) == list(range(2 * N))


def test_patterns_are_followed(log):
    assert sum(table.num_rows for table in read("value", files=[log / "*.parquet"])) == 2 * N


def test_only_named_columns_are_read(log):
    """The bytes of the third column are ruined on disk: whoever decoded them would fail."""
    path = log / "0.parquet"
    whole = bytearray(path.read_bytes())
    metadata = pq.ParquetFile(path).metadata
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(2)
        assert chunk.path_in_schema == "secret"
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        whole[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(whole)
    with pytest.raises(OSError):  # noqa: PT011 - the message is Parquet's
        pq.read_table(path)

    tables = read("value", "user", files=[path])
    assert {tuple(table.column_names) for table in tables} == {("value", "user")}
    assert sorted(v for table in tables for v in table["value"].to_pylist()) == list(range(N))


@pytest.mark.parametrize("groups", [1, 2, 7, 16, 33, 40, 63, 64, 200])
@pytest.mark.parametrize("files", [1, 3, 8])
def test_a_log_is_cut_so_that_workers_have_alike_much_to_do(tmp_path, groups, files):
    """The local runner deals what was cut to its workers in turn."""
    path = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({"value": range(groups)}), path, row_group_size=1)
    cut = CutDoFn(-(-32 // files))
    parts = [part for _ in range(files) for some in cut.process(path) for part in some]
    mine = [part[1:] for part in parts[: len(parts) // files]]
    assert [group for start, stop in mine for group in range(start, stop)][:groups] == [
        *range(groups)
    ]
    sizes = [min(stop, groups) - start for _, start, stop in parts]
    assert all(size > 0 for size in sizes)
    for workers in (2, 8):
        most = max(sum(sizes[k::workers]) for k in range(workers))
        assert most <= sum(sizes) / workers + files * max(sizes)


def test_many_small_files_are_not_looked_into_to_be_cut(log):
    (log / "0.parquet").write_bytes(b"no footer")
    path = str(log / "0.parquet")
    [((name, start, stop),)] = CutDoFn(1).process(path)
    assert name == path
    assert (start, stop > 10**9) == (0, True)


@pytest.mark.parametrize("name", ["gone.parquet", "gone*.parquet"])
def test_files_that_are_not_there_are_not_read_as_empty(log, name):
    with pytest.raises(Exception, match="No such file or directory"):
        read("value", files=[log / "0.parquet", log / name])


def test_a_file_without_rows_has_none_and_no_row_group_is_missed(tmp_path):
    schema = pa.schema([("value", pa.int64())])
    sizes = {"none": [], "some": [3, 0, 4]}
    for name, groups in sizes.items():
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", schema) as writer:
            for size in groups:
                writer.write_table(pa.table([range(size)], schema=schema))
    tables = read("value", files=[tmp_path / f"{name}.parquet" for name in sizes])
    assert sorted(table.num_rows for table in tables) == [0, 3, 4]


def test_small_files_come_together_and_once(tmp_path):
    for file in range(600):
        table = pa.table({"value": np.arange(3 * (file != 9)) + 3 * file})
        pq.write_table(table, tmp_path / f"{file:03}.parquet")
    tables = read("value", files=sorted(tmp_path.iterdir()))
    assert len(tables) == 34  # of 18 files each
    values = [n for table in tables for n in table["value"].to_pylist()]
    assert sorted(values) == [n for n in range(1800) if n // 3 != 9]
    assert all(table["value"].num_chunks <= 1 for table in tables)


def test_rows_of_small_files_are_counted_where_no_column_is_read(tmp_path):
    for file in range(600):
        pq.write_table(pa.table({"value": [1, 2]}), tmp_path / f"{file:03}.parquet")
    tables = read(files=sorted(tmp_path.iterdir()))
    assert sum(table.num_rows for table in tables) == 1200


def test_files_of_other_types_stay_apart(tmp_path):
    for file in range(600):
        column = pa.array([file], pa.int32() if file % 2 else pa.int64())
        pq.write_table(pa.table({"value": column}), tmp_path / f"{file:03}.parquet")
    tables = read("value", files=sorted(tmp_path.iterdir()))
    assert sorted(n for table in tables for n in table["value"].to_pylist()) == list(range(600))
