"""Where populations come from: what --data names, numbers in a text, Parquet files, dice."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hushbeam.studies.populations.population import StudyPopulation
from mechanisms.channel import Floats
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

_Population = TypeVar("_Population", bound=StudyPopulation)


def once(
    texts: Sequence[str], read: Callable[[str], Iterable[_Population]]
) -> tuple[_Population, ...]:
    """Every population that is named, once.

    Args:
        texts: as they were typed.
        read: the populations of one of them.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    populations: dict[str, _Population] = {}
    for text in dict.fromkeys(texts):
        for population in read(text):
            name = population.name
            if name in populations:
                raise RequestError(f"--data: two data sets are called {name}; rename a file")
            populations[name] = population
    return tuple(populations.values())


def made(
    text: str, families: Mapping[str, Collection[int]], whole: int, forms: str
) -> tuple[str, list[float]] | None:
    """The family of a made population, and its numbers.

    Args:
        text: FAMILY:N,...
        families: name -> how many numbers may follow.
        whole: how many of the first ones have to be whole.
        forms: what texts there are, for a refusal.

    Returns:
        None for a text that names no family, as that of a file does.

    Raises:
        RequestError: the numbers are too few or too many, or not whole, or not finite.

    >>> made("zipf:1e3,5,1.2", {"zipf": (2, 3)}, 2, "zipf:N,D,S")
    ('zipf', [1000.0, 5.0, 1.2])
    """
    family, colon, given = text.partition(":")
    if not colon or family not in families:
        return None
    parameters = numbers(given)
    if len(parameters) not in families[family] or not all(
        number.is_integer() for number in parameters[:whole]
    ):
        raise RequestError(f"--data: {text} is not of the form {forms}")
    return family, parameters


def numbers(text: str) -> list[float]:
    """The numbers of a text that commas part; none if one of them is no finite number.

    >>> numbers("1e3,0.5"), numbers("1,x"), numbers("nan")
    ([1000.0, 0.5], [], [])
    """
    try:
        parts = [float(number) for number in text.split(",")]
    except ValueError:
        return []
    return parts if all(math.isfinite(number) for number in parts) else []


def require_size(text: str, size: float, least: int, most: int, what: str) -> None:
    """Refuse populations that are none, and those that no simulation would finish."""
    if not least <= size <= most:
        raise RequestError(
            f"--data: {text} has {size:,.0f} {what}; {least:,} to {most:,} can be simulated"
        )


def sizes(ns: Sequence[int], total: int, name: str, least: int = 1) -> Sequence[int]:
    """How many rows of a file are used: the numbers that were requested, or all.

    Raises:
        RequestError: it has fewer, or fewer than the least are wanted.
    """
    for n in ns:
        if not least <= n <= total:
            raise RequestError(
                f"--ns: of {name} {least:,} to {total:,} users can be chosen, not {n:,}"
            )
    return ns or (total,)


def dice(name: str) -> SeededRandom:
    """Random numbers that depend on a public name alone: the same ones whenever it is named."""
    return SeededRandom(int.from_bytes(hashlib.sha256(name.encode()).digest(), "big"))


# ---- files ---------------------------------------------------------------------------------------


def file_and_column(text: str, forms: str) -> tuple[str, str]:
    """The two parts of FILE.parquet:COLUMN.

    Raises:
        RequestError: there are no two.
    """
    path, _, column = text.rpartition(":")
    if not (path and column):
        raise RequestError(f"--data: {text} is not of the form {forms}")
    return path, column


def stem(path: str) -> str:
    """What the data of a file are called; its folder, which may tell who keeps it, is not.

    >>> stem("logs/adult.parquet")
    'adult'
    """
    return os.path.basename(path).removesuffix(".parquet")


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


def read_columns(path: str, columns: Sequence[str]) -> pa.Table:
    """Columns of a file.

    Raises:
        RequestError: there is no such file, or it has no such column, or several of one name.
    """
    with parquet(path) as file:
        schema = file.schema_arrow
        for column in columns:
            if schema.get_field_index(column) < 0:
                known = ", ".join(schema.names)
                has = "several columns" if column in schema.names else "no column"
                raise RequestError(f"--data: {path} has {has} {column!r}; it has: {known}")
        return file.read(columns=list(columns)).select(list(columns))


def doubles(column: pa.ChunkedArray) -> Floats:
    """Numbers as doubles; nulls become NaN."""
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)


def is_number(kind: pa.DataType) -> bool:
    """Whether what a column contains has a mean."""
    fits = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in fits)
