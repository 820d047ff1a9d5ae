"""What is handed over in memory, as the files that jobs read: private ones, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from typing import Any, BinaryIO

from pipelines.errors import RequestError

_MEMORY = "/dev/shm"  # Linux's
_WORD = 2**63 - 1
_TABLES = "a path or a glob, several of them, or a pyarrow table, a pandas or a polars frame"


class Handed:
    """Files of what was handed over, for as long as a job reads them.

    Jobs read from files, wherever their workers are. Where the system has files in memory and room
    for these, they touch no disk. The folder is its owner's alone; a process that is killed leaves
    it behind.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        self._names: dict[str, str] = {}  # path -> what it is called instead

    def __enter__(self) -> Handed:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def any(self) -> bool:
        """Whether something was."""
        return bool(self._names)

    def log(self, data: Any, wanted: str = "", name: str = "log") -> tuple[str, ...]:
        """The files of a log.

        Args:
            data: a path or glob, several, or a table or frame.
            wanted: what was asked, as text: a column that no table can have is left out if its
                name is not there.
            name: of its file: one table is in the place of another of the same name.

        Raises:
            RequestError: it is none of these, or has columns that no table can have.
        """
        if isinstance(data, str | os.PathLike):
            return (os.fspath(data),)
        if isinstance(data, list | tuple) and all(isinstance(p, str | os.PathLike) for p in data):
            return tuple(os.fspath(path) for path in data)
        table = _in_range(_table(data, wanted))
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self._path(f"{name}.parquet", "the table", table.nbytes)
        with self._new(path) as stream:
            try:
                # Without Arrow's own schema dictionaries come back as the text that they hold.
                pq.write_table(table, stream, compression="zstd", store_schema=False)
            except pa.ArrowException:  # whose words quote values
                raise RequestError(
                    "input: a column is of a type that Parquet has not; leave it out, or cast it"
                ) from None
        return (path,)

    def values(self, name: str, values: Any) -> str:
        """The file of declared values.

        Args:
            name: of the option.
            values: a path; a range of integers; or one value after the other.

        Raises:
            RequestError: one of them cannot stand in a line.
        """
        if isinstance(values, str | os.PathLike):
            return os.fspath(values)
        if isinstance(values, range) and values.step == 1:
            return f"{values.start}..{values.stop - 1}"
        lines = [_line(f"{name}: value {at}", value) for at, value in enumerate(values, 1)]
        path = self._path(f"{name}-{len(self._names)}.txt", f"{len(lines):,} declared values")
        with self._new(path) as stream:
            stream.write("".join(f"{line}\n" for line in lines).encode())
        return path

    def named(self, text: str) -> str:
        """What is said of files, without the paths of these."""
        for path, name in self._names.items():
            text = text.replace(path, name)
        return text

    @staticmethod
    def _new(path: str) -> BinaryIO:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a question before
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def _path(self, file: str, name: str, size: int = 0) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="hushbeam-", dir=_in_memory(size))
        path = os.path.join(self._folder, file)
        self._names[path] = name
        return path


def _in_memory(size: int) -> str | None:
    """The folder of files in memory, if it takes so many bytes and leaves as much again."""
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2 * size:
        return _MEMORY
    return None


def _line(where: str, value: Any) -> str:
    """A declared value, as files of them have it."""
    line = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, float):
        raise RequestError(f"{where} is a fraction: declared values are texts and whole numbers")
    if value is None or "\n" in line or "\r" in line:
        raise RequestError(f"{where} is missing or has a line break; write it as one line of text")
    return line


def _table(data: Any, wanted: str) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if type(data).__name__ == "LazyFrame":
        raise RequestError("input: a LazyFrame holds no rows yet; hand over what collect() gives")
    if type(data).__name__ == "Series":
        raise RequestError("input: a Series is one column; hand over a frame, or to_frame()")
    return _arrow(data, pa, wanted)


def _in_range(table: Any) -> Any:
    """A table without the seconds that Parquet, which has milliseconds, cannot hold: nulls.

    A refusal would tell that a row holds such a moment.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "s":
            column, most = table.column(place), _WORD // 1000
            seconds = column.cast(pa.int64())
            fits = pc.and_(pc.less_equal(seconds, most), pc.greater_equal(seconds, -most))
            column = pc.if_else(fits, column, pa.scalar(None, field.type))
            table = table.set_column(place, field, column)
    return table


def _arrow(data: Any, pa: Any, wanted: str) -> Any:
    """A frame as Arrow's table, without columns that have no type and that nobody asks for."""
    try:
        if hasattr(data, "to_arrow"):  # of polars, without the views that Parquet has not
            return data.to_arrow()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if hasattr(data, "__dataframe__"):  # a pandas of before 2.2
            return pa.Table.from_pandas(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        names = [*data.columns]
        if (twice := next((n for at, n in enumerate(names) if n in names[:at]), None)) is not None:
            raise RequestError(
                f"input: several columns are called {twice!r}: give each a name of its own"
            ) from None
        # Arrow's own words quote the value.
        mixed = [*_mixed(data, pa)]
        if mixed and len(mixed) < len(data.columns) and not any(str(n) in wanted for n in mixed):
            rest = [one for one in data.columns if one not in mixed]
            return _arrow(data[rest], pa, wanted)
        raise RequestError(
            f"input: Arrow has no type for the column {', '.join(map(repr, mixed))}: give it "
            "values of one type"
        ) from None
    raise RequestError(f"input: {type(data).__name__} is no log; hand over {_TABLES}")


def _mixed(data: Any, pa: Any) -> Iterable[Any]:
    """The columns that cannot become Arrow's."""
    for name in data.columns:
        try:
            pa.array(data[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            yield name
