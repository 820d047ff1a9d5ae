"""What may be said aloud of a file: of its columns and of its path, and never a cell of it.

Errors, logs and exit lines are read by many who may not see the log. A CSV file without a header
has cells where others have names, a table that was turned on its side has users there, and folders
such as user=alice/ hold values. So:

* a column's name is said where the file, or the request, declares it as a name, and it looks like
  one; of all others how many there are. The first line of a CSV file declares names where a column
  below it holds numbers, times or truths, and that line does not;
* of a folder KEY=VALUE the value is said where it is a date or a part of one, and else left out.
  Names of files are the request's own: nobody should call one after a person.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from mechanisms.nearest import meant
from transforms.files.reading import TYPES, Reading, parsed
from transforms.files.source import UnreadableError, format_of, tables

_NAME = re.compile(r"[^\W\d][\w .\-]{0,63}")
_NOTHING = re.compile(r"(?i:n/?a|nan|null|none|nil|missing|unknown|inf(inity)?|true|false)")
_MOST = 0.5  # of the texts of a column that holds something else
_ROWS = 1 << 14  # that are looked at
_OTHERS = ("float", "bool", "timestamp")  # whole numbers are floats, and dates are times


def names_of(file: str, schema: pa.Schema, reading: Reading) -> list[str]:
    """The columns of a file that may be named; nothing where nobody can tell names from cells.

    Args:
        file: that was looked at.
        schema: of it.
        reading: of text.
    """
    if format_of(file).name == "CSV" and not (reading.header or _has_header(file, schema, reading)):
        return []
    return [name for name in schema.names if _NAME.fullmatch(name)]


def listed(file: str, schema: pa.Schema, reading: Reading, column: str) -> str:
    """The end of a refusal that names a column which a file has not: what it has.

    Args:
        file, schema, reading: as of `names_of`.
        column: for what column.
    """
    names = names_of(file, schema, reading)
    others, unnamed = [name for name in names if name != column], len(schema.names) - len(names)
    count = f"{unnamed:,} column{'s' * (unnamed != 1)}"
    if not names:
        return f"it has {count}, and `hushbeam look` shows the log's owner what they hold"
    more = f", and {count} whose names are not said aloud" if unnamed else ""
    return f"it has: {', '.join(names)}{more}{meant(column, others)}"


def _has_header(file: str, schema: pa.Schema, reading: Reading) -> bool:
    """Whether the first line of a CSV file names what is below it."""
    names = [*schema.names]
    if len({*names}) < len(names) or not all(map(_is_name, names)):
        return False
    plain = Reading(delimiter=reading.delimiter)
    try:
        first = next(tables(file, names, plain), None)
    except UnreadableError:
        return False
    return first is not None and any(_no_text(column) for column in first.columns)


def _is_name(text: str) -> bool:
    """Whether a cell of a column of numbers, times or truths would not look like it."""
    return bool(_NAME.fullmatch(text)) and not _NOTHING.fullmatch(text)


def _no_text(column: pa.ChunkedArray) -> bool:
    """Whether what a column holds is no text, by its first rows."""
    texts = pc.drop_null(column.slice(0, _ROWS).combine_chunks().cast(pa.string()))
    return len(texts) > 0 and any(
        len(pc.drop_null(parsed(texts, TYPES[kind]))) >= _MOST * len(texts) for kind in _OTHERS
    )
