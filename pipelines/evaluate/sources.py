"""Where populations come from: what --data names, numbers in a text, Parquet files, dice."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Population = TypeVar("_Population", bound=_Named)


def once(
    texts: Sequence[str], read: Callable[[str], Iterable[_Population]]
) -> tuple[_Population, ...]:
    """Every population that was asked for, once.

    Args:
        texts: as they were typed.
        read: the populations of one of them.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    found: dict[str, _Population] = {}
    for text in dict.fromkeys(texts):
        for each in read(text):
            if each.name in found:
                raise RequestError(f"--data: two data sets are called {each.name}; rename a file")
            found[each.name] = each
    return tuple(found.values())


def numbers(text: str) -> list[float]:
    """The numbers of a text that commas part; none if one of them is no finite number.

    >>> numbers("1e3,0.5"), numbers("1,x"), numbers("nan")
    ([1000.0, 0.5], [], [])
    """
    try:
        found = [float(number) for number in text.split(",")]
    except ValueError:
        return []
    return found if all(math.isfinite(number) for number in found) else []


@contextmanager
def parquet(path: str) -> Iterator[pq.ParquetFile]:
    """An open Parquet file.

    Raises:
        RequestError: there is none, or it cannot be read, also later on.
    """
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise RequestError(f"--data: there is no file {path}") from None
    except (pa.ArrowException, OSError):
        raise RequestError(
            f"--data: {path} is not a readable Parquet file (cut off, or another format)"
        ) from None


def kind_of(path: str, column: str, schema: pa.Schema) -> pa.DataType:
    """What a column holds.

    Raises:
        RequestError: the file has no such column, or several.
    """
    if schema.get_field_index(column) < 0:
        known = ", ".join(schema.names)
        raise RequestError(f"--data: {path} has no one column {column!r}; it has: {known}")
    return schema.field(column).type


def is_number(kind: pa.DataType) -> bool:
    """Whether what a column holds has a mean."""
    fits = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(each(kind) for each in fits)


def dice(name: str) -> SeededRandom:
    """Random numbers that depend on a public name alone: the same ones whenever it is named."""
    return SeededRandom(int.from_bytes(hashlib.sha256(name.encode()).digest(), "big"))
