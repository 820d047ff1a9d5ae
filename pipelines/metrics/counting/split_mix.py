"""Statistics of one figure by split and mix: words of shares, and all or nothing of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mechanisms import honesty
from mechanisms.channel import Guarantee
from mechanisms.counters.noise import recorded
from mechanisms.counters.split_mean import SplitMean
from mechanisms.counters.split_mix import LOST_SHARE, ONE_LIAR, SplitMix
from mechanisms.sampling.integer_noise import IntegerNoise
from pipelines.errors import RequestError
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.options import DELTA, SPLIT_MIX, SumOptions
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.cells import clip_of, finest
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.metric import MetricReports
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.options import CLIENTS_SHARE
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling, mixed
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from transforms.encoders.block import SlotBlock
from transforms.encoders.reports import Clip, SplitReporting, reach

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted

_Design = TypeVar("_Design", bound=SplitMix)

_WHO = (
    "Every number was split into {shares} random shares, which tell nothing but their total once "
    "they are shuffled among those of others; each of {enrolled:,} enrolled devices sends, zero if "
    "it has no rows, and here the job that read the log did so for all of them. Where more have "
    "rows than are enrolled, as many are drawn uniformly{crowded}. The shuffler, here the job, "
    "added noise, and knows the exact total; the promise is against who sees this release or the "
    "shuffled messages, if it drew honestly and has told nobody what it drew, and if {honest:,} "
    "devices split honestly and tell nobody their shares. What was clipped, or could not be used, "
    "is not told."
)


@dataclass(frozen=True)
class TotalOfWords:
    """What adds up words mod q.

    Attributes:
        codes: q, a power of two: what wraps around at 2^64 is right.
    """

    codes: int
    several = True

    def valid(self, messages: np.ndarray) -> np.ndarray:
        """(n,) which messages are words."""
        return np.asarray(messages < np.uint64(self.codes))

    def count(self, messages: np.ndarray) -> np.ndarray:
        """(1,) uint64 what they add up to."""
        return np.array([messages.sum(dtype=np.uint64)], np.uint64)


@dataclass(frozen=True, kw_only=True)
class BySplitMix(ByCounters):
    """A sum or a mean by split and mix, and whoever takes part."""

    design: SplitMix
    reporting: SplitReporting

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        super().require(options, kind)
        require_enrolled(options)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        if drawn_by != "shuffler":
            return "the shuffler adds the noise: leave --drawn-by at that"
        if work.shape != "cells" or work.amount is None or work.squares:
            return "it hides one sum or one mean of numbers, and nothing else"
        return None if work.groups == 1 else "it hides one figure, and not one of each group"

    @classmethod
    def option(cls, options: Any) -> str:
        return f"--mechanism {SPLIT_MIX}"

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        metric = super().of(given)
        noise = metric.accuracy.noise
        rounding = metric.accuracy.rounding(metric.expected)
        if metric.statistic.wording.errors.divides and not rounding <= noise:
            raise RequestError(
                f"--enrolled: a word holds total and count of so many devices in "
                f"{metric.design.high:,} units, and rounding to them would err "
                f"{rounding / noise:.3g} times as much as noise: leave --mechanism out"
            )
        return metric

    @classmethod
    def least(cls, statistic: Statistic, sealed: bool = False) -> tuple[SplitMix, SplitReporting]:
        options, work = statistic.options, statistic.workload
        if work.people == "groups" and work.amount is not None:
            low, high = work.amount
            of_mean = _of_mean(options, finest(options))
            clip = Clip(low, high, of_mean.high, low)
            return of_mean, SplitReporting(of_mean, clip, averaged=True)
        clip = clip_of(options, work)
        design = designed(SplitMix, options, *reach(clip))
        return design, SplitReporting(design, clip)

    @property
    def rounded(self) -> int:
        return self.design.most

    @cached_property
    def accuracy(self) -> Accuracy:
        design, clip, work = self.design, self.reporting.clip, self.statistic.workload
        if isinstance(design, SplitMean):
            total, people = design.total_law, design.people_law
            return Accuracy(
                FigureError(total, math.sqrt(total.var()), 1 / design.high),
                FigureError(people, math.sqrt(people.var()), 1 / design.grain),
                covariance=design.moments.covariance,
                deviation=design.moments.total,
                coin=1 / clip.units**2,
            )
        noise, unit = design.noise, clip.bound / clip.units
        rounding = 0.0 if work.whole else unit * math.sqrt(self.rounded) / 2
        law, least = IntegerNoise(-noise.mu, noise.pmf), 0 if clip.low >= 0 else None
        coin = 0.0 if work.whole else unit**2 / 4
        return Accuracy(
            FigureError(law, math.sqrt(noise.variance), unit, rounding, least), coin=coin
        )

    def evidence(self, estimate: Counted) -> Evidence:
        total = self.total(estimate)
        if isinstance(self.design, SplitMean):
            added, number = self.design.parts(total)
            people = np.array([number])
        else:
            added, people = total * self.worth, np.empty(0)
        return Evidence(np.array([added]), people, self.accuracy, lambda *_: None)

    @property
    def worth(self) -> float:
        clip = self.reporting.clip
        return clip.sign * clip.bound / clip.units

    # What is decided before a row is read.

    @property
    def protection(self) -> Protection:
        made, messages = (self.design, self.reporting), float(self.design.shares)
        bits = messages * (self.design.modulus.bit_length() - 1)
        honest = float(self.options.honest_share or CLIENTS_SHARE)
        return Protection("split-mix", "shuffle", made, messages, bits, honest)

    @property
    def mechanism(self) -> TotalOfWords:  # type: ignore[override]
        return TotalOfWords(self.design.modulus)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        released = replace(
            self.design.guarantee, unit=self.unit, neighbours=self.options.neighbours
        )
        return released, Guarantee.none("all shares of a report together tell its number")

    @property
    def unit_error(self) -> float:
        return self.design.variance

    @property
    def prospect(self) -> str | None:
        own = f"{self.design.shares} messages a {self.unit}"
        return f"standard error {self.error:.3g}, of {own}, each of which has to arrive"

    def redesigned(self) -> Self:
        return self

    @property
    def undivided(self) -> str | None:
        return (
            "its shuffler has to see that every share of every report is there; counters, which "
            "one lost report does not spoil, are served"
        )

    # The clients, and the shuffler.

    def reports(self, tables: beam.PCollection) -> MetricReports:
        import apache_beam as beam

        from transforms.elements.conservation import entering

        blocks, tallies, bounded = self.contributions(tables)
        numbers = blocks | "Numbers" >> beam.Map(_numbers).with_output_types(np.ndarray)
        return MetricReports(numbers, None, tallies, (entering(blocks), *bounded))

    @property
    def shuffling(self) -> Shuffling:
        from transforms.elements.blocks import bucket_count
        from transforms.elements.conservation import Batches, Shuffled, leaving
        from transforms.shuffle.mix import RANGES, AddShares
        from transforms.shuffle.shuffle import Shuffle

        design, shuffle = self.design, None
        passed = Shuffled(0, Batches(design.modulus), RANGES)
        if not self.options.fused:
            buckets = bucket_count(self.telemetry.about * self.protection.messages)
            shuffle = Shuffle(0, self.mechanism.codes, buckets, self.open_rng, counted=True)

        def step(reports: MetricReports) -> MetricReports:
            words, drawn = reports.messages | "Shares" >> AddShares(design, self.open_rng)
            flow = *reports.flow, drawn, leaving(words, passed.batches)
            return mixed(reports._replace(messages=words, flow=flow), shuffle)

        return Shuffling(passed, step, None)

    # The collector.

    def enough(self, estimate: Counted) -> bool:
        """Whether every share of every enrolled device, and of the noise, is there, once."""
        shares = self.design.shares * (self.design.most + 1)
        if estimate.invalid or estimate.messages != shares:
            return False
        try:
            self.total(estimate)
        except ValueError:  # no people and no noise add up to that
            return False
        return True

    def total(self, estimate: Counted) -> int:
        """What all words add up to, with noise."""
        return self.design.decode(int(estimate.counts[0]) % self.design.modulus)

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        return (
            "the shares that came are not those of as many reports as --enrolled says, so that "
            "they add up to nothing"
        )

    @property
    def influence(self) -> float:
        """Nothing bounds it."""
        return math.inf

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        lies = {"per_liar": None, "figure": f"the {self.kind}, without a bound"}
        return super().statement(estimate, tallies) | {"poisoning": lies}

    def _who(self) -> str:
        design, crowded = self.design, ""
        epsilon, delta = design.crowded
        if epsilon != design.epsilon:
            crowded = (
                ", so that one more takes another's place: what holds there is "
                f"epsilon {epsilon:.4g} at delta {delta:.3g}"
            )
        return _WHO.format(
            shares=design.shares, enrolled=design.most, honest=design.honest, crowded=crowded
        )

    def _liars(self) -> str:
        return f"{LOST_SHARE} {ONE_LIAR}"

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        design = self.design
        return {
            "name": self.protection.system,
            "source": "Ishai, Kushilevitz, Ostrovsky, Sahai, FOCS 2006; how many shares: "
            "the graph of Balle, Bell, Gascon, Nissim, 2019 (arXiv 1909.11225)",
            "constants": {
                "low": design.low, "high": design.high, "modulus": design.modulus,
                "shares": design.shares, "noise": recorded(design.noise),
            },
            "drawn_by": "shuffler",
            "messages_per_user": self.protection.messages,
            "bits_per_message": design.modulus.bit_length() - 1,
        }  # fmt: skip


def require_enrolled(options: SumOptions | MeanOptions) -> None:
    """Refuse a request that does not say how many devices send.

    Raises:
        RequestError: with what to do.
    """
    if options.enrolled is None:
        raise RequestError(
            f"--enrolled is missing: with --mechanism {SPLIT_MIX} every enrolled device sends, "
            "whether it has rows or not; say how many are, which is public knowledge"
        )


def _numbers(block: SlotBlock) -> np.ndarray:
    return block.words.ravel()


def designed(
    kind: type[_Design], options: SumOptions | MeanOptions, low: int, high: int
) -> _Design:
    """Shares and noise of a request.

    Args:
        kind: of the total.
        options: of the request.
        low, high: of a device's number, in units.

    Raises:
        RequestError: the target is out of reach, or takes more messages than a user may send.
    """
    if options.epsilon is None:
        raise RequestError("--epsilon is missing: say what the release may reveal, as in 1")
    enrolled = options.enrolled or 0
    try:
        honest = honesty.crowd(enrolled, options.honest_share or CLIENTS_SHARE)
        design = kind.meeting(
            low, high, enrolled, honest, options.neighbours, options.epsilon,
            options.delta or DELTA, everybody=True,
        )  # fmt: skip
    except ValueError as error:
        raise RequestError(f"--enrolled, --bounds, --epsilon, --delta: {error}") from None
    if design.shares > (getattr(options, "max_messages", None) or math.inf):
        raise RequestError(
            f"--max-messages: {enrolled:,} devices have to send {design.shares} shares each; allow "
            "as many, or take --mechanism counters"
        )
    return design


def _of_mean(options: MeanOptions, steps: int) -> SplitMean:
    """In as many units as fit into words that tell of the total and of the count."""
    why = RequestError("")
    for size in range(steps.bit_length(), 0, -1):
        try:
            return designed(SplitMean, options, 0, (1 << size) - 1)
        except RequestError as refused:
            why = why if str(why) else refused
    raise why
