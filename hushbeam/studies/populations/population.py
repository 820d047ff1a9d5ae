"""Users whose values are known, so that errors can be measured."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StudyPopulation(ABC):
    """A data set.

    Attributes:
        name: that no other has; a file's folder, which may tell who keeps it, is no part of it.
    """

    name: str

    @property
    @abstractmethod
    def n(self) -> int:
        """How many users."""

    @property
    @abstractmethod
    def d(self) -> int:
        """How many values there are to have, or numbers that each user has."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A fingerprint of all that users have."""

    @property
    def base(self) -> str:
        """The name without what populations of different sizes differ in."""
        return self.name

    @property
    def label(self) -> str:
        """The base, or as much of it as fits above a panel."""
        return self.base

    @property
    def title(self) -> str:
        """As panels and summaries say it."""
        return f"{self.label} (n = {self.n:,}, d = {self.d:,})"

    @property
    def size(self) -> str:
        """What tells figures of populations apart that have one base."""
        return ""

    @property
    def columns(self) -> dict[str, Any]:
        """What tables say of it."""
        return {"data": self.base, "n": self.n, "d": self.d}


@dataclass(frozen=True, eq=False)
class HistogramPopulation(StudyPopulation):
    """A population of which only matters how many users have each value.

    Attributes:
        histogram: (d,) integers.
    """

    histogram: NDArray[np.int64]

    @property
    def n(self) -> int:
        return int(self.histogram.sum())

    @property
    def d(self) -> int:
        return int(self.histogram.size)

    @property
    def digest(self) -> str:
        return fingerprint(self.histogram.astype("<i8"))


def fingerprint(*parts: NDArray[Any] | str) -> str:
    """A digest of arrays and texts, one after another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(
            part.encode("utf-8", "surrogatepass")
            if isinstance(part, str)
            else np.ascontiguousarray(part).tobytes()
        )
    return digest.hexdigest()
