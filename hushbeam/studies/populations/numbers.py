"""Populations of numbers whose mean is known: made laws, and the numbers of a Parquet column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from hushbeam.studies.populations import sources
from hushbeam.studies.populations.population import HistogramPopulation, fingerprint
from mechanisms.channel import Counts, Floats
from pipelines.errors import RequestError

FORMS = (
    "gauss:N,MEAN,SD, exponential:N,RATE, uniform:N, beta:N,A,B, spike:N,X or "
    "FILE.parquet:COLUMN,L,U"
)

_FINE = 1 << 16  # bins of [-1, 1] in which made values lie
_BLOCK = 1 << 18  # values that are simulated at a time
_MOST_USERS = 10**9


@dataclass(frozen=True, eq=False)
class NumberPopulation(HistogramPopulation):
    """A population of numbers in [-1, 1].

    Attributes:
        values: (d,) distinct, ascending; `histogram` says how many users have each.
        law: the name without the number of users.
        low: the number that -1 stands for.
        high: the number that 1 stands for.
    """

    values: Floats
    law: str
    low: float = -1.0
    high: float = 1.0

    @property
    def base(self) -> str:
        return self.law

    @property
    def mean(self) -> float:
        """The truth."""
        return float(self.values @ self.histogram) / self.n

    @property
    def title(self) -> str:
        return f"{self.law} (n = {self.n:,})"

    @property
    def size(self) -> str:
        return f"-n-{self.n}"

    @property
    def columns(self) -> dict[str, Any]:
        return {**super().columns, "low": self.low, "high": self.high, "truth": self.mean}

    @property
    def digest(self) -> str:
        return fingerprint(self.values.astype("<f8"), super().digest)

    def blocks(self) -> Iterator[Floats]:
        """Every user's value, some at a time."""
        ends = np.cumsum(self.histogram)
        for start in range(0, self.n, _BLOCK):
            reached = np.clip(ends, start, start + _BLOCK)
            yield np.repeat(self.values, np.diff(reached, prepend=start))


def read_numbers(texts: Sequence[str], ns: Sequence[int] = ()) -> tuple[NumberPopulation, ...]:
    """Every population that is named, once.

    Args:
        texts: `gauss:N,MEAN,SD`, `exponential:N,RATE`, `uniform:N` (of [-1, 1]), `beta:N,A,B`
            (stretched to [-1, 1]) or `spike:N,X` (all at X), clipped to [-1, 1]; or
            `FILE.parquet:COLUMN,L,U`, clipped to [L, U], which is then taken to [-1, 1]. A made
            population has the quantiles of its law, to 2^-15, so nothing about it is random.
        ns: the numbers of users, ascending, each of which makes a population of its own; none
            leaves a made population as its text has it, and takes all rows of a column. Of a
            column, n rows are chosen by the name and n alone.

    Raises:
        RequestError: one of them cannot be read, or two have one name.

    >>> (population,) = read_numbers(["spike:10,0.5"])
    >>> population.mean, population.n
    (0.5, 10)
    """
    return sources.once(texts, lambda text: _read(text, ns))


def _read(text: str, ns: Sequence[int]) -> list[NumberPopulation]:
    """One law or column, as a population for each n."""
    made = sources.made(text, {family: (law.numbers,) for family, law in _LAWS.items()}, 1, FORMS)
    if made is None:
        return _of_column(text, ns)
    family, (n, *parameters) = made
    law = _LAWS[family]
    if not law.fits(*parameters):
        raise RequestError(f"--data: {text}: {law.limits}")
    words = [f"{number:g}" for number in parameters]
    base = ":".join([family, ",".join(words)]).rstrip(":")
    populations = []
    for size in ns or (int(n),):
        sources.require_size(text, size, 1, _MOST_USERS, "users")
        name = f"{family}:" + ",".join([f"{size}", *words])
        values, counts = law.values(size, parameters)
        populations.append(NumberPopulation(name, counts, values, base))
    return populations


# ---- laws ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Law:
    """A law of numbers.

    Attributes:
        below: (x, parameters) -> the share that lies below x; None for one point.
        numbers: how many its text has, that of the users among them.
        fits: whether parameters make a law.
        limits: what parameters must be.
    """

    below: Callable[..., Floats] | None
    numbers: int
    fits: Callable[..., bool]
    limits: str

    def values(self, n: int, parameters: Sequence[float]) -> tuple[Floats, Counts]:
        """The n quantiles, cut to [-1, 1]: distinct values, and how often each occurs."""
        if self.below is None:
            return np.array(parameters), np.array([n])
        edges = np.linspace(-1, 1, _FINE + 1)
        below = np.concatenate([[0.0], self.below(edges, *parameters), [1.0]])
        counts = np.diff(np.rint(below * n)).astype(np.int64)
        values = np.concatenate([[-1.0], (edges[:-1] + edges[1:]) / 2, [1.0]])
        return values[counts > 0], counts[counts > 0]


def _positive(*parameters: float) -> bool:
    return all(number > 0 for number in parameters)


_POSITIVE = "its parameters must be positive"

_LAWS = {
    "gauss": _Law(
        lambda x, mean, deviation: special.ndtr((x - mean) / deviation), 3,
        lambda mean, deviation: deviation > 0, "its standard deviation must be positive",
    ),
    "exponential": _Law(
        lambda x, rate: -np.expm1(-rate * np.maximum(x, 0)), 2, _positive, _POSITIVE
    ),
    "uniform": _Law(lambda x: (x + 1) / 2, 1, _positive, _POSITIVE),
    "beta": _Law(lambda x, a, b: special.betainc(a, b, (x + 1) / 2), 3, _positive, _POSITIVE),
    "spike": _Law(None, 2, lambda place: -1 <= place <= 1, "its spike must lie in [-1, 1]"),
}  # fmt: skip


# ---- columns -------------------------------------------------------------------------------------


def _of_column(text: str, ns: Sequence[int]) -> list[NumberPopulation]:
    """A column, taken from its bounds to [-1, 1]; no value of it is shown."""
    name, *bounds = text.rsplit(",", 2)
    path, column = sources.file_and_column(name, FORMS)
    low, high = (*sources.numbers(",".join(bounds)), 0.0, 0.0)[:2]
    if not (len(bounds) == 2 and low < high and math.isfinite(high - low)):
        raise RequestError(f"--data: {text} is not of the form {FORMS}, with L below U")
    values, counts = _distinct(path, column)
    scaled = np.clip((2 * values - low - high) / (high - low), -1, 1)
    total, base = int(counts.sum()), f"{sources.stem(path)}:{column},{low:g},{high:g}"
    populations = []
    for n in sources.sizes(ns, total, text):
        chosen = counts if n == total else _chosen(counts, n, base)
        label = base if n == total else f"{base}[{n}]"
        used = chosen > 0
        populations.append(NumberPopulation(label, chosen[used], scaled[used], base, low, high))
    return populations


def _distinct(path: str, column: str) -> tuple[Floats, Counts]:
    """Each finite number of a column once, ascending, and how many rows have it."""
    content = sources.read_columns(path, [column]).column(0)
    if not sources.is_number(content.type):
        raise RequestError(
            f"--data: {column!r} holds {content.type}; integers, floats or decimals have a mean"
        )
    rows = sources.doubles(content)
    values, counts = np.unique(rows[np.isfinite(rows)], return_counts=True)
    if not values.size:
        raise RequestError(f"--data: column {column!r} of {path} holds no number")
    return values, counts.astype(np.int64)


def _chosen(counts: Counts, n: int, name: str) -> Counts:
    """How often each value is among n users who are chosen by a name alone."""
    users = sources.dice(f"{name} {n}").choice(int(counts.sum()), n)
    places = np.searchsorted(np.cumsum(counts), users.astype(np.int64), side="right")
    return np.bincount(places, minlength=counts.size).astype(np.int64)
