"""What a row consists of, from the words of --number, --vector and --category."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import pyarrow as pa

from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import read_bounds
from transforms.columns import type_name
from transforms.encoders.attributes import Attribute, Category, Number, NumberList, width
from transforms.encoders.bounds import Bounds
from transforms.files.names import listed

_GLOB = set("*?[")


def read_attributes(
    numbers: Sequence[str],
    vectors: Sequence[str],
    categories: Sequence[str],
    telemetry: inputs.Telemetry,
) -> tuple[Attribute, ...]:
    """What a row consists of, held against the files.

    Args:
        numbers: "COLUMN=L,U" each; the column may be a glob.
        vectors: "COLUMN=LENGTH:L,U" each.
        categories: "COLUMN=FILE" or "COLUMN=LOW..HIGH" each.
        telemetry: the files.

    Returns:
        Numbers, then lists of numbers, then categories, each in the order in which they were named;
        those of a glob in the order of the first file.

    Raises:
        RequestError: one of them is malformed, or names no column, one of another type, or one
            that was named before; or there is none.
    """
    attributes: list[Attribute] = []
    for text in numbers:
        attributes += _numbers(text, telemetry)
    attributes += [_vector(text, telemetry) for text in vectors]
    attributes += [_category(text, telemetry) for text in categories]
    if not attributes:
        raise RequestError("what a row consists of is missing: name a --number or a --vector")
    _require_distinct(attributes)
    if not width(attributes) <= LARGEST_DIMENSION:
        raise RequestError(
            f"--number, --vector: {width(attributes):,} numbers are more than {LARGEST_DIMENSION:,}"
        )
    return tuple(attributes)


def _require_distinct(attributes: Sequence[Attribute]) -> None:
    seen: set[str] = set()
    for attribute in attributes:
        if attribute.column in seen:
            raise RequestError(
                f"column {attribute.column!r} is named twice by --number, --vector, --category; "
                "once is enough"
            )
        seen.add(attribute.column)


def _numbers(text: str, telemetry: inputs.Telemetry) -> Iterator[Number]:
    """The columns of one --number."""
    name, _, limits = text.rpartition("=")
    if not name:
        raise RequestError(f"--number must be COLUMN=L,U, as in age=0,100, not {text!r}")
    bounds = _bounds("--number", text, limits)
    for column in _matching(name, telemetry):
        attribute = Number(column, bounds)
        kind = telemetry.column_type(column, "--number")
        if not (telemetry.unseen or attribute.accepts(kind)):
            raise RequestError(
                f"--number: {column!r} holds {type_name(kind)}; numbers are needed (integers, "
                "floats or decimals)"
                + ("" if column == name else f"; {name!r} matches it")
                + telemetry.hint(column)
            )
        yield attribute


def _matching(name: str, telemetry: inputs.Telemetry) -> list[str]:
    """The columns that a name or a glob means."""
    if telemetry.unseen:
        if _GLOB & set(name):
            raise RequestError(
                f"--number: {name!r} means columns that nobody has looked up here; name each column"
            )
        return [name]
    if _GLOB & set(name):
        telemetry = telemetry.whole(f"columns that {name!r} matches may begin late in it")
    known = telemetry.columns[0][1].names
    if name in known or not _GLOB & set(name):
        return [name]  # if it is no column, the question for its type will say so
    columns = [column for column in known if fnmatchcase(column, name)]
    if not columns:
        there = listed(*telemetry.columns[0], telemetry.reading, name)
        raise RequestError(f"--number: no column matches {name!r}; {there}")
    return columns


def _vector(text: str, telemetry: inputs.Telemetry) -> NumberList:
    column, _, rest = text.rpartition("=")
    length, colon, limits = rest.partition(":")
    if not (column and colon):
        raise RequestError(
            f"--vector must be COLUMN=LENGTH:L,U, as in pixels=784:0,255, not {text!r}"
        )
    if not (length.isdecimal() and 1 <= int(length) <= LARGEST_DIMENSION):
        raise RequestError(
            f"--vector: the length must be a whole number of 1 .. {LARGEST_DIMENSION:,}, as in "
            f"pixels=784:0,255, not {length!r}"
        )
    attribute = NumberList(column, int(length), _bounds("--vector", text, limits))
    kind = telemetry.column_type(column, "--vector")
    if not (telemetry.unseen or attribute.accepts(kind)):
        raise RequestError(
            f"--vector: {column!r} holds {_named(kind)}; lists of {attribute.length:,} numbers are "
            "needed, or as many bytes"
        )
    return attribute


def _named(kind: pa.DataType) -> str:
    """A type, by its length if it has one."""
    if pa.types.is_fixed_size_list(kind):
        return f"lists of {kind.list_size:,} {kind.value_type}"
    return str(kind)


def _category(text: str, telemetry: inputs.Telemetry) -> Category:
    column, equals, values = text.partition("=")
    if not (column and equals and values):
        raise RequestError(
            "--category must be COLUMN=FILE or COLUMN=LOW..HIGH, as in city=cities.txt, not "
            f"{text!r}"
        )
    kind = telemetry.column_type(column, "--category")
    try:
        return Category(column, inputs.read_domain(values, kind, other=False))
    except RequestError as error:
        # What categories must be is what a domain must be; only the flag has another name.
        complaint = str(error).replace("--domain:", f"--category: {column!r}:")
        raise RequestError(complaint) from None


def _bounds(flag: str, text: str, limits: str) -> Bounds:
    """The bounds in the last part of an option."""
    try:
        return read_bounds(limits)
    except RequestError as error:
        complaint = str(error).replace("--bounds", f"{flag} {text}: the bounds", 1)
        raise RequestError(complaint) from None
