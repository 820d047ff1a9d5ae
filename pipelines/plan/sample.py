"""The first rows of a log, and how its text is written: what `init` and `look` go by.

Both are for who owns the log and may see all of it. What they read here is in no release, no
statement and no ledger, and decides nothing of what a run does.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import RequestError
from pipelines.logs.inputs import Telemetry, matched, open_telemetry
from transforms.columns import decoded
from transforms.files.partitions import shown
from transforms.files.reading import PLAIN, TYPES, Reading, parsed
from transforms.files.source import UnreadableError, beginning, format_of, known, tables

USER = re.compile(r"(user|member|customer|client|device|visitor|account|person)s?(_?id)?|uid", re.I)
"""What columns are called that tell users apart."""

ROWS = 1 << 16  # of a file that are looked at
_FILES = 16  # that are looked at
_BYTES = 1 << 20  # of a file of which is seen whether they are UTF-8
_ODD = "\N{REPLACEMENT CHARACTER}"  # in the place of bytes that are not
_LINES = 50
_SURE = 0.9  # of the lines that have as many fields as the first one
_DELIMITERS = (",", ";", "\t", "|")
_GUESSED = ("int", "float", "bool", "date", "timestamp")


@dataclass(frozen=True)
class Sample:
    """Rows of a log.

    Attributes:
        telemetry: its files.
        parts: (file, the first rows of it) of some of them; text as it is written there.
        delimiter: between the fields of CSV, where it is another than the name of the file says.
        unnamed: whether the first line of CSV seems to be a row, and no header.
        encoding: that text seems to be written in, where it is not UTF-8 and nobody has said so.
    """

    telemetry: Telemetry
    parts: tuple[tuple[str, pa.Table], ...]
    delimiter: str = ""
    unnamed: bool = False
    encoding: str = ""

    @cached_property
    def rows(self) -> pa.Table:
        """The rows of all parts."""
        return _together([table for _, table in self.parts])

    @property
    def text(self) -> bool:
        """Whether nothing but a person says what columns hold."""
        return format_of(self.telemetry.files[0]).text

    @property
    def columns(self) -> list[str]:
        """Those that can be asked for: each is there once, and has a name."""
        names = self.telemetry.schemas[0].names
        return [name for name in names if name.strip() and names.count(name) == 1]

    @property
    def twice(self) -> list[str]:
        """Names that several columns have."""
        names = self.telemetry.schemas[0].names
        return [name for name in dict.fromkeys(names) if name.strip() and names.count(name) > 1]

    def place(self, column: str) -> int:
        """Of a column in the file."""
        return self.telemetry.schemas[0].names.index(column)

    @property
    def header(self) -> list[str]:
        """Names for columns of which a first line has none: a row's own cells are nobody's."""
        return [f"column_{place + 1}" for place in range(len(self.telemetry.schemas[0].names))]

    @property
    def named(self) -> dict[str, str]:
        """Column -> what a plan calls it."""
        if not self.unnamed:
            return {name: name for name in self.columns}
        return {name: self.header[self.place(name)] for name in self.columns}


def sampled(
    patterns: Sequence[str], reading: Reading = PLAIN, guessed: bool = True, empty: bool = False
) -> Sample:
    """Find a log, and read its beginning.

    Args:
        patterns: files, globs or folders.
        reading: what a person has said of text.
        guessed: whether text is read in the encoding that it seems to have: a plan finds in it
            what it says itself.
        empty: whether it may have no rows.

    Raises:
        RequestError: there is none, or it cannot be read.
    """
    files = tuple(one for pattern in patterns for one in within(pattern))
    encoding = "" if reading.encoding else _encoding(files)
    if guessed and encoding:  # first, for names of columns are written in it, too
        reading = replace(reading, encoding=encoding)
    telemetry = open_telemetry(files, empty, reading)
    first, delimiter = telemetry.files[0], ""
    try:
        if format_of(first).name == "CSV" and not reading.delimiter:
            delimiter = _delimiter(first, reading)
        if delimiter:
            reading = replace(reading, delimiter=delimiter)
            telemetry = open_telemetry(files, empty, reading)
        telemetry = telemetry.whole("a column may begin late in it")
        names = telemetry.schemas[0].names
        once = [name for name in names if names.count(name) == 1]
        if not once:
            what = "of JSON every line is an object of its own" * (format_of(first).name != "CSV")
            raise RequestError(
                f"--input: {shown(first)} has no column that can be asked for; "
                f"{what or 'give each column a name of its own'}"
            )
        parts = tuple(_first(telemetry, once))
    except UnreadableError as error:
        raise RequestError(f"--input: {error}") from None
    sample = Sample(telemetry, parts, delimiter, encoding=encoding)
    unnamed = format_of(first).name == "CSV" and not reading.header and _is_row(sample.rows, names)
    return replace(sample, unnamed=unnamed)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:  # its text may quote what is in a file
        raise RequestError("--input: files disagree about the types of columns") from None


def within(pattern: str) -> list[str]:
    """A path or glob; of a folder the globs of all files in it whose names say their format.

    Raises:
        RequestError: there is none of them in it.
    """
    if "://" in pattern or not os.path.isdir(pattern):
        return [pattern]
    if set(pattern) & set("*?[]"):
        raise RequestError(f"--input: rename {pattern}: it would be taken for a pattern")
    globs: dict[str, None] = {}
    for folder, inner, files in os.walk(pattern):
        inner[:] = [name for name in inner if not name.startswith((".", "_"))]
        depth = os.path.relpath(folder, pattern).count(os.sep) + (folder != pattern)
        for file in files:
            if known(file) and not file.startswith((".", "_")):
                ending = file[file.index(".", 1) :] if file.count(".") == 1 else _ending(file)
                globs[os.path.join(pattern, *["*"] * depth, f"*{ending}")] = None
    if not globs:
        raise RequestError(
            f"--input: {pattern} is a folder without a file whose name says its format, as in "
            "part-0.parquet or log.csv.gz"
        )
    return sorted(globs)


def _ending(file: str) -> str:
    """Of a file's name, with that of what packs it."""
    stem, last = os.path.splitext(file)
    return last if known(f"x{last}") else os.path.splitext(stem)[1] + last


def _first(telemetry: Telemetry, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The first rows of some of the files, evenly taken."""
    step, plain = max(1, len(telemetry.files) // _FILES), replace(telemetry.reading, types=())
    for file, schema in [*zip(telemetry.files, telemetry.schemas, strict=True)][::step]:
        there = [name for name in columns if schema.get_field_index(name) >= 0]
        left = ROWS
        for table in tables(file, there, plain) if there else ():
            yield file, table.slice(0, left)
            left -= min(left, table.num_rows)
            if not left:
                break


def _encoding(patterns: Sequence[str]) -> str:
    """What text seems to be written in, if it is not UTF-8; empty where it is.

    Nearly all bytes are something in Windows' Western European, so that is no more than a guess.
    What cannot be read is refused by whoever reads it.
    """
    files = [file.path for pattern in patterns for file in matched(pattern)]
    for file in files[:: max(1, len(files) // _FILES)]:
        try:
            text = beginning(file, size=_BYTES) if format_of(file).text else ""
        except UnreadableError:
            continue
        if text.startswith(_ODD * 2) or "\0" in text[:_LINES]:
            return "utf-16"
        if _ODD in text[:-1]:  # the last sign may be cut off
            return "cp1252"
    return ""


def _delimiter(file: str, reading: Reading) -> str:
    """What stands between fields, where it is not what the name says; empty where it is."""
    usual = "\t" if ".tsv" in file.lower() else ","
    text = beginning(file, reading)
    lines = [line for line in text.split("\n")[:_LINES] if line.strip()]
    if len(lines) > 1 and not text.endswith("\n") and len(lines) < _LINES:
        lines = lines[:-1]  # it may be cut off
    widths = {sign: _width(lines, sign) for sign in (usual, *_DELIMITERS)}
    best = max(widths, key=lambda sign: widths[sign])
    return "" if widths[best] <= max(1, widths[usual]) else best


def _width(lines: Sequence[str], delimiter: str) -> int:
    """How many fields lines have, if nearly all have as many as the first one; else 0."""
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return 0
    alike = sum(count == counts[0] for count in counts) if counts else 0
    return counts[0] if counts and alike >= _SURE * len(counts) else 0


def _is_row(rows: pa.Table, names: Sequence[str]) -> bool:
    """Whether the first line of a file is like those below it."""
    for column in rows.column_names:
        texts = texts_of(rows.column(column))
        if texts is None or not len(texts):
            continue
        cell = pa.array([column])
        if "@" in column or pc.is_in(cell, texts)[0].as_py():
            return True
        kind = guess(texts)
        if kind is not None and parsed(cell, TYPES[kind])[0].is_valid:
            return True
    return any("@" in name for name in names)


def texts_of(column: pa.ChunkedArray) -> pa.Array | None:
    """What a column of text holds, without nulls; None of another column."""
    values = decoded(column.combine_chunks())
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    return pc.drop_null(values.cast(pa.string()))


def guess(texts: pa.Array) -> str | None:
    """The first type that most texts are of; None for texts, and for numbers that begin with 0.

    Such are codes, as of a post office: as numbers two of them would be one.
    """
    if not len(texts):
        return None
    for name in _GUESSED:
        if len(pc.drop_null(parsed(texts, TYPES[name]))) >= _SURE * len(texts):
            codes = (
                name == "int" and pc.any(pc.match_substring_regex(texts, r"^\s*[+-]?0\d")).as_py()
            )
            return None if codes else name
    return None


def there(patterns: Sequence[str]) -> bool:
    """Whether some file of each pattern is there."""
    try:
        return all(matched(pattern) for pattern in patterns)
    except RequestError:
        return False
