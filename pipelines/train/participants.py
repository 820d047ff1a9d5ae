"""--method dssgd: participants with rows of their own exchange some of what they learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats, Guarantee
from mechanisms.learning.dssgd import LocalTraining, SelectiveSGD, Share
from mechanisms.learning.objective import Objective
from mechanisms.learning.private_selection import PrivateSelection, RandomPlaces
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource
from mechanisms.targets.target import default_delta
from pipelines.errors import RequestError
from pipelines.train.central import (
    CentralPlan,
    DivergedError,
    Watch,
    counted_on,
    delta_left,
    divided,
    require_room,
)
from pipelines.train.options import TrainOptions, another_row, one_row

_PARTICIPANTS, _EPOCHS, _UPLOAD, _SPEED = 30, 10, 0.1, 0.1
_BOUND, _THRESHOLD = 1e-3, 1e-4


@dataclass(frozen=True)
class ParticipantsPlan(CentralPlan):
    """DSSGD by participants.

    Attributes:
        run: its parameters.
        participants: among whom rows are dealt out.
        objective: the model.
    """

    run: SelectiveSGD
    participants: int
    objective: Objective

    @property
    def parameters(self) -> int:
        """How many weights there are."""
        return self.objective.parameters

    @cached_property
    def _after(self) -> tuple[Guarantee, Guarantee]:
        delta = self.delta_of_training
        basic, accounted = self.run.selection.after(self.parameters, self.run.epochs, delta)
        return self.in_all(basic), self.in_all(accounted)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        best = min(self._after, key=lambda guarantee: guarantee.epsilon)
        return (replace(best, unit=self.options.unit),)

    @cached_property
    def beside(self) -> dict[str, Guarantee]:
        basic, accounted = self._after
        return {"by_basic_composition": basic, "by_the_accountant": accounted}

    @property
    def cautions(self) -> list[str]:
        upload = self.run.selection.guarantee(self.parameters).epsilon
        spread = 2 / (upload / max(1, round(self.run.selection.share * self.parameters)))
        if spread <= 1:
            return []
        return [
            "noise drowns what participants exchange: on each uploaded value it is at least "
            f"{1.4 * spread:.3g} times the largest that such a value may be; use a larger epsilon, "
            "fewer epochs, a smaller --upload-share or a smaller model"
        ]

    @property
    def poisoning(self) -> str:
        bound = self.run.selection.bound
        return (
            "Nobody sees who lies: with an upload a participant who makes values up moves a weight "
            f"by no more than {bound:g}, at which uploads are cut; what comes of many is not "
            "bounded."
        )

    @property
    def neighbours(self) -> str:
        return (
            f"{one_row(self.options)} is replaced by {another_row(self.options)}, at the same "
            "participant; the numbers of rows that are published stay as they are"
        )

    @property
    def less_noise(self) -> str:
        return "a smaller --bound or --upload-share, a larger epsilon, fewer --epochs"

    @property
    def step_name(self) -> str:
        return "epochs"

    @property
    def _whoever(self) -> str:
        return "the participant who held the row"

    @property
    def _change(self) -> str:
        alone = self.options.user_column is None
        whose = "any one row been another" if alone else "the rows of any one user been others"
        return f"had {whose} that can be used" + ", or none that can" * self.options.hides

    def training(self) -> dict[str, Any]:
        selection = self.run.selection
        return {
            "participants": self.participants,
            "epochs": self.run.epochs,
            "upload_share": selection.share,
            "download_share": self.run.download_share,
            "bound_of_an_upload": selection.bound,
            "selection": self.options.selection or "random",
            "exchange": self.run.protocol,
            "learning_rate": self.run.local.rate,
            "epsilon_of_an_upload": selection.guarantee(self.parameters).epsilon,
            "published_in": "Shokri, Shmatikov, CCS 2015, with the noise corrected",
        }

    def train(
        self, rows: Numbers, targets: NDArray[Any], rng: RandomSource, watch: Watch
    ) -> Floats:
        # By places alone: whatever a row holds, all others are dealt to whom they were dealt to.
        order = rng.permutation(len(rows)).astype(np.int64)
        parts = np.array_split(order, min(self.participants, len(rows)))
        # Those who diverge say nothing of it, for that would tell of their rows.
        outcome = self.run.run([Share(rows[part], targets[part]) for part in parts], rng)
        # But all that is uploaded is noisy, and what it adds up to tells of nobody.
        if self.objective.diverged(outcome.weights):
            raise DivergedError(self.run.epochs)
        watch(self.run.epochs, outcome.weights)
        return outcome.weights


def plan_participants(
    options: TrainOptions, rows: int, objective: Objective, epsilon: float
) -> ParticipantsPlan:
    """How a run goes, before anything is read.

    Args:
        options: of the request.
        rows: how many rows there are.
        objective: the model.
        epsilon: of all that a participant uploads in the whole run.

    Raises:
        RequestError: rows do not fit into memory, are fewer than participants, or nobody knows how
            many users there are.
        ValueError: the target is out of reach.
    """
    require_room(options, rows, objective)
    rows = counted_on(options, rows)
    participants = options.participants or _PARTICIPANTS
    if participants > rows:
        raise RequestError(
            f"--participants: {participants:,} need a row each, and {rows:,} are counted on"
        )
    delta = default_delta("shuffle", rows) if options.delta is None else options.delta
    epochs = options.epochs or _EPOCHS
    spent, averages = divided(options, epsilon, objective, participants)
    delta_left(delta, averages)  # refused here, if nothing is
    # Of the epsilon a little is left to the rounding of sums.
    epoch = spent / epochs * (1 - 1e-12)
    share, bound = options.upload_share or _UPLOAD, options.bound or _BOUND
    selection: PrivateSelection | RandomPlaces
    if options.selection == "largest":
        threshold = min(_THRESHOLD, bound / 2) if options.threshold is None else options.threshold
        selection = PrivateSelection(share, bound, epoch, threshold)
    elif options.threshold is not None:
        raise RequestError("--threshold says what is large, which only --selection largest asks")
    else:
        selection = RandomPlaces(share, bound, epoch)
    protocol = "random-order" if options.exchange == "random" else options.exchange
    local = LocalTraining(objective, options.learning_rate or _SPEED)
    run = SelectiveSGD(
        local, selection, protocol or "round-robin", epochs, options.download_share or 1.0
    )
    return ParticipantsPlan(options, rows, delta, averages, run, participants, objective)
