"""The binary form: bytes that never change, and a reader that takes anything whatever."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary, screening
from mechanisms.wire.report import Form, Reports
from tests.oracles.wire import DATA, EXAMPLES, FORMS, PLAN, expected, fields, golden, parse

NAMES = ["submitted", "submitted-sealed", "shuffled", "shuffled-sealed"]
PLAIN = [form for form in FORMS if not form.sealed]


def file(form: Form) -> bytes:
    """The golden file of a form."""
    return (DATA / f"{NAMES[form.kind]}.reports").read_bytes()


def decoded(data: bytes, form: Form) -> tuple[list[tuple[bytes, ...]], dict[str, int]]:
    """The fields of what the reader keeps, and what it drops."""
    screened = binary.decode(data, expected(form))
    return fields(screened.reports), screened.dropped


@pytest.mark.parametrize("form", PLAIN, ids=repr)
def test_the_bytes_never_change(form):
    assert binary.encode(golden(form)) == file(form)


def test_a_file_is_what_the_specification_says_byte_by_byte():
    assert file(Form(shuffled=True))[:52].hex(" ", 4) == (
        "89485553 48420d0a 02000200 00010203 04050607 08090a0b 0c0d0e0f "
        "0a000000 00000000 00000000 0a000000 08000000 00000000"
    )


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_golden_files_are_read(form):
    rows, dropped = decoded(file(form), form)
    assert not dropped
    assert [row[0] for row in rows] == [bytes([metric, 0]) for metric in (0, 0, 1, 1, 0)]
    if not form.shuffled:
        ids = golden(replace(form, sealed=False)).records["report_id"]
        assert [row[1] for row in rows] == [one.tobytes() for one in ids]
    if not form.sealed:
        assert rows == fields(golden(form))


@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.parametrize(
    ("place", "put", "reason"),
    [
        (0, b"\x88", {screening.NOT_REPORTS: 1}),
        (8, b"\x01", {screening.OTHER_VERSION: 1}),
        (11, b"\x01", {screening.OTHER_FORM: 1}),
        (12, b"\xff", {screening.OTHER_PLAN: 5}),
        (30, b"\x02", {screening.UNKNOWN_METRIC: 1}),
        (31, b"\xff", {screening.UNKNOWN_METRIC: 1}),
    ],
)
def test_what_is_foreign_is_counted_by_reason(form, place, put, reason):
    data = bytearray(file(form))
    data[place : place + 1] = put
    rows, dropped = decoded(bytes(data), form)
    assert dropped == reason
    assert len(rows) == (4 if reason == {screening.UNKNOWN_METRIC: 1} else 0)


@pytest.mark.parametrize("form", PLAIN, ids=repr)
def test_codes_that_the_mechanism_lacks_are_counted(form):
    records = golden(form).records.copy()
    records["message"][0] = 9  # of nine values, 0 .. 8
    records["message"][2] = 2**64 - 1
    _, dropped = decoded(binary.encode(Reports(PLAN, form, records)), form)
    assert dropped == {screening.IMPOSSIBLE: 2}


@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.parametrize("other", FORMS, ids=repr)
def test_another_form_than_the_plan_asks_for_is_counted(form, other):
    rows, dropped = decoded(file(other), form)
    if other == form:
        assert len(rows) == 5
    else:
        assert (rows, dropped) == ([], {screening.OTHER_FORM: 5})


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_every_cut_keeps_the_whole_records_before_it(form):
    data, size = file(form), form.dtype.itemsize
    for end in range(len(data)):
        rows, dropped = decoded(data[:end], form)
        whole, rest = divmod(max(end - 28, 0), size)
        assert len(rows) == whole
        if end < 8:
            assert dropped == {screening.NOT_REPORTS: 1}
        else:
            assert dropped == ({screening.TRUNCATED: 1} if rest or end < 28 else {})


def test_records_of_another_width_are_skipped_and_the_rest_is_read():
    form = Form(shuffled=True)
    data = file(form)
    foreign = [b"\x00\x00", b"\x0b\x00" + b"\x01" * 11, b"\xff\xff" + bytes(65_535)]
    mixed = data[:28] + b"".join(
        data[28 + 12 * i : 40 + 12 * i] + foreign[i % 3] * i for i in range(5)
    )
    rows, dropped = decoded(mixed, form)
    assert rows == fields(golden(form))
    assert dropped == {screening.OTHER_WIDTH: 10}


def test_blocks_meet_anywhere_within_a_record():
    """Streams in pieces of any size, read in blocks of any size, give what the whole gives."""
    form = Form()
    data = file(form)[:84] + b"\x03\x00abc" + file(form)[84:] + b"\x1a\x00"
    whole = decoded(data, form)
    assert whole[1] == {screening.OTHER_WIDTH: 1, screening.TRUNCATED: 1}

    class Trickle(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 7))

    for block in range(1, 64):
        parts = list(binary.read(Trickle(data), expected(form), block))
        merged = screening.merged(expected(form), parts)
        assert (fields(merged.reports), merged.dropped) == whole


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(FORMS), st.binary(max_size=400), st.integers(0, 28))
def test_fuzz_arbitrary_bytes(form, tail, head):
    data = file(form)[:head] + tail
    assert decoded(data, form) == parse(data, form)


EDITS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 4), st.binary(max_size=4)), max_size=4
)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(FORMS), EDITS)
def test_fuzz_mutated_files(form, edits):
    """Bytes of a whole file changed, cut out and put in, anywhere."""
    data = file(form)
    for place, cut, put in edits:
        place %= len(data) + 1
        data = data[:place] + put + data[place + cut :]
    assert decoded(data, form) == parse(data, form)


def test_a_file_made_to_keep_the_reader_busy_is_left():
    """Lengths that alternate for a gigabyte would take minutes; the reader gives up at 4,096."""
    data = binary.header(Form(), PLAN) + b"\x00\x00\x01\x00\x00" * 200_000
    _, dropped = decoded(data, Form())
    assert dropped == {screening.OTHER_WIDTH: 4097, screening.NO_FRAMES: 1}
    # One long run of them is no such thing.
    _, dropped = decoded(binary.header(Form(), PLAN) + bytes(2_000_000), Form())
    assert dropped == {screening.OTHER_WIDTH: 1_000_000}


def test_errors_of_the_stream_itself_pass():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError(5, "the disk")

    with pytest.raises(OSError, match="the disk"):
        list(binary.read(Broken(), expected(Form())))


def test_ids_are_random_and_leave_before_the_shuffle():
    one = Reports.submitted(PLAN, 1, np.arange(1000), SeededRandom(1))
    assert len({row.tobytes() for row in one.records["report_id"]}) == 1000
    bare = one.without_ids()
    assert bare.records.dtype.names == ("length", "metric", "message")
    assert fields(bare) == fields(Reports.shuffled(PLAN, 1, np.arange(1000)))
    assert fields(bare.of_metric(0)) == []


def test_impossible_reports_are_refused_where_they_are_made():
    with pytest.raises(ValueError, match="16 bytes"):
        Reports.shuffled(b"short", 0, [1])
    with pytest.raises(ValueError, match="metric must lie"):
        Reports.shuffled(PLAN, 65_536, [1])
    with pytest.raises(ValueError, match="form"):
        Reports(PLAN, Form(), Form(sealed=True).empty(1))
