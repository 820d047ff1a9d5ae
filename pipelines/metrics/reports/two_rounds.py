"""Means whose bounds nobody declared: some units say privately how large numbers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mechanisms.channel import Guarantee
from mechanisms.planner.search import Design
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.metric import FRESH, Coins, MetricReports
from pipelines.metrics.protection import Protection
from pipelines.metrics.reports.mean_design import SCOUTS, Scouts, two_rounds
from pipelines.metrics.reports.means import Averaged, MeansByReports
from pipelines.metrics.shuffling import Shuffling
from transforms.elements.progress import REPORTS, WITHHELD
from transforms.encoders.bounds import NO_NUMBER, AsTheyAre, FloatWords
from transforms.encoders.numbers import NumberEncoder

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.rounds.scout import ChooseBounds, ScoutedBounds

_TWO_ROUNDS = (
    "Bounds were chosen by a first round: one user in ten, drawn at random, told privately how "
    "large a number is, to the next power of two, and the others were averaged. Nobody took part "
    "in both rounds, so nobody's promise is spent twice. The first round was planned for "
    "{first:,} reports or more, the second for {second:,}. Numbers that few users hold may lie "
    "outside these bounds and are then clipped, which intervals do not cover."
)


@dataclass(frozen=True, kw_only=True)
class MeanInTwoRounds(MeansByReports):
    """A mean whose bounds a first round of users chooses.

    Attributes:
        scouts: that round.
    """

    scouts: Scouts

    @classmethod
    def rounds(cls, options: MeanOptions, reports: int) -> tuple[int, dict[str, Any]]:
        least, scouts = two_rounds(options, reports)
        return least, {"scouts": scouts}

    @property
    def designs(self) -> tuple[Design[Any], ...]:
        return self.design, self.scouts.design

    @property
    def protection(self) -> Protection:
        made = self.mechanism, self.scouts.design.mechanism
        return super().protection._replace(made=made)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What holds for whoever takes part in one of the two rounds."""
        first = self.scouts.design.release, self.scouts.design.local
        released, local = map(_larger, super().guarantees, first)
        return released, local

    @property
    def undivided(self) -> str:
        return "with choose_bounds the second round's clients wait for what the first's say"

    @property
    def shuffling(self) -> Shuffling:
        why = "with choose_bounds the shuffler withholds a first round that is too small"
        return super().shuffling._replace(unfused=why)

    def encoder(self, coins: Coins = FRESH) -> NumberEncoder:
        # Numbers wait for bounds as they are.
        column, none = self.options.column, NO_NUMBER if self.options.hides else None
        return NumberEncoder(column, AsTheyAre(), FloatWords(), None, none, self.fill)

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        """Bounds from some of the users, the mean from the others."""
        import apache_beam as beam
        from apache_beam.pvalue import AsSingleton

        from pipelines.metrics.publishable import publishable
        from transforms.elements.conservation import entering, reporting
        from transforms.rounds.scout import Divide, RoundWithin
        from transforms.rows.perturb import Perturb

        numbers, tallies, bounded = self.contributions(tables)
        scouts, rest = numbers | "Divide" >> Divide(SCOUTS, self.open_rng)
        chosen = scouts | "Choose bounds" >> self._choice()
        rounding = self.inner.rounding
        cells = rest | "Within bounds" >> RoundWithin(chosen, rounding, self.open_rng)
        messages = cells | "Perturb" >> Perturb(self.mechanism, self.open_rng)
        rounds = reporting(scouts, "Sent first"), reporting(rest, "Sent second")
        flow = (entering(numbers), *rounds, *bounded)
        reports = self.shuffling.step(MetricReports(messages, None, tallies, flow))
        both = reports.counted(self.mechanism) | "Bounds" >> beam.Map(Averaged, AsSingleton(chosen))
        return publishable(self, both, reports)

    def _choice(self) -> ChooseBounds:
        """The first round."""
        from transforms.elements.blocks import bucket_count
        from transforms.rounds.scout import ChooseBounds

        least = self.scouts.min_reports if self.options.model == "shuffle" else None
        buckets, first = bucket_count(self.telemetry.rows), self.scouts
        return ChooseBounds(first.design.mechanism, first.rule, least, buckets, self.open_rng)

    @property
    def words(self) -> list[str]:
        first, second = self.scouts.min_reports, self.min_reports
        return [_TWO_ROUNDS.format(first=first, second=second)]

    def arrived(self, estimate: Averaged) -> int | None:
        # A round that is too small sends on nothing, and nothing is published.
        whole = estimate.chosen.bounds is not None and estimate.counted.messages
        return super().arrived(estimate) if whole else None

    def bounds_statement(self, chosen: ScoutedBounds) -> dict[str, Any]:
        design = self.scouts.design
        return super().bounds_statement(chosen) | {
            "how": "chosen privately by a first round of other users",
            "outside_aimed_at": self.scouts.rule.outside,
            "share_that_may_hide_in_a_bin_outside": chosen.hidden,
            "reports": chosen.n,
            "min_reports": self.scouts.min_reports,
            "mechanism": {
                "name": design.name,
                "source": design.source,
                "constants": design.mechanism.constants(),
            },
            "guarantees": {
                "release": design.release.as_dict(),
                "local": design.local.as_dict(),
            },
        }

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        if WITHHELD not in counted:
            return None
        return (
            f"{counted.get(REPORTS, 0):,} reports came in two rounds, which need "
            f"{self.scouts.min_reports:,} and {self.min_reports:,}"
        )


def _larger(average: Guarantee, bounds: Guarantee) -> Guarantee:
    """What holds for whoever takes part in one of two rounds."""
    return replace(
        average,
        epsilon=max(average.epsilon, bounds.epsilon),
        delta=max(average.delta, bounds.delta),
        how="each takes part in one of two rounds, drawn at random; the average: "
        f"{average.how}; the bounds: {bounds.how}",
    )
