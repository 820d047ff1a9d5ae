"""Rows that models are fitted to: columns of known tables, and a made census."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hushbeam.studies.populations import sources
from hushbeam.studies.populations.census import FEATURES, census
from hushbeam.studies.populations.population import StudyPopulation, fingerprint
from mechanisms.channel import Floats
from mechanisms.learning.features import Features
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

FORMS = "census:N, or FILE.parquet or FILE.parquet:N of a known table"

_LEAST, _MOST = 100, 10_000_000  # rows

Bounded = tuple[str, float, float]  # column, lower bound, upper bound


@dataclass(frozen=True)
class TableColumns:
    """Which columns of a table a model looks at.

    Attributes:
        target: the number that it is to predict, with the bounds that become -1 and 1.
        numbers: columns taken as numbers, with theirs.
        categories: columns taken as one of some values: those that occur, in their order.
    """

    target: Bounded
    numbers: tuple[Bounded, ...]
    categories: tuple[str, ...]


TABLES = {
    "adult": TableColumns(
        ("hours_per_week", 1, 99),
        (("age", 17, 90), ("education_num", 1, 16)),
        ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "income"),
    ),
    "ipums_us1980": TableColumns(
        ("inctot", -10_000, 75_000),
        (("age", 15, 90), ("educrec", 0, 9)),
        ("sex", "race", "hispanic", "marstat", "ownershg", "yrsusa", "school", "labforce",
         "classwk", "vetstat"),
    ),
    "ipums_br2000": TableColumns(
        ("a10", 0, 15),
        (("a2", 0, 21), ("a4", 0, 15)),
        ("a0", "a1", "a3", "a5", "a6", "a7", "a8", "a9", "a11", "a12", "a13"),
    ),
    "wisdm2019_phone_accel": TableColumns(
        ("z", -20, 20), (("x", -20, 20), ("y", -20, 20)), ("activity",)
    ),
    "credit_default": TableColumns(
        ("limit_bal", 0, 1_000_000),
        (("age", 18, 80), ("bill_amt1", 0, 500_000), ("bill_amt6", 0, 500_000),
         ("pay_amt1", 0, 100_000), ("pay_amt6", 0, 100_000)),
        ("sex", "education", "marriage", "pay_0", "default_payment_next_month"),
    ),
    "fertility_us1980": TableColumns(
        ("work", 0, 52),
        (("age", 21, 35),),
        ("morekids", "gender1", "gender2", "afam", "hispanic", "other"),
    ),
}  # fmt: skip
"""File name without its ending -> what is done with it."""


@dataclass(frozen=True, eq=False)
class StudyExamples(StudyPopulation):
    """Rows with their targets, scaled to [-1, 1].

    Attributes:
        table: the name without the number of rows.
        features: what the rows' numbers are.
        rows: (n, inputs) float32.
        targets: (n,) float32.
    """

    table: str
    features: Features
    rows: Numbers
    targets: Numbers

    @property
    def base(self) -> str:
        return self.table

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def d(self) -> int:
        return self.features.inputs

    @property
    def digest(self) -> str:
        return fingerprint(self.rows, self.targets)


def read_examples(texts: Sequence[str], ns: Sequence[int] = ()) -> tuple[StudyExamples, ...]:
    """Every population that is named, once.

    Args:
        texts: `census:N`, a made one; `FILE.parquet`, whose name must be one of `TABLES`;
            `FILE.parquet:N`, of which N rows are chosen, always the same ones.
        ns: numbers of rows in place of those, each making a population of its own.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    return sources.once(texts, lambda text: _read(text, ns))


def _read(text: str, ns: Sequence[int]) -> Iterator[StudyExamples]:
    """One table, as a population for each n."""
    made = sources.made(text, {"census": (1,)}, 1, FORMS)
    if made is not None:
        for n in ns or (int(made[1][0]),):
            sources.require_size(text, n, _LEAST, _MOST, "rows")
            rows, incomes = census(n)
            targets = incomes.astype(np.float32)
            yield StudyExamples(f"census[{n}]", "census", FEATURES, rows, targets)
        return
    path, ending, number = text.rpartition(".parquet")
    named = [int(n) for n in sources.numbers(number.removeprefix(":")) if n.is_integer()]
    if not (path and ending) or (number and not named):
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    for wanted in ns or named or (None,):
        yield _of_table(f"{path}.parquet", wanted)


def _of_table(path: str, n: int | None) -> StudyExamples:
    """The declared columns of a file, rows with a null left out."""
    base = sources.stem(path)
    if base not in TABLES:
        raise RequestError(f"--data: {base} is no known table; there are: {', '.join(TABLES)}")
    declared = TABLES[base]
    bounded = (*declared.numbers, declared.target)
    names = [*(name for name, _, _ in bounded), *declared.categories]
    content = sources.read_columns(path, names).drop_null()
    if n is not None:
        sources.sizes((n,), len(content), path, _LEAST)
        # The first rows of an order that is always the same.
        order = SeededRandom(len(content)).permutation(len(content))
        content = content.take(pa.array(order[:n]))
    scaled = [_scaled(content[name], low, high) for name, low, high in bounded]
    coded = {name: _coded(content[name]) for name in declared.categories}
    features = Features(
        tuple(declared.numbers), tuple((name, values) for name, (values, _) in coded.items())
    )
    rows = features.rows(
        np.column_stack(scaled[:-1]).astype(np.float32),
        np.column_stack([codes for _, codes in coded.values()]),
    )
    targets = scaled[-1].astype(np.float32)
    return StudyExamples(base if n is None else f"{base}[{n}]", base, features, rows, targets)


def _coded(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Floats]:
    """The values of a category in their order, and the place of each row's among them."""
    coded = column.dictionary_encode().combine_chunks()
    values = [str(value) for value in coded.dictionary.to_pylist()]
    ordered = sorted(values)
    places = np.array([ordered.index(value) for value in values])
    return tuple(ordered), places[coded.indices.to_numpy()]


def _scaled(column: pa.ChunkedArray, low: float, high: float) -> Floats:
    """Numbers cut to their bounds, which become -1 and 1."""
    return np.asarray(np.clip((2 * sources.doubles(column) - low - high) / (high - low), -1, 1))
