"""Populations of records: columns of few values each, made ones and those of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushbeam.studies.populations import sources
from hushbeam.studies.populations.population import StudyPopulation, fingerprint
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

FORMS = "people:N or FILE.parquet:COLUMN:COLUMN..."

_SIZES = np.array([3, 7, 9, 11, 12, 2])  # of the columns of made people
_KINDS, _SHARE = 8, 0.5
_LEAST, _MOST, _MOST_VALUES = 100, 10_000_000, 256
_TEST_PART = 5  # one record in so many is for testing

Records = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RecordPopulation(StudyPopulation):
    """Records, the last column of which a model is to predict.

    Attributes:
        base_name: without the number of records.
        names: of the columns.
        sizes: how many values each has.
        records: (n, columns) places of values.
    """

    base_name: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    records: Records

    @property
    def base(self) -> str:
        return self.base_name

    @property
    def n(self) -> int:
        return len(self.records)

    @property
    def d(self) -> int:
        return len(self.sizes)

    @property
    def digest(self) -> str:
        return fingerprint(self.records.astype("<i8"))

    @property
    def split(self) -> tuple[Records, Records]:
        """The records that are released of, and those that test what was learned of them."""
        last = np.arange(self.n) % _TEST_PART == _TEST_PART - 1
        return self.records[~last], self.records[last]


def read_records(texts: Sequence[str], ns: Sequence[int] = ()) -> tuple[RecordPopulation, ...]:
    """Every population that is named, once.

    Args:
        texts: `people:N`, made, whose columns depend on a kind that is none of them; or
            `FILE.parquet:COLUMN:COLUMN...`, the values of which are those that occur, null one of
            them. Of a file, the order of rows is always the same one, and no matter.
        ns: numbers of records in place of those, each making a population of its own.

    Raises:
        RequestError: one of them cannot be read, or two have one name.

    >>> (people,) = read_records(["people:1000"])
    >>> people.n, people.d, people.sizes[-1]
    (1000, 6, 2)
    """
    return sources.once(texts, lambda text: _read(text, ns))


def _read(text: str, ns: Sequence[int]) -> Iterator[RecordPopulation]:
    """One of them, as a population for each n."""
    made = sources.made(text, {"people": (1,)}, 1, FORMS)
    if made is not None:
        names = tuple(f"column{place}" for place in range(1, _SIZES.size + 1))
        for n in ns or (int(made[1][0]),):
            sources.require_size(text, n, _LEAST, _MOST, "records")
            sizes = tuple(_SIZES.tolist())
            yield RecordPopulation(f"people:{n}", "people", names, sizes, _people(n))
        return
    path, ending, rest = text.partition(".parquet:")
    columns = rest.split(":")
    if not (ending and len(columns) >= 2 and all(columns)):
        raise RequestError(f"--data: {text} is not of the form {FORMS}, with two columns at least")
    content = sources.read_columns(f"{path}.parquet", columns)
    coded = [
        np.unique(content[name].cast("string").fill_null("").to_numpy(), return_inverse=True)
        for name in columns
    ]
    sizes = tuple(values.size for values, _ in coded)
    if max(sizes) > _MOST_VALUES:
        raise RequestError(f"--data: {text}: a column has more than {_MOST_VALUES} values")
    base = f"{sources.stem(path + '.parquet')}:{len(columns)} columns"
    # Neighbours in a file may be alike: tests are of rows from everywhere.
    rows = np.stack([places for _, places in coded], axis=1).astype(np.int64)
    rows = rows[SeededRandom(len(rows)).permutation(len(rows))]
    for n in sources.sizes(ns, len(rows), text, _LEAST):
        name = base if n == len(rows) else f"{base}[{n}]"
        yield RecordPopulation(name, base, tuple(columns), sizes, rows[:n])


def _people(n: int) -> Records:
    """Made people, the same ones for the same n: half of what a column says is its kind's.

    The last depends on the parity of two others, which no table of two columns tells.
    """
    chance = SeededRandom(n).generator()
    kind = chance.integers(0, _KINDS, n)
    rows = chance.integers(0, _SIZES, (n, _SIZES.size))
    known = chance.random(rows.shape) < _SHARE
    rows = np.where(known, kind[:, None] * np.array([1, 3, 5, 4, 7, 1]) % _SIZES, rows)
    rows[:, -1] = np.where(known[:, -1], (rows[:, 1] + rows[:, 2]) % 2, rows[:, -1])
    return np.asarray(rows, np.int64)
