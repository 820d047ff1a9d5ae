"""What a whole run of noisy gradient descent reveals, from the numbers of its noise alone."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from mechanisms import channel
from mechanisms.channel import Guarantee, require_integer
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.privacy.composition import Neighbours
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.sampled_gaussian import SOURCES, Accountant, SubsampledGaussian, epsilon_of
from mechanisms.sampling.rounded_normal import RoundedNormal, unseen


@dataclass(frozen=True)
class NoisyTraining(SubsampledGaussian):
    """Steps of which each adds rounded Gaussian noise to sums of clipped gradients.

    Attributes:
        parameters: how many sums each step has.
        bits: the clipping norm is 2^bits in units of the sums.
        delta: of the release, in (0, 1).
        averages: what tells how wrong the model is; None where public rows do.

    >>> run = NoisyTraining(rate=0.1, sigma=1.5, steps=100, parameters=8, bits=30, delta=1e-5)
    >>> 3 < run.guarantee.epsilon < 5
    True
    """

    # A row's place is taken by one of gradient 0, so the accountant's rows are added or removed,
    # at public numbers of rows.
    neighbours: ClassVar[channel.AnyNeighbours] = "zero-out"

    parameters: int
    bits: int
    delta: float
    averages: NoisyAverages | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("parameters", self.parameters, 1)
        require_integer("bits", self.bits, 0)
        require_delta(self.delta)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Of the release, about one row of gradient 0 in a row's place."""
        return self.by("pld", "add or remove", "row")

    def require_met(self, epsilon: float, delta: float) -> None:
        """Refuse, by a ValueError, a promise that this noise is too small for."""
        # Transforms of other machines end in other digits.
        if not (self.guarantee.epsilon <= epsilon * (1 + 1e-9) and self.delta <= delta):
            raise ValueError(f"this noise does not meet epsilon {epsilon} at delta {delta}")

    def by(self, accountant: Accountant, neighbours: Neighbours, unit: str) -> Guarantee:
        """What holds by an accountant, of the run and the averages beside it together.

        Args:
            accountant: "pld", "rdp" or "moments"; see `privacy.sampled_gaussian`.
            neighbours: what may change: one row added or removed (to sums, one that counts for
                nothing), or one replaced by another.
            unit: what a row stands for.

        Raises:
            ValueError: delta is smaller than what the sampler's law is off by.
        """
        delta = delta_left(self.delta, self.averages)
        noise = RoundedNormal(self.sigma * 2.0**self.bits)
        # A first bound, that takes milliseconds, says what the sampler's law may cost.
        first: Accountant = "moments" if accountant == "moments" else "rdp"
        bound = epsilon_of(self, delta / 2, first, neighbours)
        reserve = unseen(self.steps * self.parameters, noise.farthest, bound)
        if not reserve < delta / 2:
            raise ValueError(f"delta must be above {2 * reserve:.3g}, not {delta}")
        epsilon = min(bound, epsilon_of(self, delta - reserve, accountant, neighbours))
        change = {"add or remove": "adding or removing one", "replace one": "replacing one"}
        how = (
            f"{self.steps} Poisson lots, each taking a row with probability {self.rate:.6g}; "
            f"gradients clipped in whole numbers, Gaussian noise of {self.sigma:.6g} times the "
            f"clipping norm; composed by {SOURCES[accountant]}; neighbours differ by "
            f"{change[neighbours]}; the weights after every step may be seen"
        )
        if self.averages is not None:
            beside = self.averages.guarantee.epsilon
            epsilon = math.nextafter(epsilon + beside, math.inf)
            how += f"; added to it, {beside:.3g} for how wrong the model is"
        alike = "replace" if neighbours == "replace one" else self.neighbours
        return Guarantee("central", epsilon, self.delta, unit, how, alike)


def delta_left(delta: float, averages: NoisyAverages | None) -> float:
    """What of a release's delta is left to the run itself.

    Raises:
        ValueError: nothing is.
    """
    left = delta - (0.0 if averages is None else averages.guarantee.delta)
    if not left > 0:
        raise ValueError(
            f"delta {delta:g} is less than what the noise of the model's error takes, "
            f"{delta - left:.2g}; have a larger one, or name public rows with --validation"
        )
    return left
