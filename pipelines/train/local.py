"""--method local: a run whose users randomise their own gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mechanisms.channel import Guarantee
from mechanisms.learning.local_steps import LocalSteps, Model
from mechanisms.learning.predicted_noise import caution
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.planner.design import Design
from mechanisms.vector.base import VectorMean
from mechanisms.vector.privunit import PrivUnit
from mechanisms.vector.sampled import SampledCoordinates
from pipelines.releases.statement import listed
from pipelines.train.opened import IN_WORDS, chosen_by, opened
from pipelines.train.options import TrainOptions, another_row, counted_rows, one_row
from pipelines.wording import counting_on, meaning, upward

FITTED = "sampled_coordinates"  # the mechanism whose error is least where gradients are


@dataclass(frozen=True)
class PrivateCurve:
    """What users who were held back report on.

    Attributes:
        steps: after which the model is reported on, ascending; the last is the published one.
        questions: what else is asked: what the error of the best constant follows from.
        design: of a report.
        least: the fewest reports to one question that are published.
    """

    steps: tuple[int, ...]
    questions: int
    design: Design[ScalarMean]
    least: int

    @property
    def groups(self) -> int:
        """How many things are asked, each of users of its own."""
        return len(self.steps) + self.questions

    @property
    def mechanism(self) -> PublicGroups[ScalarMean]:
        """Of the reports: what was asked is in the clear."""
        return PublicGroups(self.design.mechanism, self.groups)


@dataclass(frozen=True)
class LocalPlan:
    """A run whose users randomise their own gradients.

    Attributes:
        options: of the request.
        design: the mechanism of a report, and what it guarantees.
        steps: what users and collector do.
        users: how many are expected to take part in a step.
        least: the fewest users of a step that moves the model.
        held_back: the share of users who train nothing.
        opening: the mechanism of a report of a target, and what it guarantees; None where the run
            has no opening.
        curve: what those held back report on, or None.
    """

    options: TrainOptions
    design: Design[VectorMean]
    steps: LocalSteps
    users: int
    least: int
    held_back: float = 0.0
    opening: Design[VectorMean] | None = None
    curve: PrivateCurve | None = None

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Of the release, and of a single report."""
        designs: list[Design[VectorMean] | Design[ScalarMean]] = [self.design]
        if self.opening is not None:
            designs.append(self.opening)
        if self.curve is not None:
            designs.append(self.curve.design)
        how = f"each {self.options.unit} takes part in one of {self._parts}, whatever the rows"
        return tuple(
            replace(
                both[0],
                epsilon=max(part.epsilon for part in both),
                delta=max(part.delta for part in both),
                how=f"{how}, and models are public; " + "; ".join(part.how for part in both),
            )
            for both in ([d.release for d in designs], [d.local for d in designs])
        )

    @property
    def _parts(self) -> str:
        steps = f"{self.steps.schedule.steps} steps"
        if self.opening is not None:
            steps += ", or in the opening"
        return steps if self.curve is None else f"{steps}, or in the learning curve"

    @property
    def beside(self) -> dict[str, Guarantee]:
        """What a single report reveals."""
        return {"local": self.guarantees[1]}

    @property
    def cautions(self) -> list[str]:
        """That noise drowns the gradient, with the noise to be expected; and what it leaves out."""
        line = caution(self.steps, self.users * self.steps.schedule.steps)
        return ([] if line is None else [line]) + self._of_the_seed

    @property
    def _of_the_seed(self) -> list[str]:
        """That one public seed of a mechanism turns all steps alike."""
        mechanism = self.design.mechanism
        if not isinstance(mechanism, PrivUnit):
            return []
        off = self.steps.clip * math.sqrt(mechanism.seed_variance)
        return [
            f"{self.design.name} has one public seed for all users, which puts the mean gradients "
            f"of all steps off alike: by a standard deviation of up to {off:.3g} per coordinate "
            "beside the noise that is predicted, however many users there are"
        ]

    def promises(self) -> list[str]:
        """The guarantees in words, and what a reader must know beside them."""
        line = (
            f"Every {self.options.unit} drew a place in one of {self._parts}, by a die that looks "
            "at nothing, and reported once: nobody's promise is spent twice. Who takes part in "
            "which step is no secret."
        )
        if self.opening is not None:
            line += f" {IN_WORDS}"
        if self.options.shuffled:
            line += f" The promises hold in each step that was used, for it has {self.least:,} "
            line += "reports or more; smaller ones were skipped. "
            line += counting_on(self.options.honest_share, self.options.unit)
            if self.opening is not None:
                line += " So does the opening, on the same terms."
            if self.curve is not None:
                line += f" Each answer of those held back stands on {self.curve.least:,} or more."
        least = self.least if self.curve is None else min(self.least, self.curve.least)
        return [*(meaning(guarantee, least) for guarantee in dict.fromkeys(self.guarantees)), line]

    @property
    def poisoning(self) -> str:
        """What a liar can do."""
        mechanism = self.design.mechanism
        forged = float(np.max(mechanism.influence)) / (2 * mechanism.largest_value)
        return (
            "Nobody sees who lies. A row that is made up moves a coordinate of a step's summed "
            "gradient by no more than an honest one may, on average over the noise; what comes of "
            "many steps is not bounded. Nobody can make reports up here, for this job made them "
            "all; where users' devices make them, a report that is made up can weigh as much as "
            f"{upward(forged, 3):g} honest gradients of the largest size."
        )

    @property
    def neighbours(self) -> str:
        """What may change between inputs that the guarantees compare."""
        return f"{one_row(self.options)} is replaced by {another_row(self.options)}"

    @property
    def exactly(self) -> str:
        """What is published as it is."""
        numbers = "the number of reports, in all and of each point of the curve"
        return listed([numbers, "of steps that were skipped", *counted_rows(self.options)])

    @property
    def less_noise(self) -> str:
        """What makes its noise less."""
        return "a larger epsilon, more users a step"

    def judged_by(self, n: int) -> str:
        """Who told how wrong the model is."""
        return f"private reports of {n:,} {self.options.unit}s held back"

    @property
    def step_name(self) -> str:
        """What the learning curve runs over."""
        return "steps"

    @property
    def _source(self) -> str:
        """Who published the mechanism."""
        mechanism = self.design.mechanism
        if self.design.name != FITTED or not isinstance(mechanism, SampledCoordinates):
            return self.design.source
        inner = type(mechanism.mechanism).__name__
        return f"coordinate sampling of Wang et al., ICDE 2019, over {inner}, chosen for gradients"

    def training(self, model: Model | None = None) -> dict[str, Any]:
        """What is done, for the statement.

        Args:
            model: where the run has come to, once that is known.
        """
        steps, schedule = self.steps, self.steps.schedule
        scale = 1.0 if model is None else model.scale
        described: dict[str, Any] = {
            "mechanism": self.design.name,
            "published_in": self._source,
            "constants": self.design.mechanism.constants(),
            "bits_per_message": self.design.bits,
            "messages_per_user": self.design.mechanism.messages,
            "steps": schedule.steps,
            "expected_users_of_a_step": self.users,
            "least_users_of_a_step": self.least,
            "learning_rate": schedule.rate,
            "momentum": schedule.momentum,
            "share_of_steps_averaged": schedule.averaged,
            "gradients_cut_at": steps.clip * scale,
            "cut_chosen_by": chosen_by(steps, self.options.clip, model),
            "predicted_noise_of_a_coordinate_of_a_step": steps.predicted_noise(self.users) * scale,
        }
        if self.opening is not None:
            described["opening"] = opened(steps, self.opening, model)
        if self.curve is not None:
            described["share_held_back"] = self.held_back
            described["mechanism_of_the_curve"] = self.curve.design.name
        return described
