"""A file of any format that is known: what is in it, and its rows; and why it cannot be read.

What a file is by its first bytes, where its name says nothing, or something else.
"""

import codecs
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from transforms.files.arrow import ArrowFile
from transforms.files.avro import Avro
from transforms.files.csv import Csv
from transforms.files.format import (
    CUT_OFF,
    MANGLED,
    NO_MARK,
    PACKED,
    FileFacts,
    Format,
    Mangled,
    Opener,
    Unmarked,
    opener,
)
from transforms.files.json_lines import JsonLines
from transforms.files.parquet import Orc, Parquet
from transforms.files.partitions import parts_of, shown
from transforms.files.reading import PLAIN, Reading, parsed
from transforms.files.systems import UNCOMPRESSED, FileSystems, is_beams

_LONGEST = 16

# First bytes -> what begins with them.
_BEGINNINGS = {
    b"PAR1": "Parquet", b"PARE": "Parquet with an encrypted footer", b"ORC": "ORC",
    b"Obj\x01": "Avro", b"ARROW1": "Arrow", b"\xff\xff\xff\xff": "Arrow",
    b"FEA1": "Feather of version 1", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\xfd7zXZ\x00": "xz", b"\x04\x22\x4d\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy", b"SQLite format 3\x00": "SQLite", b"%PDF": "PDF",
}  # fmt: skip
# UTF-32's first: the shorter one of UTF-16 begins it.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
PARQUET: Format = Parquet()
FORMATS: tuple[Format, ...] = (PARQUET, Csv(), JsonLines(), ArrowFile(), Orc(), Avro())
_BY_ENDING: dict[str, Format] = {ending: one for one in FORMATS for ending in one.endings}
_BLOCK = 1 << 20  # bytes
_BY_ENDING[".tsv"] = Csv("\t")
_BY_NAME: dict[str, Format] = {one.name: one for one in FORMATS}
_SOME = 1 << 20  # rows
_PACKED = 5  # bytes of a log that about become one
_TEXTS = ", ".join(ending for one in FORMATS if one.text for ending in one.endings)


def begins_like(path: str) -> str:
    """The format, packer or program whose first bytes a file has; empty if it is none of these."""
    try:
        with FileSystems.open(path, compression_type=UNCOMPRESSED) as stream:
            start = stream.read(_LONGEST)
    except Exception:  # whoever reads the file says why
        return ""
    return next((name for begin, name in _BEGINNINGS.items() if start.startswith(begin)), "")


class UnreadableError(Exception):
    """A file cannot be read, in words that quote nothing of what it holds.

    Attributes:
        path: of the file.
        form: the name of its format.
        why: it cannot be.
        refused: whether the system refuses it, which says nothing of what it holds.
    """

    def __init__(self, path: str, form: str, why: str, refused: bool) -> None:
        super().__init__(path, form, why, refused)
        self.path, self.form, self.why, self.refused = path, form, why, refused

    def __str__(self) -> str:
        if self.refused:
            return f"cannot read {shown(self.path)}: {self.why}"
        if not self.form:
            return f"what {shown(self.path)} is cannot be told: {self.why}"
        return f"{shown(self.path)} is not a readable {self.form} file ({self.why})"


def known(path: str) -> bool:
    """Whether a file's name says its format."""
    return _named(path) is not None


def format_of(path: str) -> Format:
    """The format of a file, by its name; by its first bytes if that says none, or else Parquet."""
    return _named(path) or _BY_NAME.get(begins_like(path), PARQUET)


def packed(path: str) -> bool:
    """Whether a file is unpacked while it is read."""
    chosen = _named(path)
    return _bare(path)[1] is not None and chosen is not None and chosen.text


def look(path: str, reading: Reading = PLAIN) -> FileFacts:
    """Rows and columns of a file, those that its folders say among them.

    Raises:
        UnreadableError: it cannot be read, or is not of the format that its name says.
    """
    chosen, parts = format_of(path), parts_of(path)
    with _own_errors(path, chosen):
        _require_like(path, chosen, reading)
        rows, schema, _ = chosen.look(_opener(path, chosen, reading), reading.without(parts))
    return FileFacts(rows, _with_parts(schema, parts, reading, chosen.text))


def _with_parts(schema: pa.Schema, parts: Iterable[str], reading: Reading, text: bool) -> pa.Schema:
    """The columns of a file, those that its folders say among them."""
    for column in parts:
        place = schema.get_field_index(column)
        said = pa.field(column, reading.kind(column))
        if column not in schema.names:
            schema = schema.append(said)
        elif text and place >= 0:  # its own column, which is text, too
            schema = schema.set(place, said)
    return schema


def begin(path: str, reading: Reading = PLAIN) -> FileFacts | None:
    """About how many rows a long text has, and the columns at its beginning; None of all else.

    Raises:
        UnreadableError: as `look`, as far as the beginning tells.
    """
    chosen, parts = format_of(path), parts_of(path)
    if not isinstance(chosen, Csv | JsonLines):
        return None
    with _own_errors(path, chosen):
        _require_like(path, chosen, reading)
        seen = chosen.begin(_opener(path, chosen, reading), reading.without(parts))
        if seen is None:
            return None
        size = FileSystems.named(path)[0].size_in_bytes * (_PACKED if packed(path) else 1)
    rows = max(seen.rows * size // seen.size, 1)
    return FileFacts(rows, _with_parts(seen.schema, parts, reading, True), whole=False)


def head(path: str, reading: Reading = PLAIN) -> pa.Schema | None:
    """The columns of a file without a look at its rows; None of JSON, whose rows alone say them.

    Raises:
        UnreadableError: as `look`.
    """
    chosen, parts = format_of(path), parts_of(path)
    if not chosen.text:
        return look(path, reading).schema
    if not isinstance(chosen, Csv):
        return None
    with _own_errors(path, chosen):
        _require_like(path, chosen, reading)
        names = chosen.names(_opener(path, chosen, reading), reading.without(parts))
    return reading.schema([*names, *(name for name in parts if name not in names)])


def tables(path: str, columns: Sequence[str], reading: Reading = PLAIN) -> Iterator[pa.Table]:
    """The rows of a file, some at a time.

    Args:
        path: of the file.
        columns: that it has, or its folders; nothing else leaves it.
        reading: of text.

    Raises:
        UnreadableError: as `look`.
    """
    chosen, parts = format_of(path), parts_of(path)
    with _own_errors(path, chosen):
        open_file, own = _opener(path, chosen, reading), [*columns]
        if parts.keys() & {*columns} or not own:
            rows, schema, _ = chosen.look(open_file, reading.without(parts))
            names = schema.names
            # A table knows its rows by its columns: of a total, any one is read for that.
            one = [name for name in names if names.count(name) == 1][:1]
            own = [column for column in columns if column in names] or one
            read = chosen.tables(open_file, own, reading) if own else _rows(rows)
        else:
            read = chosen.tables(open_file, own, reading)
        for table in read:
            for column in (column for column in columns if column not in own):
                said = parsed(pa.array([parts[column]], pa.string()), reading.kind(column))
                table = table.append_column(column, pa.repeat(said[0], table.num_rows))
            yield table.select([*columns])


def contents(path: str) -> Iterator[bytes]:
    """The bytes of a file, some at a time; of a packed one what was packed.

    Raises:
        UnreadableError: as `look`.
    """
    chosen = format_of(path)
    with _own_errors(path, chosen), _opener(path, chosen)() as stream:
        while block := stream.read(_BLOCK):
            yield block


def _rows(rows: int) -> Iterator[pa.Table]:
    """The rows of a file that has no columns."""
    for start in range(0, rows, _SOME):
        yield pa.table({"": pa.nulls(min(_SOME, rows - start))})


def _bare(path: str) -> tuple[str, str | None]:
    """A file's name before it was packed, and what unpacks it."""
    stem, ending = os.path.splitext(path)
    codec = PACKED.get(ending.lower())
    return (path, None) if codec is None else (stem, codec)


def _named(path: str) -> Format | None:
    """The format that a file's name says."""
    return _BY_ENDING.get(os.path.splitext(_bare(path)[0])[1].lower())


def _require_like(path: str, chosen: Format, reading: Reading) -> None:
    """Refuse text that is no text: its reader would make some rows of any bytes."""
    if not chosen.text:
        return
    if (other := begins_like(path)) and not _bare(path)[1]:
        raise Mangled(f"its first bytes are those of {other}: give it a name that says so")
    if not reading.encoding:
        with _opener(path, chosen, reading)() as stream:
            start = stream.read(_LONGEST)
        marked = (name for mark, name in _MARKS.items() if start.startswith(mark))
        if (wide := next(marked, None)) is not None:
            raise Unmarked(f"its byte order mark is that of {wide}: name this encoding")
        # Of ASCII in UTF-16 every second byte is 0: it would be read as columns that nobody names.
        if b"\0" in start and not (any(start[::2]) and any(start[1::2])):
            raise Unmarked(NO_MARK)


def _opener(path: str, chosen: Format, reading: Reading = PLAIN) -> Opener:
    if not chosen.text:
        return opener(path, None)
    return opener(path, _bare(path)[1], reading.encoding)


@contextmanager
def _own_errors(path: str, chosen: Format) -> Iterator[None]:
    """The one place in which what readers raise becomes words of ours: theirs quote rows."""
    why, refused = MANGLED, False
    try:
        yield
        return
    except UnreadableError:
        raise
    except (Mangled, Unmarked) as error:
        why = str(error)
    except MemoryError:
        why = "its reader needs more memory than there is"
    except ImportError as error:
        # Where memory is short, a library is not found either.
        why = f"the library that reads it cannot be loaded: {error.name or 'memory may be short'}"
    except OSError as error:
        if is_beams(error):
            why, refused = "the file system does not hand it out", True
        elif error.errno is not None:  # Arrow gives none where a page is damaged
            why, refused = os.strerror(error.errno), True
    except Exception:
        pass
    form = chosen.name
    if why == MANGLED and not refused:
        form, why = _recognised(path, chosen)
    raise UnreadableError(path, form, why, refused)


def beginning(path: str, reading: Reading = PLAIN, size: int = 1 << 17) -> str:
    """The first lines of a file of text, unpacked; the last of them may be cut off.

    Args:
        path: of the file.
        reading: of text.
        size: bytes that are read.

    Raises:
        UnreadableError: as `look`.
    """
    chosen = format_of(path)
    with _own_errors(path, chosen), _opener(path, chosen, reading)() as stream:
        return bytes(stream.read(size)).decode("utf-8-sig", "replace")


def _recognised(path: str, chosen: Format) -> tuple[str, str]:
    """The name of a format, and why a file is none of it, as far as its first bytes tell."""
    other = begins_like(path)
    if other == chosen.name:
        return other, CUT_OFF
    if other and not _bare(path)[1]:
        known = _BY_NAME.get(other)
        if known is None and _named(path) is None:
            return "", f"it begins as {other} does, which is not read: save it as Parquet or CSV"
        do = f"give it a name that ends in {known.endings[0]}" if known else "that is not read here"
        return chosen.name, f"its first bytes are those of {other}: {do}"
    if _named(path) is None:
        return "", (
            "neither its name nor its first bytes say a format: give text a name that ends in "
            f"{_TEXTS}"
        )
    return chosen.name, MANGLED
