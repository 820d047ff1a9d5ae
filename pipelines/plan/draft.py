"""`hushbeam init`: a first plan for a log, from the names and types of its columns."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines import answers
from pipelines.errors import DONE, RequestError, reason
from pipelines.inputs import Telemetry, open_telemetry
from transforms.encoders.columns import is_moment, is_numeric
from transforms.files.reading import TYPES, Reading, parsed
from transforms.files.source import UnreadableError, format_of, tables

_SURE = 0.9  # of the texts that a type is guessed from
_GUESSED = ("int", "float", "bool", "date", "timestamp")
_USER = re.compile(
    r"(user|member|customer|client|device|visitor|account|person)s?(_?id)?|uid", re.I
)
_NO_NAME = re.compile(r"[^a-z0-9_-]+")


def init(log: Sequence[str], output: str | None) -> int:
    """Write a draft for people to finish.

    Args:
        log: files or globs.
        output: a new file, or None for the standard output.

    Raises:
        RequestError: the log cannot be read, or the file is there already.
    """
    text = draft(tuple(log))
    if output is None:
        answers.tell(plan=text)
        print(text, end="")
        return DONE
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RequestError(f"--output: {output} is there already; name a new file") from None
    except OSError as error:
        raise RequestError(f"--output: cannot write {output}: {reason(error)}") from None
    answers.tell(output=output)
    return DONE


def draft(log: tuple[str, ...]) -> str:
    """A plan in YAML: names and types of columns are in it, and nothing else of the log."""
    telemetry = open_telemetry(log)
    types = guessed(telemetry)
    seen = open_telemetry(log, reading=Reading(tuple(types.items()))) if types else telemetry
    return "\n".join(_lines(log, types, seen)) + "\n"


def guessed(telemetry: Telemetry) -> dict[str, str]:
    """What columns of text seem to hold, by the first rows of the first file.

    Raises:
        RequestError: the file cannot be read.
    """
    file, schema = telemetry.files[0], telemetry.schemas[0]
    said = [] if not format_of(file).text else [*dict.fromkeys(schema.names)]
    try:
        first = next(tables(file, said), None) if said else None
    except UnreadableError as error:
        raise RequestError(f"--input: {error}") from None
    if first is None:
        return {}
    kinds = {column: _kind(first.column(column)) for column in said}
    return {column: kind for column, kind in kinds.items() if kind is not None}


def _kind(column: pa.ChunkedArray) -> str | None:
    """The first type that most texts of a column are of; None for texts."""
    texts = pc.drop_null(column.combine_chunks().cast(pa.string())).slice(0, 1 << 14)
    for name in _GUESSED:
        if len(texts) and len(pc.drop_null(parsed(texts, TYPES[name]))) >= _SURE * len(texts):
            return name
    return None


def _lines(log: Sequence[str], types: dict[str, str], telemetry: Telemetry) -> Iterator[str]:
    names = [*dict.fromkeys(telemetry.schemas[0].names)]
    kinds = {name: telemetry.column_type(name, "--input") for name in names}
    user = next((name for name in names if _USER.fullmatch(name)), None)
    moments = [name for name, kind in kinds.items() if is_moment(kind)]
    yield "# A draft by `hushbeam init`: read each line, finish what is marked, `hushbeam check`."
    yield f"collection: {_name(os.path.basename(log[0]).split('.')[0])}"
    yield "version: 1"
    inputs = [path if "://" in path else os.path.abspath(path) for path in log]
    yield f"input: {json.dumps(inputs)}"
    yield "output: release"
    if types:
        said = ", ".join(f"{json.dumps(name)}: {kind}" for name, kind in types.items())
        yield f"types: {{{said}}}  # guessed from the first rows; all other columns are strings"
    if user is None:
        yield "unit: row  # TO DECIDE: where a person may have several rows, user and user_column"
    else:
        yield "unit: user"
        yield f"user_column: {json.dumps(user)}"
    yield "epsilon: 1.0  # TO DECIDE: what one release may reveal of a " + (
        "user" if user else "row"
    )
    yield "min_reports: 1000  # TO DECIDE: the fewest reports that a figure may stand on"
    if moments:
        yield "derive:"
        yield from (
            f"  {_hour(m)}: {json.dumps(_hour_of(m))}  # TO DECIDE: the zone" for m in moments
        )
    yield "metrics:"
    for name in (name for name in names if name != user):
        yield from _metric(name, kinds[name])


def _hour(column: str) -> str:
    return f"hour_of_{re.sub(r'[^A-Za-z0-9_]+', '_', column)}"


def _hour_of(column: str) -> str:
    return f"hour({column if column.isidentifier() else f'`{column}`'}, 'UTC')"


def _metric(column: str, kind: pa.DataType) -> Iterator[str]:
    """What can be asked of a column; what only people can say of it is left to them."""
    quoted, name = json.dumps(column), _name(column)
    if is_moment(kind):
        yield f"  - {{name: {name}, kind: histogram, column: {_hour(column)}, domain: 0..23}}"
    elif is_numeric(kind):
        yield "  # TO FINISH: bounds are public knowledge, and never taken from the log"
        yield f'  # - {{name: {name}, kind: mean, column: {quoted}, bounds: "LEAST,MOST"}}'
    elif pa.types.is_boolean(kind):
        yield "  # TO FINISH: a file with the lines true and false"
        yield f"  # - {{name: {name}, kind: histogram, column: {quoted}, domain: truths.txt}}"
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        yield "  # If its values are known beforehand, a histogram with a domain tells more"
        yield f"  - {{name: {name}, kind: heavy-hitters, column: {quoted}, max_length: 16}}"


def _name(text: str) -> str:
    """A name as plans have them."""
    return _NO_NAME.sub("-", text.lower()).strip("-_")[:64] or "log"
