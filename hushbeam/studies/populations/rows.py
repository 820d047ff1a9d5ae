"""Populations of rows whose mean is known: made ones, and columns of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hushbeam.studies.populations import sources
from hushbeam.studies.populations.matrices import file_name, read_matrix
from hushbeam.studies.populations.population import StudyPopulation, fingerprint
from mechanisms.channel import Floats
from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines.errors import RequestError

FORMS = "gauss:N,D,MEAN,SD, gauss:N,D,MEAN,SD,APART or FILE.parquet:COLUMN=L,U:COLUMN=L,U..."

_FINE = 1 << 16  # quantiles of the normal law that made numbers take
_BLOCK = 1 << 22  # numbers that are simulated at a time
_WIDEST = 40  # letters of a title
_MOST_NUMBERS = 10**11  # of a population: an hour of one core


@dataclass(frozen=True)
class MadeRows:
    """Independent normal numbers, clipped to [-1, 1], drawn anew by a public name.

    Attributes:
        name: what the draw depends on; not on the number of users, so that fewer are the first.
        centres: (d,) the means before clipping.
        deviation: the standard deviation before clipping.
    """

    name: str
    centres: Floats
    deviation: float

    def block(self, index: int, start: int, stop: int) -> Floats:
        """(stop - start, d) rows of the `index`-th block, in [-1, 1]; the same ones every time."""
        size = (stop - start) * self.centres.size
        words = sources.dice(f"{self.name} block {index}").words(-(-size // 4))
        rows = _normal_quantiles()[words.view(np.uint16)[:size]].reshape(-1, self.centres.size)
        rows *= self.deviation
        rows += self.centres
        return np.clip(rows, -1, 1, out=rows)

    @property
    def digest(self) -> str:
        """A fingerprint of everything that rows depend on."""
        return fingerprint(f"{self.name} {self.deviation!r}")


@dataclass(frozen=True)
class StoredRows:
    """Rows of a file; see `MadeRows`.

    Attributes:
        matrix: (n, d) float32 in [-1, 1].
    """

    matrix: NDArray[np.float32]

    def block(self, index: int, start: int, stop: int) -> Floats:
        return self.matrix[start:stop].astype(np.float64)

    @property
    def digest(self) -> str:
        return fingerprint(self.matrix.astype("<f4", copy=False))


@dataclass(frozen=True, eq=False)
class RowPopulation(StudyPopulation):
    """A population of rows of numbers in [-1, 1], and what is known of it.

    Attributes:
        law: the name without the number of users, and of made rows without the dimension.
        source: of the rows.
        users: how many.
        mean: (d,) the truth.
        mean_square: e2, of all numbers of all rows.
    """

    law: str
    source: MadeRows | StoredRows
    users: int
    mean: Floats
    mean_square: float

    @property
    def base(self) -> str:
        return self.law

    @property
    def n(self) -> int:
        return self.users

    @property
    def d(self) -> int:
        return int(self.mean.size)

    @property
    def mean_square_of_means(self) -> float:
        """mu2, of the coordinates of the mean row: what publishing zeros errs by."""
        return float(np.mean(self.mean**2))

    @property
    def spread(self) -> float:
        """Mean square of the distances of the means from their own mean."""
        return float(np.var(self.mean))

    @property
    def label(self) -> str:
        fits = len(self.law) <= _WIDEST
        return self.law if fits else self.law[:_WIDEST].rpartition(":")[0] + ":..."

    @property
    def size(self) -> str:
        return f"-n-{self.n}-d-{self.d}"

    @property
    def columns(self) -> dict[str, Any]:
        squares = {
            "mean_square_of_means": self.mean_square_of_means, "mean_square": self.mean_square
        }  # fmt: skip
        return {**super().columns, **squares}

    @property
    def digest(self) -> str:
        return fingerprint(f"{self.source.digest} {self.n} {self.d}", self.mean.astype("<f8"))

    def blocks(self) -> Iterator[Floats]:
        """Every user's row, some at a time."""
        return _blocks(self.source, self.n, self.d)


def read_rows(
    texts: Sequence[str], ns: Sequence[int] = (), dimensions: Sequence[int] = ()
) -> tuple[RowPopulation, ...]:
    """Every population that is named, once.

    Args:
        texts: `gauss:N,D,MEAN,SD`: N rows of D numbers of a normal law, clipped to [-1, 1];
            `gauss:N,D,MEAN,SD,APART`: their means apart by a standard deviation of APART; or
            `FILE.parquet:COLUMN=L,U:...`: the rows of a file, each column clipped to [L, U], which
            is then taken to [-1, 1]. A column may hold lists, or bytes, of one length.
        ns: numbers of users, each of which makes a population of its own; none leaves them as they
            are. Of a file, as many rows are chosen by its name and n alone.
        dimensions: the same of D, for made rows.

    Raises:
        RequestError: one of them cannot be read, or two have one name.

    >>> [rows] = read_rows(["gauss:1000,20,0.3333,0.25"])
    >>> rows.n, rows.d, round(rows.mean_square, 2)
    (1000, 20, 0.17)
    """

    def read(text: str) -> Iterator[RowPopulation]:
        law = sources.made(text, {"gauss": (4, 5)}, 2, FORMS)
        return _stored(text, ns) if law is None else _made(text, law[1], ns, dimensions)

    return sources.once(texts, read)


def _made(
    text: str, parameters: Sequence[float], ns: Sequence[int], dimensions: Sequence[int]
) -> Iterator[RowPopulation]:
    """Rows of a law, for each n and each d."""
    n, d, mean, deviation, apart = (*parameters, 0.0)[:5]
    if not (deviation > 0 and apart >= 0):
        raise RequestError(f"--data: the standard deviations of {text} must be positive")
    parts = f"{mean:g},{deviation:g}" + (f",{apart:g}" if apart else "")
    for dimension in dimensions or (int(d),):
        for users in ns or (int(n),):
            sources.require_size(text, users, 2, _MOST_NUMBERS, "rows")
            sources.require_size(text, dimension, 1, LARGEST_DIMENSION, "numbers in a row")
            sources.require_size(text, users * dimension, 2, _MOST_NUMBERS, "numbers")
            places = special.ndtri((np.arange(dimension) + 0.5) / dimension)
            # As typed: names keep six digits.
            drawn = f"gauss {dimension} {mean!r} {deviation!r} {apart!r}"
            source = MadeRows(drawn, mean + apart * places, deviation)
            name = f"gauss:{users},{dimension},{parts}"
            yield _rows(name, f"gauss:{parts}", source, users, dimension)


def _stored(text: str, ns: Sequence[int]) -> Iterator[RowPopulation]:
    """Rows of a file, for each n."""
    matrix, base = read_matrix(text, FORMS), file_name(text)
    total, d = matrix.shape
    for n in sources.sizes(ns, total, base, least=2):
        chosen = matrix if n == total else matrix[_chosen(total, n, base)]
        yield _rows(base if n == total else f"{base}[{n}]", base, StoredRows(chosen), n, d)


def _rows(name: str, base: str, source: MadeRows | StoredRows, n: int, d: int) -> RowPopulation:
    """A population, once all of it was looked at."""
    sums, squares = np.zeros(d), 0.0
    for block in _blocks(source, n, d):
        sums += block.sum(axis=0)
        squares += float(np.einsum("ij,ij->", block, block))
    if not squares > 0:
        raise RequestError(f"--data: all numbers of {name} are in the middle of their bounds")
    return RowPopulation(name, base, source, n, sums / n, squares / (n * d))


def _blocks(source: MadeRows | StoredRows, n: int, d: int) -> Iterator[Floats]:
    """Every row once, in order."""
    step = max(1, _BLOCK // d)
    for index, start in enumerate(range(0, n, step)):
        yield source.block(index, start, min(n, start + step))


def _chosen(total: int, n: int, name: str) -> NDArray[np.int64]:
    """(n,) the places of rows chosen by a name alone."""
    return np.sort(sources.dice(f"{name} {n}").choice(total, n).astype(np.int64))


@lru_cache(maxsize=1)
def _normal_quantiles() -> Floats:
    """(65,536,) evenly likely numbers of the normal law."""
    return np.asarray(special.ndtri((np.arange(_FINE) + 0.5) / _FINE))
