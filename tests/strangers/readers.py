"""What is in a file by readers that are not ours: DuckDB, polars, fastavro, csv and json."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

TEXTS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")


class Truth(NamedTuple):
    """A file as another reader has it.

    Attributes:
        rows: how many.
        columns: name -> values; of a file that has two columns of a name, neither.
        lacking: names of columns that the other reader does not read either.
    """

    rows: int
    columns: dict[str, list[Any]]
    lacking: tuple[str, ...] = ()


def truth(path: Path) -> Truth | None:
    """What is in a file; None if no other reader reads it, or the one that does misreads it."""
    if path.name in _MISREAD:
        return None
    for reader in _READERS.get(path.suffix, ()):
        try:
            return reader(path)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a damaged file, or one it has no part for; polars panics
            continue
    return None


def kind(values: list[Any]) -> str:
    """What a column holds: text, integers, numbers, truths, moments, nothing, or other."""
    there = [value for value in values if value is not None]
    if not there:
        return "nothing"
    for name, types in _KINDS.items():
        if all(type(value) in types for value in there):
            return name
    return "other"


def day(moment: date | datetime) -> str:
    """The day of a moment in UTC, as `day()` writes it."""
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}"


def typed(texts: list[str | None], said: str) -> list[Any]:
    """Texts of a column as what a plan says it holds; None for what is none."""
    form, made = _TYPED.get(said, (None, str))
    return [
        None if text is None or (form and not re.fullmatch(form, text.strip())) else made(text)
        for text in texts
    ]


_KINDS: dict[str, tuple[type, ...]] = {
    "truths": (bool,),
    "integers": (int,),
    "numbers": (int, float, Decimal),
    "text": (str,),
    "moments": (date, datetime),
}

_TYPED: dict[str, tuple[str | None, Callable[[str], Any]]] = {
    "int": (r"[+-]?\d{1,18}", lambda text: int(text)),
    "float": (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", lambda text: float(text)),
    "bool": (r"(?i)true|false|0|1", lambda text: text.strip().lower() in ("true", "1")),
    "date": (r"\d{4}-\d\d-\d\d", lambda text: date.fromisoformat(text.strip())),
    "timestamp": (
        r"\d{4}-\d\d-\d\d([ T].*)?",
        lambda text: datetime.fromisoformat(text.strip().replace("Z", "+00:00")),
    ),
}


def _duckdb(path: Path) -> Truth:
    import duckdb

    base = duckdb.connect(config={"autoinstall_known_extensions": False})
    base.execute("set TimeZone='UTC'")
    source = f"read_parquet('{str(path).replace(chr(39), chr(39) * 2)}')"
    rows = base.execute(f"select count(*) from {source}").fetchone()
    columns, lacking = {}, []
    for name, kind, *_ in base.execute(f"describe select * from {source}").fetchall():
        quoted = '"' + name.replace('"', '""') + '"'
        # Beyond what Python's datetime holds, a text shows the day.
        shown = f"try_cast({quoted} as timestamp)" if kind.startswith("TIMESTAMP") else quoted
        try:
            found = base.execute(f"select {shown} from {source}").fetchall()
            columns[name] = [value for (value,) in found]
        except Exception:
            lacking.append(name)
    return Truth(rows[0] if rows else 0, columns, tuple(lacking))


def _polars(read: str) -> Callable[[Path], Truth]:
    def reader(path: Path) -> Truth:
        import polars

        frame = getattr(polars, read)(io.BytesIO(path.read_bytes()))
        columns, lacking = {}, []
        for series in frame.get_columns():
            try:
                columns[series.name] = series.to_list()
            except Exception:
                lacking.append(series.name)
        return Truth(frame.height, columns, tuple(lacking))

    return reader


def _fastavro(path: Path) -> Truth:
    import fastavro

    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        names = [field["name"] for field in reader.writer_schema["fields"]]
        rows: list[Any] = list(reader)
    return Truth(len(rows), {name: [row[name] for row in rows] for name in names})


def _arrow(path: Path) -> Truth:
    """By Arrow itself, where polars has no part for a column: its types alone are independent."""
    import pyarrow as pa

    table = pa.ipc.open_file(path.read_bytes()).read_all()
    columns, lacking = {}, []
    for field, column in zip(table.schema, table.columns, strict=True):
        try:
            columns[field.name] = column.to_pylist()
        except Exception:
            lacking.append(field.name)
    return Truth(table.num_rows, columns, tuple(lacking))


def _orc(path: Path) -> Truth:
    import pyarrow.orc

    file = pyarrow.orc.ORCFile(str(path))
    columns, lacking = {}, []
    for name in file.schema.names:
        try:
            columns[name] = file.read([name])[name].to_pylist()
        except Exception:
            lacking.append(name)
    return Truth(file.nrows, columns, tuple(lacking))


def _csv(path: Path) -> Truth:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    lines = csv.reader(
        io.StringIO(text, newline=""), "excel-tab" if "t" in path.suffix else "excel"
    )
    header, *rows = [line for line in lines if line]
    whole: Iterator[list[str]] = (
        row if len(row) == len(header) else [""] * len(header) for row in rows
    )
    columns = zip(*whole, strict=True) if rows else ([] for _ in header)
    return Truth(
        len(rows),
        {n: [v or None for v in c] for n, c in zip(header, columns, strict=True)},
    )


def _json_lines(path: Path) -> Truth:
    lines = [line for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    rows = [json.loads(line, parse_int=str, parse_float=str) for line in lines]
    names = dict.fromkeys(name for row in rows for name in row)
    return Truth(
        len(rows),
        {name: [_scalar(row.get(name)) for row in rows] for name in names},
    )


def _scalar(value: Any) -> str | None:
    return str(value).lower() if type(value) is bool else value if type(value) is str else None


# A page's head tells of a wrong size: polars refuses the file, DuckDB reads other bytes.
_MISREAD = ("ARROW-17100.parquet",)

_READERS: dict[str, tuple[Callable[[Path], Truth], ...]] = {
    ".parquet": (_duckdb, _polars("read_parquet")),
    ".orc": (_orc,),
    ".avro": (_fastavro, _polars("read_avro")),
    ".arrow_file": (_polars("read_ipc"), _arrow),
    ".arrow": (_polars("read_ipc"), _polars("read_ipc_stream")),
    ".feather": (_polars("read_ipc"),),
    ".csv": (_csv,),
    ".tsv": (_csv,),
    ".json": (_json_lines,),
    ".jsonl": (_json_lines,),
    ".ndjson": (_json_lines,),
}
