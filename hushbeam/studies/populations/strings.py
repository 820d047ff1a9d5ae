"""Populations of strings, for searches that know none of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hushbeam.studies.populations.histograms import read_histogram, value_counts
from hushbeam.studies.populations.population import HistogramPopulation, fingerprint
from hushbeam.studies.populations.sources import file_and_column, once, stem
from mechanisms.heavy_hitters.prefix_code import alphabet
from pipelines.errors import RequestError

_FORMS = "FILE.parquet:COLUMN or zipf:N,D,S"
_HEXADECIMAL = "0123456789abcdef"
_SHORTEST, _LENGTHS = 8, 5  # made strings have 8 to 12 digits
_LENGTH, _LENGTH_OF_INTEGERS = 32, 10


@dataclass(frozen=True, eq=False)
class StringPopulation(HistogramPopulation):
    """A population of strings.

    Attributes:
        values: (d,) distinct; `histogram` says how many users have each.
        characters: the alphabet to look in unless another is declared; "" is all text.
        max_length: how many characters to look at unless it is declared.
    """

    values: tuple[str, ...]
    characters: str
    max_length: int

    @property
    def digest(self) -> str:
        return fingerprint("\n".join(self.values), super().digest)


def read_strings(texts: Sequence[str]) -> tuple[StringPopulation, ...]:
    """Every population that is named, once.

    Args:
        texts: `zipf:N,D,S`, whose k-th most frequent string is made of 8 to 12 hexadecimal digits
            that look random; or `FILE.parquet:COLUMN`, of text or of integers, which are taken as
            their digits.

    Raises:
        RequestError: one has neither form, or cannot be read, or two have one name.

    >>> read_strings(["zipf:100,3,1"])[0].values
    ('5feceb66f', '6b86b273ff', 'd4735e3a265')
    """
    return once(texts, lambda text: [_made(text) if _is_made(text) else _of_column(text)])


def _is_made(text: str) -> bool:
    if text.startswith("normal:"):
        raise RequestError(f"--data: {text} makes no strings; zipf:N,D,S does")
    return text.startswith("zipf:")


def _made(text: str) -> StringPopulation:
    """Strings that nobody can guess from one another."""
    law = read_histogram(text)
    values = tuple(_string(rank) for rank in range(law.d))
    return StringPopulation(law.name, law.histogram, values, _HEXADECIMAL, _SHORTEST + _LENGTHS - 1)


def _string(rank: int) -> str:
    """A string that neither its rank nor the string before it tells."""
    digest = hashlib.sha256(b"%d" % rank).hexdigest()
    return digest[: _SHORTEST + (rank + 1) % _LENGTHS]


def _of_column(text: str) -> StringPopulation:
    """The strings of a column."""
    path, column = file_and_column(text, _FORMS)
    counted = value_counts(path, column)
    kind = counted["value"].type
    if pa.types.is_integer(kind):
        characters, longest = alphabet(["digits", "-"]), _LENGTH_OF_INTEGERS
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        characters, longest = "", _LENGTH
    else:
        raise RequestError(f"--data: {column!r} holds {kind}; text or integers are searched")
    return StringPopulation(
        f"{stem(path)}:{column}",
        counted["count"].to_numpy().astype(np.int64),
        tuple(str(value) for value in counted["value"].to_pylist()),
        characters,
        longest,
    )
