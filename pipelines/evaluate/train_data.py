"""Rows that models are fitted to: columns of known tables, and a made census."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mechanisms.channel import Floats
from mechanisms.learning.features import Features
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.evaluate.data import Data
from pipelines.evaluate.train_census import FEATURES, census

FORMS = "census:N, or FILE.parquet or FILE.parquet:N of a known table"

_LEAST, _MOST = 100, 10_000_000  # rows
_ASKED = re.compile(r"(?P<path>.+\.parquet)(:(?P<n>[^:/]+))?")

Bounded = tuple[str, float, float]  # column, lower bound, upper bound


@dataclass(frozen=True)
class Table:
    """Which columns of a table a model looks at.

    Attributes:
        target: the number that it is to tell, with the bounds that become -1 and 1.
        numbers: columns taken as numbers, with theirs.
        categories: columns taken as one of some values: those that occur, in their order.
    """

    target: Bounded
    numbers: tuple[Bounded, ...]
    categories: tuple[str, ...]


TABLES = {
    "adult": Table(
        ("hours_per_week", 1, 99),
        (("age", 17, 90), ("education_num", 1, 16)),
        ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "income"),
    ),
    "ipums_us1980": Table(
        ("inctot", -10_000, 75_000),
        (("age", 15, 90), ("educrec", 0, 9)),
        ("sex", "race", "hispanic", "marstat", "ownershg", "yrsusa", "school", "labforce",
         "classwk", "vetstat"),
    ),
    "ipums_br2000": Table(
        ("a10", 0, 15),
        (("a2", 0, 21), ("a4", 0, 15)),
        ("a0", "a1", "a3", "a5", "a6", "a7", "a8", "a9", "a11", "a12", "a13"),
    ),
    "wisdm2019_phone_accel": Table(
        ("z", -20, 20), (("x", -20, 20), ("y", -20, 20)), ("activity",)
    ),
    "credit_default": Table(
        ("limit_bal", 0, 1_000_000),
        (("age", 18, 80), ("bill_amt1", 0, 500_000), ("bill_amt6", 0, 500_000),
         ("pay_amt1", 0, 100_000), ("pay_amt6", 0, 100_000)),
        ("sex", "education", "marriage", "pay_0", "default_payment_next_month"),
    ),
    "fertility_us1980": Table(
        ("work", 0, 52),
        (("age", 21, 35),),
        ("morekids", "gender1", "gender2", "afam", "hispanic", "other"),
    ),
}  # fmt: skip
"""File name without its ending -> what is done with it."""


@dataclass(frozen=True)
class Rows(Data):
    """Rows with their targets, scaled to [-1, 1].

    Attributes:
        base: the name without the number of rows.
        features: what the rows' numbers are.
        rows: (n, inputs) float32.
        targets: (n,) float32.
    """

    base: str
    features: Features
    rows: Numbers
    targets: Numbers

    @property
    def d(self) -> int:
        """How many numbers a row has."""
        return self.features.inputs

    @property
    def title(self) -> str:
        return f"{self.base} (n = {self.n:,}, d = {self.d})"

    @property
    def digest(self) -> str:
        content = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes())
        content.update(np.ascontiguousarray(self.targets).tobytes())
        return content.hexdigest()


def read_all_rows(texts: Sequence[str], ns: Sequence[int] = ()) -> tuple[Rows, ...]:
    """Every population that was asked for, once.

    Args:
        texts: `census:N`, a made one; `FILE.parquet`, whose name must be one of `TABLES`;
            `FILE.parquet:N`, of which N rows are chosen, always the same ones.
        ns: numbers of rows in place of those, each making a population of its own.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    found: dict[str, Rows] = {}
    for text in dict.fromkeys(texts):
        wanted: list[int | None] = [*sorted(set(ns))] or [None]
        for n in wanted:
            rows = _read(text, n)
            if rows.name in found:
                raise RequestError(f"--data: two data sets are called {rows.name}")
            found[rows.name] = rows
    return tuple(found.values())


def _read(text: str, n: int | None) -> Rows:
    """One population."""
    family, _, number = text.partition(":")
    if family == "census":
        size = _whole(text, number) if n is None else _in_range(text, n)
        return _population(f"census[{size}]", "census", FEATURES, *census(size))
    asked = _ASKED.fullmatch(text)
    if asked is None:
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    if n is None and asked["n"] is not None:
        n = _whole(text, asked["n"])
    return _of_table(asked["path"], n)


def _whole(text: str, number: str) -> int:
    """The N of a text."""
    try:
        found = float(number)
    except ValueError:
        found = 0.5
    if not found.is_integer():
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    return _in_range(text, int(found))


def _in_range(text: str, n: int) -> int:
    if not _LEAST <= n <= _MOST:
        raise RequestError(f"--data: {text} must have {_LEAST} to {_MOST:,} rows, not {n:,}")
    return n


# ---- tables --------------------------------------------------------------------------------------


def _of_table(path: str, n: int | None) -> Rows:
    """The declared columns of a file, rows with a null left out."""
    base = os.path.basename(path).removesuffix(".parquet")
    if base not in TABLES:
        raise RequestError(f"--data: {base} is no known table; there are: {', '.join(TABLES)}")
    declared = TABLES[base]
    numbers = (*declared.numbers, declared.target)
    columns = [*(name for name, _, _ in numbers), *declared.categories]
    content = _columns(path, columns)
    if n is not None:
        content = _chosen(path, content, n)
    scaled = np.column_stack([_scaled(content[name], low, high) for name, low, high in numbers])
    held = [content[name].dictionary_encode().combine_chunks() for name in declared.categories]
    values = [sorted(str(value) for value in each.dictionary.to_pylist()) for each in held]
    places = [
        np.array([ordered.index(str(value)) for value in each.dictionary.to_pylist()])[
            each.indices.to_numpy()
        ]
        for each, ordered in zip(held, values, strict=True)
    ]
    features = Features(
        tuple(declared.numbers),
        tuple((name, tuple(v)) for name, v in zip(declared.categories, values, strict=True)),
    )
    rows = features.rows(scaled[:, :-1].astype(np.float32), np.column_stack(places))
    name = base if n is None else f"{base}[{n}]"
    return _population(name, base, features, rows, scaled[:, -1])


def _columns(path: str, columns: list[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=columns).select(columns).drop_null()
    except FileNotFoundError:
        raise RequestError(f"--data: there is no file {path}") from None
    except (pa.ArrowException, OSError, KeyError):
        raise RequestError(
            f"--data: {path} is not a readable Parquet file with the columns {', '.join(columns)}"
        ) from None


def _chosen(path: str, content: pa.Table, n: int) -> pa.Table:
    """The first rows of an order that is always the same."""
    if not _LEAST <= n <= len(content):
        raise RequestError(f"--data: {path} has {len(content):,} rows; {n:,} cannot be chosen")
    return content.take(pa.array(SeededRandom(len(content)).permutation(len(content))[:n]))


def _scaled(column: pa.ChunkedArray, low: float, high: float) -> Floats:
    """Numbers cut to their bounds, which become -1 and 1."""
    numbers = pc.cast(column, pa.float64()).to_numpy()
    return np.asarray(np.clip((2 * numbers - low - high) / (high - low), -1, 1))


def _population(name: str, base: str, features: Features, rows: Numbers, targets: Numbers) -> Rows:
    histogram = np.histogram(targets, bins=64, range=(-1, 1))[0].astype(np.int64)
    return Rows(name, histogram, base, features, rows, targets.astype(np.float32))
