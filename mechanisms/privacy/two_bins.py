"""What the two bins tell apart that one user's replaced value touches, when bins are independent.

Each bin has two laws of what is seen in it: one if the user's value is this bin's, one if it is
not. Replacing the value turns (occupied, free) into (free, occupied), whatever is seen in the bins:
counts, pairs of counts, or any coarser reading of them.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechanisms.channel import Floats
from mechanisms.privacy.divergence import require_delta, require_loss
from mechanisms.privacy.search import gaussian_epsilon, private_end

_UNIT = 2.0**-53
_STEEPEST = 700.0  # e^epsilon is followed this far; beyond, delta at this epsilon still holds
_LARGEST_EPSILON = 512.0  # a loss that is no guarantee any more
_TOLERANCE = 1e-9
_SURPLUS = 1e-9  # how far probabilities may add up to more than 1 beyond their stated error


@dataclass(frozen=True)
class BinLaw:
    """What is seen in one bin, over a window of outcomes.

    Attributes:
        occupied: (outcomes,) probabilities if the user's value is this bin's.
        free: (outcomes,) probabilities if it is not.
        missing: bound on either law's probability outside the window.
        relative: bound on the relative error of each probability.
        distance: bound on the total variation between either law and the one that is meant,
            besides those two errors.
        hidden: how far apart, at most, the logarithms of the gains occupied / free were of outcomes
            that have been put together.
    """

    occupied: Floats
    free: Floats
    missing: float = 0.0
    relative: float = 0.0
    distance: float = 0.0
    hidden: float = 0.0

    def __post_init__(self) -> None:
        errors = (self.missing, self.relative, self.distance)
        if not (all(0 <= error < 1 for error in errors) and self.hidden >= 0):
            raise ValueError("missing, relative, distance must lie in [0, 1), hidden be at least 0")
        for law in (self.occupied, self.free):
            if not (law.ndim == 1 and law.size == self.occupied.size and np.all(law >= 0)):
                raise ValueError("occupied and free must be vectors of probabilities of one length")
            if not float(law.sum()) <= 1 + self.relative + self.distance + _SURPLUS:
                raise ValueError("occupied and free must not add up to more than 1")

    @cached_property
    def gain(self) -> Floats:
        """(outcomes,) occupied / free; infinite where only a holder can cause the outcome."""
        with np.errstate(divide="ignore", over="ignore"):
            ratio = self.occupied / np.maximum(self.free, math.ulp(0.0))
        return np.where(self.free > 0, ratio, math.inf)

    def merged(self, step: float) -> "BinLaw":
        """The same bin, outcomes put together whose gains differ by less than e^step."""
        kept = self.occupied + self.free > 0
        with np.errstate(divide="ignore"):
            level = np.floor(np.log(self.gain[kept]) / step)
        _, kind = np.unique(level, return_inverse=True)
        occupied, free = (
            np.bincount(kind, law[kept]).astype(np.float64) for law in (self.occupied, self.free)
        )
        relative = self.relative + _UNIT * self.occupied.size
        return BinLaw(occupied, free, self.missing, relative, self.distance, self.hidden + step)

    @cached_property
    def ascending(self) -> tuple[Floats, Floats, Floats]:
        """Gains in ascending order, and running sums of occupied and of free, from 0 on."""
        order = np.argsort(self.gain, kind="stable")
        occupied, free = (
            np.concatenate([[0.0], law[order].cumsum()]) for law in (self.occupied, self.free)
        )
        return self.gain[order], occupied, free


def two_bins_delta(one: BinLaw, other: BinLaw, epsilon: float) -> tuple[float, float]:
    """delta of a value that moves from one bin to another, among independent bins.

    Args:
        one: the bin of the user's value in the first batch.
        other: the bin of the user's value in the second batch.
        epsilon: at least 0, in nats.

    Returns:
        (lower, upper) around the hockey-stick divergence of (occupied, free) from (free, occupied),
        apart by rounding and by the errors that the laws state.

    Raises:
        ValueError: epsilon is negative, infinite or not a number.
    """
    require_loss(epsilon)
    odds = math.exp(min(epsilon, _STEEPEST))
    slack = (
        one.relative + other.relative + 4 * _UNIT * (one.occupied.size + other.occupied.size + 16)
    )
    outside = one.missing + other.missing
    # Either batch's law may move by the distance, and the second one counts e^epsilon times.
    blurred = (1 + odds) * (one.distance + other.distance)
    yes, false = _test(one, other, odds, slack)
    lower = yes * (1 - slack) - odds * (false * (1 + 4 * slack) + outside) - blurred
    if one.hidden or other.hidden:  # each outcome was at worst so much more telling
        odds = math.exp(min(epsilon, _STEEPEST) - one.hidden - other.hidden)
        yes, false = _test(one, other, odds, slack)
    upper = yes * (1 + 4 * slack) - odds * false * (1 - slack)
    # What the window leaves out could all have told the batches apart.
    upper = min(1.0, max(upper, math.ulp(0.0)) + outside + blurred)
    return min(max(lower, 0.0), upper) if epsilon <= _STEEPEST else 0.0, upper


def _test(one: BinLaw, other: BinLaw, odds: float, slack: float) -> tuple[float, float]:
    """How often the best test says "first", given the first batch and given the second."""
    # (x, y) favours the first batch if gain(x) > e^epsilon gain(y): for each x, a prefix of the
    # ys sorted by gain. We take a prefix that rounding cannot have made too short; what is in it
    # wrongly subtracts no more than the slack, which is added back.
    gain, occupied, free = other.ascending
    reach = np.searchsorted(gain, one.gain / odds * (1 + 2 * slack), side="right")
    return float((one.occupied * free[reach]).sum()), float((one.free * occupied[reach]).sum())


def two_bins_epsilon(law: BinLaw, delta: float) -> tuple[float, float]:
    """epsilon of a value that moves from one bin to another of the same law.

    Args:
        law: of either bin.
        delta: in (0, 1).

    Returns:
        (lower, upper): at the second delta was evaluated and met; it is infinite if no epsilon up
        to 512 meets it.

    Raises:
        ValueError: delta is out of range, or not a number.
    """
    require_delta(delta)
    limit = 1.0
    while not two_bins_delta(law, law, limit)[1] <= delta:
        limit *= 2
        if limit > _LARGEST_EPSILON:
            exposed = two_bins_delta(law, law, _LARGEST_EPSILON)[0] >= delta
            return _LARGEST_EPSILON if exposed else 0.0, math.inf
    # A first guess: the Gaussian mechanism with the same chi-square distance, in two bins.
    shared = law.free > 0
    gap = (law.occupied - law.free)[shared]
    guess = gaussian_epsilon(math.sqrt(2 * float((gap * gap / law.free[shared]).sum())), delta)

    def upper_delta(epsilon: float) -> float:
        return two_bins_delta(law, law, epsilon)[1]

    def lower_delta(epsilon: float) -> float:
        return two_bins_delta(law, law, epsilon)[0]

    upper = private_end(upper_delta, delta, limit, 0.0, guess, _TOLERANCE)[0]
    lower = private_end(lower_delta, delta, upper, 0.0, upper * (1 - 1e-6), _TOLERANCE)[1]
    return min(lower, upper), upper
