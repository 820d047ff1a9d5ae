"""Gradient descent by a curator who sees all rows and shows only noisy sums of their gradients.

Each step takes every row with the same small probability, on its own (a Poisson lot), clips the
gradient of each row taken, adds the gradients up in whole numbers and adds rounded Gaussian noise
once. All that follows, the weights after every step included, is computed from those sums.

Clipped gradients in whole numbers, whose sum changes by exactly as much as is claimed.

In floating point a clipped gradient may be longer than the bound by some rounding errors, and
the sum of many depends on their order. Here a row's gradient is cut to a grid whose spacing is a
power of two of the bound: what goes into each layer, and what comes back, become integers, their
outer products are integers, and a matrix product in doubles adds them up without any error.

Runs of private gradient descent that keep to a budget, and steps of a sensible length.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee, require_integer
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.learning.noisy_training import NoisyTraining
from mechanisms.learning.objective import Layer, Objective
from mechanisms.learning.optimisers import Momentum, Progress
from mechanisms.learning.scores import Numbers
from mechanisms.privacy.composition import Neighbours
from mechanisms.privacy.sampled_gaussian import (
    LARGEST_SIGMA,
    Accountant,
    least_sigma,
)
from mechanisms.randomness import RandomSource
from mechanisms.sampling.rounded_normal import LARGEST_SIGMA as WIDEST
from mechanisms.sampling.rounded_normal import RoundedNormal

_BLOCK = 256  # rows at a time
_MARGIN = 1 - 2.0**-30  # room for the rounding of norms
Watch = Callable[[Progress], None]

_USUAL = Momentum(rate=4.0)


@dataclass(frozen=True)
class WholeGradients:
    """The sum of clipped gradients, as integers in units of clip / 2^bits.

    Exactness: let a and d be the integer vectors of one layer and one row. No entry of the sum's
    terms exceeds |a| |d| <= 2^bits, so 256 rows stay below 2^53 and every partial sum is exact,
    in any order. The squared lengths |a|^2 |d|^2, summed over layers, are checked to be at most
    4^bits; a row that failed (none does, but for NaN) would count for nothing. So adding or
    removing a row moves the sum by at most 2^bits in l2 norm, and replacing one by twice that,
    provided that a row's layers do not depend on the rows beside it: rows go through the
    model in zero-padded blocks of one shape, where they do not (the tests compare to the bit).

    Attributes:
        objective: the model with its loss.
        clip: C, the greatest l2 length of a row's gradient.
        bits: how fine the grid is, 16 .. 40.

    >>> from mechanisms.learning.objectives import SquaredError
    >>> gradients = WholeGradients(SquaredError(inputs=2), clip=2.0)
    >>> total = gradients.total(np.zeros(2), np.array([[0.6, 0.8]]), [-5.0])
    >>> (total * gradients.unit).round(3).tolist()
    [1.2, 1.6]
    """

    objective: Objective
    clip: float
    bits: int = 30

    def __post_init__(self) -> None:
        if not 0 < self.clip < math.inf:
            raise ValueError(f"clip must be a positive, finite number, not {self.clip}")
        if self.bits not in range(16, 41):
            raise ValueError(f"bits must be an integer in 16 .. 40, not {self.bits}")

    @property
    def unit(self) -> float:
        """What 1 in the sum stands for."""
        return math.ldexp(self.clip, -self.bits)

    def total(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Counts:
        """The sum of the rows' gradients, those longer than `clip` cut to it.

        Args:
            weights: (p,) of the model.
            rows: (n, inputs), at most 2^(62 - bits) of them; n may be 0.
            targets: (n,).

        Returns:
            (p,) int64 in units of `unit`; sums of parts of the rows add up to it exactly. A row
            whose gradient is not finite counts for nothing.
        """
        answers = np.asarray(targets)
        # No row adds more than 2^bits to an entry, and the sum is to fit into 63 bits.
        if not len(rows) == len(answers) <= 1 << (62 - self.bits):
            raise ValueError(
                f"there must be as many targets as rows, at most 2^{62 - self.bits}: {len(rows)} "
                f"rows have {len(answers)}"
            )
        total = np.zeros(self.objective.parameters, np.int64)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            total += self.block(weights, rows[part], answers[part])
        return total

    def block(self, weights: Floats, rows: Numbers, targets: NDArray[np.generic]) -> Counts:
        """As `total`, of at most 256 rows."""
        used = len(rows)
        # Always a block of the same shape: products of other shapes may round a row in another way.
        x, y = np.zeros((_BLOCK, rows.shape[1]), rows.dtype), np.zeros(_BLOCK, targets.dtype)
        x[:used], y[:used] = rows, targets
        with np.errstate(over="ignore", invalid="ignore"):  # a gradient may be infinite
            layers = self._whole(self.objective.layers(weights, x, y), used)
        sums = [(layer.inputs.T @ layer.slopes).reshape(-1) for layer in layers]
        return np.concatenate(sums).astype(np.int64)

    def _whole(self, layers: list[Layer], used: int) -> list[Layer]:
        """The used rows' layers, clipped, in integers (held in doubles)."""
        cast = [Layer(a[:used].astype(np.float64), d[:used].astype(np.float64)) for a, d in layers]
        squares = [(_squares(layer.inputs), _squares(layer.slopes)) for layer in cast]
        norms = np.sqrt(np.sum([a * d for a, d in squares], axis=0))
        # Cutting towards zero only shortens, and the margin outdoes the rounding of the norms.
        factors = 2.0**self.bits * _MARGIN / np.maximum(norms, self.clip)
        finite = np.isfinite(norms) & np.isfinite(factors)
        whole = [
            _integers(layer, np.sqrt(a) * 2.0 ** -(self.bits // 2 - 1), factors, finite)
            for layer, (a, _) in zip(cast, squares, strict=True)
        ]
        lengths = np.sum([_squares(a) * _squares(d) for a, d in whole], axis=0)
        # Squares of integers below 2^53 are exact, their products and sums all but some 2^-50.
        kept = lengths <= 4.0**self.bits * (1 - 2.0**-40)
        return [Layer(layer.inputs, layer.slopes * kept[:, None]) for layer in whole]


def _integers(layer: Layer, lengths: Floats, factors: Floats, finite: NDArray[np.bool_]) -> Layer:
    """One layer in integers, cut towards zero; a power of two moves, and inputs become short."""
    # Inputs shrink and slopes grow by one power of two, which moves no digit of their product; so
    # what is cut off is small against the entries of both.
    _, places = np.frexp(np.where(finite, lengths, 0.0)[:, None])
    a = np.where(finite[:, None], layer.inputs, 0.0)
    d = np.where(finite[:, None], layer.slopes * factors[:, None], 0.0)
    return Layer(np.trunc(np.ldexp(a, -places)), np.trunc(np.ldexp(d, places)))


def _squares(table: Numbers) -> Floats:
    """(n,) the squared lengths of rows."""
    return np.asarray(np.einsum("ij,ij->i", table, table))


@dataclass(frozen=True)
class DpSgd:
    """Differentially private stochastic gradient descent.

    Its pieces are what a Beam job distributes: `taken` and `total` are a Map over blocks of rows
    (totals add up exactly), `onward` is what the collector does once a step.

    Attributes:
        objective: the model with its loss.
        rows: how many rows are expected. It is public, scales gradients, and need not be exact.
        rate: q, the probability with which a step takes a row, in (0, 1].
        steps: T.
        sigma: standard deviation of the noise, in units of the clipping norm; 0 for none, and no
            privacy, to compare with.
        clip: C, the greatest l2 length of a row's gradient.
        optimiser: what is done with the noisy gradients.

    Source: Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, "Deep learning with
        differential privacy", CCS 2016, Algorithm 1; lots by Poisson sampling, for which its
        accountant holds, and divided by their expected size, since their size is not public.

    >>> from mechanisms.learning.objectives import Softmax
    >>> training = DpSgd(Softmax(inputs=3, classes=2), rows=600, rate=0.1, steps=100, sigma=1.5)
    >>> training.guarantee(delta=1e-5).epsilon < 5
    True
    """

    objective: Objective
    rows: int
    rate: float
    steps: int
    sigma: float
    clip: float = 1.0
    optimiser: Momentum = _USUAL

    def __post_init__(self) -> None:
        for name in ("rows", "steps"):
            require_integer(name, getattr(self, name))
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must lie in (0, 1], not {self.rate}")
        if not 0 <= self.sigma <= LARGEST_SIGMA:
            raise ValueError(f"sigma must lie in 0 .. {LARGEST_SIGMA:g}, not {self.sigma}")
        if not 0 < self.clip < math.inf:
            raise ValueError(f"clip must be a positive, finite number, not {self.clip}")

    @property
    def lot(self) -> float:
        """L, the expected number of rows in a lot."""
        return self.rate * self.rows

    @cached_property
    def gradients(self) -> WholeGradients:
        """The sum of clipped gradients, on a grid that leaves room for the noise in 2^36."""
        # The grid of gradients and the noise on it share the range in which noise is drawn exactly.
        room = math.floor(math.log2(WIDEST / max(self.sigma, 1.0)))
        return WholeGradients(self.objective, self.clip, min(30, room))

    @property
    def noise(self) -> RoundedNormal | None:
        """The noise of one coordinate of a lot's sum, in the units of `gradients`."""
        spread = self.sigma * 2.0**self.gradients.bits
        return RoundedNormal(spread) if self.sigma else None

    @property
    def noise_per_coordinate(self) -> float:
        """Standard deviation of the noise of a coordinate of the mean gradient."""
        return self.sigma * self.clip / self.lot

    def guarantee(
        self,
        delta: float,
        accountant: Accountant = "pld",
        neighbours: Neighbours = "add or remove",
        unit: str = "row",
    ) -> Guarantee:
        """What the whole run, all its weights being published, reveals about one row.

        Args:
            delta: the mass that may lie outside the epsilon to be found, in (0, 1).
            accountant: "pld", "rdp" or "moments"; see `privacy.sampled_gaussian`.
            neighbours: what may change: one row added or removed, or one replaced by another.
            unit: what a row stands for; "user" where every user has at most one.

        Raises:
            ValueError: delta is out of range, or smaller than what the sampler's law is off by.
        """
        if self.noise is None:
            return Guarantee.none("no noise is added to the sums of gradients")
        return self.noisy(delta).by(accountant, neighbours, unit)

    def noisy(self, delta: float, averages: NoisyAverages | None = None) -> NoisyTraining:
        """The numbers that a promise of this delta follows from.

        Args:
            delta: of the release, in (0, 1).
            averages: what tells how wrong the model is, if anything does.
        """
        layout = self.objective.parameters, self.gradients.bits
        return NoisyTraining(self.rate, self.sigma, self.steps, *layout, delta, averages)

    # ---- one step ----------------------------------------------------------------------------

    def begin(self, rng: RandomSource) -> Progress:
        """The start of a run."""
        return self.optimiser.begin(self.objective.start(rng))

    def taken(self, n: int, rng: RandomSource) -> NDArray[np.bool_]:
        """(n,) which of n rows the lot takes, each on its own; never more often than `rate`."""
        # Rounded down: the accountant is told `rate`, and a row that is taken less often loses
        # less.
        return rng.bernoulli(math.floor(self.rate * 2.0**64), n)

    def total(self, weights: Floats, rows: Numbers, targets: ArrayLike) -> Counts:
        """(p,) the sum of the taken rows' clipped gradients; private until noise is added."""
        return self.gradients.total(weights, rows, targets)

    def onward(self, progress: Progress, total: Counts, rng: RandomSource) -> Progress:
        """Add noise to a lot's sum and make the step; called once a lot.

        Args:
            progress: where the run stands.
            total: (p,) int64, of the whole lot.
            rng: the generator of this process.

        Returns:
            Where it then stands; fit to be published.

        Raises:
            FloatingPointError: the run diverged, as noisy weights say, which are public anyhow.
        """
        noisy = total if self.noise is None else total + self.noise.draw(total.size, rng)
        # Divided by the expected size: the true size of a lot would tell of who is in it.
        mean: Floats = noisy.astype(np.float64) * (self.gradients.unit / self.lot)
        mean += self.objective.penalty_gradient(progress.weights)
        moved = self.optimiser.onward(progress, mean, self.steps)
        if self.objective.diverged(moved.weights):
            raise FloatingPointError(
                f"the run diverged in step {moved.step} of {self.steps}: lower the learning rate"
            )
        return moved

    def train(
        self, rows: Numbers, targets: ArrayLike, rng: RandomSource, watch: Watch | None = None
    ) -> Floats:
        """A whole run in memory.

        Args:
            rows: (n, inputs).
            targets: (n,).
            rng: the generator of this process.
            watch: called after every step, for a learning curve on rows that are public or
                held back; a curve on these very rows would not be private.

        Returns:
            (p,) the average of the path.
        """
        answers, progress = np.asarray(targets), self.begin(rng)
        for _ in range(self.steps):
            lot = np.flatnonzero(self.taken(len(rows), rng))
            total = self.total(progress.weights, rows[lot], answers[lot])
            progress = self.onward(progress, total, rng)
            if watch is not None:
                watch(progress)
        return progress.average


def design(
    objective: Objective,
    rows: int,
    epsilon: float,
    delta: float,
    rate: float = 0.25,
    steps: int = 100,
    clip: float = 1.0,
    optimiser: Momentum | None = None,
    accountant: Accountant = "pld",
    neighbours: Neighbours = "add or remove",
) -> DpSgd:
    """A run with the least noise that keeps to (epsilon, delta).

    Args:
        objective: the model with its loss.
        rows: how many rows are expected.
        epsilon: for the whole run, in nats; infinite for no noise, to compare with.
        delta: in (0, 1).
        rate: q. Large lots are worth their time: the noise does not grow with the lot.
        steps: T.
        clip: C.
        optimiser: what is done with the noisy gradients; None for `usual_optimiser`.
        accountant: see `privacy.sampled_gaussian`.
        neighbours: see `privacy.sampled_gaussian`.

    Returns:
        The run; its `guarantee` at that delta is at most epsilon.

    Raises:
        ValueError: a parameter is out of range.

    >>> from mechanisms.learning.objectives import Softmax
    >>> training = design(Softmax(inputs=3, classes=2), 600, 1.0, 1e-5, accountant="rdp")
    >>> training.guarantee(1e-5, "rdp").epsilon <= 1.0
    True
    """
    sigma = 0.0
    if epsilon != math.inf:
        # A part in a million of delta is far more than the sampler's law is off by.
        sigma = least_sigma(epsilon, delta * (1 - 1e-6), rate, steps, accountant, neighbours)
    plan = DpSgd(objective, rows, rate, steps, sigma, clip)
    return replace(plan, optimiser=optimiser or usual_optimiser(plan))


def usual_optimiser(plan: DpSgd) -> Momentum:
    """A learning rate for a run, from what is public about it.

    The more noise a step brings in all coordinates together, the shorter it should be: rates of 2
    over the root of that, between 1 and 8 clipping norms, were close to the best that were tried
    on digits, for 3,930 .. 79,510 weights and epsilons of 1 .. 8. Squared errors, whose slopes do
    not level off, moreover need steps shorter than their curvature allows.

    Args:
        plan: with any optimiser.

    Returns:
        Momentum with that rate.
    """
    noise = plan.sigma / plan.lot * math.sqrt(plan.objective.parameters)
    rate = min(max(2 / math.sqrt(max(noise, 1e-9)), 1.0), 8.0) / plan.clip
    loss = plan.objective.loss
    if loss.classes is None:
        # Numbers of a row lie in [-1, 1]; momentum alone would allow 38 in place of 10.
        rate = min(rate, 10 / (loss.curvature * plan.objective.inputs))
    return Momentum(rate)
