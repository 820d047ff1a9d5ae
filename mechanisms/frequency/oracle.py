"""What every mechanism that estimates frequencies has in common: reports support values."""

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Mechanism, reporters
from mechanisms.postprocess.intervals import Noise
from mechanisms.randomness import RandomSource, SeededRandom

_BLOCK = 1 << 20  # simulated users at a time
_MOST_FORGED = 1 << 26  # codes times targets that a forger looks through

SMALL: tuple[dict[str, float], ...] = tuple(
    {"epsilon": epsilon, "domain_size": size}
    for epsilon, size in ((0.1, 2), (1.0, 10), (2.5, 7), (6.0, 8))
)
"""Parameters at which the reports of most frequency mechanisms can be listed."""


def support_variance(frequency: ArrayLike, n: int, keep: float, other: float) -> Floats:
    """Variance of an estimate made from support counts.

    Each holder of the value supports it with probability `keep`, everyone else with probability
    `other`, and the estimate is (support / n - other) / (keep - other).

    Args:
        frequency: share of holders, in [0, 1]; any shape.
        n: how many users report.
        keep: P(support | holder).
        other: P(support | not holder).

    Returns:
        Variance in squared frequency units, of the same shape.

    Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of
        Software 2022, Theorem 3, corrected: the paper's own estimator (eq. 19) is biased.
    """
    f = np.asarray(frequency, np.float64)
    spread = f * keep * (1 - keep) + (1 - f) * other * (1 - other)
    return spread / (n * (keep - other) ** 2)


class FrequencyOracle(Mechanism):
    """A mechanism that estimates how frequent each value is from the reports that support it."""

    domain_size: int

    @property
    def inputs(self) -> int:
        return self.domain_size

    @property
    @abstractmethod
    def keep(self) -> float:
        """P(support | holder): a report supports the value of the user who sent it.

        Where a report may support a value several times: the expected number of times.
        """

    @property
    @abstractmethod
    def other(self) -> float:
        """P(support | not holder): it supports any one other value; or the expected number."""

    @property
    @abstractmethod
    def contrast(self) -> float:
        """keep - other, the slope the estimator divides by."""

    @property
    def lifts(self) -> tuple[int, int]:
        """How often one user's report may support any one value: at least, and at most.

        Of any report that some client may send, whatever it is made of.
        """
        return 0, 1

    @property
    def influence(self) -> float:
        """By how much one user's report, made up or not, can move a value's estimate; n times that.

        A share s of users who may send what they like moves any one estimate by s times this at
        most, against anything else that they might have sent; and some report attains it.

        Source: Cao, Jia, Gong, "Data poisoning attacks to local differential privacy protocols",
            USENIX Security 2021, section 4: the gain of a target is linear in the supports.
        """
        fewest, most = self.lifts
        return (most - fewest) / self.contrast

    @property
    def extreme_reports(self) -> Floats:
        """(2, 2) what a report adds to a value's estimate and to n: all others lie between."""
        return np.array([[(lift - self.other) / self.contrast, 1.0] for lift in self.lifts])

    @abstractmethod
    def support(self, counts: Counts) -> Counts:
        """How often reports support each value.

        Args:
            counts: (codes,) from `count`.

        Returns:
            (domain_size,) int64, exact.
        """

    def users(self, counts: Counts, reported: int) -> int:
        """How many users a collector's state stands for.

        Args:
            counts: (codes,) from `count`.
            reported: how many users took part, as far as somebody counted them.

        Returns:
            The messages, where every user sends one; nobody need be asked then.
        """
        return int(counts.sum())

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        n = reporters(counts, n)
        return self.shares(self.support(counts), n)

    def shares(self, support: Counts, n: int | Counts) -> Floats:
        """Unbiased shares of the users who hold each of some values.

        Args:
            support: how often reports support each, of any shape.
            n: how many users there are, at least 1; of all, or of each.
        """
        return (support / n - self.other) / self.contrast

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        """What a collector publishes of a batch: noise that clients did not add is drawn here.

        Args:
            counts: (codes,) from `count`.
            rng: the generator of this process.
            n: the number of users; needed only where a user sends several messages.

        Returns:
            ((domain_size,) unbiased frequencies, (domain_size,) the system's estimate of them).
        """
        estimate = self.estimate(counts, n)
        return estimate, estimate

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        """Variance of one value's estimate, over the randomness of n users' reports.

        Args:
            frequency: the share of users who hold the value, in [0, 1]; any shape.
            n: how many users report.

        Returns:
            The variance in squared frequency units, of the same shape.
        """
        return support_variance(frequency, n, self.keep, self.other)

    def average_variance(self, n: int) -> float:
        """Mean squared error per value of the whole histogram, in squared frequency units.

        The variance is linear in the frequency and frequencies add up to 1, so the average over
        the domain depends on nothing else.
        """
        return float(self.variance(1 / self.domain_size, n))

    @property
    def supportable(self) -> int | None:
        """Of how many values, the domain's among them, every report supports the same number.

        None if reports support now more and now fewer, each value apart from the others.
        """
        return None

    def sum_variance(self, n: int) -> float:
        """Variance of the sum of all values' estimates, in squared frequency units.

        Args:
            n: how many users report.
        """
        apart = self.domain_size * self.average_variance(n)
        if self.supportable is None:
            return apart
        # Of a fixed number among all, some lie in the domain: as in draws without replacement.
        return apart * (self.supportable - self.domain_size) / (self.supportable - 1)

    def added(self, n: int) -> Noise | None:
        """The law of the noise in a support count, where that count is holders plus noise.

        Args:
            n: how many users report.

        Returns:
            A discrete law with `mean` and `ppf`, such as scipy's frozen distributions; None where
            the holders' own reports are randomised, and `keep` and `other` say all.
        """
        return None

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        """The collector's state after a simulated population has reported.

        Args:
            histogram: (domain_size,) integers, how many users hold each value.
            rng: repeatable randomness; nobody's real report is drawn here.

        Returns:
            (codes,) from the same law as count(perturb(cells)), and by default in that way;
            a mechanism whose reports are long may draw the sums directly.
        """
        holders = np.asarray(histogram)
        # The order of reports changes no count, so users may stand in the order of their values.
        cells = np.repeat(np.arange(self.domain_size, dtype=np.uint32), holders)
        counts = np.zeros(self.codes, np.int64)
        for start in range(0, cells.size, _BLOCK):
            counts += self.count(self.perturb(cells[start : start + _BLOCK], rng))
        return counts

    def reported(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        """As `simulate`, of some more users of a population: what they add to its counts."""
        return self.simulate(histogram, rng)

    # ---- liars, simulated --------------------------------------------------------------------

    def forged(self, targets: NDArray[np.int64], users: int, rng: SeededRandom) -> Counts:
        """The collector's state after the reports of users who push some values up.

        Each sends a report that supports as many of the values as any report of a client does, and
        any of those alike.

        Args:
            targets: distinct values.
            users: how many.
            rng: repeatable randomness.

        Raises:
            ValueError: there are too many codes to look through.

        Source: Cao, Jia, Gong, "Data poisoning attacks to local differential privacy protocols",
            USENIX Security 2021: the maximal gain attack (MGA), for one message a user.
        """
        if not self.codes * targets.size <= _MOST_FORGED:
            raise ValueError(
                f"{self.codes:,} codes and {targets.size} targets are too many to look through"
            )
        supported = np.zeros(self.codes, np.int64)
        for target in targets.tolist():
            weights, _ = self.weights(target)
            supported += weights == weights.max()  # a code that supports its holder is likelier
        best = np.flatnonzero(supported == supported.max())
        chosen = best[rng.generator().integers(best.size, size=users)]
        return np.bincount(chosen, minlength=self.codes).astype(np.int64)

    def scattered(self, users: int, rng: SeededRandom) -> Counts:
        """The collector's state after uniform random reports, whatever anybody holds.

        Args:
            users: how many send one.
            rng: repeatable randomness.

        Source: as `forged`; the random perturbed-value attack (RPA).
        """
        even = np.full(self.codes, 1 / self.codes)
        return np.asarray(rng.generator().multinomial(users, even), np.int64)
