"""Files of text in other encodings: the same rows as in UTF-8, and what is none of them is null."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import RequestError
from pipelines.logs.reading import reading_of
from tests.oracles.wire import EXAMPLES
from transforms.files.format import Recoded, Unmarked, encoding_of
from transforms.files.reading import Reading
from transforms.files.source import UnreadableError, look, tables

CSV = 'stadt,s\nMünchen,"1,5"\nAñasco,2\n"Zwei\nZeilen",3\n'
JSON = '{"stadt": "München", "s": "1,5"}\n{"stadt": "Añasco", "s": 2}\n'


def rows(path: Path, encoding: str) -> list[tuple[str | None, str | None]]:
    reading = reading_of((), None, (), encoding)
    found = _rows(path, reading)
    assert look(str(path), reading).rows == len(found)
    return found


def _rows(path: Path, reading: Reading) -> list[tuple[str | None, str | None]]:
    found = []
    for table in tables(str(path), ["stadt", "s"], reading):
        found += [*zip(*(table.column(name).to_pylist() for name in ("stadt", "s")), strict=True)]
    return found


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "latin-1", "ISO8859-15", "windows-1252", "cp437", "utf-16", "utf-16-be",
     "utf-32"],
)  # fmt: skip
def test_text_of_any_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    plain, packed = tmp_path / "log.csv", tmp_path / "log.csv.gz"
    plain.write_bytes(CSV.encode(encoding))
    packed.write_bytes(gzip.compress(CSV.encode(encoding)))
    wanted = [("München", "1,5"), ("Añasco", "2"), ("Zwei\nZeilen", "3")]
    assert rows(plain, encoding) == rows(packed, encoding) == wanted
    if encoding != "utf-8-sig":  # a mark before JSON is the reader's own affair
        lines = tmp_path / "log.jsonl"
        text = JSON.encode(encoding)
        lines.write_bytes(text)
        assert rows(lines, encoding)[-1] == ("Añasco", "2")


def test_bytes_that_are_none_of_the_encoding_are_null(tmp_path: Path) -> None:
    csv, lines = tmp_path / "log.csv", tmp_path / "log.jsonl"
    csv.write_bytes("stadt,s\nMünchen,1\n".encode("cp1252") + b"\x81,2\nOslo,3\n")
    assert rows(csv, "cp1252") == [("München", "1"), (None, "2"), ("Oslo", "3")]
    lines.write_bytes(b'{"stadt": "\x81", "s": 2}\n{"stadt": "Oslo", "s": "\xfc"}\n')
    assert rows(lines, "cp1252") == [(None, None), ("Oslo", "ü")]


@pytest.mark.parametrize(
    "name", ["klingon", "hex", "rot13", "idna", "punycode", "utf\0", "undefined"]
)
def test_what_is_no_encoding_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(RequestError, match="--encoding: there is no encoding") as caught:
        reading_of((), None, (), name)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="encoding"):
        encoding_of(name)


@given(
    st.text(st.characters(codec="utf-8"), max_size=200),
    st.sampled_from(["utf-16", "utf-16-le", "utf-32", "gb18030", "utf-16-be"]),
    st.integers(1, 7),
)
@settings(max_examples=EXAMPLES)
def test_any_text_comes_out_as_utf8_however_it_is_read(text: str, encoding: str, size: int) -> None:
    stream = Recoded(io.BytesIO(text.encode(encoding)), encoding)
    found = b"".join(iter(lambda: stream.read(size), b""))
    assert found.decode() == text


@given(
    st.binary(max_size=60), st.sampled_from(["utf-16", "utf-32", "shift_jis", "cp1252", "ascii"])
)
@settings(max_examples=EXAMPLES)
def test_fuzz_any_bytes_are_read_to_their_end(data: bytes, encoding: str) -> None:
    stream = io.BufferedReader(Recoded(io.BytesIO(data), encoding))
    try:
        assert len(stream.read()) <= 4 * len(data)
    except Unmarked:
        assert encoding in ("utf-16", "utf-32")


def test_utf16_without_a_mark_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(CSV.encode("utf-16-le"))
    with pytest.raises(UnreadableError, match=r"log.csv .* no byte order mark: name utf-16-le"):
        look(str(path), Reading(encoding="utf-16"))
