"""Gradient descent on gradients that were randomised before they left their users.

Users are divided into as many groups as there are steps. Those of a group compute the gradient of
their own row at the present model, which is public, cut it, randomise it and send it; the collector
decodes the group's mean gradient and moves the model. Where there is an opening, one group more
reports its targets first, and gradients are cut by their estimated spread. Nobody belongs to two
groups, so the whole run reveals of anybody no more than one report does.
"""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Guarantee, Messages
from mechanisms.learning.objective import Objective
from mechanisms.learning.scores import Numbers
from mechanisms.papers.learning.opening import Opening, TargetEstimates
from mechanisms.papers.learning.schedule import CLIP, StepSchedule
from mechanisms.randomness import RandomSource
from mechanisms.vector.base import VectorMean
from mechanisms.vector.rows import shortened
from mechanisms.vector.sampled import SampledCoordinates


class TrainingState(NamedTuple):
    """Where a run has come to; all of it is public.

    Attributes:
        weights: (parameters,) at which the next group's gradients are taken.
        average: (parameters,) what would be released: the mean of the last weights, once enough
            steps have been made to average.
        velocity: (parameters,) the smoothed gradient, before it is made up for its start at 0.
        step: how many groups there have been.
        used: how many of them moved the model.
        averaged: how many weights `average` is the mean of; 0 before averaging begins.
        diverged: the step after which the run was given up; 0 if it was not.
        scale: the factor by which gradients are cut further out than usual, or nearer.
        seen: the opening's estimates; None if there was none.
    """

    weights: Floats
    average: Floats
    velocity: Floats
    step: int = 0
    used: int = 0
    averaged: int = 0
    diverged: int = 0
    scale: float = 1.0
    seen: TargetEstimates | None = None


@dataclass(frozen=True)
class LocalSteps:
    """What users and the collector do in each step of a run.

    Attributes:
        objective: what is fitted.
        mechanism: for rows of as many numbers as the objective has parameters.
        schedule: of the steps; `schedule.plan` makes one.
        clip: at which the coordinates of gradients are cut, and divided by before they are sent,
            while a model's scale is 1.
        opening: what one group more tells first; None for no such group.

    Raises:
        ValueError: the mechanism is for rows of another length, or clip is out of range.

    Source: Wang et al., "Collecting and analyzing multidimensional data with local differential
        privacy", ICDE 2019, section 5, whose users also take part once.

    >>> from mechanisms.learning.objectives import SquaredError
    >>> from mechanisms.vector.multi import multi_hm
    >>> steps = LocalSteps(SquaredError(90), multi_hm(1.0, 90), StepSchedule(10, 0.1), clip=1.0)
    >>> steps.guarantee.epsilon, round(steps.predicted_noise(10_000), 2)
    (1.0, 0.2)
    """

    objective: Objective
    mechanism: VectorMean
    schedule: StepSchedule
    clip: float = field(default=CLIP)
    opening: Opening | None = None

    def __post_init__(self) -> None:
        if not self.mechanism.dimension == self.objective.parameters:
            raise ValueError(
                f"the mechanism is for rows of {self.mechanism.dimension} numbers, and the model "
                f"has {self.objective.parameters} parameters"
            )
        if not 0 < self.clip < math.inf:
            raise ValueError(f"clip must be a positive, finite number, not {self.clip}")

    @property
    def guarantee(self) -> Guarantee:
        """What a user's one report in the whole run reveals, models and all other reports known."""
        how = (
            f"parallel composition: {self.groups} disjoint groups, chosen whatever the rows, and "
            "each user reports once, at a model that is public; of a report: "
        )
        both = [self.mechanism.guarantee]
        if self.opening is not None:
            both.append(self.opening.mechanism.guarantee)
        return replace(
            both[0],
            # A user is in one of the groups, so it loses what one report does: the larger of the
            # two.
            epsilon=max(part.epsilon for part in both),
            delta=max(part.delta for part in both),
            how=how + "; or, of a target: ".join(part.how for part in both),
        )

    @property
    def groups(self) -> int:
        """Into how many groups users are divided: one for each step, and that of the opening."""
        return self.schedule.steps + (self.opening is not None)

    # ---- the client --------------------------------------------------------------------------

    def report(
        self,
        weights: Floats,
        rows: Numbers,
        targets: ArrayLike,
        rng: RandomSource,
        scale: float = 1.0,
    ) -> Messages:
        """The whole client: rows to messages about their gradients.

        Where the mechanism sends a few coordinates, only these are computed.

        Args:
            weights: (parameters,) of the present model.
            rows: (n, inputs).
            targets: (n,).
            rng: the generator of this process.
            scale: of the present model.

        Returns:
            (m,) uint64 messages.

        Raises:
            ValueError: a gradient is no number, in what is sent of it.
        """
        if isinstance(self.mechanism, SampledCoordinates):
            chosen = self.mechanism.choose(len(rows), rng)
            values = gradients_at(self.objective, weights, rows, targets, chosen)
            return self.mechanism.send(chosen, self._cut(values, scale), rng)
        values = self._cut(self.objective.gradients(weights, rows, targets), scale)
        radius = getattr(self.mechanism, "radius", None)  # of mechanisms for rows of some length
        return self.mechanism.report(values if radius is None else shortened(values, radius), rng)

    def _cut(self, gradients: Numbers, scale: float) -> Numbers:
        """Coordinates of gradients as the mechanism takes them, in [-1, 1]."""
        return np.asarray(np.clip(gradients / (self.clip * scale), -1, 1))

    # ---- the collector -----------------------------------------------------------------------

    def start(self, rng: RandomSource) -> TrainingState:
        """The model that the first group is sent."""
        weights = self.objective.start(rng)
        return TrainingState(weights, weights, np.zeros(weights.size))

    def open(self, model: TrainingState, counts: Counts) -> TrainingState:
        """The model that the first step begins with, after the opening.

        Args:
            model: from `start`.
            counts: of the opening's messages, from two users or more.

        Raises:
            ValueError: there is no opening, or there are fewer users.
        """
        if self.opening is None:
            raise ValueError("this run has no opening")
        seen = self.opening.seen(counts)
        constant = ~self.objective.penalised
        # What targets tell is about the intercept alone: of the other weights nothing is known yet.
        weights = np.where(constant, self.opening.begin(seen), model.weights)
        return model._replace(weights=weights, average=weights, scale=seen.scale, seen=seen)

    def mean_gradient(self, counts: Counts, scale: float = 1.0) -> Floats:
        """(parameters,) the unbiased mean of a group's gradients, cut at `scale` times `clip`.

        Raises:
            ValueError: nobody reported.
        """
        return self.mechanism.estimate(counts) * (self.clip * scale)

    def advance(self, model: TrainingState, counts: Counts) -> TrainingState:
        """The next model; the same one, a step later, if the run was given up before.

        Args:
            model: at which the group's gradients were taken.
            counts: of the group's messages, at least one.

        Returns:
            The next model. `diverged` is this step if the weights have left all bounds.
        """
        if model.diverged:
            return self.skip(model)
        gradient = self.mean_gradient(counts, model.scale)
        gradient = gradient + self.objective.penalty_gradient(model.weights)
        beta, used = self.schedule.momentum, model.used + 1
        velocity = beta * model.velocity + (1 - beta) * gradient
        # The velocity began at 0: divided by the weight of what it has seen, it is a mean.
        weights = model.weights - self._pace / (1 - beta**used) * velocity
        after = model._replace(weights=weights, velocity=velocity, used=used, step=model.step + 1)
        if self.objective.diverged(weights):
            return after._replace(diverged=after.step)
        return self._averaging(after)

    @property
    def _pace(self) -> Floats:
        """(parameters,) how far each weight goes along its smoothed gradient."""
        return self.schedule.rate * np.where(self.objective.penalised, 1.0, self.schedule.lead)

    def skip(self, model: TrainingState) -> TrainingState:
        """The same model a step later: the group was too small, or the run was given up."""
        return model._replace(step=model.step + 1)

    def _averaging(self, model: TrainingState) -> TrainingState:
        """The model with its new weights in the average."""
        if model.step <= self.schedule.begin_average:
            return model._replace(average=model.weights)
        averaged = model.averaged + 1
        # The first one averaged replaces what stood there.
        mean = model.average + (model.weights - model.average) / averaged
        return model._replace(average=mean, averaged=averaged)

    # ---- what to expect ----------------------------------------------------------------------

    def predicted_noise(self, group: float, gradient: float = 0.0) -> float:
        """The standard deviation that privacy adds to a coordinate of a group's mean gradient.

        Args:
            group: how many users, more than 0.
            gradient: the coordinate of each user's gradient, cut.

        Source: Wang et al., ICDE 2019, eq. 12, over the group's size: ((d / k) (V + g^2) - g^2) /
            |G| for k of d coordinates sent through a mechanism of variance V.
        """
        if not group > 0:
            raise ValueError(f"group must be more than 0 users, not {group}")
        variance = float(self.mechanism.variance(gradient / self.clip))
        return self.clip * math.sqrt(variance / group)


def gradients_at(
    objective: Objective, weights: Floats, rows: Numbers, targets: ArrayLike, coordinates: ArrayLike
) -> Numbers:
    """A few coordinates of each row's gradient, others left alone.

    Args:
        objective: whose.
        weights: (parameters,).
        rows: (n, inputs).
        targets: (n,).
        coordinates: (n, k) integers in 0 .. parameters - 1.

    Returns:
        (n, k).
    """
    wanted = np.asarray(coordinates, np.int64)
    picked, begin = np.zeros(wanted.shape, rows.dtype), 0
    for layer in objective.layers(weights, rows, targets):
        width = layer.slopes.shape[1]
        size = layer.inputs.shape[1] * width
        place = np.clip(wanted - begin, 0, size - 1)
        source, sink = (place, 0 * place) if width == 1 else np.divmod(place, width)
        own = np.take_along_axis(layer.inputs, source, 1)
        own *= np.take_along_axis(layer.slopes, sink, 1)
        picked = np.where(wanted >= begin, own, picked)
        begin += size
    return picked
