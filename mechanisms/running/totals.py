"""Running totals of whole numbers: noise that is kept between days, in integers, and its price.

Day t draws z_t, a Gaussian rounded to a fine grid, and adds to the total S_t the noise

    w_t = z_t + sum_j w_j q_j,   q_j <- l_j q_j + z_t afterwards,

(B z)_t of `factors`, in integers; what is released is S_t + w_t, rounded to whole numbers, so S_t
and whole noise. Nothing of the data is kept between days, only the buffers q_j, of noise alone, and
each day's job needs that day's numbers alone: the release of a day is x_t and what whole noise has
changed by.

Why the price is exact although buffers are rounded. Let |w_t - (B z)_t| <= e for all z. Of two
logs with the same releases up to a day, earlier noise follows from these and from the log, and the
next release is the rounding of a number plus a Gaussian variable: a Gaussian mechanism whose
numbers differ by z_t - z'_t. Now z - z' = B^-1 (S' - S + r) with |r| <= 2 e, so it is C (x' - x)
but for 2 e times the sum of |B^-1|'s coefficients at the most: over all days together, whatever
was released, no more than V in norm. Gaussian mechanisms that are chosen one after another, by what
came before, and whose differences stay within V in norm, reveal no more than one of sensitivity V
(Smith, Thakurta, "Fully adaptive composition for Gaussian differential privacy", 2022, arXiv
2210.17520; for exact B: Denisov, McMahan, Rush, Smith, Thakurta, "Improved differential privacy
for SGD via optimal private linear operators on adaptive streams", NeurIPS 2022, Theorem 2.1). So
numbers may depend on earlier releases, too.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mechanisms.channel import Guarantee, require_epsilon
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_delta, gaussian_epsilon, gaussian_mu
from mechanisms.randomness import RandomSource
from mechanisms.running.factors import BITS, Factors, buffered
from mechanisms.sampling.rounded_normal import LARGEST_SIGMA, RoundedNormal, unseen

_FINEST = 20  # bits of the grid behind the point: rounding then costs 2e-5 of a year's noise
_COARSEST = 6
_GUARD = 16  # bits of buffers behind the grid
_PRICED = 1.01  # sigma in that of exact noise, at the most: the grid takes a part in 10,000
_VERSION = 1

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Contribution:
    """The most that a unit adds to the numbers of a horizon.

    Attributes:
        norm: of what it adds in a day, over all totals (Euclidean), in their units.
        totals: how many of them it changes in a day.
        days: on how many days it adds something.
    """

    norm: float = 1.0
    totals: int = 1
    days: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.norm < math.inf and self.totals >= 1 and self.days >= 1):
            raise ValueError("a unit adds a positive norm to a total or more, on a day or more")


@dataclass(frozen=True)
class TotalsState:
    """What is kept between days, secret: who has it and the releases knows more than they tell.

    Attributes:
        day: how many days were drawn.
        buffers: (buffers, totals) of noise, in units of the grid and 16 bits behind it.
        before: (totals,) the whole noise that the last total had.
    """

    day: int
    buffers: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]

    def written(self) -> bytes:
        """The same, to be kept where nobody reads it."""
        said = {"version": _VERSION, "day": self.day, "buffers": self.buffers}
        return json.dumps({**said, "before": self.before}).encode()

    @classmethod
    def read(cls, data: bytes) -> "TotalsState":
        """What was written.

        Raises:
            ValueError: it is not a state, or one of another version.
        """
        try:
            said = json.loads(data)
            version = said["version"]
            state = cls(
                int(said["day"]),
                tuple(tuple(map(int, row)) for row in said["buffers"]),
                tuple(map(int, said["before"])),
            )
        except (KeyError, TypeError, ValueError):
            raise ValueError("this is no state of running totals") from None
        if version != _VERSION:
            raise ValueError(f"the state's version must be {_VERSION}, not another")
        return state


@dataclass(frozen=True)
class RunningTotals:
    """Running totals at one price for all days of a horizon.

    Attributes:
        factors: of the running sum.
        sigma: the standard deviation of what a day draws, in units of the totals.
        contribution: the most that a unit adds.
        totals: how many there are.

    >>> from mechanisms.randomness import SeededRandom
    >>> running, rng = least(1.0, 1e-6, horizon=365), SeededRandom(1)
    >>> round(running.sigma, 2), round(running.standard_error(364), 2)
    (7.27, 12.46)
    >>> state = running.begin()
    >>> first, state = running.draw(state, rng)
    >>> second, state = running.draw(state, rng)
    >>> (100 + first).tolist(), (120 + second).tolist(), state.day
    ([99], [124], 2)
    """

    factors: Factors
    sigma: float
    contribution: Contribution = Contribution()
    totals: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.sigma <= LARGEST_SIGMA / 2**_COARSEST:
            raise ValueError(
                f"sigma must be positive and at most 2^{36 - _COARSEST}, not {self.sigma}: say "
                "numbers in larger units"
            )
        if not self.contribution.totals <= self.totals:
            raise ValueError(
                f"a unit cannot change {self.contribution.totals:,} of {self.totals:,} totals"
            )
        if not self.contribution.days <= self.factors.horizon:
            raise ValueError(
                f"a unit cannot add on {self.contribution.days:,} of {self.factors.horizon:,} days"
            )

    @property
    def constants(self) -> dict[str, Any]:
        """What a statement says of it."""
        source = "near its square root: Dvijotham, McMahan, Pillutla, Steinke, Thakurta, FOCS 2024"
        return {
            "name": "running-totals", "sigma": self.sigma, "buffers": len(self.factors.decays),
            "source": f"buffered linear Toeplitz factors of the running sum, {source}",
        }  # fmt: skip

    @property
    def horizon(self) -> int:
        """How many days there are."""
        return self.factors.horizon

    @property
    def bits(self) -> int:
        """How many bits the grid has behind the point."""
        return min(_FINEST, math.floor(math.log2(LARGEST_SIGMA / self.sigma)))

    @cached_property
    def noise(self) -> RoundedNormal:
        """What a day draws for each total, in units of the grid."""
        return RoundedNormal(math.ldexp(self.sigma, self.bits))

    @property
    def rounding(self) -> float:
        """e: how far the noise of a total is from B z at the most, in units of the grid."""
        fading = (
            math.ldexp(weight, -BITS)
            * min(self.factors.horizon, 1 / (1 - math.ldexp(decay, -BITS)))
            for decay, weight in zip(self.factors.decays, self.factors.weights, strict=True)
        )
        return 0.5 + math.ldexp(sum(fading), -_GUARD)

    @cached_property
    def mu(self) -> float:
        """V / sigma, of the one Gaussian mechanism that reveals as much, or more."""
        unit = self.contribution
        apart = 2 * self.rounding * self.factors.undone
        changed = self.factors.horizon * min(unit.days * unit.totals, self.totals)
        steps = math.sqrt(changed) * apart
        exactly = unit.norm * self.factors.sensitivity(unit.days)
        return (exactly + math.ldexp(steps, -self.bits)) / self.sigma * (1 + 1e-12)

    def require_priced(self, epsilon: float, delta: float) -> None:
        """Refuse noise that is not what is paid for; before anything is drawn of it.

        Args:
            epsilon: of all days together, in nats.
            delta: of all days together.

        Raises:
            ArithmeticError: it would reveal more, or hide more.
        """
        norm = self.contribution.norm * self.factors.sensitivity(self.contribution.days)
        if not 1 <= self.sigma * gaussian_mu(epsilon, delta) / norm * (1 + 1e-12) <= _PRICED:
            raise ArithmeticError("the noise of running totals is not what they are paid for")

    def delta(self, epsilon: float) -> float:
        """The delta of all days together, rounded up."""
        draws = self.factors.horizon * self.totals
        reserve = unseen(draws, self.noise.farthest, epsilon)
        # A difference of two tails, each known to some 1e-14 of itself.
        tails = float(ndtr(self.mu / 2 - epsilon / self.mu))
        return min(gaussian_delta(self.mu, epsilon) + 1e-12 * tails + reserve, 1.0)

    def require_met(self, epsilon: float, delta: float) -> None:
        """Refuse a promise that this noise is too small for.

        Raises:
            ValueError: it is.
        """
        if not self.delta(epsilon) <= delta:
            raise ValueError(f"this noise does not meet epsilon {epsilon} at delta {delta}")

    @property
    def profile(self) -> PrivacyLoss:
        """What all days together reveal, at every epsilon."""
        epsilons = np.linspace(0.0, max(gaussian_epsilon(self.mu, 1e-15), 1e-3), 256)
        deltas = [self.delta(epsilon) for epsilon in epsilons.tolist()]
        return PrivacyLoss.from_profile(epsilons, np.minimum.accumulate(deltas))

    def guarantee(self, epsilon: float, unit: str, condition: str = "") -> Guarantee:
        """What holds of all releases of the horizon together.

        Args:
            epsilon: in nats.
            unit: whose contribution is at most what was declared.
            condition: of which units that is so, where nothing sees to it.
        """
        days = self.contribution.days
        how = (
            f"closed form: one Gaussian mechanism of sensitivity {self.mu:.6g} sigma (Balle, Wang, "
            f"ICML 2018, Theorem 8) for all {self.factors.horizon:,} windows, of which a {unit} "
            f"adds to {days:,} (fully adaptive composition: Smith, Thakurta 2022, arXiv 2210.17520)"
        )
        delta = self.delta(epsilon)
        return Guarantee("central", epsilon, delta, unit, how, "add or remove", condition)

    def standard_error(self, day: int, window: int | None = None) -> float:
        """Of the sum of the last days, and of the total so far without a window.

        Args:
            day: the last of them, from 0 on.
            window: how many.
        """
        # Whole numbers are a step off: each end of the window is rounded.
        steps = 1 if window is None or window > day else 2
        return math.hypot(self.sigma * self.factors.window_norm(day, window), math.sqrt(steps / 12))

    def begin(self) -> TotalsState:
        """Before the first day."""
        zeros = (0,) * self.totals
        return TotalsState(0, (zeros,) * len(self.factors.decays), zeros)

    def draw(self, state: TotalsState, rng: RandomSource) -> tuple[Integers, TotalsState]:
        """The noise of one more day's numbers.

        A day is drawn once: who releases it under two draws has told more than was paid for. So the
        new state is kept, where nothing else can begin the same day, before anything is released.

        Args:
            state: after the day before.
            rng: the generator of this process.

        Returns:
            (totals,) whole noise, to be added to what the day adds to the totals: of all days up to
            it, it adds up to the noise of the total. And the state after it.

        Raises:
            ValueError: the horizon is over, or the state is another's.
        """
        if not state.day < self.factors.horizon:
            raise ValueError(f"all {self.factors.horizon:,} windows of the horizon were drawn")
        if (len(state.buffers), len(state.before)) != (len(self.factors.decays), self.totals):
            raise ValueError("the state is that of other running totals")
        drawn = self.noise.draw(self.totals, rng).astype(object)  # Python's: they do not overflow
        buffers = np.array(state.buffers, object).reshape(len(state.buffers), self.totals)
        decays, weights = (
            np.array(part, object)[:, None] for part in (self.factors.decays, self.factors.weights)
        )
        kept = _rounded((weights * buffers).sum(axis=0), BITS + _GUARD) if len(buffers) else 0
        whole = _rounded(drawn + kept, self.bits)
        faded = (decays * buffers >> BITS) + (drawn << _GUARD)
        added = (whole - np.array(state.before, object)).astype(np.int64)
        rows = tuple(tuple(row) for row in faded.tolist())
        return added, replace(state, day=state.day + 1, buffers=rows, before=tuple(whole.tolist()))

    def over(self, state: TotalsState) -> str:
        """What there are no more of; empty if another day can be drawn."""
        return f"all {self.horizon:,} windows" * (state.day >= self.horizon)

    def added(
        self, state: TotalsState, numbers: Sequence[int], rng: RandomSource
    ) -> tuple[list[int], TotalsState]:
        """By how much one more day moves the totals, noise and all; as of `draw`."""
        noise, after = self.draw(state, rng)
        return [sum(both) for both in zip(numbers, noise.tolist(), strict=True)], after


def _rounded(numbers: NDArray[np.object_], bits: int) -> NDArray[np.object_]:
    """Integers without their last bits, to the nearest."""
    return np.asarray((numbers + (1 << bits >> 1)) >> bits)


def least(
    epsilon: float,
    delta: float,
    horizon: int,
    contribution: Contribution = Contribution(),
    totals: int = 1,
) -> RunningTotals:
    """Running totals with the least noise that keeps to (epsilon, delta) for all days together.

    Args:
        epsilon: in nats.
        delta: in (0, 1).
        horizon: how many days there are.
        contribution: the most that a unit adds.
        totals: how many are published together.

    Returns:
        A design that met the target when it was tried.

    Raises:
        ValueError: a parameter is out of range, or the target is out of reach.
    """
    require_epsilon(epsilon)
    require_delta(delta)
    factors = buffered(horizon)
    sigma = contribution.norm * factors.sensitivity(contribution.days) / gaussian_mu(epsilon, delta)
    for _ in range(100):
        running = RunningTotals(factors, sigma, contribution, totals)
        if running.delta(epsilon) <= delta:
            return running
        # The grid, and what is held in reserve, take a part in some 10,000.
        sigma *= 1 + 1e-5
    raise ValueError(f"no noise is known to keep to epsilon {epsilon} at delta {delta}; raise them")
