"""--method dp-sgd: a curator holds all rows, clips their gradients and adds noise to the sums."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import Floats, Guarantee
from mechanisms.learning.dp_sgd import DpSgd, design
from mechanisms.learning.noisy_averages import NoisyAverages
from mechanisms.learning.noisy_training import NoisyTraining, delta_left
from mechanisms.learning.objective import Objective
from mechanisms.learning.optimisers import Momentum, Progress
from mechanisms.learning.scores import Numbers
from mechanisms.privacy.composition import Neighbours
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.sampled_gaussian import Accountant
from mechanisms.randomness import RandomSource
from mechanisms.targets.rules import default_delta
from pipelines.errors import RequestError
from pipelines.releases.statement import listed
from pipelines.train.options import TrainOptions, counted_rows
from pipelines.wording import counted_or_not, whole_row

_POINTS = 20  # of a learning curve

_ZEROED_OUT = (
    "zero-out neighbours (Kairouz et al., ICML 2021, definition 1.1; Ponomareva et al., JAIR "
    "2023): to the sums of gradients a row that counts for nothing is a row removed, while all "
    "numbers of rows, and with them lots, steps and noise, stay; so, by an account of rows added "
    "or removed: "
)
_ANOTHER = "of_another_row_in_its_place"
_BESIDE: dict[str, tuple[Accountant, Neighbours]] = {
    "by_renyi_divergences": ("rdp", "add or remove"),
    "by_the_moments_accountant": ("moments", "add or remove"),
    _ANOTHER: ("pld", "replace one"),
}


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
class CuratorPlan:
    """DP-SGD by a curator.

    Neighbours that differ in the number of rows would differ in what is published as it is, and in
    all that is laid out for that number. So they do not: a row is replaced by one whose gradient is
    0 at every model, which the accountant cannot tell from a row removed.

    Attributes:
        options: of the request.
        rows: how many it is laid out for; a number that is public.
        delta: of the release.
        averages: how it is told what the model and the best constant get wrong; None where public
            rows tell it.
        run: its parameters.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, "Practical and private (deep) learning
        without sampling or shuffling", ICML 2021, definition 1.1; Ponomareva, Hazimeh, Kurakin, Xu,
        Denison, McMahan, Vassilvitskii, Chien, Thakurta, "How to DP-fy ML: a practical guide to
        machine learning with differential privacy", JAIR 77, 2023 (zero-out neighbours).
    """

    options: TrainOptions
    rows: int
    delta: float
    averages: NoisyAverages | None
    run: DpSgd

    less_noise = "a larger epsilon, more rows, a larger --lot"
    step_name = "lots"
    poisoning = (
        "Nobody sees who lies: a row that is made up moves what is summed by no more than an "
        "honest one may, for all that is summed is clipped; what comes of many steps is not "
        "bounded."
    )

    @property
    def least(self) -> int:
        """The fewest rows that a release stands on."""
        return self.options.min_reports or 1

    @cached_property
    def priced(self) -> NoisyTraining:
        """From what the price follows."""
        return self.run.noisy(self.delta, self.averages)

    @cached_property
    def profile(self) -> PrivacyLoss:
        """What a ledger composes: the promise; beside releases of others, of another row's."""
        own, another = self.guarantees[0], self.beside.get(_ANOTHER)
        apart = None if another is None else PrivacyLoss.from_guarantee(another)
        return replace(PrivacyLoss.from_guarantee(own), apart=apart)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Of the release."""
        return (self._by("pld"),)

    @cached_property
    def beside(self) -> dict[str, Guarantee]:
        """What a single report reveals; and the same release by other accountants."""
        known = {"local": Guarantee.none("the curator reads rows, and adds noise to sums alone")}
        for name, (accountant, neighbours) in _BESIDE.items():
            with suppress(ValueError):  # a larger epsilon may be beyond this delta
                known[name] = self._by(accountant, neighbours)
        return known

    def _by(self, accountant: Accountant, neighbours: Neighbours = "add or remove") -> Guarantee:
        guarantee = self.priced.by(accountant, neighbours, self.options.unit)
        if neighbours == "replace one":
            return guarantee
        return replace(guarantee, how=_ZEROED_OUT + guarantee.how)

    @property
    def cautions(self) -> list[str]:
        """What should be thought over before the run."""
        return []

    @property
    def neighbours(self) -> str:
        """What may change between inputs that the guarantees compare."""
        return (
            f"one {whole_row(self.options.unit)} counts for nothing: the gradient is 0 at every "
            "model, and the numbers of rows that are published stay as they are"
        )

    @property
    def exactly(self) -> str:
        """What is published as it is."""
        return listed([f"the number of {self.options.unit}s used", *counted_rows(self.options)])

    def judged_by(self, n: int) -> str:
        """Who told how wrong the model is."""
        return f"the {n:,} {self.options.unit}s it was fitted to, with noise"

    def promises(self) -> list[str]:
        """The guarantee in words."""
        return [
            counted_or_not(self.guarantees[0]),
            f"{self._exact} published exactly: nothing is promised about these numbers.",
        ]

    @property
    def _exact(self) -> str:
        """What is counted; of users not how many rows they have."""
        used = "took part" if self.options.hides else "could be used"
        if self.options.unit == "row":
            return f"How many rows were read, and how many {used}, is"
        return f"How many {self.options.unit}s {used} is"

    def training(self) -> dict[str, Any]:
        """What is done, for the statement."""
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
        """The whole run: (parameters,) the weights to publish.

        Raises:
            DivergedError: it came to nothing.
        """
        every, last = max(1, self.run.steps // _POINTS), [0]

        def look(progress: Progress) -> None:
            last[0] = progress.step
            if progress.step % every == 0 or progress.step == self.run.steps:
                watch(progress.step, progress.average)

        try:
            return self.run.train(rows, targets, rng, look)
        except FloatingPointError:
            raise DivergedError(last[0] + 1) from None


_LOT, _EPOCHS, _CLIP = 4, 25, 1.0  # lots are a quarter of the rows
_LARGEST_ROWS = 1 << 32  # bytes of rows that one worker holds
_LOOK = 0.05  # of epsilon, for what tells whether the model is of any use


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
    _require_room(options, rows, objective)
    rows = _counted_on(options, rows)
    # Large lots: the noise does not grow with the lot, and its share of the sum shrinks.
    lot = options.lot or max(1, rows // _LOT)
    if lot > rows:
        raise RequestError(f"--lot: {lot:,} rows are more than the {rows:,} that are counted on")
    delta = default_delta("shuffle", rows) if options.delta is None else options.delta
    steps = max(1, round((options.epochs or _EPOCHS) * rows / lot))
    optimiser = None if options.learning_rate is None else Momentum(options.learning_rate)
    clip = options.clip or _CLIP
    spent, averages = _divided(options, epsilon, objective)
    left = delta_left(delta, averages)
    run = design(objective, rows, spent, left, lot / rows, steps, clip, optimiser)
    return CuratorPlan(options, rows, delta, averages, run)


def _counted_on(options: TrainOptions, rows: int) -> int:
    """How many rows, or users with one row each, a run is laid out for.

    Noise and steps follow from it and are public, so it must be so too.
    """
    if options.min_reports is not None:
        return options.min_reports
    if options.user_column is not None:
        raise RequestError(
            "--min-reports is missing: with --user-column, say how many users there are at the "
            "least, for the run is laid out for so many, and rows do not tell"
        )
    return rows


def _divided(
    options: TrainOptions, epsilon: float, objective: Objective
) -> tuple[float, NoisyAverages | None]:
    """(epsilon of the training; what tells how wrong the model is, by the rest of it)."""
    if options.validation is not None:
        return epsilon, None
    averages = NoisyAverages(_LOOK * epsilon, objective.loss.baseline.moved)
    # A little is left to the rounding of sums.
    return (1 - _LOOK) * epsilon * (1 - 1e-12), averages


def _require_room(options: TrainOptions, rows: int, objective: Objective) -> None:
    """Refuse rows that do not fit into one worker's memory."""
    # Rows are held as floats of 32 bits.
    size = 4 * objective.inputs * rows
    if not size <= _LARGEST_ROWS:
        raise RequestError(
            "--method dp-sgd holds all rows in one worker's memory, and these, of "
            f"{objective.inputs:,} inputs each, take more than {_LARGEST_ROWS >> 30} GiB; use "
            "fewer, or, for --loss linear, ridge and logistic, --method sums"
        )
