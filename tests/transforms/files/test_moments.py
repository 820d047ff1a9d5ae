"""Moments in texts: each writer's form, and Python's datetime as the oracle of what they mean."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.wire import EXAMPLES
from transforms.files.moments import TIME, moments
from transforms.files.reading import Reading, parsed
from transforms.files.source import tables

UTC = timezone.utc
EIGHT = datetime(2026, 11, 20, 8, tzinfo=UTC)


def micros(microseconds: int) -> datetime:
    return EIGHT + timedelta(microseconds=microseconds)


WRITTEN = {
    "2026-11-20 08:00:00 UTC": EIGHT,  # BigQuery
    "2026-11-20 08:00:00.123456 UTC": micros(123_456),
    "2026-11-20 08:00:00+00": EIGHT,  # Postgres
    "2026-11-20 08:00:00.745+02": micros(745_000) - timedelta(hours=2),
    "2026-11-20 08:00:00+05:30": EIGHT - timedelta(hours=5, minutes=30),
    "2026-11-20T08:00:00.123456789Z": micros(123_456),  # Go
    "2026-11-20 08:00:00.123456789 +0100 CET": micros(123_456) - timedelta(hours=1),
    "2026-11-20 08:00:00 +0300 +03": EIGHT - timedelta(hours=3),
    "2026-11-20T08:00:00.1234567Z": micros(123_456),  # .NET
    "2026-11-20T08:00:00.1234567+00:00": micros(123_456),
    "2026-11-20 08:00:00,123": micros(123_000),  # Python's logging
    "2026-11-20t08:00:00z": EIGHT,  # RFC 3339
    "2026-11-20t08:00:00.5-0100": micros(500_000) + timedelta(hours=1),
    "2026-11-20 08:00:00 +0000": EIGHT,  # Ruby
    "2026-11-20 08:00:00 utc": EIGHT,
    "2026-11-20T08:00:00 GMT": EIGHT,
    "2026-11-20T09:00+01:00[Europe/Oslo]": EIGHT,  # Java
    "2026-11-20T08:00:00Z[UTC]": EIGHT,
    "  2026-11-20T08:00\t": EIGHT,
    "2026-11-20": EIGHT - timedelta(hours=8),
    "1969-12-31T23:59:59.9999999Z": datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1),
    "0001-01-01T00:00:00.000000999Z": datetime(1, 1, 1, tzinfo=UTC),
    "2024-02-29 00:00:00.": None,
    "2023-02-29T08:00:00Z": None,
    "2026-11-31": None,
    "2026-11-20 24:00": None,
    "2026-11-20 08:60": None,
    "2026-11-20 08:00:001": None,
    "2026-11-20 08:00.5": None,
    "2026-11-20 08": None,
    "2026-11-20Z": None,
    "2026-11-20 08:00:00+24": None,
    "2026-11-20 08:00:00+1": None,
    "2026-11-20 08:00:00 CET": None,  # whose offset nobody says
    "2026-11-20  08:00": None,
    "20.11.2026": None,
    "1795161600": None,
    "": None,
}


def test_each_writers_form_is_read_and_nothing_else() -> None:
    column = pa.array([*WRITTEN, None])
    found = parsed(column, TIME).to_pylist()
    assert dict(zip(column.to_pylist(), found, strict=True)) == {**WRITTEN, None: None}
    # Each alone as well: what stands beside it does not matter.
    assert [parsed(pa.array([text]), TIME)[0].as_py() for text in WRITTEN] == [*WRITTEN.values()]


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.jsonl", "at={}/log.parquet"])
def test_every_source_of_text_reads_the_same_moments(tmp_path: Path, name: str) -> None:
    texts = [text for text in WRITTEN if text.strip() == text and text and "/" not in text]
    reading = Reading((("at", "timestamp"),))
    found = []
    for text in texts if "{}" in name else [texts]:
        path = tmp_path / name.format(text)
        path.parent.mkdir(exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa.table({"n": [1]}), path)
        elif name.endswith(".jsonl"):
            path.write_text("".join(f'{{"at": "{one}"}}\n' for one in text))
        else:
            path.write_text("at\n" + "".join(f'"{one}"\n' for one in text))
        for table in tables(str(path), ["at"], reading):
            found += table.column("at").to_pylist()
    assert found == [WRITTEN[text] for text in texts]


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.none() | st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from("Tt "),
    st.sampled_from(".,"),
    st.integers(0, 9),
    st.sampled_from(["", "{:03d}", "{:09d}"]),
    st.sampled_from(["", " "]),
    st.sampled_from([":", ""]),
)
@settings(max_examples=EXAMPLES)
def test_a_moment_is_what_pythons_datetime_takes_it_for(
    moment: datetime, offset: int | None, joint: str, point: str, digits: int, finer: str,
    blank: str, colon: str,
) -> None:  # fmt: skip
    fraction = f"{moment.microsecond:06d}"[:digits]
    moment = moment.replace(microsecond=int(f"{fraction:0<6}"))
    text = moment.strftime("%Y-%m-%d").rjust(10, "0") + joint + moment.strftime("%H:%M:%S")
    if fraction:
        text += point + fraction + (finer.format(7) if digits >= 6 else "")
    zone = UTC if offset is None else timezone(timedelta(minutes=offset))
    if offset is not None:
        hours, minutes = divmod(abs(offset), 60)
        text += f"{blank}{'-' if offset < 0 else '+'}{hours:02d}{colon}{minutes:02d}"
    assert moments(pa.array([text, "x"])).to_pylist() == [moment.replace(tzinfo=zone), None]


@given(st.text("0123456789-:.,TtZz+ UC", max_size=40))
@settings(max_examples=EXAMPLES)
def test_fuzz_any_text_is_a_moment_or_none(text: str) -> None:
    found = moments(pa.array([text]))
    assert found.type == TIME
    assert len(found) == 1
