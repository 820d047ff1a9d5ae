"""--method dp-sgd: a curator holds all rows, clips their gradients and adds noise to the sums."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import Floats, Guarantee
from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.learning.dp_sgd_design import design
from mechanisms.learning.objective import Objective
from mechanisms.learning.optimisers import Momentum, Progress
from mechanisms.learning.scores import Numbers
from mechanisms.privacy.composition import Neighbours
from mechanisms.privacy.sampled_gaussian import Accountant
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
from pipelines.train.options import TrainOptions

_POINTS = 20  # of a learning curve
_LOT, _EPOCHS, _CLIP = 4, 25, 1.0  # lots are a quarter of the rows

_ZEROED_OUT = (
    "zero-out neighbours (Kairouz et al., ICML 2021, definition 1.1; Ponomareva et al., JAIR "
    "2023): to the sums of gradients a row that counts for nothing is a row removed, while all "
    "numbers of rows, and with them lots, steps and noise, stay; so, by an account of rows added "
    "or removed: "
)
_BESIDE: dict[str, tuple[Accountant, Neighbours]] = {
    "by_renyi_divergences": ("rdp", "add or remove"),
    "by_the_moments_accountant": ("moments", "add or remove"),
    "of_another_row_in_its_place": ("pld", "replace one"),
}


@dataclass(frozen=True)
class CuratorPlan(CentralPlan):
    """DP-SGD by a curator.

    Neighbours that differ in the number of rows would differ in what is published as it is, and in
    all that is laid out for that number. So they do not: a row is replaced by one whose gradient is
    0 at every model, which the accountant cannot tell from a row removed.

    Attributes:
        run: its parameters.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, "Practical and private (deep) learning
        without sampling or shuffling", ICML 2021, definition 1.1; Ponomareva, Hazimeh, Kurakin, Xu,
        Denison, McMahan, Vassilvitskii, Chien, Thakurta, "How to DP-fy ML: a practical guide to
        machine learning with differential privacy", JAIR 77, 2023 (zero-out neighbours).
    """

    run: DpSgd

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (self._by("pld"),)

    @cached_property
    def beside(self) -> dict[str, Guarantee]:
        known = {}
        for name, (accountant, neighbours) in _BESIDE.items():
            with suppress(ValueError):  # a larger epsilon may be beyond this delta
                known[name] = self._by(accountant, neighbours)
        return known

    def _by(self, accountant: Accountant, neighbours: Neighbours = "add or remove") -> Guarantee:
        """What one accountant says."""
        delta, unit = self.delta_of_training, self.options.unit
        guarantee = self.in_all(self.run.guarantee(delta, accountant, neighbours, unit))
        if neighbours == "replace one":
            return guarantee
        return replace(guarantee, how=_ZEROED_OUT + guarantee.how)

    @property
    def _whose(self) -> str:
        """What is protected."""
        return "row" if self.options.user_column is None else "user with all rows"

    @property
    def neighbours(self) -> str:
        return (
            f"one {self._whose} counts for nothing: the gradient is 0 at every model, and the "
            "numbers of rows that are published stay as they are"
        )

    @property
    def _whoever(self) -> str:
        return "the curator, who held the rows"

    @property
    def _change(self) -> str:
        return f"had any one {self._whose} counted for nothing"

    @property
    def less_noise(self) -> str:
        return "a larger epsilon, more rows, a larger --lot"

    @property
    def step_name(self) -> str:
        return "lots"

    def training(self) -> dict[str, Any]:
        run = self.run
        return {
            "laid_out_for": f"{self.rows:,} {self.options.unit}s",
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
        options: of the request.
        rows: how many rows there are.
        objective: the model.
        epsilon: of the release.

    Raises:
        RequestError: rows do not fit into memory, are fewer than a lot, or nobody knows how many
            users there are.
        ValueError: the target is out of reach.
    """
    require_room(options, rows, objective)
    rows = counted_on(options, rows)
    # Large lots: the noise does not grow with the lot, and its share of the sum shrinks.
    lot = options.lot or max(1, rows // _LOT)
    if lot > rows:
        raise RequestError(f"--lot: {lot:,} rows are more than the {rows:,} that are counted on")
    delta = default_delta("shuffle", rows) if options.delta is None else options.delta
    steps = max(1, round((options.epochs or _EPOCHS) * rows / lot))
    optimiser = None if options.learning_rate is None else Momentum(options.learning_rate)
    clip = options.clip or _CLIP
    spent, averages = divided(options, epsilon, objective)
    left = delta_left(delta, averages)
    run = design(objective, rows, spent, left, lot / rows, steps, clip, optimiser)
    return CuratorPlan(options, rows, delta, averages, run)
