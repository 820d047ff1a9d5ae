"""Mechanisms whose users send any number of messages, each of which is shuffled on its own."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Messages, Report
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.randomness import RandomSource

_BLOCK = 1 << 18  # users at a time


class SeveralMessages(FrequencyOracle):
    """A frequency oracle whose report is a set, or a bag, of messages.

    After the shuffle nobody can tell which messages came from one user, nor from how many users
    they came: `estimate` needs n.
    """

    several: ClassVar[bool] = True

    @property
    @abstractmethod
    def messages(self) -> float: ...

    @abstractmethod
    def send(self, cells: ArrayLike, rng: RandomSource) -> tuple[Messages, NDArray[np.int64]]:
        """`perturb` that also tells whose each message is, for tests and audits.

        Returns:
            ((m,) uint64 messages; (m,) int64 positions in `cells` of their senders).
        """

    @abstractmethod
    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        """The exact law of one user's report, for domains small enough to list them all.

        Args:
            cell: 0 .. inputs - 1.

        Returns:
            report -> its probability, which add up to 1.

        Raises:
            ValueError: there are too many reports.
        """

    @cached_property
    def reports(self) -> list[Report]:
        """All that any input may lead to, each ascending."""
        return sorted({report for cell in range(self.inputs) for report in self.report_law(cell)})

    @property
    def outcomes(self) -> int:
        return len(self.reports)

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        place = {report: index for index, report in enumerate(self.reports)}
        messages, senders = self.send(np.full(size, cell), rng)
        bags = np.bincount(
            senders * self.codes + messages.astype(np.int64), minlength=size * self.codes
        )
        bags = bags.reshape(size, -1)
        sizes = tuple(bags.max(axis=0) + 1)
        # Numbered, bags are sorted a hundred times faster than as rows.
        numbers, counts = np.unique(np.ravel_multi_index(tuple(bags.T), sizes), return_counts=True)
        distinct = np.transpose(np.unravel_index(numbers, sizes))
        tallied = np.zeros(len(place), np.int64)
        for bag, count in zip(distinct, counts, strict=True):
            tallied[place[tuple(np.repeat(np.arange(self.codes), bag).tolist())]] = count
        return tallied

    def released(self, cells: Sequence[int], times: int, rng: RandomSource) -> NDArray[Any]:
        counted, step = [], max(1, _BLOCK // len(cells))
        for start in range(0, times, step):
            size = min(step, times - start)
            messages, senders = self.send(np.tile(np.asarray(cells), size), rng)
            places = senders // len(cells) * self.codes + messages.astype(np.int64)
            counted.append(np.bincount(places, minlength=size * self.codes))
        return np.concatenate(counted).reshape(times, self.codes)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        return self.send(cells, rng)[0]

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        law = self.report_law(cell)
        # One denominator for all reports, so that ratios of the numerators are exact.
        denominator = math.lcm(*(chance.denominator for chance in law.values()))
        numerators = [int(law.get(report, Fraction(0)) * denominator) for report in self.reports]
        return np.array(numerators, object), denominator

    def channel(self, cell: int) -> Floats:
        law = self.report_law(cell)
        return np.array([float(law.get(report, 0)) for report in self.reports])

    def users(self, counts: Counts, reported: int) -> int:
        return reported

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        if n is None:
            raise ValueError(
                "n is missing: a count of messages does not tell how many users sent them"
            )
        return super().estimate(counts, n)
