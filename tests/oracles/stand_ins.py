"""What stands in for mechanisms whose reports cannot be listed: a part of them that can be.

A stand-in takes the mechanism and has `inputs`, `channel` and `tally`, as a mechanism has them, for
what is seen of that part, and `delta(users, epsilon)`, the largest divergence of two neighbouring
batches of so many users.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.stats import nbinom

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats
from mechanisms.frequency.correlated_noise import CorrelatedNoise
from mechanisms.papers.boost import Boost
from mechanisms.papers.central_histogram import CentralHistogram, LaplaceHistogram
from mechanisms.papers.histograms import BoostHistogram, NoiseFirstHistogram
from mechanisms.randomness import SeededRandom
from tests.oracles.central import exact_vector_delta
from tests.oracles.dummies import hockey_stick


@dataclass(frozen=True)
class Noise:
    """The noise of a histogram's first two counts, by what it adds to their difference.

    Attributes:
        histogram: the mechanism.
        noise: of each of its counters.
        moved: by how much a replaced value moves the counters that it moves.
    """

    histogram: CentralHistogram
    noise: DiscreteLaplace
    moved: tuple[int, ...]
    inputs: int = 1

    def delta(self, users: int, epsilon: float) -> Fraction:
        """Exactly, whatever the number of users."""
        return exact_vector_delta(self.noise, list(self.moved), epsilon)

    def channel(self, cell: int) -> Floats:
        """In parts of half a standard deviation, what lies beyond two of them in two more."""
        table, total = self.noise.weights
        law = table / total
        difference = np.convolve(law, law[::-1])
        return self._parted(np.arange(difference.size) - 2 * self.noise.bound, difference)

    def tally(self, cell: int, size: int, rng: SeededRandom) -> Counts:
        counts = np.full(self.histogram.domain_size, 1000)
        released = np.array([self.histogram.release(counts, rng)[0] for _ in range(size)])
        difference = np.rint((released[:, 0] - released[:, 1]) * counts.sum()).astype(np.int64)
        return self._parted(difference, np.ones(size)).astype(np.int64)

    def _parted(self, values: Counts, weights: Floats) -> Floats:
        deviations = values / (2 * self.noise.variance()) ** 0.5
        return np.bincount(np.digitize(deviations, np.arange(-2, 2.1, 0.5)), weights, 10)


def counts(mechanism: LaplaceHistogram) -> Noise:
    """A replaced value lowers one count and raises another."""
    return Noise(mechanism, mechanism.noise, (1, -1))


def merged_counts(mechanism: NoiseFirstHistogram) -> Noise:
    """Merging sees nothing but noisy counts."""
    return Noise(mechanism, mechanism.buckets.noise, (1, -1))


def nodes(mechanism: BoostHistogram) -> Noise:
    """The fit sees nothing but noisy nodes. Siblings' estimates differ as their noisy counts do."""
    tree, unit = mechanism.tree, np.eye(mechanism.domain_size, dtype=np.int64)
    moved = max((_moved(tree, unit[0], other) for other in unit[1:]), key=len)
    return Noise(mechanism, tree.noise, tuple(moved))


def _moved(tree: Boost, before: Counts, after: Counts) -> list[int]:
    """By how much the nodes differ that do."""
    pairs = zip(tree.tree.totals(before), tree.tree.totals(after), strict=True)
    differences = np.concatenate([b - a for b, a in pairs])
    return differences[differences != 0].tolist()


_SIZE = 48  # messages in one counter: more of them are less likely than 1e-13 in the small case


@dataclass(frozen=True)
class BinCounters:
    """What one bin shows of correlated noise: messages that add, and messages that take away.

    Bins are independent, and a replaced value changes two of them. Shares are negative binomial,
    by the definition of the mechanism.
    """

    mechanism: CorrelatedNoise
    inputs: int = 2  # the user's value is the bin's, or is not

    def law(self, users: int) -> Floats:
        """P(adding, taking messages) of one bin, from so many users' noise alone."""
        noise, part = self.mechanism.noise, users / self.mechanism.honest(self.mechanism.n)
        alone = nbinom.pmf(np.arange(_SIZE), part, 1 - noise.decay)
        mask = nbinom.pmf(np.arange(_SIZE), part * noise.shape, 1 - noise.ratio)
        table = np.zeros((2 * _SIZE, 2 * _SIZE))
        for shared, chance in enumerate(mask):
            here = slice(shared, shared + _SIZE)
            table[here, here] += chance * np.outer(alone, alone)
        return table[:_SIZE, :_SIZE]

    def delta(self, users: int, epsilon: float) -> float:
        """Over both bins; what is left out is less likely than 1e-9."""
        free = self.law(users)
        held = np.roll(free, 1, axis=0)
        likely = held + free > 1e-13
        first, second = held[likely], free[likely]
        return hockey_stick(np.outer(first, second), np.outer(second, first), epsilon)

    def channel(self, cell: int) -> Floats:
        """Counts of four and more are put together."""
        law = np.roll(self.law(1), int(cell == 0), axis=0)[:4, :4].ravel()
        return np.append(law, 1 - law.sum())

    def tally(self, cell: int, size: int, rng: SeededRandom) -> Counts:
        messages, senders = self.mechanism.send(np.full(size, cell), rng)
        adding, taking = (
            np.bincount(senders[messages == code], minlength=size)
            for code in (0, self.mechanism.domain_size)
        )
        place = np.where((adding < 4) & (taking < 4), 4 * adding + taking, 16)
        return np.bincount(place, minlength=17)
