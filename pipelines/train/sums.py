"""--method sums: models from sums, in one round or a few, and who takes part is hidden."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mechanisms.channel import Guarantee, Neighbours
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.noise import recorded
from mechanisms.learning.features import Features
from mechanisms.learning.logistic_rounds import logistic_for
from mechanisms.learning.normal_equations import largest_noise
from mechanisms.learning.products import Products, products_for
from mechanisms.learning.row_sums import Rounds
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.metrics.counting.by_job import WHO
from pipelines.metrics.counting.options import DELTA
from pipelines.metrics.counting.wording import neighbours, protected
from pipelines.train.options import TrainOptions
from pipelines.wording import meaning
from transforms.elements.conservation import (
    PASSED,
    PERTURBED,
    Batches,
    Flow,
    Shuffled,
    fail_lost,
    require_whole,
)

_EXPECTED = 1_000_000  # rows, where nobody says
_EVEN = 1 / 3  # the mean square of numbers that are spread evenly over [-1, 1]


@dataclass(frozen=True)
class SumsPlan:
    """A run that adds up what follows from rows, and to each sum noise.

    Attributes:
        options: of the request.
        products: of the first round, which is all there is but for logistic regression.
        rounds: of all that is added up.
        design: the noise of all rounds.
    """

    options: TrainOptions
    products: Products
    rounds: Rounds
    design: JobTotals

    least = 0  # a release that is withheld would tell how many took part
    less_noise = "a larger epsilon"
    step_name = "releases"
    exactly = "nothing"

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Of the release."""
        return (replace(self.design.guarantee, unit=self.options.unit),)

    @property
    def beside(self) -> dict[str, Guarantee]:
        """What a single report reveals."""
        why = "the job reads exact numbers and adds noise to sums alone"
        return {"local": Guarantee.none(why)}

    @property
    def priced(self) -> JobTotals:
        """From what the price follows."""
        return self.design

    @property
    def profile(self) -> PrivacyLoss:
        """The whole curve of what the release reveals."""
        return self.design.profile()

    @cached_property
    def designs(self) -> list[JobTotals]:
        """The noise of each round."""
        return self.rounds.designs(self.design)

    @property
    def cautions(self) -> list[str]:
        """That noise drowns the model, as far as it is public how many take part."""
        expected = self.options.expected
        noise = largest_noise(self.products.inputs, self.products.variances(self.designs[0], 0.0))
        if expected is None or not noise > _EVEN * expected:
            return []
        return [
            f"noise drowns the model: with {expected:,} {self.options.unit}s the squares of evenly "
            f"spread numbers add up to {_EVEN * expected:,.3g}, and noise alone may look like "
            f"{noise:,.3g}; have {noise / _EVEN / expected:.2g} times as many, fewer attributes, "
            "or a larger epsilon"
        ]

    def promises(self) -> list[str]:
        """The guarantee in words, and who must not talk to whom."""
        unit, (released,) = self.options.unit, self.guarantees
        return [
            meaning(released, 0),
            protected(unit, released.neighbours),
            WHO.replace(
                "counted exactly, and added noise to each total",
                "added them up exactly, and added noise to each sum",
            ),
            "No exact counts are published: neither how many took part, nor how many could be "
            "used.",
        ]

    @property
    def poisoning(self) -> str:
        """What a liar can do."""
        what = "sum of products"
        if len(self.rounds.sums) > 1:
            what = "sum of products of the first round, and of gradients of every further one,"
        return (
            f"Nobody sees who lies. A row that is made up moves each {what} by no more "
            "than an honest one may; what that does to a weight depends on how much the others "
            "tell of it."
        )

    @property
    def neighbours(self) -> str:
        """What may change between inputs that the guarantee compares."""
        return neighbours(self.options.unit, self.design.guarantee.neighbours)

    def require_whole(self, tallies: Mapping[str, int], flow: Flow, arrived: int) -> None:
        """Refuse sums that lack some.

        Args:
            tallies: rows read, and rejects by reason.
            flow: what passed between the steps.
            arrived: what was added up.

        Raises:
            LostError: an engine has lost some.
        """
        shuffled = Shuffled(0, Batches(self.design.layout.codes))
        later = {name: amount for name, amount in flow.items() if name != PASSED}
        require_whole(tallies, later, shuffled, arrived)
        made = len(self.designs) * flow.get(PERTURBED, 0)
        if flow.get(PASSED, 0) != made:  # rows of which messages were made, in every round
            fail_lost()

    def judged_by(self, n: int) -> str:
        """Who told how wrong the model is."""
        return f"about {n:,} {self.options.unit}s it was fitted to, by the same noisy sums"

    def training(self, more: Mapping[str, float] | None = None) -> dict[str, Any]:
        """What is done, for the statement.

        Args:
            more: what is said of the model, once there is one.
        """
        rounds, design = self.rounds, self.design
        described: dict[str, Any] = {
            "mechanism": "job-totals",
            "drawn_by": "job",
            "published_in": "sufficient statistics (Foulds et al., UAI 2016)",
            "sums": len(self.products.pairs),
            "sums_that_a_row_changes": rounds.changes,
            "laid_out_for": f"{self.options.expected or _EXPECTED:,} {self.options.unit}s",
            "units_of_a_number": self.products.most,
            "noise": recorded(design.laws),
            "standard_deviation_of_a_sum": self._spreads[0],
        }
        if len(rounds.sums) > 1:
            described["published_in"] += "; steps after Erdogdu (NIPS 2015)"
            described["rounds"] = [
                {
                    "of": type(sums).__name__.lower(),
                    "share": share,
                    "sums_that_a_row_changes": sums.changes,
                    "standard_deviation_of_a_sum": spread,
                }
                for sums, share, spread in zip(
                    rounds.sums, rounds.shares, self._spreads, strict=True
                )
            ]
        return described | dict(more or {})

    @property
    def _spreads(self) -> list[float]:
        """The largest standard deviation of a sum of each round."""
        both = zip(self.rounds.sums, self.designs, strict=True)
        return [math.sqrt(sums.variances(design, 0.0).max()) for sums, design in both]


def plan_sums(
    options: TrainOptions, features: Features, classes: int | None, epsilon: float
) -> SumsPlan:
    """How a run goes, before anything is read; nothing follows from how many rows there are.

    Args:
        options: of the request.
        features: of the rows.
        classes: that the target tells apart; None if it is a number.
        epsilon: of the release.

    Raises:
        ValueError: the target is out of reach, or there are too many classes.
    """
    if classes is not None and classes > 2:
        raise ValueError(
            f"--target: sums tell two classes apart, not {classes:,}: a row of several has a "
            "gradient for each; name two, or add --method dp-sgd"
        )
    delta = DELTA if options.delta is None else options.delta
    expected = options.expected or _EXPECTED
    require_delta(delta)
    try:
        made = _made(options.loss, features, expected, epsilon, delta)
    except ValueError as error:
        sums = len(Products(features, 1).pairs)
        raise ValueError(
            f"--epsilon: {features.inputs:,} inputs and the target have {sums:,} products, and "
            f"{error}: fewer attributes, or values of them, make fewer counters"
        ) from None
    return SumsPlan(options, *made)


def _made(
    loss: str, features: Features, expected: int, epsilon: float, delta: float
) -> tuple[Products, Rounds, JobTotals]:
    neighbours: Neighbours = "add or remove"
    about = features, expected, neighbours, epsilon, delta
    if loss == "logistic":
        return logistic_for(*about)
    products, design = products_for(*about)
    return products, Rounds((products,)), design
