"""How many dummies a shuffler adds to each value, and which reports it keeps, law by law.

The laws and their free parameters are those of Murakami, Sei, Eriguchi, "Augmented shuffle
protocols for accurate and robust frequency estimation under differential privacy", 2025, arXiv
2504.07362. The bound "published" takes the size of the noise from the closed forms in the program
that its authors published; "exact" takes the least whose exact price meets the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from mechanisms.counters.levels import Level
from mechanisms.counters.noise import ShufflerNoise
from mechanisms.counters.solve import least_noise
from mechanisms.frequency.task import FrequencyTask
from mechanisms.privacy.search import least_integer
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta
from mechanisms.sampling.integer_noise import IntegerNoise
from mechanisms.targets.rules import Target

TAIL = 1e-40  # what a law may have beyond its window
_CUT = 1e-50  # of its largest probability, at which a window ends
_LEAST_KEPT = 1e-3  # where a search begins
_LARGEST = 1 << 22

_Target = Target[FrequencyTask]


class ThinnedLaw(NamedTuple):
    """What a shuffler does.

    Attributes:
        kept: with what probability it keeps a report.
        law: of the dummies of a value; not below 0.
        relative: bound on the relative error of its probabilities.
    """

    kept: float
    law: IntegerNoise
    relative: float = 2.0**-49  # a power, and a sum of them all

    @property
    def bin_law(self) -> BinLaw:
        """What is seen of a value whose holders may be one more."""
        own, free = np.append(0.0, self.law.pmf), np.append(self.law.pmf, 0.0)
        return BinLaw(self.kept * own + (1 - self.kept) * free, free, TAIL, self.relative)

    def meets(self, target: _Target) -> bool:
        """Whether a replaced value is hidden."""
        epsilon, delta, _ = target.batch
        return two_bins_delta(self.bin_law, self.bin_law, epsilon)[1] <= delta

    def error(self, target: _Target) -> float:
        """The mean squared error of a share, over all values."""
        lost = (1 - self.kept) * target.n / target.task.domain_size * self.kept
        return (lost + self.law.var()) / (self.kept * target.n) ** 2


def even_coins(kept: float, number: int) -> ThinnedLaw:
    """As many dummies as so many even coins show heads."""
    mode = number // 2
    above, below = np.arange(mode, number), np.arange(mode, 0, -1)
    up = np.cumprod((number - above) / (above + 1))
    down = np.cumprod(below / (number - below + 1))
    up, down = up[up > _CUT], down[down > _CUT]
    law = np.concatenate([down[::-1], [1.0], up])
    return ThinnedLaw(kept, IntegerNoise(mode - down.size, law / law.sum()), 2.0**-50 * law.size)


def two_sided(mode: int, left: float, right: float) -> IntegerNoise:
    """A geometric law that begins anew at its mode: P(k - 1) / P(k) and P(k + 1) / P(k) are these.

    Args:
        mode: at least 0.
        left: in [0, 1), below the mode and down to 0.
        right: in (0, 1), above it.
    """
    above = math.ceil(math.log(TAIL) / math.log(right))
    below = left ** np.arange(float(mode), 0.0, -1.0)
    law = np.concatenate([below, right ** np.arange(float(above))])
    return IntegerNoise(0, law / law.sum())


def truncated(noise: ShufflerNoise) -> ThinnedLaw:
    """All reports, and the dummies of a noisy counter."""
    return ThinnedLaw(1.0, IntegerNoise(0, noise.pmf))


def counters(target: _Target) -> ThinnedLaw:
    """The least noise of counters."""
    epsilon, delta, _ = target.batch
    levels = [Level(1, target.task.domain_size)]
    (part,) = least_noise(levels, "replace", epsilon, delta).parts
    return truncated(part.law)


def sbin(target: _Target) -> ThinnedLaw:
    """SBin: a binomial number of dummies."""
    epsilon, delta, _ = target.batch

    def made(kept: float) -> ThinnedLaw:
        number = _published_coins(epsilon, delta, kept)
        return _met(lambda coins: even_coins(kept, coins), number, number // 4, target)

    return _least(made, _LEAST_KEPT, target)


def sageo(target: _Target) -> ThinnedLaw:
    """SAGeo: asymmetric geometric noise, whose left end alone takes from delta."""
    epsilon, delta, _ = target.batch

    def made(kept: float) -> ThinnedLaw:
        left, right = _ratios(epsilon, kept)
        mode = 1 + _published_mode(epsilon, delta, kept, left, right)
        # The least mode is 0, and that of what is searched 1.
        return _met(lambda m: ThinnedLaw(kept, two_sided(m - 1, left, right)), mode, mode, target)

    return _least(made, -math.expm1(-epsilon / 2), target)


def s1geo(target: _Target) -> ThinnedLaw:
    """S1Geo, pure epsilon: SAGeo that loses as many reports as leave its left side empty."""
    epsilon, _, _ = target.batch
    kept = -math.expm1(-epsilon / 2)
    return ThinnedLaw(kept, two_sided(0, *_ratios(epsilon, kept)))


def _met(
    made: Callable[[int], ThinnedLaw], published: int, guess: int, target: _Target
) -> ThinnedLaw:
    """Noise of the published size, or of the least that meets the target."""
    if target.bound == "published":
        return made(published)

    def meets(size: int) -> bool:
        if not size <= _LARGEST:
            raise ValueError(
                f"no noise of size up to {_LARGEST:,} is sure to meet epsilon {target.epsilon} at "
                f"delta {target.delta}"
            )
        return made(size).meets(target)

    return made(least_integer(meets, guess))


def _least(made: Callable[[float], ThinnedLaw], low: float, target: _Target) -> ThinnedLaw:
    """The parts of the least error."""
    minimum = minimize_scalar(
        lambda kept: made(kept).error(target), bounds=(low, 1.0), method="bounded",
        options={"xatol": 1e-4},
    )  # fmt: skip
    ends = (made(kept) for kept in (low, float(minimum.x), 1.0))
    return min(ends, key=lambda parts: parts.error(target))


def _ratios(epsilon: float, kept: float) -> tuple[float, float]:
    """Left and right: (1 - kept) P(k) + kept P(k - 1) is e^(-+ epsilon / 2) P(k) there."""
    left = 1 + math.expm1(-epsilon / 2) / kept
    return max(left, 0.0), kept / (math.expm1(epsilon / 2) + kept)


def _published_mode(epsilon: float, delta: float, kept: float, left: float, right: float) -> int:
    """nu of the authors' program."""
    shown = 2 + 2 * (1 - kept) * math.exp(epsilon / 2) * (left - 1) - (2 - delta) * left
    if not (left > 0 and shown > 0):
        return 0
    level = delta * (1 - left * right) / (shown * (1 - right))
    return max(math.ceil(math.log(level) / math.log(left)), 0)


def _published_coins(epsilon: float, delta: float, kept: float) -> int:
    """M of the authors' program: a Chernoff bound for half of epsilon, before reports are lost."""
    loss = math.log1p(math.expm1(epsilon / 2) / kept)
    odds, tail = math.exp(loss), math.log(4 * kept / delta)
    root = 2 + math.cosh(loss) * (tail - 2) + tail + 2 * math.sinh(loss)
    whole = (1 + odds) * ((1 + odds) * tail + math.sqrt(2 * odds * tail * root))
    return math.ceil((2 * (odds - 1) + whole) / (odds - 1) ** 2)


LAWS: Mapping[str, Callable[[_Target], ThinnedLaw]] = {
    "counters": counters,
    "sbin": sbin,
    "sageo": sageo,
    "s1geo": s1geo,
}
"""Name -> what meets a target."""

PUBLISHED = ("sbin", "sageo")
"""Those whose authors publish the size of their noise in closed form."""
