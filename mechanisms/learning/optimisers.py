"""What is done with a noisy gradient. Whatever it is, it costs no privacy."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mechanisms.channel import Floats


class Progress(NamedTuple):
    """Where a run stands; small enough to travel as a side input.

    Attributes:
        step: how many steps were made.
        weights: (p,) at which the next gradients are taken.
        velocity: (p,) the running mean of the gradients so far.
        average: (p,) the running mean of the weights so far, which is what to publish.
    """

    step: int
    weights: Floats
    velocity: Floats
    average: Floats


@dataclass(frozen=True)
class Momentum:
    """Descent along a running mean of gradients, with an average of its path.

    Attributes:
        rate: how far a step goes for a gradient of 1, at first.
        memory: the weight that a running mean of gradients gives to its past, in [0, 1).
        averaging: the weight that the average of the path gives to its past, in [0, 1).
        schedule: how the rate changes: "constant", or falling to 0 along a line ("linear") or
            along half a wave ("cosine"). Where the noise is known to be small against what is still
            to be learnt, as in most private runs, a constant rate goes further.

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964;
        averaging: Polyak, Juditsky, "Acceleration of stochastic approximation by averaging", 1992,
        here with weights that fade, as in De et al., "Unlocking high-accuracy differentially
        private image classification through scale", 2022, section 3.

    >>> plain = Momentum(rate=1.0, memory=0.0, averaging=0.0)
    >>> plain.onward(plain.begin(np.zeros(1)), np.ones(1), steps=2).weights.tolist()
    [-1.0]
    """

    rate: float
    memory: float = 0.9
    averaging: float = 0.9
    schedule: str = "constant"

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be a positive, finite number, not {self.rate}")
        for name, share in (("memory", self.memory), ("averaging", self.averaging)):
            if not 0 <= share < 1:
                raise ValueError(f"{name} must lie in [0, 1), not {share}")
        if self.schedule not in _SCHEDULES:
            raise ValueError(
                f"schedule must be one of {', '.join(_SCHEDULES)}, not {self.schedule!r}"
            )

    def begin(self, weights: Floats) -> Progress:
        """The start of a run at (p,) weights."""
        return Progress(0, weights, np.zeros_like(weights), weights)

    def onward(self, progress: Progress, gradient: Floats, steps: int) -> Progress:
        """One step.

        Args:
            progress: where the run stands.
            gradient: (p,) of the objective, noisy.
            steps: how many the whole run has.

        Returns:
            Where it then stands. Both running means are freed of the weight of their start.
        """
        t = progress.step
        velocity = progress.velocity + (gradient - progress.velocity) * _share(self.memory, t)
        length = self.rate * _SCHEDULES[self.schedule](t / steps)
        weights = progress.weights - length * velocity
        # Averaging is post-processing: it costs no privacy and takes much of the noise out of the
        # path.
        average = progress.average + (weights - progress.average) * _share(self.averaging, t)
        return Progress(t + 1, weights, velocity, average)


def _share(memory: float, past: int) -> float:
    """What the newest of past + 1 values weighs in a running mean: all, if it is the first."""
    return (1 - memory) / (1 - memory ** (past + 1))


_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}
