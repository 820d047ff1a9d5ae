"""Populations of numbers whose mean is known: made laws, and the numbers of a Parquet column."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from mechanisms.channel import Counts, Floats
from pipelines.errors import RequestError
from pipelines.evaluate.data import Data, column_name
from pipelines.evaluate.mean_columns import distinct
from pipelines.evaluate.sources import dice, numbers, once

FORMS = (
    "gauss:N,MEAN,SD, exponential:N,RATE, uniform:N, beta:N,A,B, spike:N,X or "
    "FILE.parquet:COLUMN,L,U"
)

_MADE = re.compile(r"(gauss|exponential|uniform|beta|spike):(.*)")
_FINE = 1 << 16  # bins of [-1, 1] in which made values lie
_BLOCK = 1 << 18  # values that are simulated at a time
_MOST_USERS = 10**9


@dataclass(frozen=True)
class Numbers(Data):
    """A population of numbers in [-1, 1].

    Attributes:
        values: (d,) each once; `histogram` has how many users hold it.
        base: the name without the number of users.
        low: the number that -1 stands for.
        high: the number that 1 stands for.
    """

    values: Floats
    base: str
    low: float = -1.0
    high: float = 1.0

    @property
    def mean(self) -> float:
        """The truth."""
        return float(self.values @ self.histogram) / self.n

    @property
    def title(self) -> str:
        return f"{self.base} (n = {self.n:,})"

    @property
    def digest(self) -> str:
        content = self.values.astype("<f8").tobytes()
        return hashlib.sha256(content + super().digest.encode()).hexdigest()

    def blocks(self) -> Iterator[Floats]:
        """Every user's value, some at a time."""
        ends = np.cumsum(self.histogram)
        for start in range(0, self.n, _BLOCK):
            reached = np.clip(ends, start, start + _BLOCK)
            yield np.repeat(self.values, np.diff(reached, prepend=start))


def read_all_numbers(texts: Sequence[str], ns: Sequence[int]) -> tuple[Numbers, ...]:
    """Every population that was asked for, once.

    Args:
        texts: as `read_numbers` takes them.
        ns: the numbers of users, each of which makes a population of its own; none leaves a made
            population as its text has it, and takes all rows of a column.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    return once(texts, lambda text: read_numbers(text, ns))


def read_numbers(text: str, ns: Sequence[int] = ()) -> list[Numbers]:
    """One law or column, as a population for each n.

    Args:
        text: `gauss:N,MEAN,SD`, `exponential:N,RATE`, `uniform:N` (of [-1, 1]), `beta:N,A,B`
            (stretched to [-1, 1]) or `spike:N,X` (all at X), clipped to [-1, 1]; or
            `FILE.parquet:COLUMN,L,U`, clipped to [L, U], which is then taken to [-1, 1]. A made
            population holds the quantiles of its law, to 2^-15, so nothing about it is random.
        ns: as in `read_all_numbers`. Of a column, n rows are chosen by the name and n alone.

    Raises:
        RequestError: it has none of these forms, or cannot be read.

    >>> (population,) = read_numbers("spike:10,0.5")
    >>> population.mean, population.n
    (0.5, 10)
    """
    made = _MADE.fullmatch(text)
    if made is None:
        return _of_column(text, ns)
    n, *given = _numbers(text, made[2])
    family = made[1]
    if len(given) != _PARAMETERS[family] or not n.is_integer():
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    wanted = sorted(set(ns)) or [int(n)]
    for each in wanted:
        _require_users(text, each)
    base = ":".join([family, ",".join(f"{number:g}" for number in given)]).rstrip(":")
    return [_made(text, family, given, base, each) for each in wanted]


def _made(text: str, family: str, given: Sequence[float], base: str, n: int) -> Numbers:
    """The quantiles of a law, cut to [-1, 1]."""
    name = f"{family}:" + ",".join([f"{n}", *(f"{number:g}" for number in given)])
    if family == "spike":
        (place,) = given
        if not -1 <= place <= 1:
            raise RequestError(f"--data: the spike of {text} must lie in [-1, 1]")
        return Numbers(name, np.array([n]), np.array([place]), base)
    if family != "gauss" and not all(number > 0 for number in given):
        raise RequestError(f"--data: the parameters of {text} must be positive")
    if family == "gauss" and not given[1] > 0:
        raise RequestError(f"--data: the standard deviation of {text} must be positive")
    edges = np.linspace(-1, 1, _FINE + 1)
    below = np.concatenate([[0.0], _LAWS[family](edges, *given), [1.0]])
    counts = np.diff(np.rint(below * n)).astype(np.int64)
    values = np.concatenate([[-1.0], (edges[:-1] + edges[1:]) / 2, [1.0]])
    held = counts > 0
    return Numbers(name, counts[held], values[held], base)


def _gauss(x: Floats, mean: float, deviation: float) -> Floats:
    return np.asarray(special.ndtr((x - mean) / deviation))


def _exponential(x: Floats, rate: float) -> Floats:
    return np.asarray(-np.expm1(-rate * np.maximum(x, 0)))


def _uniform(x: Floats) -> Floats:
    return (x + 1) / 2


def _beta(x: Floats, a: float, b: float) -> Floats:
    return np.asarray(special.betainc(a, b, (x + 1) / 2))


_LAWS: dict[str, Callable[..., Floats]] = {
    "gauss": _gauss,
    "exponential": _exponential,
    "uniform": _uniform,
    "beta": _beta,
}
"""The share of a law that lies below x."""

_PARAMETERS = {"gauss": 2, "exponential": 1, "uniform": 0, "beta": 2, "spike": 1}


def _numbers(text: str, given: str) -> list[float]:
    """What follows the name of a law: N and its parameters."""
    found = numbers(given)
    if not found:
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    return found


def _require_users(text: str, n: int) -> None:
    """Refuse populations that are none, and those that no simulation would finish."""
    if not 1 <= n <= _MOST_USERS:
        raise RequestError(f"--data: {text} has {n:,} users; 1 to {_MOST_USERS:,} can be simulated")


def _of_column(text: str, ns: Sequence[int]) -> list[Numbers]:
    """A column, taken from its bounds to [-1, 1]; no value of it is shown."""
    parts = text.rsplit(",", 2)
    path, _, column = parts[0].rpartition(":")
    if not (path and column and len(parts) == 3):
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    low, high = _bounds(text, parts[1:])
    values, counts = distinct(path, column)
    scaled = np.clip((2 * values - low - high) / (high - low), -1, 1)
    total, name = int(counts.sum()), f"{column_name(path, column)},{low:g},{high:g}"
    found = []
    for n in sorted(set(ns)) or [total]:
        if not 1 <= n <= total:
            raise RequestError(f"--ns: {n:,} users are more than the {total:,} of {text}, or none")
        chosen = counts if n == total else _chosen(counts, n, name)
        held = chosen > 0
        label = name if n == total else f"{name}[{n}]"
        found.append(Numbers(label, chosen[held], scaled[held], name, low, high))
    return found


def _bounds(text: str, parts: Sequence[str]) -> tuple[float, float]:
    """L and U."""
    low, high = _numbers(text, ",".join(parts))
    if not (low < high and math.isfinite(high - low)):
        raise RequestError(f"--data: of {text}, the first bound must be below the second")
    return low, high


def _chosen(counts: Counts, n: int, name: str) -> Counts:
    """How often each value is among n users who are chosen by a name alone."""
    users = dice(f"{name} {n}").choice(int(counts.sum()), n)
    places = np.searchsorted(np.cumsum(counts), users.astype(np.int64), side="right")
    return np.bincount(places, minlength=counts.size).astype(np.int64)
