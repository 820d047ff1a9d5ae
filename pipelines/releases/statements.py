"""Statements that anybody may have written: what of them is believed, and what is refused.

Whoever lays releases side by side reads folders of others. A name in a statement becomes a path, a
number becomes a loop's end, a text stands on a page; so a statement is held to a schema before
anything of it is used, and what is opened beside it is a file of that very folder.
"""

from __future__ import annotations

import os
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipelines.errors import RequestError, reason
from pipelines.releases import release, schema

LARGEST = 64 << 20
"""Bytes of a statement, or of a page: a thousand times what releases have."""

LARGEST_TABLE = 1 << 30
"""Bytes of a table, as it is written and as it is read."""

MOST = 1000
"""Metrics of a release, and tables of a metric."""

_NAME = r"^[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$"  # of a folder or a file, and of no path
_ID = r"^[0-9A-Za-z][0-9A-Za-z_-]*$"


def _moment(text: str) -> str:
    """A time as statements say it; the text stays."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    # A week before, or one window after, is a time too: Python's end with the years 1 and 9999.
    if not 1000 <= moment.year < 5000:
        raise ValueError("a time before the year 1000, or after 4999")
    return text


Name = Annotated[str, Field(pattern=_NAME, max_length=200)]
File = Annotated[str, Field(pattern=_NAME.removesuffix("$") + r"\.parquet$", max_length=200)]
Id = Annotated[str, Field(pattern=_ID, max_length=64)]
Text = Annotated[str, Field(max_length=1 << 16)]
Word = Annotated[str, Field(max_length=1 << 10)]
Moment = Annotated[str, Field(max_length=64), AfterValidator(_moment)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)  # what nobody reads is left alone


class _Promise(_Part):
    model: Word
    unit: Word
    epsilon: float | None = Field(ge=0)
    delta: float = Field(ge=0, le=1)


class _Guarantees(_Part):
    release: _Promise
    local: _Promise | None = None


class _Span(_Part):
    """Of a window; two ends, the earlier first, or none."""

    name: Word | None = None
    start: Moment | None = None
    end: Moment | None = None

    @model_validator(mode="after")
    def _ends(self) -> _Span:
        if (self.start is None) != (self.end is None):
            raise ValueError("a window with one end")
        ends = [datetime.fromisoformat(text) for text in (self.start, self.end) if text]
        if ends and not ends[0] < ends[1]:
            raise ValueError("a window that ends before it begins")
        return self


class _Pass(_Part):
    batch: Word | None = None


class _Plan(_Part):
    collection: Word | None = None
    window: Word | None = None
    until: Moment | None = None


class _Stream(_Part):
    until: Moment | None = None


class _Headline(_Part):
    table: Word = ""
    rows: Word = ""


class _TookPart(_Part):
    estimate: float
    standard_error: float = Field(ge=0)


class _Request(_Part):
    confidence: float = Field(0.95, ge=0.5, lt=1)


class _Watch(_Part):
    figures: list[Word] = Field([], max_length=MOST)
    windows_per_false_alarm: float | None = Field(None, ge=10, le=1e6)


class Statement(_Part):
    """What of a statement others read; whatever else it says is only shown.

    Attributes:
        release: the kind of metric, or "plan".
        release_id: by which releases are told apart.
        created: when.
        in_words: what is promised.
        guarantees: against whom, and how much.
        metric: its name in the plan.
        metrics: of a plan's release, whose folders are in its own.
        figures: table -> what its estimates are.
        headline: which of them a page shows first.
        n: reports, where their number is published as it is.
        took_part: how many did, where that is known within noise.
        secret_id: whence noise goes on from release to release, if it does.
        watch: metric -> which of its figures are watched for alarms.
    """

    release: Name
    release_id: Id
    created: Moment
    in_words: list[Text] = Field([], max_length=MOST)
    guarantees: _Guarantees
    collection: Word | None = None
    metric: Name | None = None
    metrics: list[Name] = Field([], max_length=MOST)
    figures: dict[File, Word] = Field({}, max_length=MOST)
    headline: _Headline = _Headline()
    n: float = Field(0, ge=0)
    took_part: _TookPart | None = None
    secret_id: Word | None = None
    withheld: Text | Annotated[list[Name], Field(max_length=MOST)] = []
    window: _Span | None = None
    plan: _Plan | None = None
    stream: _Stream | None = None
    batch: Annotated[_Pass | None, Field(alias="pass")] = None
    watch: dict[Name, _Watch] = Field({}, max_length=MOST)
    request: _Request = _Request(confidence=0.95)

    @model_validator(mode="after")
    def _lists(self) -> Statement:
        if self.release == "plan" and "metrics" not in self.model_fields_set:
            raise ValueError("a plan's release without metrics")
        return self


def read_statement(folder: str) -> tuple[dict[str, Any], bytes]:
    """What a release says of itself, and the bytes in which it does.

    Args:
        folder: of the release, which anybody may have written.

    Raises:
        RequestError: there is none, it is of another format, or not one that hushbeam writes; with
            the field.
    """
    where = f"{folder}/{release.STATEMENT}"
    try:
        written = read_file(folder, release.STATEMENT)
        said = release.read_statement(folder, written)
        Statement.model_validate_json(written)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "all of it"
        # A key of a table may be anything, and this line is read on a screen.
        field = "".join(c if c.isprintable() else "?" for c in field)[:100]
        raise RequestError(
            f"{where} is not as hushbeam writes it: {field}: {first['msg']}; restore the release "
            "from where it was made, or leave it out"
        ) from None
    except FileNotFoundError:
        raise RequestError(f"{folder} holds no release: there is no {where}") from None
    except (OSError, ValueError, ImportError, RecursionError) as error:
        raise RequestError(f"{where} cannot be read: {reason(error)}") from None
    return said, written


def read_file(folder: str, name: str, most: int = LARGEST) -> bytes:
    """A file of a release, and of nowhere else.

    Args:
        folder: of the release.
        name: of the file.
        most: bytes that it may have.

    Raises:
        OSError: it is not there, is a link or no file, or is larger.
    """
    require_own(folder, name)
    size = release.size(folder, name)
    if size > most:
        raise OSError(f"it has {size:,} bytes, and a release's has {most:,} at the most")
    return release.read(folder, name)


def require_own(folder: str, name: str) -> None:
    """Refuse what a local folder only points to: a link may lead to anything on this machine.

    Raises:
        OSError: it is a link, or no file.
    """
    path = os.path.join(folder, name)
    if "://" in folder or not os.path.lexists(path):
        return
    if os.path.islink(path):
        raise OSError("it is a link; a release holds files of its own")
    if not os.path.isfile(path):
        raise OSError("it is no file")


def require_own_folder(folder: str, name: str) -> str:
    """The folder of a metric in that of its plan's release.

    Raises:
        RequestError: it is a link.
    """
    inner = f"{folder}/{name}"
    if "://" not in folder and os.path.islink(inner):
        raise RequestError(f"{inner} is a link; a release holds folders of its own")
    return inner


def read_page(folder: str) -> str:
    """The page of a release; what is in it may do anything that a page can.

    Raises:
        RequestError: there is none, or it is no text.
    """
    try:
        return read_file(folder, release.REPORT).decode()
    except (OSError, ValueError) as error:
        raise RequestError(f"{folder}/{release.REPORT} cannot be read: {reason(error)}") from None


def read_table(folder: str, name: str, shared: bool = True) -> pa.Table:
    """A table of a release.

    Args:
        folder: of the release.
        name: of the file.
        shared: whether it has to have the columns that all kinds share. Then those are left out
            that say of which release it is, as its statement does: they are half of what takes
            time of a table of a few rows.

    Raises:
        FileNotFoundError: it is not there.
        RequestError: it is no such table.
    """
    try:
        return _unpacked(read_file(folder, name, LARGEST_TABLE), shared)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, MemoryError) as error:  # Arrow's are among them
        raise RequestError(f"{folder}/{name} is no table of a release: {reason(error)}") from None


def read_tables(folder: str) -> dict[str, pa.Table]:
    """All tables of a release, by file name in alphabetical order.

    Raises:
        RequestError: one of them cannot be read.
    """
    return {name: read_table(folder, name, False) for name in release.table_names(folder)}


_SHOWN = (
    pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_string,
    pa.types.is_large_string, pa.types.is_null,
)  # fmt: skip


@lru_cache(maxsize=64)  # most tables of a site are of few kinds
def require_shared(kinds: pa.Schema) -> None:
    """Refuse a table without the columns that all kinds share, or with others than pages can show.

    Raises:
        ValueError: it is one.
    """
    names = kinds.names
    if len({*names}) < len(names):
        raise ValueError("two of its columns have one name")
    for field in schema.LONG:
        if field.name not in names:
            raise ValueError(f"it has no column {field.name}")
        kind = kinds.field(field.name).type
        if not kind.equals(field.type):
            raise ValueError(f"its column {field.name} is {kind}, not {field.type}")
    for field in kinds:  # a page shows every column, and these are what it can show
        if not any(shown(field.type) for shown in _SHOWN) and field.name not in schema.LONG.names:
            raise ValueError(f"its column {field.name} is {field.type}, which no kind has"[:200])
    for name in {"unbiased", "unclipped", "low", "high"} & {*names}:
        kind = kinds.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise ValueError(f"its column {name} is {kind}, and not of numbers")


def _unpacked(content: bytes, shared: bool) -> pa.Table:
    """A table that does not grow beyond what tables have, whatever a few bytes of it stand for."""
    file = pq.ParquetFile(pa.BufferReader(content))
    about, kinds = file.metadata, file.schema_arrow
    groups = (about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    _require_small(max(sum(groups), 8 * about.num_rows * about.num_columns))
    if shared:
        require_shared(kinds.remove_metadata())
        left = {*schema.RELEASE.names}
        kinds = pa.schema([f for f in kinds if f.name not in left], kinds.metadata)
    texts = [field.name for field in kinds if pa.types.is_string(field.type)]
    file = pq.ParquetFile(pa.BufferReader(content), metadata=about, read_dictionary=texts)
    # Tables are small, and handing their columns to threads takes longer than reading them.
    table = file.read(kinds.names if shared else None, use_threads=False)
    chunks = [chunk for name in texts for chunk in table[name].chunks]
    # One long text may stand in every row; only where it could be too much are they added up.
    if sum(chunk.dictionary.nbytes * len(chunk) for chunk in chunks) > LARGEST_TABLE:
        lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks)
        _require_small(sum(pc.sum(length).as_py() or 0 for length in lengths))
    return table.cast(kinds)


def _require_small(size: int) -> None:
    if not size <= LARGEST_TABLE:
        raise ValueError(f"it unpacks to {size:,} bytes")
