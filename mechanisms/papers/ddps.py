"""DDPS: a sum of numbers from bits, each sent by randomised response and shuffled on its own.

A number on a grid of r cells is a unary code: as many ones as its cell, zeros up to r bits. Every
bit is flipped with chance q, and all bits of all users are shuffled together: what is seen is how
many are ones.

**The exact loss.** A user's bits are k ones and r - k zeros, all others' T ones among N =
(n - 1) r. Between any two numbers of true ones the likelihood ratio rises with the number that is
seen (a sum of coins is log-concave). So the best test is a threshold, and more true ones raise its
power: the worst two codes are no ones and all of them. Random rounding mixes codes,
and divergences are jointly convex. Turning every bit round exchanges both codes and takes T to
N - T, so one direction at every T is both. From below we take batches that exist; from above,
ranges of T, in which a bit that may be either counts as the fair coin that it is with chance 2 q at
least (Balle, Bell, Gascon, Nissim, CRYPTO 2019), and is given away otherwise.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms import honesty
from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Messages,
    Report,
    require_epsilon,
    require_integer,
)
from mechanisms.mean.scalar import ScalarMean
from mechanisms.papers.published_bounds import unary_sum_bits
from mechanisms.privacy.binomial_edges import binomial_sum, seldom_below
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.search import gaussian_epsilon, gaussian_mu, private_end
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta
from mechanisms.randomness import RandomSource, SeededRandom, Words
from mechanisms.registry import register

_UNIT = 1 << 53  # chances are integers over this, so that q, 1 - q and 2 q are exact doubles
_LARGEST_CODE = 1 << 12  # bits: the law of their sum is tabulated
_RANGES = 32  # of T: a range forgoes at most half of its bits' variance, so 1.6 % of all
_NEGLIGIBLE = 1e-4  # of delta: for there being fewer fair coins than we count on
_LEAST_TAIL = 1e-30
_LARGEST_EPSILON = 512.0
_NOTHING = BinLaw(np.ones(1), np.ones(1))


@register(
    "ddps",
    task="sum",
    sends="a unary code of the number, each of whose bits is flipped with one chance",
    source="Cheu, Smith, Ullman, Zeber, Zhilyaev, EUROCRYPT 2019",
    models=["shuffle"],
    batch=True,
    several=True,
    small=[
        {"epsilon": 1.0, "delta": 0.05, "n": 6, "cells": 1, "honest_share": 0.8},
        {"epsilon": 0.5, "delta": 0.01, "n": 4, "cells": 3, "honest_share": 1.0},
        {"epsilon": 2.0, "delta": 0.1, "n": 12, "cells": 4, "honest_share": 0.9},
    ],
)
@dataclass(frozen=True)
class Ddps(ScalarMean):
    """Unary codes of numbers in [-1, 1], whose bits are flipped: private in a batch.

    Attributes:
        epsilon: privacy loss of a batch, in nats.
        delta: the probability mass outside it, in (0, 1).
        n: the least number of users of a batch; a larger one is more private.
        cells: r, how many bits a user sends, up to 4096. The paper takes `unary_bits`.
        honest_share: the share of the other users, in (0, 1], whose flips are counted on.
        bound: "exact", or "published" for the chance of a flip that the paper's bound asks for.

    Source: Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed differential privacy via shuffling",
        EUROCRYPT 2019, the protocol for real-valued sums. With one bit it is the protocol for
        Boolean sums, which is k-ary response of two values (`sh`). Its lambda / n is 2 q.

    >>> mechanism = Ddps(1.0, 1e-6, n=10_000, cells=100, honest_share=1.0)
    >>> round(mechanism.flip, 4), round(10_000 * math.sqrt(float(mechanism.variance(1.0)) / 4e4), 1)
    (0.1441, 4.2)
    """

    epsilon: float
    delta: float
    n: int
    cells: int
    honest_share: float = 0.9
    bound: str = "exact"

    codes: ClassVar[int] = 2
    several: ClassVar[bool] = True
    accounting: ClassVar[str] = (
        "numerical accountant: the exact law of the number of ones, the worst over what others "
        "hold, rounded up"
    )

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_integer("n", self.n)
        require_batch(self.n)
        require_integer("cells", self.cells, 1, _LARGEST_CODE)
        honesty.require_share(self.honest_share)
        if self.bound not in ("exact", "published"):
            raise ValueError(f"bound must be exact or published, not {self.bound}")
        if not 0 < self.units < _UNIT // 2:  # what cannot be met is refused now
            raise ValueError(
                f"n must be larger than {self.n:,} for {self.cells} bits a user at epsilon "
                f"{self.epsilon}: every bit would be a fair coin"
            )

    # ---- the chance of a flip ----------------------------------------------------------------

    @cached_property
    def units(self) -> int:
        """q in units of 2^-53, rounded up."""
        honest = self.honest(self.n)
        if self.bound == "published":
            chance = unary_sum_bits(self.epsilon, self.delta, honest, self.cells) / honest / 2
        else:
            chance = self._exact(honest)
        return math.ceil(chance * _UNIT)

    def _exact(self, honest: int) -> float:
        """The least chance at which a batch meets epsilon and delta, on the private side."""
        tail = max(_NEGLIGIBLE * self.delta, _LEAST_TAIL)

        def delta_at(chance: float) -> float:
            chance = math.ceil(chance * _UNIT) / _UNIT
            return min(1.0, _Ones(honest, self.cells, chance).upper(self.epsilon, tail))

        # As the Gaussian mechanism, with r (1 - 2 q) for the sensitivity.
        ratio = self.cells / honest / gaussian_mu(self.epsilon, self.delta) ** 2
        guess = (1 - 1 / math.sqrt(1 + 4 * ratio)) / 2
        # Batches of fewer fair coins reveal more: a little is kept for `batch_delta`'s tail.
        return private_end(delta_at, self.delta * (1 - 1e-3), 0.5, 0.0, guess, 1e-4)[0]

    @property
    def flip(self) -> float:
        """q, with which a bit is flipped."""
        return self.units / _UNIT

    # ---- privacy -----------------------------------------------------------------------------

    def honest(self, n: int) -> int:
        """Of n users, those whose flips the guarantee counts on."""
        return honesty.crowd(n, self.honest_share)

    @property
    def trial_users(self) -> int:
        return self.honest(self.n)

    @property
    def guarantee(self) -> Guarantee:
        how = self.accounting
        if self.bound == "published":
            how = "the closed form of the mechanism's paper; the exact accountant finds less"
        how += f"; {honesty.in_words(self.n, self.honest_share)}"
        return Guarantee("shuffle", self.epsilon, self.delta, "report", how)

    @property
    def local(self) -> Guarantee:
        loss = self.cells * math.log(1 / self.flip - 1) * (1 + 1e-12)
        return Guarantee.of_report(loss, 0.0, "closed form: each of r bits is flipped with q")

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """delta of a shuffled batch.

        Args:
            n: how many users.
            epsilon: at least 0, in nats.

        Returns:
            (lower, upper): what some batch loses if all users flip their bits; and a bound on what
            any loses if only the honest share does.
        """
        require_batch(n)
        require_loss(epsilon)
        lower = _Ones(n, self.cells, self.flip).lower(epsilon)
        upper = _Ones(self.honest(n), self.cells, self.flip).upper(
            epsilon, max(_NEGLIGIBLE * lower, _LEAST_TAIL)
        )
        return min(lower, upper), upper

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """epsilon of a shuffled batch.

        Args:
            n: how many users.
            delta: in (0, 1).

        Returns:
            (lower, upper), as in `batch_delta`.
        """
        require_batch(n)
        require_delta(delta)
        tail = max(_NEGLIGIBLE * delta, _LEAST_TAIL)
        everyone = _Ones(n, self.cells, self.flip)
        counted = _Ones(self.honest(n), self.cells, self.flip)
        spread = math.sqrt(n * self.cells * self.flip * (1 - self.flip))
        guess = gaussian_epsilon(self.cells * (1 - 2 * self.flip) / spread, delta)
        most = self.local.epsilon  # holds whatever others do
        end = min(most, _LARGEST_EPSILON)
        upper = private_end(lambda e: counted.upper(e, tail), delta, end, 0.0, guess, 1e-4)[0]
        lower = private_end(everyone.lower, delta, end, 0.0, min(guess, upper), 1e-6)[1]
        met = self.bound == "exact" and n >= self.n and delta >= self.delta
        upper = min(upper if upper < end else most, self.epsilon if met else math.inf)
        return min(lower, upper), upper

    # ---- client ------------------------------------------------------------------------------

    @property
    def messages(self) -> float:
        return self.cells

    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        raise NotImplementedError("`perturb` sends several messages")

    def perturb(self, cells: Any, rng: RandomSource) -> Messages:
        values = self._checked(cells)
        ones = np.arange(self.cells) < values[:, None]
        flips = rng.bernoulli(self.units << 11, ones.size)
        return (ones.ravel() ^ flips).astype(np.uint64)

    @property
    def outcomes(self) -> int:
        return self.cells + 1

    @property
    def reports(self) -> Sequence[Report]:
        return [(0,) * (self.cells - ones) + (1,) * ones for ones in range(self.cells + 1)]

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        bits = self.perturb(np.full(size, cell), rng).reshape(size, self.cells)
        return np.bincount(bits.sum(axis=1).astype(np.int64), minlength=self.outcomes)

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        (ones,) = self._checked([cell]).tolist()
        law = np.ones(1, object)
        for bit in range(self.cells):
            heads = _UNIT - self.units if bit < ones else self.units
            law = np.append(law * (_UNIT - heads), 0) + np.insert(law * heads, 0, 0)
        return law, _UNIT**self.cells

    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        """The exact law of one user's bits, as of `SeveralMessages`."""
        law, total = self.weights(cell)
        return {bits: Fraction(one, total) for bits, one in zip(self.reports, law, strict=True)}

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: no ones and all of them, which turning the bits round exchanges."""
        return [(0, self.cells)]

    # ---- collector ---------------------------------------------------------------------------

    @property
    def decoded(self) -> Floats:
        return np.array([-1.0, 1.0]) / (self.cells * (1 - 2 * self.flip))

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        # Everybody sends as many bits.
        return super().estimate(counts, int(np.sum(counts)) // self.cells if n is None else n)

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        contrast = 1 - 2 * self.flip
        noise = 4 * self.flip * (1 - self.flip) / (self.cells * contrast**2)
        return np.asarray(self._value(cells) ** 2 + noise)

    @property
    def influence(self) -> float:
        return 2 / (1 - 2 * self.flip)

    def simulate(self, histogram: Counts, rng: SeededRandom) -> Counts:
        """Counts as of the real client: (2,) zeros and ones of all users' bits.

        Args:
            histogram: (inputs,) how many users have each cell.
            rng: draws the flips.
        """
        ones, source = int(np.arange(self.inputs) @ histogram), rng.generator()
        bits = self.cells * int(np.sum(histogram))
        seen = source.binomial(ones, 1 - self.flip) + source.binomial(bits - ones, self.flip)
        return np.array([bits - seen, seen])

    def constants(self) -> dict[str, float]:
        return super().constants() | {"flip": self.flip}


@dataclass(frozen=True)
class _Ones:
    """The number of ones among the bits of n users, one of whom has no ones or r."""

    n: int
    bits: int
    flip: float

    @property
    def others(self) -> int:
        """N, the bits of all other users."""
        return (self.n - 1) * self.bits

    def lower(self, epsilon: float) -> float:
        """Some batch differs by this much: others have no ones, half of them, or all."""
        return max(
            self._delta(ones, self.others - ones, 0, epsilon)[0]
            for ones in (0, self.others // 2, self.others)
        )

    def upper(self, epsilon: float, tail: float) -> float:
        """No batch differs by more; `tail` of it for there being fewer fair coins."""
        step = -(-(self.others + 1) // _RANGES)
        worst = 0.0
        for first in range(0, self.others + 1, step):
            unknown = min(step - 1, self.others - first)
            coins = seldom_below(unknown, 2 * self.flip, tail) if unknown else 0
            zeros = self.others - first - unknown
            delta = self._delta(first, zeros, coins, epsilon)[1]
            worst = max(worst, delta + tail * (unknown > 0))
        return min(1.0, worst)

    def _delta(self, ones: int, zeros: int, coins: int, epsilon: float) -> tuple[float, float]:
        """(lower, upper) of others' bits: true ones and zeros, and fair coins."""
        keep, miss = 1 - self.flip, self.flip
        parts = [(ones, keep), (zeros, miss), (coins, 0.5)]
        high, low = (binomial_sum(*parts, (self.bits, own)) for own in (keep, miss))
        first = min(high.first, low.first)
        last = max(law.first + law.pmf.size for law in (high, low))
        seen = [
            np.pad(law.pmf, (law.first - first, last - law.first - law.pmf.size))
            for law in (high, low)
        ]
        law = BinLaw(
            seen[0],
            seen[1],
            max(high.missing, low.missing),
            max(high.relative, low.relative),
            max(high.distance, low.distance),
        )
        return two_bins_delta(law, _NOTHING, epsilon)


def unary_bits(epsilon: float, n: int) -> int:
    """The paper's r: epsilon sqrt(n), rounded up, of as many bits as are served.

    >>> unary_bits(1.0, 10_000)
    100
    """
    return min(max(1, math.ceil(epsilon * math.sqrt(n))), _LARGEST_CODE)
