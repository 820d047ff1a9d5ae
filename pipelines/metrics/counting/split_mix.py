"""`hushbeam sum` and `mean` by split and mix: one figure, at the least error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.counters.split_mean import Moments, SplitMean
from mechanisms.counters.split_mix import SplitMix
from mechanisms.randomness import SecureRandom
from mechanisms.sampling.integer_noise import IntegerNoise
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting import result
from pipelines.metrics.counting.mean import CountedMean, finest
from pipelines.metrics.counting.mixed import Mixed, designed, require_one
from pipelines.metrics.counting.options import SumOptions
from pipelines.metrics.counting.sum import SumMetric
from pipelines.metrics.mean.options import MeanOptions
from transforms.encoders.bounds import Bounds
from transforms.encoders.reports import Clip, SplitReporting, reach

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class MixedSum(Mixed, SumMetric):
    """How much there is, by split and mix."""

    @classmethod
    def resolve(
        cls,
        options: SumOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_one(options, cls.kind)
        return super().resolve(options, source, open_rng)

    @classmethod
    def _least(
        cls, options: SumOptions, finest: Clip, groups: int, sealed: bool = False
    ) -> tuple[SplitMix, SplitReporting]:
        design = designed(SplitMix, options, *reach(finest))
        return design, SplitReporting(design, finest)

    @property
    def rounded(self) -> int:
        return self.design.most

    def errors(self) -> result.Errors:
        noise, unit = self.design.noise, self.clip.bound / self.clip.units
        law = IntegerNoise(-noise.mu, noise.pmf)
        least = 0 if self.clip.low >= 0 else None
        return result.Errors(law, math.sqrt(noise.variance), unit, unit * self.rounding, least)

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        unit = self.clip.sign * self.clip.bound / self.clip.units
        totals = np.array([self.total(estimate) * unit])
        columns = result.columns(totals, self.errors(), self.options.confidence)
        return {"sum.parquet": pa.table(columns)}


@dataclass(frozen=True, kw_only=True)
class MixedMean(Mixed, CountedMean):
    """The average number of those who have one, by split and mix of total and count together."""

    design: SplitMean  # type: ignore[assignment]
    unstated = CountedMean.unstated - {"mechanism"}

    @classmethod
    def resolve(
        cls,
        options: MeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_one(options, cls.kind)
        return super().resolve(options, source, open_rng)._rounding_less()

    @classmethod
    def _least(
        cls, options: MeanOptions, bounds: Bounds, groups: int, sealed: bool = False
    ) -> tuple[SplitMean, SplitReporting]:
        design = _of_mean(options, finest(options))
        clip = Clip(bounds.low, bounds.high, design.high, bounds.low)
        return design, SplitReporting(design, clip, averaged=True)

    def _rounding_less(self) -> Self:
        if not self.rounding <= self.moments.total:
            raise RequestError(
                f"--enrolled: a word holds total and count of so many devices in "
                f"{self.design.high:,} units, and rounding to them would err "
                f"{self.rounding / self.moments.total:.3g} times as much as noise: leave "
                "--mechanism out"
            )
        return self

    @property
    def moments(self) -> Moments:
        return self.design.moments

    def found(self, estimate: Counted) -> tuple[Floats, Floats]:
        sums, people = self.design.parts(self.total(estimate))
        return np.array([sums]), np.array([people])

    def errors(self) -> result.Errors:
        law = self.design.total_law
        return result.Errors(law, math.sqrt(law.var()), 1 / self.design.high)

    @property
    def _people(self) -> result.Errors:
        law, grain = self.design.people_law, self.design.grain
        return result.Errors(law, math.sqrt(law.var()), 1 / grain)


def _of_mean(options: MeanOptions, steps: int) -> SplitMean:
    """In as many units as fit into words that tell of the total and of the count.

    Raises:
        RequestError: none do; what is said is said of the most.
    """
    why = RequestError("")
    for size in range(steps.bit_length(), 0, -1):
        try:
            return designed(SplitMean, options, 0, (1 << size) - 1)
        except RequestError as refused:
            why = why if str(why) else refused
    raise why
