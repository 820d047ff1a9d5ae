"""DDPS: a sum of numbers from bits, each sent by randomised response and shuffled on its own.

A number on a grid of r cells is a unary code: as many ones as its cell, in r bits. Every bit is
flipped with chance q, and all bits of all users are shuffled: what is seen is the number of ones.

**The exact loss.** All others hold T ones in (n - 1) r bits. Between two numbers of true ones the
likelihood ratio rises with the number that is seen (a sum of coins is log-concave): the best test
is a threshold, and more true ones raise its power. So the worst two codes are no ones and all of
them. Random rounding mixes codes, and divergences are jointly convex. Turning every bit round
exchanges both codes and mirrors T, so one direction at every T is both. The T in between are
divided into ranges, as in `bernoulli_bins`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats, Guarantee, Messages, Report, require_integer
from mechanisms.frequency.dummy_batch import BatchOfUsers
from mechanisms.mean.scalar import ScalarMean
from mechanisms.papers.published_bounds import unary_sum_bits
from mechanisms.privacy.bernoulli_bins import Bin
from mechanisms.privacy.binomial_edges import seldom_below
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.search import gaussian_epsilon, gaussian_mu, private_end
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register

_UNIT = 1 << 53  # chances are integers over this, so that q, 1 - q and 2 q are exact doubles
_LARGEST_CODE = 1 << 12  # bits: the law of their sum is tabulated
_NEGLIGIBLE = 1e-4  # of delta: for there being fewer fair coins than we count on
_LEAST_TAIL, _TOLERANCE = 1e-30, 1e-4
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
        {"epsilon": 0.5, "delta": 0.01, "n": 4, "cells": 3, "honest_share": 1.0},
        {"epsilon": 2.0, "delta": 0.1, "n": 12, "cells": 4, "honest_share": 0.9},
    ],
)
@dataclass(frozen=True)
class Ddps(BatchOfUsers, ScalarMean):
    """Unary codes of numbers in [-1, 1], whose bits are flipped: private in a batch.

    Attributes:
        epsilon, delta, n, honest_share, bound: as of `DummyBatch`.
        cells: r, how many bits a user sends, up to 4096. The paper takes epsilon sqrt(n).

    Source: Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed differential privacy via shuffling",
        EUROCRYPT 2019, the protocol for real-valued sums; with one bit that for Boolean sums, which
        is `sh` of two values. Its lambda / n is 2 q.

    >>> mechanism = Ddps(1.0, 1e-6, n=10_000, cells=100, honest_share=1.0)
    >>> round(mechanism.flip, 4), round(10_000 * math.sqrt(float(mechanism.variance(1.0)) / 4e4), 1)
    (0.1195, 4.3)
    """

    epsilon: float
    delta: float
    n: int
    cells: int
    honest_share: float = 0.9
    bound: str = "exact"

    codes: ClassVar[int] = 2
    several: ClassVar[bool] = True
    bounds: ClassVar[tuple[str, ...]] = ("exact", "published")
    accounting: ClassVar[str] = (
        "numerical accountant: the exact law of the ones, the worst over others' bits, rounded up"
    )

    def __post_init__(self) -> None:
        self._require_terms()
        require_integer("cells", self.cells, 1, _LARGEST_CODE)
        if not 0 < self.units < _UNIT // 2:  # what cannot be met is refused now
            raise ValueError(f"n must be larger than {self.n:,}: every bit would be a fair coin")

    @cached_property
    def units(self) -> int:
        """q in units of 2^-53, rounded up: the least chance that meets epsilon and delta."""
        honest = self.honest(self.n)
        if self.bound == "published":
            coins = unary_sum_bits(self.epsilon, self.delta, honest, self.cells)
            return math.ceil(coins / honest / 2 * _UNIT)

        def delta_at(chance: float, some: slice) -> float:
            flip, tail = math.ceil(chance * _UNIT) / _UNIT, _NEGLIGIBLE * self.delta
            return _upper(flip, self.cells, honest, self.epsilon, tail, some)

        # As the Gaussian mechanism, with r (1 - 2 q) for the sensitivity.
        mu = gaussian_mu(self.epsilon, self.delta)
        guess = (1 - 1 / math.sqrt(1 + 4 * self.cells / honest / mu**2)) / 2
        # `batch_delta` counts on another number of coins: a little is kept for that.
        wanted = self.delta * (1 - 1e-3)
        return math.ceil(_met(delta_at, wanted, 0.5, guess) * _UNIT)

    @property
    def flip(self) -> float:
        """q, with which a bit is flipped."""
        return self.units / _UNIT

    @property
    def local(self) -> Guarantee:
        loss = self.cells * math.log(1 / self.flip - 1) * (1 + 1e-12)
        return Guarantee.of_report(loss, 0.0, "closed form: each of r bits is flipped with q")

    def _lower(self, n: int, epsilon: float) -> float:
        """Some batch loses this much: others have no ones, or all, or ones in half of all bits."""
        bits = (n - 1) * self.cells
        some = [(ones, bits - ones, 0) for ones in (0, bits // 2, bits)]
        return max(_delta(self.flip, self.cells, parts, epsilon)[0] for parts in some)

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """(lower, upper), as of `IndependentBins`: lost if all users flip, or the honest do."""
        require_batch(n)
        require_loss(epsilon)
        lower = self._lower(n, epsilon)
        upper = _upper(self.flip, self.cells, self.honest(n), epsilon, _NEGLIGIBLE * lower)
        return min(lower, upper), upper

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """(lower, upper), as of `IndependentBins`."""
        require_batch(n)
        require_delta(delta)
        spread = math.sqrt(n * self.cells * self.flip * (1 - self.flip))
        guess = gaussian_epsilon(self.cells * (1 - 2 * self.flip) / spread, delta)

        def delta_at(epsilon: float, some: slice) -> float:
            rest = self.flip, self.cells, self.honest(n), epsilon, _NEGLIGIBLE * delta, some
            return _upper(*rest) if epsilon < local else 0.0

        local = self.local.epsilon  # holds whatever others do
        upper = min(_met(delta_at, delta, local, guess), self._claimed(n, delta))

        least = partial(self._lower, n)
        return min(private_end(least, delta, local, 0.0, guess, _TOLERANCE)[1], upper), upper

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

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: turning the bits round exchanges no ones and all of them."""
        return [(0, self.cells)]

    @property
    def decoded(self) -> Floats:
        return np.array([-1.0, 1.0]) / (self.cells * (1 - 2 * self.flip))

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        # Everybody sends as many bits.
        return super().estimate(counts, int(np.sum(counts)) // self.cells if n is None else n)

    def second_moment(self, cells: NDArray[Any]) -> Floats:
        noise = 4 * self.flip * (1 - self.flip) / (self.cells * (1 - 2 * self.flip) ** 2)
        return np.asarray(self._value(cells) ** 2 + noise)

    @property
    def influence(self) -> float:
        return 2 / (1 - 2 * self.flip)

    def constants(self) -> dict[str, float]:
        return super().constants() | {"flip": self.flip}


def _met(
    delta_at: Callable[[float, slice], float], delta: float, private: float, guess: float
) -> float:
    """Where batches of all ranges meet a delta, from the private side.

    The last two ranges, of most ones, were the worst of fifty wherever it was tried: they lead the
    search, and all are looked at where it ends.
    """

    def whole(x: float) -> float:
        return delta_at(x, slice(None))

    last = slice(-2, None)
    met = private_end(lambda x: delta_at(x, last), delta, private, 0.0, guess, _TOLERANCE)[0]
    if met == private or whole(met) <= delta:
        return met
    return private_end(whole, delta, private, met, met * (1 + 10 * _TOLERANCE), _TOLERANCE)[0]


def _upper(
    flip: float, bits: int, n: int, epsilon: float, tail: float, some: slice = slice(None)
) -> float:
    """No batch of n users loses more delta, of which the tail is for there being fewer coins.

    Of some ranges of others' ones, if no more are asked for.
    """
    others, tail = Bin((n - 1) * bits, 1 - flip, flip), max(tail, _LEAST_TAIL)
    worst = 0.0
    for first, last in others.ranges[some]:
        coins = seldom_below(last - first, others.coin[0], tail)
        delta = _delta(flip, bits, (first, others.users - last, coins), epsilon)[1]
        worst = max(worst, delta + tail * (last > first))
    return min(1.0, worst)


def _delta(
    flip: float, bits: int, others: tuple[int, int, int], epsilon: float
) -> tuple[float, float]:
    """(lower, upper) for all ones against none, among true ones and zeros, and fair coins."""
    law = Bin(sum(others), 1 - flip, flip).several(bits, *others)
    return two_bins_delta(law, _NOTHING, epsilon)
