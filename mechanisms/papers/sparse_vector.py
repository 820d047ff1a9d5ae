"""A few large values out of many, released with noise: the sparse vector technique.

Values are looked at one after another; only those whose noisy size reaches a noisy threshold are
released, and only they cost. All noise is integer noise from tables, on a grid of the caller's.

What thousands of equal rounds reveal together, each of them made of a few small releases.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Guarantee, require_epsilon, require_integer
from mechanisms.papers.renyi import renyi
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.composition import sequential
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource

_LARGEST = 300.0  # epsilons beyond it protect nobody, and overflow in the numerical accountant
_ROUNDING = 1 - 2.0**-50  # what a part of epsilon is multiplied by, so that rounding loses none


def accounted(
    once: Guarantee, losses: Sequence[PrivacyLoss], rounds: int, delta: float
) -> Guarantee:
    """Many equal rounds, each made of several releases, by every accountant there is.

    Args:
        once: what one round reveals in all; its delta, times rounds, is set aside.
        losses: of the releases of one round.
        rounds: how many.
        delta: the mass that may lie outside the epsilon to be found, in (0, 1).

    Returns:
        The least epsilon of basic, Renyi and numerical composition.

    Raises:
        ImportError: the package dp-accounting is missing.
        ValueError: delta is out of range, or less than what the rounds bring.
    """
    left = delta - rounds * once.delta
    if not 0 < left < delta < 1:
        raise ValueError(
            f"delta must lie between {rounds * once.delta:.1e}, the ends of the noise tables, "
            f"and 1, not {delta}"
        )
    bound = renyi(replace(once, delta=0.0), rounds, left)
    if bound.epsilon > _LARGEST:
        return replace(bound, delta=delta)
    counted = {loss: rounds * times for loss, times in Counter(losses).items()}
    epsilon = min(compose(counted).epsilon(left), bound.epsilon)
    how = f"numerical accountant over {rounds} rounds of {len(losses)} releases (dp-accounting)"
    return replace(once, epsilon=epsilon, delta=delta, how=how)


def shifted_loss(noise: DiscreteLaplace) -> PrivacyLoss:
    """The privacy profile of one count, which its noise was made for: two tables apart."""
    table, total = noise.weights
    law, apart = table / float(total), np.zeros(noise.sensitivity)
    return PrivacyLoss.from_pair(np.append(law, apart), np.append(apart, law))


class EpsilonSplit(NamedTuple):
    """Which part of epsilon sets which noise.

    Attributes:
        threshold: a, for the noise of the threshold.
        query: b, for the noise of the sizes that are compared with it.
        value: v, for the noise of the values that are released.
    """

    threshold: float
    query: float
    value: float

    @property
    def cost(self) -> float:
        """What a round costs: a + max(b + v/2, b/2 + v), less than the sum of the parts.

        A value that moves by t <= 2 B changes its size by min(t, 2 B - t) at most. So b is paid in
        full only where v is not: the two cost b/2 + (b min(t, 2 B - t) + v t) / (2 B), which is
        largest at t = B or at t = 2 B.
        """
        return math.fsum(self) - min(self.query, self.value) / 2


PUBLISHED = EpsilonSplit(2 / 9, 2 / 9, 1 / 9)
"""The noise of DSSGD's selection. With eps1 = 8/9 epsilon, eps2 = 2/9 epsilon and a sensitivity of
2 B throughout, it draws Laplace noise of scale 4 c B / eps1, twice that, and 4 c B / eps2. Sizes
change by B only, and not while values change by 2 B: half of the claimed epsilon is not used."""

BALANCED = EpsilonSplit(1 / 4, 1 / 2, 1 / 2)
"""All of epsilon is spent, whichever way a value moves; with a + b/2 = 1/2, none has less noise in
the difference of a size and the threshold."""


class Released(NamedTuple):
    """What one pass shows.

    Attributes:
        places: (m,) which values, in the order in which they were met; m <= uploads.
        values: (m,) int64 those values with noise, not clipped.
    """

    places: NDArray[np.intp]
    values: Counts


@dataclass(frozen=True)
class SparseVector:
    """One pass over integers in -bound .. bound, of which up to `uploads` are released.

    The values are met in a random order. A round draws a noisy threshold and ends at the first
    value whose size, with noise of its own, reaches it; that value is released with fresh noise.
    Neighbouring inputs may differ in every value: sizes change by `bound` at most, values by
    twice that. Let the threshold's noise be larger by `bound` for one of them, so that what was
    passed over is passed over again, and make up for that in the noise of the one size that
    passed: a round costs `EpsilonSplit.cost`, however long it is. Noise tables end, hence a delta.

    Attributes:
        epsilon: of one pass, in nats; an upload costs epsilon / uploads.
        uploads: c, the most values that are released.
        dimension: how many values there are.
        bound: B, the largest size, in steps of the grid.
        split: of epsilon between the noises; `PUBLISHED` leaves half of it unspent.

    Source: Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Algorithm 3
        (NumericSparse) and Theorem 3.28; used by Shokri, Shmatikov, "Privacy-preserving deep
        learning", CCS 2015 (from memory). Lyu, Su, Li, "Understanding the sparse vector technique
        for differential privacy", VLDB 2017, prove this form (their Algorithm 2) and refute four
        others: the threshold has noise, each size has its own, at most c pass, and the value
        released is not the one that was compared. Corrected here: the value is bounded before it
        gets noise (bounding the noisy value alone hides nothing), and a round is charged what it
        costs when size and value are looked at together.

    >>> mechanism = SparseVector(epsilon=2.0, uploads=2, dimension=5, bound=4)
    >>> mechanism.guarantee.epsilon, mechanism.guarantee.delta < 1e-13
    (2.0, True)
    >>> from mechanisms.randomness import SeededRandom
    >>> bold = SparseVector(epsilon=400.0, uploads=2, dimension=5, bound=4)
    >>> places, values = bold.release([0, 4, 0, -4, 0], 3, SeededRandom(1))
    >>> sorted(zip(places.tolist(), values.tolist()))
    [(1, 4), (3, -4)]
    """

    epsilon: float
    uploads: int
    dimension: int
    bound: int
    split: EpsilonSplit = BALANCED

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_integer("dimension", self.dimension)
        require_integer("uploads", self.uploads, 1, self.dimension)
        require_integer("bound", self.bound, 1, 1 << 20)
        if not (min(self.split) > 0 and self.split.cost <= 1 + 1e-15):
            raise ValueError("the parts of epsilon must be positive, and their cost at most 1")
        try:
            _ = self.threshold_noise, self.query_noise, self.value_noise
        except ValueError:
            raise ValueError(
                f"epsilon / uploads = {self.epsilon / self.uploads:.3g} needs too long a noise "
                f"table on a grid of {self.bound} steps; take fewer steps, fewer uploads or a "
                "larger epsilon"
            ) from None

    def _part(self, share: float) -> float:
        """Epsilon of one noise of one upload, rounded down."""
        return self.epsilon * share / self.uploads * _ROUNDING

    @cached_property
    def threshold_noise(self) -> DiscreteLaplace:
        """Of the threshold of one round, which the proof moves by `bound`."""
        return DiscreteLaplace(self._part(self.split.threshold), self.bound)

    @cached_property
    def query_noise(self) -> DiscreteLaplace:
        """Of one size; of those in a round, the proof moves one, by 2 bound."""
        return DiscreteLaplace(self._part(self.split.query), 2 * self.bound)

    @cached_property
    def value_noise(self) -> DiscreteLaplace:
        """Of a released value, which may change by 2 bound."""
        return DiscreteLaplace(self._part(self.split.value), 2 * self.bound)

    @property
    def ends(self) -> float:
        """What the ends of the tables of thresholds and sizes add to delta, in one pass."""
        threshold, query = self.threshold_noise.guarantee.delta, self.query_noise.guarantee.delta
        return self.uploads * threshold + self.dimension * query

    @property
    def guarantee(self) -> Guarantee:
        """Of one pass, against everyone who sees what is released."""
        delta = self.ends + self.uploads * self.value_noise.guarantee.delta
        return Guarantee(
            "central",
            self.epsilon * min(1.0, self.split.cost),
            min(1.0, delta * (1 + 1e-12)),
            "record",
            f"closed form: sparse vector technique, {self.uploads} rounds with fresh noise each "
            "(after Dwork and Roth 2014, Theorem 3.28); delta is the mass at the ends of the "
            "noise tables",
        )

    def release(self, values: ArrayLike, threshold: int, rng: RandomSource) -> Released:
        """The client: one pass.

        Args:
            values: (dimension,) integers, |value| <= bound.
            threshold: in steps of the grid, chosen without looking at the values.
            rng: the generator of this process.

        Raises:
            ValueError: the values or the threshold are not such integers.
        """
        array = self._checked(values)
        require_integer("threshold", threshold)
        # In their own order the first values would use up the uploads pass after pass.
        order = rng.permutation(self.dimension).astype(np.intp)
        sizes = self.query_noise.perturb(np.abs(array[order]), rng)
        thresholds = self.threshold_noise.perturb(np.full(self.uploads, threshold), rng)
        places = order[_passing(sizes.tolist(), thresholds.tolist())]
        return Released(places, self.value_noise.perturb(array[places], rng))

    def _checked(self, values: ArrayLike) -> Counts:
        """The values as an array, or a ValueError that tells none of them."""
        array = np.asarray(values)
        if array.dtype.kind not in "iu" or array.shape != (self.dimension,):
            raise ValueError(
                f"values must be {self.dimension} integers, not {array.dtype} of shape "
                f"{array.shape}"
            )
        if not (array.min() >= -self.bound and array.max() <= self.bound):
            raise ValueError(f"values must lie within +-{self.bound}")
        return array.astype(np.int64)

    def after(self, passes: int, delta: float) -> tuple[Guarantee, Guarantee]:
        """What many passes over the same records reveal, however each depends on earlier ones.

        Args:
            passes: how many, such as epochs.
            delta: the mass that may lie outside the second epsilon, in (0, 1).

        Returns:
            (the sum over passes, the least that the numerical accountant proves at that delta).
            The second counts each round as a release: its choice as the worst there is with that
            epsilon, its value with the privacy profile of the noise.

        Raises:
            ImportError: the package dp-accounting is missing.
            ValueError: passes or delta is out of range, or delta is less than what the ends of
                the noise tables take.
        """
        require_integer("passes", passes, 1)
        total = sequential([self.guarantee] * passes)
        value = shifted_loss(self.value_noise)
        share = replace(self.guarantee, epsilon=self.guarantee.epsilon / self.uploads)
        share = replace(share, delta=self.guarantee.delta / self.uploads)
        return total, accounted(share, [self._choice_loss, value], passes * self.uploads, delta)

    @property
    def _choice_loss(self) -> PrivacyLoss:
        """Of one round's choice: nothing is known but its epsilon, the ends being set aside."""
        epsilon = self.epsilon * (self.split.threshold + self.split.query) / self.uploads
        return PrivacyLoss.from_guarantee(Guarantee("central", epsilon, 0.0, "record", "choice"))


def _passing(sizes: list[int], thresholds: list[int]) -> list[int]:
    """Where sizes reach the threshold of the round, a round ending with each."""
    places: list[int] = []
    for place, size in enumerate(sizes):
        if size >= thresholds[len(places)]:
            places.append(place)
            if len(places) == len(thresholds):
                break
    return places
