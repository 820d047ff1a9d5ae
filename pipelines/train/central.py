"""Training by those who hold the rows, and show noisy sums of what they learn alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import Floats, Guarantee
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.learning.objective import Objective
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource
from pipelines.errors import RequestError
from pipelines.releases.statement import listed
from pipelines.train.options import TrainOptions, counted_rows
from pipelines.wording import factor, upward

LARGEST_ROWS = 1 << 32  # bytes of rows that one worker holds

_LOOK = 0.05  # of epsilon, for what tells whether the model is of any use

# After a step, the model, for whoever draws the curve.
Watch = Callable[[int, Floats], None]


class DivergedError(Exception):
    """The run left all bounds.

    Attributes:
        step: at which it did.
    """

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


@dataclass(frozen=True)
class CentralPlan(ABC):
    """A run by those who hold the rows.

    Attributes:
        options: of the request.
        rows: how many it is laid out for; a number that is public.
        delta: of the release.
        averages: how it is told what the model and the best constant get wrong; None where public
            rows tell it.
    """

    options: TrainOptions
    rows: int
    delta: float
    averages: NoisyAverages | None

    @property
    def least(self) -> int:
        """The fewest rows that a release stands on."""
        return self.options.min_reports or 1

    @property
    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Of the release."""

    @property
    def delta_of_training(self) -> float:
        """What of delta is left to the run itself."""
        return delta_left(self.delta, self.averages)

    def in_all(self, training: Guarantee) -> Guarantee:
        """What a run and the averages beside it lose together, by basic composition."""
        if self.averages is None:
            return training
        beside = self.averages.guarantee
        return replace(
            training,
            epsilon=math.nextafter(training.epsilon + beside.epsilon, math.inf),
            delta=min(1.0, training.delta + beside.delta),
            how=f"{training.how}; added to it, {beside.epsilon:.3g} for how wrong the model is",
        )

    @property
    def beside(self) -> dict[str, Guarantee]:
        """The same by other accountants."""
        return {}

    @property
    def cautions(self) -> list[str]:
        """What should be thought over before the run."""
        return []

    @property
    @abstractmethod
    def less_noise(self) -> str:
        """What makes its noise less."""

    @property
    def poisoning(self) -> str:
        """What a liar can do."""
        return (
            "Nobody sees who lies: a row that is made up moves what is summed by no more than an "
            "honest one may, for all that is summed is cut; what comes of many steps is not "
            "bounded."
        )

    @property
    @abstractmethod
    def neighbours(self) -> str:
        """What may change between inputs that the guarantees compare."""

    def judged_by(self, n: int) -> str:
        """Who told how wrong the model is."""
        return f"the {n:,} {self.options.unit}s it was fitted to, with noise"

    @property
    @abstractmethod
    def step_name(self) -> str:
        """What the learning curve runs over."""

    @property
    def exactly(self) -> str:
        """What is published as it is."""
        return listed([f"the number of {self.options.unit}s used", *counted_rows(self.options)])

    @abstractmethod
    def training(self) -> dict[str, Any]:
        """What is done, for the statement."""

    @abstractmethod
    def train(
        self, rows: Numbers, targets: NDArray[Any], rng: RandomSource, watch: Watch
    ) -> Floats:
        """The whole run: (parameters,) the weights to publish.

        Raises:
            DivergedError: it came to nothing.
        """

    def promises(self) -> list[str]:
        """The guarantee in words."""
        released = self.guarantees[0]
        epsilon, delta = upward(released.epsilon, 6), upward(released.delta, 6)
        return [
            f"For anyone who sees this release, but not {self._whoever}: {self._change}, and all "
            "numbers of rows been what they are, the probability of whatever they see would have "
            f"changed by a factor of at most {factor(released.epsilon)}, but for outcomes of total "
            f"probability at most {delta:g}. (epsilon = {epsilon:g}, delta = {delta:g}; "
            f"{released.how}.)",
            f"{self._exact}is published as it is: nothing is promised about these numbers.",
        ]

    @property
    def _exact(self) -> str:
        """What is counted; of users not how many rows they have."""
        used = "took part" if self.options.hides else "could be used"
        rows = "How many rows were read, and how" if self.options.unit == "row" else "How"
        return f"{rows} many {self.options.unit}s {used}, "

    @property
    @abstractmethod
    def _whoever(self) -> str:
        """Whom the promise does not bind."""

    @property
    @abstractmethod
    def _change(self) -> str:
        """What may change, as the beginning of a sentence."""


def counted_on(options: TrainOptions, rows: int) -> int:
    """How many rows, or users with one row each, a run is laid out for.

    Noise and steps follow from it and are public, so it must be so too.

    Args:
        options: of the request.
        rows: how many there are, which is published.

    Raises:
        RequestError: rows do not tell how many users there are.
    """
    if options.min_reports is not None:
        return options.min_reports
    if options.user_column is not None:
        raise RequestError(
            "--min-reports is missing: with --user-column, say how many users there are at the "
            "least, for the run is laid out for so many, and rows do not tell"
        )
    return rows


def divided(
    options: TrainOptions, epsilon: float, objective: Objective, holders: int = 1
) -> tuple[float, NoisyAverages | None]:
    """(epsilon of the training, what tells how wrong the model is, and a constant, with the rest).

    Args:
        options: of the request; public rows tell it at no cost.
        epsilon: of the release.
        objective: the model.
        holders: among how many the rows are.
    """
    if options.validation is not None:
        return epsilon, None
    averages = NoisyAverages(_LOOK * epsilon, objective.loss.baseline.moved, holders)
    # A little is left to the rounding of sums.
    return (1 - _LOOK) * epsilon * (1 - 1e-12), averages


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


def require_room(options: TrainOptions, rows: int, objective: Objective) -> None:
    """Refuse rows that do not fit into one worker's memory.

    Args:
        options: of the request.
        rows: how many rows there are.
        objective: the model.

    Raises:
        RequestError: they are too many.
    """
    # Rows are held as floats of 32 bits.
    size = 4 * objective.inputs * rows
    if not size <= LARGEST_ROWS:
        raise RequestError(
            f"--method {options.method} holds all rows in one worker's memory, and these, of "
            f"{objective.inputs:,} inputs each, take more than {LARGEST_ROWS >> 30} GiB; use "
            "--method local, or fewer rows"
        )
