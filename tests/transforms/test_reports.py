"""Report files in Beam: both carriers, every reason, and a reader that no bytes can stop."""

from __future__ import annotations

import gc
import io
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io import fileio
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary, screening
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import KeyRing
from tests.oracles.transforms import run, source
from tests.oracles.wire import DATA, EXAMPLES, FORMS, MECHANISMS, PLAN, expected, fields, golden
from transforms.reports import report_tables, reports
from transforms.reports.repeats import in_order
from transforms.reports.reports import BinarySink, MessagesOf, ParquetSink

NAMES = ["submitted", "submitted-sealed", "shuffled", "shuffled-sealed"]
PLAIN, SEALED = Form(), Form(sealed=True)


def read(data: bytes, form: Form) -> tuple[list[tuple[bytes, ...]], dict[str, int]]:
    """The fields of what is kept of a file, and what is dropped."""
    screened = screening.merged(expected(form), reports.read(io.BytesIO(data), expected(form)))
    return fields(screened.reports), screened.dropped


def parquet(table: pa.Table) -> bytes:
    """A table as a file."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def made(n: int = 1000, metric: int = 1) -> Reports:
    """n submitted reports."""
    messages = MECHANISMS[metric].perturb(np.arange(n) % 9, SeededRandom(n))
    return Reports.submitted(PLAN, metric, messages, SeededRandom(n + 1))


def of_golden(form: Form) -> pa.Table:
    """The golden file's rows, without their seals."""
    return report_tables.to_table(golden(form))


def packed(reports: Reports) -> Reports:
    """As a Parquet file has them: ids of 8 bytes."""
    records = reports.records.copy()
    records["report_id"][:, 1] = 0
    return replace(reports, records=records)


def ordered(reports: Reports) -> Reports:
    """As a file has them."""
    return replace(reports, records=in_order(reports.records))


def sunk(sink: fileio.FileSink, *blocks: Reports) -> bytes:
    """What a sink makes of some blocks."""
    file = io.BytesIO()
    sink.open(file)
    for block in blocks:
        sink.write(block)
    sink.flush()
    return file.getvalue()


def with_column(name: str, values: list, kind: pa.DataType) -> pa.Table:
    """The plain golden rows with one column replaced."""
    table = of_golden(PLAIN)
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, kind))


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_golden_parquet_files_hold_what_the_golden_binary_files_hold(form):
    """Of ids the first 8 bytes, in order."""
    same = golden(replace(form, sealed=False))
    for end, held in (
        ("reports", same),
        ("parquet", same if form.shuffled else ordered(packed(same))),
    ):
        data = (DATA / f"{NAMES[form.kind]}.{end}").read_bytes()
        one = screening.merged(expected(form), reports.read(io.BytesIO(data), expected(form)))
        if form.sealed:  # each file has seals of its own
            one = KeyRing.read(DATA).open(one.reports)
        assert not one.dropped
        assert fields(one.reports) == fields(held)


def test_the_columns_of_the_parquet_form_never_change():
    packed = [str(report_tables.schema(form)).replace("\n", ", ") for form in FORMS]
    assert packed[:2] == [
        "version: uint16, fingerprint: fixed_size_binary[16], metric: uint16, "
        "report_id: uint64, message: uint64",
        "version: uint16, fingerprint: fixed_size_binary[16], metric: uint16, "
        "report_id: uint64, key_id: fixed_size_binary[8], sealed: fixed_size_binary[56]",
    ]
    assert packed[2:] == [
        "version: uint16, fingerprint: fixed_size_binary[16], metric: uint16, message: uint64",
        "version: uint16, fingerprint: fixed_size_binary[16], metric: uint16, "
        "key_id: fixed_size_binary[8], sealed: fixed_size_binary[56]",
    ]


@pytest.mark.parametrize(
    ("table", "dropped", "left"),
    [
        (of_golden(PLAIN).drop_columns("message"), {screening.OTHER_COLUMNS: 5}, []),
        (of_golden(Form(shuffled=True)), {screening.OTHER_COLUMNS: 5}, []),
        (with_column("message", [1] * 5, pa.int64()), {screening.OTHER_COLUMNS: 5}, []),
        (with_column("message", ["secret"] * 5, pa.string()), {screening.OTHER_COLUMNS: 5}, []),
        (
            with_column("report_id", [b"7 bytes"] * 5, pa.binary(7)),
            {screening.OTHER_COLUMNS: 5},
            [],
        ),
        (pa.table({"other": [1, 2, 3]}), {screening.OTHER_COLUMNS: 3}, []),
        (
            with_column("message", [0, None, 7, None, 3], pa.uint64()),
            {screening.NULL: 2},
            [0, 2, 4],
        ),
        (
            with_column("version", [3, 2, 0, 3, 3], pa.uint16()),
            {screening.OTHER_VERSION: 2},
            [0, 3, 4],
        ),
        (
            with_column("report_id", [b"sixteen bytes it"] * 5, pa.binary(16)),
            {screening.OTHER_COLUMNS: 5},
            [],
        ),
        (
            with_column("fingerprint", [PLAN, bytes(16), PLAN, PLAN, None], pa.binary(16)),
            {screening.OTHER_PLAN: 1, screening.NULL: 1},
            [0, 2, 3],
        ),
        (
            with_column("metric", [0, 2, 65_535, 1, 0], pa.uint16()),
            {screening.UNKNOWN_METRIC: 2},
            [0, 3, 4],
        ),
        (
            with_column("message", [9, 2**64 - 1, 7, 0, 3], pa.uint64()),
            {screening.IMPOSSIBLE: 2},
            [2, 3, 4],
        ),
    ],
)
def test_rows_are_dropped_by_reason(table, dropped, left):
    rows, counted = read(parquet(table), PLAIN)
    assert counted == dropped
    assert [row[1] for row in rows] == [fields(packed(golden(PLAIN)))[i][1] for i in left]


def test_other_columns_are_not_even_read():
    table = of_golden(PLAIN).append_column("user", pa.array(["secret"] * 5))
    assert read(parquet(table), PLAIN) == (fields(packed(golden(PLAIN))), {})


def test_tables_of_slices_and_chunks_are_read_as_they_stand():
    whole = report_tables.to_table(made(100))
    pieces = pa.concat_tables([whole.slice(7, 20), whole.slice(50), whole.slice(3, 0)])
    screened = report_tables.from_table(pieces, expected(PLAIN))
    rows = fields(packed(made(100)))
    assert fields(screened.reports) == rows[7:27] + rows[50:]


EDITS = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 4), st.binary(max_size=4)),
    min_size=1,
    max_size=3,
)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from([*zip(NAMES, FORMS, strict=True)]), EDITS)
def test_fuzz_mutated_parquet(golden_file, edits):
    """Bytes changed, cut out and put in: no exception, and nothing but known reasons."""
    name, form = golden_file
    data = (DATA / f"{name}.parquet").read_bytes()
    for place, cut, put in edits:
        place %= len(data) + 1
        data = data[:place] + put + data[place + cut :]
    rows, dropped = read(data, form)
    assert dropped.keys() <= set(screening.REASONS)
    assert len(rows) <= 5


@pytest.mark.parametrize("size", [0, 1, 4, 8, 100, 1000])
def test_half_written_parquet_is_counted_once(size):
    data = parquet(of_golden(PLAIN))[:size]
    assert read(data, PLAIN) == ([], {screening.NOT_REPORTS: 1})


def test_a_file_that_is_ruined_further_on_keeps_what_came_before():
    sink = io.BytesIO()
    table = report_tables.to_table(made(2000))
    pq.write_table(table, sink, row_group_size=1000, use_dictionary=False)
    chunk = pq.ParquetFile(sink).metadata.row_group(1).column(4)
    data = bytearray(sink.getvalue())
    start = chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    blocks = report_tables.read(io.BytesIO(data), expected(PLAIN), rows=1000)
    screened = screening.merged(expected(PLAIN), blocks)
    assert fields(screened.reports) == fields(packed(made(2000)))[:1000]
    assert screened.dropped == {screening.TRUNCATED: 1}


def crowded(n: int, **options) -> bytes:
    """A file of n reports that are all one and the same, in far fewer bytes than n ids take."""
    one = report_tables.to_table(made(1))
    sink = io.BytesIO()
    pq.write_table(one.take(np.zeros(n, np.int64)), sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("form", [PLAIN, Form(sealed=True), Form(sealed=True, shuffled=True)])
def test_a_file_of_more_rows_than_its_bytes_can_hold_is_not_unpacked(form, monkeypatch):
    """365 kB became twenty million rows, 519 MB and a minute; the footer has told as much."""
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    sink = io.BytesIO()
    many = Reports(PLAN, form, np.repeat(form.empty(1), 100_000))
    pq.write_table(report_tables.to_table(many), sink)
    assert len(sink.getvalue()) < 10_000
    assert read(sink.getvalue(), form) == ([], {screening.OVERFULL: 1})


def test_reports_that_are_there_three_times_are_left_to_be_told_apart():
    rows = report_tables.to_table(made(5000))
    data = parquet(pa.concat_tables([rows] * 3))
    assert read(data, PLAIN)[0] == fields(packed(made(5000))) * 3


@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli", "lz4"])
def test_codecs_that_make_gigabytes_of_kilobytes_are_not_unpacked(codec):
    sink = io.BytesIO()
    pq.write_table(report_tables.to_table(made()), sink, compression=codec)
    assert read(sink.getvalue(), PLAIN) == ([], {screening.OTHER_CODEC: 1})


def varint(number: int, width: int) -> bytes:
    """A number as a footer has it, zigzag and in so many bytes."""
    doubled = 2 * number
    groups = [doubled >> 7 * place & 127 for place in range(width)]
    return bytes(group | 128 for group in groups[:-1]) + bytes(groups[-1:])


def test_row_groups_that_tell_one_number_and_hold_another():
    """Each count in the footer is made small, alone and with others: no more comes than is told."""
    n = 1_000_000
    data = crowded(n)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places, at = [], data.find(varint(n, 3), start)
    while at >= 0:
        places.append(at)
        at = data.find(varint(n, 3), at + 1)
    assert len(places) >= 7  # of the file, of its group, of five columns
    lies = [[place] for place in places] + [places, places[:-1], places[1:], places[:2]]
    for lie in [*lies, places[:1] + places[-1:], places[-2:]]:
        lied = bytearray(data)
        for place in lie:
            lied[place : place + 3] = varint(100, 3)
        rows, dropped = read(bytes(lied), PLAIN)
        assert len(rows) <= 100
        assert dropped.keys() <= {screening.OVERFULL, screening.NOT_REPORTS, screening.TRUNCATED}


def test_errors_of_the_file_system_pass():
    """A disk that fails is no bad report: the work is done again, not written off."""

    class Failing(io.BytesIO):
        reads = 0

        def read(self, size=-1):
            self.reads += 1
            if self.reads > 2:
                raise OSError(5, "the disk")
            return super().read(size)

    for data in (parquet(of_golden(PLAIN)), binary.encode(made(1000))):
        with pytest.raises(OSError, match="the disk"):
            list(reports.read(Failing(data), expected(PLAIN)))


@pytest.mark.parametrize("form", [PLAIN, SEALED], ids=repr)
def test_what_is_written_is_read(form):
    blocks = [block.recast(form) for block in (made(1000, 0), made(500), made(0), made(1, 0))]
    whole = ordered(Reports(PLAN, form, np.concatenate([block.records for block in blocks])))
    assert read(sunk(BinarySink(form, PLAN), *blocks), form) == (fields(whole), {})
    assert read(sunk(ParquetSink(form, PLAN), *blocks), form) == (fields(packed(whole)), {})
    for sink in (BinarySink(form, PLAN), ParquetSink(form, PLAN)):
        assert read(sunk(sink), form) == ([], {})


@pytest.mark.parametrize("sink", [BinarySink, ParquetSink])
def test_no_order_of_rows_is_seen_in_a_file(sink):
    """Of any order of rows, in any blocks, the same bytes are made."""
    records = np.concatenate([made(900, 0).records, made(600).records])
    first = sunk(sink(PLAIN, PLAN), Reports(PLAN, PLAIN, records))
    for seed in range(5):
        mixed = np.array_split(records[SeededRandom(seed).permutation(1500).astype(np.intp)], 7)
        assert sunk(sink(PLAIN, PLAN), *(Reports(PLAN, PLAIN, part) for part in mixed)) == first


@pytest.mark.parametrize("sink", [BinarySink, ParquetSink])
def test_a_large_file_is_put_in_order_a_part_at_a_time(sink, monkeypatch):
    monkeypatch.setattr(reports, "_GROUP", 28 * 1000)
    blocks = [made(600), made(400), made(50, 0)]
    parts = [np.concatenate([block.records for block in blocks[:2]]), blocks[2].records]
    whole = Reports(PLAN, PLAIN, np.concatenate([in_order(part) for part in parts]))
    rows = fields(whole if sink is BinarySink else packed(whole))
    assert read(sunk(sink(PLAIN, PLAN), *blocks), PLAIN) == (rows, {})


def test_reports_of_several_widths_stand_in_one_binary_file():
    """Of noisy counters each metric has its own, and a metric's reports stand together."""
    forms = [Form(sealed=True, slots=slots) for slots in (3, 2)]
    blocks = [made(40, place).recast(form) for place, form in enumerate(forms)]
    data = sunk(BinarySink(forms[0], PLAN), *blocks, blocks[0].where(np.arange(40) < 0))
    expected = binary.header(forms[0], PLAN)
    for block in blocks[::-1]:
        expected += in_order(block.records).tobytes()
    assert data == expected


def test_reports_of_two_bytes_take_eight_in_a_file_of_many():
    """19 in version 2, however small the blocks are."""
    n = 200_000
    words = SeededRandom(1).integers(915, n)
    many = Reports.submitted(PLAN, 1, words, SeededRandom(2))
    assert len(sunk(ParquetSink(PLAIN, PLAN), many)) < 8 * n
    sealed = many.recast(SEALED)
    sealed.records["sealed"] = SeededRandom(3).words(7 * n).view(np.uint8).reshape(n, 56)
    parts = [sealed.where(np.arange(n) % 4 == part) for part in range(4)]
    data = sunk(ParquetSink(SEALED, PLAN), *parts)
    assert len(data) < 63 * n
    assert pq.ParquetFile(io.BytesIO(data)).metadata.num_row_groups == 1
    assert len(read(data, SEALED)[0]) == n


def test_messages_of_one_metric_are_taken():
    both = [made(30, 0), made(20, 1)]
    mixed = Reports(PLAN, PLAIN, np.concatenate([block.records for block in both]))
    outcome = run(lambda p: p | source([mixed], Reports) | MessagesOf(1))
    assert [block.tolist() for block in outcome.elements] == [both[1].records["message"].tolist()]
    assert outcome.elements[0].dtype == np.uint64


@pytest.mark.parametrize("form", [PLAIN, SEALED])
def test_half_a_file_is_closed_without_a_word(form, monkeypatch) -> None:
    """As where the step before the writer fails: the one line of a command is its error's."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    sink = ParquetSink(form, PLAN)
    with io.BytesIO() as file:
        sink.open(file)
        sink.put(Reports(PLAN, form, form.empty(3)))
    del sink
    gc.collect()
    assert said == []
