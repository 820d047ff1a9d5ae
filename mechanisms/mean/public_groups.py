"""A mean for each of several groups when everybody may know who is in which group."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Mechanism,
    Messages,
    reporters,
    require_integer,
)
from mechanisms.mean.scalar import ScalarMean, require_alphabet
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.randomness import RandomSource

Values = TypeVar("Values", ScalarMean, WithUnusable)


@dataclass(frozen=True)
class PublicGroups(Mechanism, Generic[Values]):
    """One mechanism for the values of all groups; a report carries its group in the clear.

    Input group * inputs + cell goes to code group * codes + code. The guarantee is about values:
    neighbours hold another value, and the same group.

    Attributes:
        mechanism: what randomises the values, or their absence.
        groups: how many.

    >>> from mechanisms.mean.two_point import duchi
    >>> PublicGroups(duchi(1.0, cells=4), groups=3).codes
    6
    """

    mechanism: Values
    groups: int

    def __post_init__(self) -> None:
        require_integer("groups", self.groups, 1)
        require_alphabet(self.codes, "declare fewer groups, or use fewer cells")

    @property
    def inputs(self) -> int:
        return self.groups * self.mechanism.inputs

    @property
    def codes(self) -> int:
        return self.groups * self.mechanism.codes

    @property
    def guarantee(self) -> Guarantee:
        inner = self.mechanism.guarantee
        return replace(inner, how=f"of the value alone, the group being public: {inner.how}")

    def constants(self) -> dict[str, float]:
        return self.mechanism.constants() | {"groups": self.groups}

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        array = self._checked(cells).astype(np.int64)
        group, cell = np.divmod(array, self.mechanism.inputs)
        group *= self.mechanism.codes
        return self.mechanism.perturb(cell, rng) + group.view(np.uint64)

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        group, inner = divmod(int(self._checked([cell])[0]), self.mechanism.inputs)
        weights, total = self.mechanism.weights(inner)
        table = np.zeros((self.groups, self.mechanism.codes), weights.dtype)
        table[group] = weights
        return table.ravel(), total

    def pairs(self) -> Iterable[tuple[int, int]]:
        """The mechanism's own, in the first group: groups are alike, and neighbours share one."""
        return self.mechanism.pairs()

    def parts(self, counts: Counts) -> Counts:
        """(groups, codes) the counts of each group's own mechanism."""
        return np.asarray(counts).reshape(self.groups, self.mechanism.codes)

    @property
    def extreme_reports(self) -> Floats:
        """(k, 2) what reports add to the averages of a group; those of others add nothing."""
        return np.append(self.mechanism.extreme_reports, [[0.0, 0.0]], axis=0)

    def averages(self, counts: Counts) -> tuple[Floats, Floats]:
        """(groups,) what each group's mean is the quotient of, over the reports of all groups.

        Args:
            counts: (codes,) from `count`.
        """
        parts, n = self.parts(counts), reporters(counts)
        pairs = [
            np.array(self.mechanism.averages(part)) * (part.sum() / n) if part.any() else (0, 0)
            for part in parts
        ]
        sums, presence = np.transpose(pairs)
        return sums, presence

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """(groups,) the unbiased mean of each group; NaN where there is no report.

        Args:
            counts: (codes,) from `count`.
            n: not needed: every report says its group.
        """
        means = [
            float(self.mechanism.estimate(part)) if part.any() else np.nan
            for part in self.parts(counts)
        ]
        return np.array(means)
