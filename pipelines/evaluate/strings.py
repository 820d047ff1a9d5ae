"""Populations of strings, for searches that are told none of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mechanisms.heavy_hitters.prefix_code import alphabet
from pipelines.errors import RequestError
from pipelines.evaluate import data as evaluate_data
from pipelines.evaluate.data import Data
from pipelines.evaluate.sources import once

_HEXADECIMAL = "0123456789abcdef"
_SHORTEST, _LENGTHS = 8, 5  # made strings have 8 to 12 digits
_LENGTH, _LENGTH_OF_INTEGERS = 32, 10


@dataclass(frozen=True)
class Strings(Data):
    """A population of strings.

    Attributes:
        values: (d,) each once; `histogram` has how many users hold it.
        characters: the alphabet to look in unless another is declared; "" is all text.
        max_length: how many characters to look at unless it is declared.
    """

    values: tuple[str, ...]
    characters: str
    max_length: int

    @property
    def digest(self) -> str:
        text = "\n".join(self.values) + super().digest
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_all_strings(texts: Sequence[str]) -> tuple[Strings, ...]:
    """As `evaluate_data.read_all`, with the values.

    Raises:
        RequestError: one of them cannot be read or holds no strings, or two have one name.
    """
    return once(texts, lambda text: [read_strings(text)])


def read_strings(text: str) -> Strings:
    """One population.

    Args:
        text: `zipf:N,D,S`, whose k-th most frequent string is made of 8 to 12 hexadecimal digits
            that look random; or `FILE.parquet:COLUMN`, of text or of integers, which are taken as
            their digits.

    Raises:
        RequestError: it has neither form, or cannot be read.

    >>> read_strings("zipf:100,3,1").values
    ('5feceb66f', '6b86b273ff', 'd4735e3a265')
    """
    if text.startswith("normal:"):
        raise RequestError(f"--data: {text} makes no strings; zipf:N,D,S does")
    if text.startswith("zipf:"):
        made = evaluate_data.read(text)
        values = tuple(made_string(rank) for rank in range(made.d))
        longest = _SHORTEST + _LENGTHS - 1
        return Strings(made.name, made.histogram, values, _HEXADECIMAL, longest)
    path, column = evaluate_data.file_and_column(text)
    counted = evaluate_data.value_counts(path, column)
    kind = counted["value"].type
    if pa.types.is_integer(kind):
        characters, longest = alphabet(["digits", "-"]), _LENGTH_OF_INTEGERS
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        characters, longest = "", _LENGTH
    else:
        raise RequestError(f"--data: {column!r} holds {kind}; text or integers are searched")
    return Strings(
        evaluate_data.column_name(path, column),
        counted["count"].to_numpy().astype(np.int64),
        tuple(str(value) for value in counted["value"].to_pylist()),
        characters,
        longest,
    )


def made_string(rank: int) -> str:
    """A string that its rank does not tell, nor the string before it."""
    digest = hashlib.sha256(b"%d" % rank).hexdigest()
    return digest[: _SHORTEST + (rank + 1) % _LENGTHS]
