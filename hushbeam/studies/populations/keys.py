"""Made populations of users who hold some of d keys, each with a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hushbeam.studies.populations import sources
from hushbeam.studies.populations.population import StudyPopulation, fingerprint
from mechanisms.channel import Floats
from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines.errors import RequestError

FORMS = "keys:N,D,S"

_BLOCK = 1 << 20  # numbers drawn at a time
_MOST_NUMBERS = 10**9  # of a population
_SPREAD = 0.25  # standard deviation of a key's numbers
_FARTHEST = 0.7  # the largest mean of a key, either way


@dataclass(frozen=True, eq=False)
class KeyValuePopulation(StudyPopulation):
    """N users and D keys.

    Attributes:
        users: how many.
        exponent: s: the k-th key is held by a share k^-s of them, one apart from the others.
        shares: (d,) the shares as they are.
        mean: (d,) of the numbers of those who hold each key.
    """

    users: int
    exponent: float
    shares: Floats
    mean: Floats

    @property
    def n(self) -> int:
        return self.users

    @property
    def d(self) -> int:
        return int(self.shares.size)

    @property
    def digest(self) -> str:
        return fingerprint(self.shares.astype("<f8"), self.mean.astype("<f8"))

    def blocks(self) -> Iterator[Floats]:
        """Every user's row, some at a time; NaN where there is no key."""
        return _blocks(self.name, self.users, self.d, self.exponent)


def read_keys(texts: Sequence[str]) -> tuple[KeyValuePopulation, ...]:
    """Every population that is named, once.

    Raises:
        RequestError: one of them is none, or two have one name.

    >>> [keys] = read_keys(["keys:2000,4,1"])
    >>> keys.shares.round(2).tolist()
    [1.0, 0.5, 0.33, 0.26]
    """
    return sources.once(texts, lambda text: [_made(text)])


def _made(text: str) -> KeyValuePopulation:
    """One population, once all of it was looked at."""
    numbers = sources.made(text, {"keys": (3,)}, 2, FORMS)
    if numbers is None:
        raise RequestError(f"--data: {text} is not of the form {FORMS}")
    n, d, exponent = int(numbers[1][0]), int(numbers[1][1]), numbers[1][2]
    sources.require_size(text, d, 1, LARGEST_DIMENSION, "keys")
    sources.require_size(text, n * d, 1, _MOST_NUMBERS, "numbers")
    if not exponent >= 0:
        raise RequestError(f"--data: the exponent of {text} must be at least 0")
    name, holders, sums = f"keys:{n},{d},{exponent:g}", np.zeros(d), np.zeros(d)
    for rows in _blocks(name, n, d, exponent):
        holders += np.count_nonzero(~np.isnan(rows), axis=0)
        sums += np.nansum(rows, axis=0)
    if not holders.all():
        raise RequestError(f"--data: nobody holds some of the keys of {text}")
    return KeyValuePopulation(name, n, exponent, holders / n, sums / holders)


def _blocks(name: str, n: int, d: int, exponent: float) -> Iterator[Floats]:
    """Rows drawn anew by a public name, the same ones every time."""
    chance = sources.dice(name).generator()
    shares = np.arange(1, d + 1.0) ** -exponent
    # Frequent keys have means of either sign, as rare ones do.
    centres = _FARTHEST * np.cos(np.arange(d) * 2.4)
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        size = (min(step, n - start), d)
        rows = np.clip(chance.normal(centres, _SPREAD, size), -1, 1)
        yield np.where(chance.random(size) < shares, rows, np.nan)
