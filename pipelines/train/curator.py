"""--method dp-sgd: a curator holds all rows, clips their gradients and adds noise to the sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import Floats, Guarantee
from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.learning.dp_sgd_design import design
from mechanisms.learning.objective import Objective
from mechanisms.learning.optimisers import Momentum, Progress
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import RandomSource
from mechanisms.target import default_delta
from pipelines.errors import RequestError
from pipelines.train.central import CentralPlan, DivergedError, Watch, require_room
from pipelines.train.options import TrainOptions, one_row

_POINTS = 20  # of a learning curve
_LOT, _EPOCHS, _CLIP = 4, 25, 1.0  # lots are a quarter of the rows


@dataclass(frozen=True)
class CuratorPlan(CentralPlan):
    """DP-SGD by a curator.

    Attributes:
        run: its parameters.
    """

    run: DpSgd

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (self.run.guarantee(self.delta, "pld", unit=self.options.unit),)

    @cached_property
    def beside(self) -> dict[str, Guarantee]:
        unit = self.options.unit
        return {
            "by_renyi_divergences": self.run.guarantee(self.delta, "rdp", unit=unit),
            "by_the_moments_accountant": self.run.guarantee(self.delta, "moments", unit=unit),
        }

    @property
    def cautions(self) -> list[str]:
        if self.options.user_column is None:
            return []
        return [
            f"gradients are scaled for {self.rows:,} rows, and with --user-column one row of each "
            "user is used; if users have many rows, raise --learning-rate as many times"
        ]

    @property
    def neighbours(self) -> str:
        return f"{one_row(self.options)} is added or removed"

    @property
    def step_name(self) -> str:
        return "lots"

    def training(self) -> dict[str, Any]:
        run = self.run
        return {
            "lots": run.steps,
            "expected_rows_of_a_lot": run.lot,
            "probability_of_a_row": run.rate,
            "gradients_clipped_at": run.clip,
            "noise_in_clips": run.sigma,
            "noise_of_a_coordinate_of_a_mean_gradient": run.noise_per_coordinate,
            "learning_rate": run.optimiser.rate,
            "momentum": run.optimiser.memory,
            "published_in": "Abadi et al., CCS 2016; Poisson lots, whole-number sums",
        }

    def train(
        self, rows: Numbers, targets: NDArray[Any], rng: RandomSource, watch: Watch
    ) -> Floats:
        every, last = max(1, self.run.steps // _POINTS), [0]

        def look(progress: Progress) -> None:
            last[0] = progress.step
            if progress.step % every == 0 or progress.step == self.run.steps:
                watch(progress.step, progress.average)

        try:
            return self.run.train(rows, targets, rng, look)
        except FloatingPointError:
            raise DivergedError(last[0] + 1) from None


def plan_curator(
    options: TrainOptions, rows: int, objective: Objective, epsilon: float
) -> CuratorPlan:
    """How a run goes, before anything is read.

    Args:
        options: what was asked.
        rows: how many rows there are.
        objective: the model.
        epsilon: of the release.

    Raises:
        RequestError: rows do not fit into memory, or are fewer than a lot.
        ValueError: the target is out of reach.
    """
    require_room(options, rows, objective)
    lot = options.lot or max(1, rows // _LOT)
    if lot > rows:
        raise RequestError(f"--lot: {lot:,} rows are more than the {rows:,} there are")
    delta = default_delta("shuffle", rows) if options.delta is None else options.delta
    steps = max(1, round((options.epochs or _EPOCHS) * rows / lot))
    optimiser = None if options.learning_rate is None else Momentum(options.learning_rate)
    clip = options.clip or _CLIP
    run = design(objective, rows, epsilon, delta, lot / rows, steps, clip, optimiser)
    return CuratorPlan(options, rows, delta, run)
